"""The `triolet` command: a driving adapter that may use what the kernel exports."""
