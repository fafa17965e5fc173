"""The reference model of a ledger: what an adapter has to do, said as plainly as possible, and without one."""
