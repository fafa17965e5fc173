"""Stand-ins for outside things: servers on this machine that a maker puts behind an adapter, and directs."""
