"""The transitions of a submission ledger, for adapters that keep their entries in different places.

Decides every transition once: a book in memory and a book over a database's rows go through the same rules. The suite's
reference model is written apart from these, and checks them.
"""
