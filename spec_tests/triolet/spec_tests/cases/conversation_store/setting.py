"""What the cases of the ConversationStore share: the subject, and small logs to work on.

Decides what is written, never what is right.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import attrs

from triolet.ports.batch import Batch, encode_batch
from triolet.ports.conversation_store import (
    Address,
    ConversationStore,
    StoredBatch,
    Tail,
    Writer,
    first_batch_id,
    tail_after,
)
from triolet.ports.identity import (
    BatchId,
    ConversationId,
    Epoch,
    InputId,
    Instant,
    RunId,
    SequenceNumber,
    TenantId,
)
from triolet.ports.messages import Text
from triolet.ports.records import ConversationCreated, InputTaken
from triolet.spec_tests.cases.record_samples import AT
from triolet.spec_tests.claims import ensure_equal
from triolet.spec_tests.subject import Subject

Damage = Callable[[Address], AbstractAsyncContextManager[ConversationStore]]


@attrs.frozen(kw_only=True, eq=False, weakref_slot=False)
class StoreSubject(Subject[ConversationStore]):
    """A conversation store under test.

    `damage` opens the same data again, as `reopen` does, after changing one stored byte of the last batch of the log at
    this address. It may fail as the damaged store would.
    """

    damage: Damage | None = None


TENANT = TenantId("acme")
HERE = Address(tenant=TENANT, conversation=ConversationId("here"))
NOWHERE = Address(tenant=TENANT, conversation=ConversationId("nowhere"))


def at(conversation: str, tenant: TenantId = TENANT) -> Address:
    """An address."""
    return Address(tenant=tenant, conversation=ConversationId(conversation))


def first_batch(address: Address = HERE, *, when: int = AT) -> Batch:
    """A log's first batch."""
    created = ConversationCreated(conversation=address.conversation, tenant=address.tenant)
    return Batch(
        id=first_batch_id(address.conversation), run=None, epoch=Epoch(0), at=Instant(when), records=(created,)
    )


def a_batch(name: str, records: int = 1, text: str = "hello") -> Batch:
    """A batch of this identity, with that many records."""
    taken = tuple(
        InputTaken(id=InputId(f"{name}-{number}"), source="user", author="ann", offered_at=AT, parts=(Text(text=text),))
        for number in range(records)
    )
    return Batch(id=BatchId(name), run=RunId("run1"), epoch=Epoch(1), at=AT, records=taken)


async def started(store: ConversationStore, address: Address = HERE) -> Writer:
    """A log with its first batch, and its writer."""
    await store.create(address, first_batch(address))
    return await store.open_writer(address)


async def filled(
    store: ConversationStore, *sizes: int, address: Address = HERE
) -> tuple[Writer, Tail, tuple[StoredBatch, ...]]:
    """A log whose further batches have these sizes: its writer, its tail, and how it has to read."""
    writer = await started(store, address)
    batches = [first_batch(address), *(a_batch(f"b{number}", size) for number, size in enumerate(sizes))]
    tail = writer.tail
    for batch in batches[1:]:
        tail = (await store.append(writer, batch, expected=tail)).tail
    return writer, tail, as_stored(batches)


def as_stored(batches: list[Batch]) -> tuple[StoredBatch, ...]:
    """How a log of these batches has to read, by the published chain."""
    tail = Tail()
    rows: list[StoredBatch] = []
    for batch in batches:
        first = SequenceNumber(tail.sequence + 1)
        tail = tail_after(tail, encode_batch(batch), len(batch.records))
        rows.append(StoredBatch(batch=batch, first=first, digest=tail.digest))
    return tuple(rows)


async def ensure_log(store: ConversationStore, address: Address, batches: list[Batch], what: str) -> None:
    """Raise `SpecViolation` unless the log holds exactly these batches, and ends where they end."""
    page = await store.read(address, limit=10_000)
    ensure_equal([row.batch.id for row in page.batches], [batch.id for batch in batches], f"{what}: batches on record")
    ensure_equal(page.batches, as_stored(batches), f"{what}: the log")
    tail = await store.inspect_tail(address)
    last = as_stored(batches)[-1]
    due = Tail(sequence=SequenceNumber(last.first + len(last.batch.records) - 1), digest=last.digest)
    ensure_equal(tail, due, f"{what}: the tail")
