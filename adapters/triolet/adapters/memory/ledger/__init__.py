"""The memory ledger: accepted work in this process."""

from triolet.adapters.memory.ledger.ledger import MemoryLedger

__all__ = ["MemoryLedger"]
