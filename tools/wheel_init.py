"""Triolet, an agent kernel for Trio.

Import from its four parts: `triolet.ports`, `triolet.kernel`, `triolet.adapters`, `triolet.spec_tests`.
"""
