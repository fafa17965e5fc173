"""The cases, one package for each port and one for the kernel."""
