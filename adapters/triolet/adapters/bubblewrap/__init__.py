"""Bubblewrap: commands in namespaces of their own, on Linux, as root and as anybody else."""

from triolet.adapters.bubblewrap.sandbox import Bubblewrap, open_bubblewrap

__all__ = ["Bubblewrap", "open_bubblewrap"]
