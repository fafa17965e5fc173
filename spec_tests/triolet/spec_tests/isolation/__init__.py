"""Subjects in a process of their own, which can be killed: for adapters that nobody knows yet."""
