"""The journal: where decided records become true, one batch at a time.

Decides a batch's identity and time, and that state follows the log, never the other way round (STORE-004). It
decides no record, and applies none before the store has it.
"""

import attrs

from triolet.kernel.machine.advance import fold
from triolet.kernel.machine.state import NEW, ConversationState
from triolet.ports.batch import Batch
from triolet.ports.conversation_store import Address, ConversationStore, Tail, Writer
from triolet.ports.errors import Corrupt
from triolet.ports.identity import Epoch, RunId, batch_id
from triolet.ports.records import Record
from triolet.ports.sources import Clock


@attrs.define(kw_only=True)
class LogGap(Corrupt):
    """Records are missing between two that were read. Nothing is made of what lies behind the gap (STORE-015)."""

    conversation: str
    after: int
    found: int

    @property
    def message(self) -> str:
        """Where the gap is."""
        return f"log of conversation {self.conversation!r} goes on at record {self.found} after record {self.after}"


class Journal:
    """One writer's end of a conversation's log, and the state that the log folds to."""

    __slots__ = ("_clock", "_ordinal", "_store", "_tail", "_writer", "state")

    def __init__(self, store: ConversationStore, clock: Clock, writer: Writer, state: ConversationState) -> None:
        self._store = store
        self._clock = clock
        self._writer = writer
        self._tail: Tail = writer.tail
        self._ordinal = 0
        self.state = state
        """What is on record. It changes only after an append was answered."""

    @property
    def address(self) -> Address:
        """Which log this is."""
        return self._writer.address

    @property
    def epoch(self) -> Epoch:
        """Under which epoch this writer owns it."""
        return self._writer.epoch

    def batch(self, run: RunId, records: tuple[Record, ...]) -> Batch:
        """Give records their batch: its identity and time are fixed here, before the first append of it."""
        self._ordinal += 1
        return Batch(
            id=batch_id(run, self.epoch, self._ordinal),
            run=run,
            epoch=self.epoch,
            at=self._clock.now(),
            records=records,
        )

    async def append(self, batch: Batch, after: ConversationState) -> None:
        """Put `batch` on record; `after` is what it makes of `state`.

        On cancellation or an error of the store it may or may not be on record: appending the very same batch
        again writes it once and tells.
        """
        self._tail = await self._write(batch)
        self.state = after

    async def _write(self, batch: Batch) -> Tail:
        return (await self._store.append(self._writer, batch, expected=self._tail)).tail


async def open_journal(
    store: ConversationStore,
    clock: Clock,
    address: Address,
    *,
    epoch: Epoch | None = None,
    state: ConversationState = NEW,
) -> Journal:
    """Take ownership of an existing log and fold what lies behind `state`, page by page.

    Raises `IllegalRecord` for a log that cannot be folded, and what the store's `open_writer` and `read` raise.
    """
    writer = await store.open_writer(address, epoch)
    return Journal(store, clock, writer, await read_log(store, writer, state))


async def read_log(store: ConversationStore, writer: Writer, state: ConversationState) -> ConversationState:
    """Fold what lies between `state` and the tail that the writer was opened at: each page once (STORE-015)."""
    more = writer.tail.sequence > state.sequence
    while more:
        page = await store.read(writer.address, after=state.sequence)
        for stored in page.batches:
            if stored.first != state.sequence + 1:
                raise LogGap(conversation=writer.address.conversation, after=state.sequence, found=stored.first)
            state = fold(stored.batch.records, state)
        more = page.more
    return state
