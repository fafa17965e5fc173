"""What a store gives back: what was written, in pages, at once, unchanged, or a clear error.

STORE-003, STORE-005, STORE-006, STORE-015.
"""

from typing import Any, cast

import attrs
import trio

from triolet.ports.batch import Batch, encode_batch
from triolet.ports.conversation_store import (
    LIST_LIMIT,
    READ_LIMIT,
    ConversationSummary,
    LimitOutOfBounds,
    StoredBatch,
    Tail,
    tail_after,
)
from triolet.ports.errors import Corrupt, InvalidValue, Misuse
from triolet.ports.identity import BatchId, Epoch, InputId, SequenceNumber, TenantId
from triolet.ports.messages import Text
from triolet.ports.records import InputTaken
from triolet.ports.strict_json import parse
from triolet.spec_tests.cases.conversation_store.setting import (
    HERE,
    TENANT,
    StoreSubject,
    a_batch,
    at,
    ensure_log,
    filled,
    first_batch,
    started,
)
from triolet.spec_tests.cases.record_samples import AT, AWKWARD_TEXT, SAMPLES
from triolet.spec_tests.claims import ensure, ensure_equal, ensure_raises, lever
from triolet.spec_tests.definition import case


@case("STORE-003")
async def reads_see_what_was_acknowledged(subject: StoreSubject) -> None:
    """Once `append` has answered, every read shows it, from any task."""
    store = subject.port
    writer = await started(store)
    tail = writer.tail
    for number in range(5):
        tail = (await store.append(writer, a_batch(f"b{number}"), expected=tail)).tail

        async def look(due: Tail) -> None:
            page = await store.read(HERE, after=SequenceNumber(due.sequence - 1))
            ensure_equal([row.digest for row in page.batches], [due.digest], "the newest batch that `read` shows")
            ensure_equal(await store.inspect_tail(HERE), due, "the tail that `inspect_tail` shows")
            ensure_equal((await store.list(TENANT))[0].tail, due, "the tail that `list` shows")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(look, tail)


@case("STORE-003", needs=("reopen",))
async def a_log_outlives_the_store(subject: StoreSubject) -> None:
    """What was acknowledged is there after the store has been opened again, and can be gone on with."""
    _, tail, _ = await filled(subject.port, 2, 1)
    async with lever(subject.reopen, "reopen")() as store:
        batches = [first_batch(), a_batch("b0", 2), a_batch("b1")]
        await ensure_log(store, HERE, batches, "a log after reopening")
        writer = await store.open_writer(HERE)
        ensure_equal(writer.tail, tail, "the tail that a writer is told after reopening")
        await store.append(writer, a_batch("b2"), expected=tail)
        await ensure_log(store, HERE, [*batches, a_batch("b2")], "a log gone on with after reopening")


@case("STORE-015")
async def pages_are_whole_and_have_no_gap(subject: StoreSubject) -> None:
    """A page starts with the batch of the record asked for, reaches the limit, and says whether more follow."""
    store = subject.port
    _, tail, rows = await filled(store, 3, 1, 2)
    # Records 1 | 2 3 4 | 5 | 6 7.
    for after, limit, due, more in (
        (0, 1, rows[:1], True),
        (0, 2, rows[:2], True),
        (1, 1, rows[1:2], True),
        (2, 2, rows[1:2], True),
        (2, 4, rows[1:3], True),
        (4, 2, rows[2:], False),
        (5, 500, rows[3:], False),
        (6, 1, rows[3:], False),
        (7, 500, (), False),
    ):
        page = await store.read(HERE, after=SequenceNumber(after), limit=limit)
        ensure_equal((page.batches, page.more), (due, more), f"the page after {after} of {limit}")
    seen: list[StoredBatch] = []
    after, more = 0, True
    while more:
        page = await store.read(HERE, after=SequenceNumber(after), limit=1)
        seen += page.batches
        after, more = after + sum(len(row.batch.records) for row in page.batches), page.more
    ensure_equal((tuple(seen), after), (rows, tail.sequence), "the log read page by page")


@case("STORE-015")
async def pages_have_a_bound(subject: StoreSubject) -> None:
    """A page of no rows, or of more than the bound, is refused."""
    await started(subject.port)
    for limit in (0, -1, READ_LIMIT + 1):
        with ensure_raises(LimitOutOfBounds, f"`read` with a limit of {limit}"):
            await subject.port.read(HERE, limit=limit)
    for limit in (0, -1, LIST_LIMIT + 1):
        with ensure_raises(LimitOutOfBounds, f"`list` with a limit of {limit}"):
            await subject.port.list(TENANT, limit=limit)


@case("CAP-001")
async def a_listing_is_in_order_and_in_pages(subject: StoreSubject) -> None:
    """`list` gives conversations in the order of their ids, after the one named, with their tails and times."""
    store = subject.port
    names = ["b", "a", "C", "a-2", "é", "a1"]
    for number, name in enumerate(names):
        await store.create(at(name), first_batch(at(name), when=number))
    due = tuple([_summary(name, names.index(name)) for name in sorted(names)])
    ensure_equal(await store.list(TENANT), due, "the listing")
    ensure_equal(await store.list(TENANT, limit=2), due[:2], "its first page")
    ensure_equal(await store.list(TENANT, after=due[1].conversation, limit=2), due[2:4], "its second page")
    ensure_equal(await store.list(TENANT, after=due[5].conversation), (), "what follows the last")


@case("STORE-006")
async def every_record_comes_back_as_it_was(subject: StoreSubject) -> None:
    """A record of every family, with every field, is given back equal, and its bytes are the canonical ones."""
    store = subject.port
    writer = await started(store)
    batch = Batch(id=BatchId("all"), run=None, epoch=Epoch(1), at=AT, records=SAMPLES)
    await store.append(writer, batch, expected=writer.tail)
    await ensure_log(store, HERE, [first_batch(), batch], "a log with every family of record")


@case("STORE-005")
async def the_chain_seals_schema_versions(subject: StoreSubject) -> None:
    """The tail is the digest of bytes in which every record carries its kind and its schema version."""
    store = subject.port
    writer = await started(store)
    for number, record in enumerate(SAMPLES):
        batch = Batch(id=BatchId(f"b{number}"), run=None, epoch=Epoch(1), at=AT, records=(record,))
        body = encode_batch(batch)
        (row,) = cast("dict[str, Any]", parse(body))["records"]
        ensure_equal((row["kind"], row["version"]), (record.kind, record.version), "a record's kind and version")
        before = await store.inspect_tail(HERE)
        appended = await store.append(writer, batch, expected=before)
        ensure_equal(appended.tail, tail_after(before, body, 1), f"the tail behind a record of {record.kind}")


@case("STORE-006", "DUR-007")
async def a_batch_that_breaks_its_schema_is_not_written(subject: StoreSubject) -> None:
    """A batch that is empty, or holds one record that breaks its schema, is refused as a whole."""
    store = subject.port
    writer = await started(store)
    good = a_batch("b1", 2)
    (broken,) = a_batch("b1").records
    for fault, records in (
        ("no record", ()),
        ("a record with a broken field", (*good.records, attrs.evolve(cast("Any", broken), source="nobody"))),
        ("text that is no text", (*good.records, _taken("lone \ud800 surrogate"))),
        ("something that is no record", (*good.records, cast("InputTaken", "record"))),
    ):
        with ensure_raises(InvalidValue, f"appending a batch with {fault}"):
            await store.append(writer, attrs.evolve(good, records=records), expected=writer.tail)
        await ensure_log(store, HERE, [first_batch()], f"a log after a batch with {fault}")
    with ensure_raises(InvalidValue, "creating a log with an empty batch"):
        await store.create(at("other"), attrs.evolve(first_batch(at("other")), records=()))
    ensure_equal(len(await store.list(TENANT)), 1, "conversations")


@case("STORE-006")
async def an_address_that_cannot_be_kept_is_refused(subject: StoreSubject) -> None:
    """A tenant or conversation whose id holds a NUL or half a character is refused by `create`."""
    for tenant, conversation in (("acme", "nul\0"), ("acme", "\udc80"), ("nul\0", "c"), ("\ud800", "c")):
        address = at(conversation, TenantId(tenant))
        with ensure_raises(Misuse, "creating a conversation under an id that is not clean"):
            await subject.port.create(address, first_batch())
    for name in ("😀", " ", "../x", "a" * 200, AWKWARD_TEXT):
        await subject.port.create(at(name), first_batch(at(name)))
        await ensure_log(subject.port, at(name), [first_batch(at(name))], "a log under an odd but clean id")


@case("STORE-006", needs=("damage",))
async def damaged_bytes_are_never_repaired(subject: StoreSubject) -> None:
    """A log whose stored bytes were changed is said to be corrupt; nobody gets to read a guess."""
    await filled(subject.port, 2, 1)
    with ensure_raises(Corrupt, "reading a log of which one stored byte was changed"):
        async with lever(subject.damage, "damage")(HERE) as store:
            page = await store.read(HERE)
            ensure(bool(page.batches), "a damaged log reads as an empty one")


def _summary(name: str, when: int) -> ConversationSummary:
    first = first_batch(at(name), when=when)
    return ConversationSummary(
        conversation=at(name).conversation, created_at=first.at, tail=tail_after(Tail(), encode_batch(first), 1)
    )


def _taken(text: str) -> InputTaken:
    return InputTaken(id=InputId("i"), source="user", author="ann", offered_at=AT, parts=(Text(text=text),))


READING = (
    reads_see_what_was_acknowledged,
    a_log_outlives_the_store,
    pages_are_whole_and_have_no_gap,
    pages_have_a_bound,
    a_listing_is_in_order_and_in_pages,
    every_record_comes_back_as_it_was,
    the_chain_seals_schema_versions,
    a_batch_that_breaks_its_schema_is_not_written,
    an_address_that_cannot_be_kept_is_refused,
    damaged_bytes_are_never_repaired,
)
