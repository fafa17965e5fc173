"""MemoryLedger: accepted work in this process's memory, as strict as a database would be.

Decides nothing but what belongs together; the transitions are those of `triolet.adapters.store_rules`. What it leaves
out is outliving the process: `save` and `load` carry it across by hand. (STORE-013)
"""

from typing import Self

from triolet.adapters.memory.conversations import MemoryConversations
from triolet.adapters.memory.inbox import InvalidBound
from triolet.adapters.memory.ledger.book import MemoryBook
from triolet.adapters.memory.ledger.image import fill_book, write_book
from triolet.adapters.memory.ledger.shared import MemoryShared
from triolet.adapters.memory.ledger.verbs import WorkerVerbs
from triolet.adapters.store_rules.waking import WakeupBoard
from triolet.ports.ledger import WAITING_LIMIT
from triolet.ports.sources import Clock


class MemoryLedger(WorkerVerbs, WakeupBoard):
    """Every part of the `Ledger` port. `waiting_limit` bounds the unsettled submissions of one conversation.

    Leases and retries are measured on `clock`. With `conversations`, the combined verbs work on both at once, and each
    append there tells what waits for its claim.

    Lifetime: a plain value; it holds memory only, and nothing has to be closed. One value serves many tasks of one Trio
    run, and no second thread. Emits: wake-ups. Cancellation, for every verb: it is looked for before any effect, and
    everything after that is synchronous. Claiming takes time with the number of heads that come before the first of the
    worker's own and are meant for other agents; nothing takes time with what is settled but `scan`, `forget`, `save`
    and `load`.
    """

    scan_seconds = None

    def __init__(
        self, clock: Clock, *, conversations: MemoryConversations | None = None, waiting_limit: int = WAITING_LIMIT
    ) -> None:
        if waiting_limit < 1:
            raise InvalidBound(name="waiting_limit", value=waiting_limit)
        WakeupBoard.__init__(self)
        WorkerVerbs.__init__(self, MemoryBook(clock, self), waiting_limit)
        self.shared = None if conversations is None else MemoryShared(self, conversations)
        if conversations is not None:
            conversations.signal_by(self.book.signals_of)

    def save(self) -> bytes:
        """The whole ledger as bytes."""
        return write_book(self.book)

    @classmethod
    def load(cls, image: bytes, clock: Clock, *, conversations: MemoryConversations | None = None) -> Self:
        """The ledger that `save` wrote. Raises `CorruptLedger` unless it is whole, and of this version."""
        ledger = cls(clock, conversations=conversations)
        fill_book(ledger.book, image)
        return ledger
