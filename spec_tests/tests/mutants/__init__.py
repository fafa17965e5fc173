"""Deliberately wrong adapters and kernels, each to be caught by the cases of the requirements that it breaks.

They live beside the tests and not in the kit: nothing that is installed can be used by accident where the real
thing was meant. `python -m tests.mutants` prints which ID is held by which mutant.
"""
