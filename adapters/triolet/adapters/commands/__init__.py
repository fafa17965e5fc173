"""What every adapter shares that runs a command in a process: capture, waiting, collecting, the order of it all.

Decides how a command's life goes on: started, read, ended, collected, reported. What keeps it apart from the host is
its adapter's, in a `Session`.
"""
