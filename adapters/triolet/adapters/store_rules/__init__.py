"""What stores of the same kind share, wherever they keep things: transitions of the ledger, sessions, wake-ups.

Decides every transition once: a book in memory and a book over a database's rows go through the same rules. The suite's
reference model is written apart from these, and checks them.
"""
