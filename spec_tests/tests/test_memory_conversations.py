"""The memory ConversationStore: each clause of the port, and the host's one line."""

import hashlib
from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import pytest
import trio
import trio.lowlevel

from tests.memory_samples import AT, HERE, NOWHERE, TENANT, batch, filled, first, opened
from triolet.adapters.memory import MemoryConversations
from triolet.ports.batch import Batch, encode_batch
from triolet.ports.canonical import GENESIS, chain
from triolet.ports.conversation_store import (
    Address,
    BatchReused,
    Checkpoint,
    ConversationExists,
    ConversationStore,
    StoredBatch,
    Tail,
    TailMoved,
    UnknownConversation,
    Writer,
    WriterFenced,
)
from triolet.ports.errors import BrokenText, InvalidValue
from triolet.ports.identity import (
    ConversationId,
    Epoch,
    Instant,
    RunId,
    SequenceNumber,
    TenantId,
)
from triolet.ports.records import InputTaken


def test_it_is_a_conversation_store() -> None:
    store: ConversationStore = MemoryConversations()
    assert store is not None


# --- create -------------------------------------------------------------------------------------------


async def test_create_begins_a_log_at_epoch_zero() -> None:
    store = MemoryConversations()
    tail = await store.create(HERE, first())
    assert tail.sequence == 1
    assert await store.inspect_tail(HERE) == tail
    page = await store.read(HERE)
    assert page.batches == (StoredBatch(batch=first(), first=SequenceNumber(1), digest=tail.digest),)
    assert not page.more
    assert await store.open_writer(HERE, Epoch(0)) == Writer(address=HERE, epoch=Epoch(0), tail=tail)


async def test_create_again_changes_nothing_and_returns_the_same_tail() -> None:
    store = MemoryConversations()
    tail = await store.create(HERE, first())
    writer = await store.open_writer(HERE)
    later = await store.append(writer, batch("b"), expected=tail)
    assert await store.create(HERE, first()) == tail
    assert await store.inspect_tail(HERE) == later.tail
    assert (await store.append(writer, batch("c"), expected=later.tail)).tail.sequence == 3


@pytest.mark.parametrize("other", [first(at=AT + 1), batch("b"), batch("b2")])
async def test_create_with_another_first_batch_is_a_conflict(other: Batch) -> None:
    store, writer, stored = await filled(1, 1)
    with pytest.raises(ConversationExists, match="conversation 'c1' already exists"):
        await store.create(HERE, other)
    # Neither does a later batch of the log count as its first.
    with pytest.raises(ConversationExists):
        await store.create(HERE, stored[1].batch)
    assert (await store.read(HERE)).batches == tuple(stored)
    assert await store.open_writer(HERE, writer.epoch) == attrs.evolve(
        writer, tail=Tail(sequence=SequenceNumber(3), digest=stored[2].digest)
    )


@pytest.mark.parametrize(
    "address",
    [
        Address(tenant=TenantId("\ud800"), conversation=ConversationId("c")),
        Address(tenant=TenantId("t"), conversation=ConversationId("a\0")),
    ],
)
async def test_create_refuses_an_address_that_not_every_store_can_keep(address: Address) -> None:
    store = MemoryConversations()
    with pytest.raises(BrokenText):
        await store.create(address, first())
    assert await store.list(address.tenant) == ()


# --- what is refused before it is written -------------------------------------------------------------

ANY: Any = object()


def user_input(**broken: Any) -> InputTaken:
    fields: dict[str, Any] = {"id": "i0", "source": "user", "author": "ann", "offered_at": AT, "parts": ()}
    return InputTaken(**fields | broken)


INVALID = [
    pytest.param(attrs.evolve(batch("b"), records=()), "/records", id="empty"),
    pytest.param(attrs.evolve(batch("b"), records=(ANY,)), "/records/0", id="no record"),
    pytest.param(batch("b", content="\ud800"), "/records/0/parts/0/text", id="surrogate"),
    pytest.param(batch("b\ud800"), "/id", id="surrogate in the id"),
    pytest.param(batch(""), "/id", id="empty id"),
    pytest.param(attrs.evolve(batch("b"), run=RunId("")), "/run", id="empty run"),
    pytest.param(attrs.evolve(batch("b"), epoch=Epoch(-1)), "/epoch", id="epoch"),
    pytest.param(attrs.evolve(batch("b"), at=Instant(2**53)), "/at", id="too large an instant"),
    pytest.param(attrs.evolve(batch("b"), at=ANY), "/at", id="no instant"),
    pytest.param(
        attrs.evolve(batch("b"), records=(batch("x").records[0], user_input(author=5))),
        "/records/1/author",
        id="wrong type in the second record",
    ),
    pytest.param(
        attrs.evolve(batch("b"), records=(user_input(source="dream"),)),
        "/records/0/source",
        id="outside the enum",
    ),
]


@pytest.mark.parametrize(("bad", "place"), INVALID)
async def test_a_batch_that_no_store_could_keep_is_refused(bad: Batch, place: str) -> None:
    store, writer, stored = await filled(2)
    expected = await store.inspect_tail(HERE)
    with pytest.raises(InvalidValue) as raised:
        await store.append(writer, bad, expected=expected)
    assert raised.value.violations[0][0] == place
    with pytest.raises(InvalidValue):
        await store.create(NOWHERE, bad)
    assert (await store.read(HERE)).batches == tuple(stored)
    assert [row.conversation for row in await store.list(TENANT)] == ["c1"]
    # Nothing is left of it: the identity is free.
    if bad.id == "b":
        assert not (await store.append(writer, batch("b"), expected=expected)).replayed


# --- open_writer and fencing --------------------------------------------------------------------------


async def test_epochs_are_allotted_one_by_one() -> None:
    store = MemoryConversations()
    tail = await store.create(HERE, first())
    writers = [await store.open_writer(HERE) for _ in range(3)]
    assert writers == [Writer(address=HERE, epoch=Epoch(number), tail=tail) for number in (1, 2, 3)]


async def test_opening_the_current_epoch_again_returns_the_same_right() -> None:
    store, writer = await opened()
    assert await store.open_writer(HERE, writer.epoch) == writer
    assert (await store.append(writer, batch("b"), expected=writer.tail)).tail.sequence == 2


async def test_epochs_only_grow() -> None:
    store, _ = await opened()
    high = await store.open_writer(HERE, Epoch(9))
    assert high.epoch == 9
    with pytest.raises(WriterFenced) as raised:
        await store.open_writer(HERE, Epoch(8))
    assert (raised.value.conversation, raised.value.epoch, raised.value.current) == ("c1", 8, 9)
    assert (await store.open_writer(HERE)).epoch == 10


async def test_a_lower_epoch_is_fenced_from_the_return_on() -> None:
    store, old = await opened()
    written = await store.append(old, batch("b0"), expected=old.tail)
    new = await store.open_writer(HERE)
    for attempt in (batch("b1"), batch("b0")):
        # The epoch is checked first: even a replay is refused.
        with pytest.raises(WriterFenced, match="epoch 1 of conversation 'c1' is fenced by epoch 2"):
            await store.append(old, attempt, expected=written.tail)
    with pytest.raises(WriterFenced):
        await store.save_checkpoint(old, Checkpoint(tail=written.tail, machine_version=1, body=b"x"))
    assert await store.load_checkpoint(HERE) is None
    assert new.tail == written.tail
    assert (await store.append(new, batch("b1"), expected=new.tail)).tail.sequence == 3


async def test_a_writer_of_an_epoch_that_was_never_opened_is_refused() -> None:
    store, writer = await opened()
    with pytest.raises(WriterFenced):
        await store.append(attrs.evolve(writer, epoch=Epoch(5)), batch("b"), expected=writer.tail)


async def test_no_epoch_is_below_zero() -> None:
    store, _ = await opened()
    with pytest.raises(WriterFenced):
        await store.open_writer(HERE, Epoch(-1))


# --- append -------------------------------------------------------------------------------------------


async def test_records_are_numbered_without_gaps_and_sealed_by_the_chain() -> None:
    store, _, stored = await filled(3, 1, 2)
    assert [row.first for row in stored] == [1, 2, 5, 6]
    digest, last = GENESIS, 0
    for row in stored:
        body = encode_batch(row.batch)
        last += len(row.batch.records)
        digest = chain(digest, last, body)
        assert row.digest == digest
    assert await store.inspect_tail(HERE) == Tail(sequence=SequenceNumber(last), digest=digest)


async def test_the_chain_is_what_the_port_says_byte_by_byte() -> None:
    store = MemoryConversations()
    tail = await store.create(HERE, first())
    body = encode_batch(first())
    sealed = b"triolet\0triolet/chain/1\0" + GENESIS.encode() + b"\0" + (1).to_bytes(8) + len(body).to_bytes(8) + body
    assert tail.digest == "sha256:" + hashlib.sha256(sealed).hexdigest()


async def test_batches_stay_the_same_objects() -> None:
    store, writer = await opened()
    new = batch("b")
    await store.append(writer, new, expected=writer.tail)
    assert (await store.read(HERE)).batches[1].batch is new


async def test_a_repeated_append_writes_once_whatever_it_expects() -> None:
    store, writer, stored = await filled(2, 1)
    tails = [Tail(), writer.tail, await store.inspect_tail(HERE)]
    for expected in tails:
        again = await store.append(writer, batch("b0", 2), expected=expected)
        assert again.replayed
        assert again.tail == Tail(sequence=SequenceNumber(3), digest=stored[1].digest)
    repeated_first = await store.append(writer, first(), expected=Tail())
    assert repeated_first.replayed
    assert repeated_first.tail == writer.tail
    assert (await store.read(HERE)).batches == tuple(stored)


@pytest.mark.parametrize(
    "other",
    [
        batch("b0", 2, content="other"),
        batch("b0", 1),
        batch("b0", 3),
        attrs.evolve(batch("b0", 2), at=Instant(AT + 1)),
        attrs.evolve(batch("b0", 2), epoch=Epoch(1)),
        attrs.evolve(batch("b0", 2), run=None),
    ],
)
async def test_the_same_identity_with_other_content_is_a_conflict(other: Batch) -> None:
    store, writer, stored = await filled(2, 1)
    with pytest.raises(BatchReused) as raised:
        await store.append(writer, other, expected=await store.inspect_tail(HERE))
    assert (raised.value.conversation, raised.value.batch) == ("c1", "b0")
    assert (await store.read(HERE)).batches == tuple(stored)


async def test_a_stale_tail_is_a_conflict() -> None:
    store, writer, stored = await filled(2)
    tail = await store.inspect_tail(HERE)
    wrong = [
        (writer.tail, "conversation 'c1' ends at 3, not at 1"),
        (attrs.evolve(tail, digest=GENESIS), "conversation 'c1' ends at 3, with another digest"),
        (attrs.evolve(tail, sequence=SequenceNumber(4)), "ends at 3, not at 4"),
    ]
    for expected, message in wrong:
        with pytest.raises(TailMoved, match=message):
            await store.append(writer, batch("b9"), expected=expected)
    assert (await store.read(HERE)).batches == tuple(stored)
    assert not (await store.append(writer, batch("b9"), expected=tail)).replayed


async def test_one_of_two_concurrent_appends_wins() -> None:
    store, writer = await opened()
    ends: list[str] = []

    async def write(name: str) -> None:
        try:
            await store.append(writer, batch(name), expected=writer.tail)
        except TailMoved:
            ends.append("moved")
        else:
            ends.append("written")

    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(write, f"b{number}")
    assert sorted(ends) == ["moved"] * 4 + ["written"]
    assert (await store.inspect_tail(HERE)).sequence == 2


# --- delete and unknown conversations -----------------------------------------------------------------


async def test_delete_removes_everything_and_fences_the_writer() -> None:
    store, writer = await opened()
    await store.save_checkpoint(writer, Checkpoint(tail=writer.tail, machine_version=1, body=b"x"))
    assert await store.delete(HERE) is True
    assert await store.delete(HERE) is False
    with pytest.raises(UnknownConversation):
        await store.append(writer, batch("b"), expected=writer.tail)
    assert await store.list(TENANT) == ()
    assert not store._tenants, "tenants that have nothing must not pile up"
    # A successor under the same address starts anew, and the old right is none to it.
    assert (await store.create(HERE, first())).sequence == 1
    assert await store.load_checkpoint(HERE) is None
    with pytest.raises(WriterFenced):
        await store.append(writer, batch("b"), expected=writer.tail)


async def test_an_unknown_conversation_is_unknown_to_every_verb() -> None:
    store, writer = await opened()
    stranger = attrs.evolve(writer, address=NOWHERE)
    verbs: list[Callable[[], Awaitable[object]]] = [
        lambda: store.open_writer(NOWHERE),
        lambda: store.append(stranger, batch("b"), expected=Tail()),
        lambda: store.read(NOWHERE),
        lambda: store.inspect_tail(NOWHERE),
        lambda: store.save_checkpoint(stranger, Checkpoint(tail=Tail(), machine_version=1, body=b"")),
        lambda: store.load_checkpoint(NOWHERE),
    ]
    for verb in verbs:
        with pytest.raises(UnknownConversation, match="no conversation 'none'"):
            await verb()
    assert await store.delete(NOWHERE) is False
    store.pack(NOWHERE)


async def test_tenants_never_see_each_others_conversations() -> None:
    store, _ = await opened()
    theirs = Address(tenant=TenantId("other"), conversation=HERE.conversation)
    with pytest.raises(UnknownConversation):
        await store.read(theirs)
    await store.create(theirs, first(theirs))
    assert await store.delete(theirs) is True
    assert (await store.read(HERE)).batches[0].batch == first()
    assert await store.list(theirs.tenant) == ()


# --- cancellation -------------------------------------------------------------------------------------


async def test_a_cancelled_call_never_wrote() -> None:
    store, writer, stored = await filled(1)
    tail = await store.inspect_tail(HERE)
    before = store.save()
    checkpoint = Checkpoint(tail=tail, machine_version=1, body=b"x")
    verbs: list[Callable[[], Awaitable[object]]] = [
        lambda: store.create(NOWHERE, first(NOWHERE)),
        lambda: store.list(TENANT),
        lambda: store.delete(HERE),
        lambda: store.open_writer(HERE),
        lambda: store.append(writer, batch("new"), expected=tail),
        lambda: store.read(HERE),
        lambda: store.inspect_tail(HERE),
        lambda: store.save_checkpoint(writer, checkpoint),
        lambda: store.load_checkpoint(HERE),
    ]
    for verb in verbs:
        with trio.CancelScope() as scope:
            scope.cancel()
            await verb()
        assert scope.cancelled_caught
    assert store.save() == before
    assert (await store.read(HERE)).batches == tuple(stored)


async def test_a_call_that_wrote_returns_even_if_it_is_cancelled_by_its_own_doing() -> None:
    store, writer = await opened()
    tails: list[Tail] = []
    with trio.CancelScope() as scope:
        tails.append((await store.append(writer, batch("b"), expected=writer.tail)).tail)
        scope.cancel()
    assert not scope.cancelled_caught
    assert tails == [await store.inspect_tail(HERE)]


async def test_no_verb_makes_its_caller_wait_for_a_round_of_the_scheduler() -> None:
    store, writer = await opened()
    tail = writer.tail
    verbs: list[Callable[[], Awaitable[object]]] = [
        lambda: store.create(NOWHERE, first(NOWHERE)),
        lambda: store.list(TENANT),
        lambda: store.open_writer(HERE, writer.epoch),
        lambda: store.append(writer, batch("b"), expected=tail),
        lambda: store.read(HERE),
        lambda: store.inspect_tail(HERE),
        lambda: store.save_checkpoint(writer, Checkpoint(tail=tail, machine_version=1, body=b"")),
        lambda: store.load_checkpoint(HERE),
        lambda: store.delete(NOWHERE),
    ]

    class Switches(trio.abc.Instrument):
        count = 0

        def before_task_step(self, task: trio.lowlevel.Task) -> None:
            self.count += 1

    switches = Switches()
    trio.lowlevel.add_instrument(switches)
    try:
        for verb in verbs:
            await verb()
            assert switches.count == 0
    finally:
        trio.lowlevel.remove_instrument(switches)
