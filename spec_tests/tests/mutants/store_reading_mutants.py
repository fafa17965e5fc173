"""Wrong conversation stores: what they give back, keep, and leave behind."""

import threading

import attrs
import trio

from tests.mutants.mutant import Mutant
from tests.mutants.store_mutants import START, breaks
from triolet.adapters.memory import MemoryConversations
from triolet.ports.batch import Batch, encode_batch
from triolet.ports.conversation_store import (
    Address,
    Appended,
    ConversationSummary,
    Page,
    Tail,
    Writer,
)
from triolet.ports.errors import InvalidValue, Misuse
from triolet.ports.identity import ConversationId, SequenceNumber, TenantId
from triolet.ports.records import InputTaken

READING_MUTANTS: list[Mutant] = []


@breaks(READING_MUTANTS, "STORE-003")
class ReadsLate(MemoryConversations):
    """Reads do not show the newest batch."""

    async def read(self, address: Address, *, after: SequenceNumber = START, limit: int = 500) -> Page:
        page = await super().read(address, after=after, limit=limit)
        return page if page.more else attrs.evolve(page, batches=page.batches[:-1])


@breaks(READING_MUTANTS, "STORE-003")
class LosesTheLast(MemoryConversations):
    """What was appended last is gone after reopening."""

    def again(self) -> MemoryConversations:
        store = MemoryConversations()
        for logs in self._tenants.values():
            for log in logs.values():
                kept = type(log)(address=log.address, epoch=log.epoch, created_at=log.created_at, tail=Tail())
                for batch in log._live().batches[:-1]:
                    kept.extend(batch, encode_batch(batch))
                store._enter(kept)
        return store


@breaks(READING_MUTANTS, "STORE-015")
class CutsBatches(MemoryConversations):
    """A page starts behind the record that was asked for, in the middle of a batch."""

    async def read(self, address: Address, *, after: SequenceNumber = START, limit: int = 500) -> Page:
        page = await super().read(address, after=after, limit=limit)
        return attrs.evolve(page, batches=tuple(row for row in page.batches if row.first > after))


@breaks(READING_MUTANTS, "STORE-015")
class GivesEverything(MemoryConversations):
    """A page is the whole log, whatever the limit."""

    async def read(self, address: Address, *, after: SequenceNumber = START, limit: int = 500) -> Page:
        return await super().read(address, after=after, limit=10_000)


@breaks(READING_MUTANTS, "CAP-001")
class ListsAsCreated(MemoryConversations):
    """`list` gives conversations in the order in which they were created."""

    async def list(
        self, tenant: TenantId, *, after: ConversationId | None = None, limit: int = 100
    ) -> tuple[ConversationSummary, ...]:
        rows = await super().list(tenant, limit=1_000)
        rows = tuple(sorted(rows, key=lambda row: row.created_at))
        names = [row.conversation for row in rows]
        start = 0 if after is None or after not in names else names.index(after) + 1
        return rows[start : start + limit]


@breaks(READING_MUTANTS, "STORE-006")
class TidiesText(MemoryConversations):
    """Text is trimmed on its way in."""

    async def append(self, writer: Writer, batch: Batch, *, expected: Tail) -> Appended:
        records = tuple(
            attrs.evolve(record, author="") if isinstance(record, InputTaken) else record for record in batch.records
        )
        return await super().append(writer, attrs.evolve(batch, records=records), expected=expected)


@breaks(READING_MUTANTS, "STORE-006", "DUR-007")
class WritesUnchecked(MemoryConversations):
    """A batch that breaks its schema is written as far as it does not."""

    async def append(self, writer: Writer, batch: Batch, *, expected: Tail) -> Appended:
        try:
            return await super().append(writer, batch, expected=expected)
        except InvalidValue:
            if not batch.records:
                return Appended(tail=expected, replayed=False)
            return await self.append(writer, attrs.evolve(batch, records=batch.records[:-1]), expected=expected)


@breaks(READING_MUTANTS, "STORE-006")
class TakesAnyAddress(MemoryConversations):
    """Ids that other stores cannot keep are made fit instead of refused."""

    async def create(self, address: Address, first: Batch) -> Tail:
        try:
            return await super().create(address, first)
        except Misuse:
            return await super().create(attrs.evolve(address, conversation=ConversationId("fit")), first)


@breaks(READING_MUTANTS, "STORE-006")
class RepairsByGuessing(MemoryConversations):
    """A damaged log reads up to where it is damaged."""

    def guess(self) -> MemoryConversations:
        return MemoryConversations.load(self.save())


@breaks(READING_MUTANTS, "CAP-001")
class LeavesThreads(MemoryConversations):
    """Every append starts a thread that nobody ends."""

    async def append(self, writer: Writer, batch: Batch, *, expected: Tail) -> Appended:
        threading.Thread(target=threading.Event().wait, args=(3,), daemon=True, name="flusher").start()
        return await super().append(writer, batch, expected=expected)


@breaks(READING_MUTANTS, "CAP-001")
class LeavesTasks(MemoryConversations):
    """Every append starts a task that outlives the store."""

    async def append(self, writer: Writer, batch: Batch, *, expected: Tail) -> Appended:
        trio.lowlevel.spawn_system_task(trio.sleep_forever)
        return await super().append(writer, batch, expected=expected)
