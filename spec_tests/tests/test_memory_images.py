"""The memory ConversationStore, packed and saved: nothing shows, nothing is lost, and damage is noticed."""

import hashlib
import json
import zlib
from collections.abc import Awaitable, Callable

import attrs
import pytest
import trio

from tests.memory_samples import AT, HERE, NOWHERE, TENANT, batch, filled, first, opened
from triolet.adapters.memory import MemoryConversations
from triolet.adapters.memory.image import _MAGIC
from triolet.ports.batch import CorruptBatch, UnsupportedRecord, encode_batch
from triolet.ports.canonical import GENESIS, Digest, chain
from triolet.ports.conversation_store import (
    BatchReused,
    Checkpoint,
    CorruptLog,
    Tail,
    WriterFenced,
)
from triolet.ports.identity import (
    Epoch,
    SequenceNumber,
)


def reopened(store: MemoryConversations) -> MemoryConversations:
    return MemoryConversations.load(store.save())


def packed(store: MemoryConversations) -> MemoryConversations:
    store.pack(HERE)
    return store


FORMS = pytest.mark.parametrize(
    "changed", [packed, reopened, lambda store: packed(packed(store)), lambda store: reopened(packed(store))]
)
Form = Callable[[MemoryConversations], MemoryConversations]


@FORMS
async def test_nothing_shows_that_a_log_is_packed(changed: Form) -> None:
    store, writer, stored = await filled(2, 1)
    tail = await store.inspect_tail(HERE)
    checkpoint = Checkpoint(tail=tail, machine_version=1, body=b"\0\n\xff")
    await store.save_checkpoint(writer, checkpoint)
    rows = await store.list(TENANT)

    store = changed(store)
    assert await store.inspect_tail(HERE) == tail
    assert await store.load_checkpoint(HERE) == checkpoint
    assert await store.list(TENANT) == rows
    assert await store.open_writer(HERE, writer.epoch) == attrs.evolve(writer, tail=tail)
    assert (await store.read(HERE)).batches == tuple(stored)

    store = changed(store)
    assert (await store.append(writer, batch("b0", 2), expected=Tail())).tail.sequence == 3
    with pytest.raises(BatchReused):
        await store.append(writer, batch("b0"), expected=tail)

    store = changed(store)
    assert await store.create(HERE, first()) == writer.tail

    store = changed(store)
    appended = await store.append(writer, batch("new", 3), expected=tail)
    assert appended.tail.sequence == 7
    store = changed(store)
    assert (await store.read(HERE, after=SequenceNumber(4))).batches[0].batch == batch("new", 3)
    with pytest.raises(WriterFenced):
        await store.open_writer(HERE, Epoch(0))


async def test_a_packed_log_is_small_and_drops_its_batches() -> None:
    store, _, _ = await filled(*[1] * 200)
    raw = sum(len(encode_batch(row.batch)) for row in (await store.read(HERE)).batches)
    store.pack(HERE)
    assert len(store.save()) < raw / 5


async def test_saving_leaves_a_live_log_live() -> None:
    store, writer = await opened()
    new = batch("b")
    await store.append(writer, new, expected=writer.tail)
    store.save()
    assert (await store.read(HERE)).batches[1].batch is new


async def test_an_image_is_the_same_each_time_and_whatever_the_form() -> None:
    store, _, _ = await filled(1, 2)
    image = store.save()
    assert store.save() == image
    store.pack(HERE)
    assert store.save() == image
    assert MemoryConversations.load(image).save() == image
    assert MemoryConversations.load(MemoryConversations().save()).save() == MemoryConversations().save()


async def test_reopened_stores_share_nothing() -> None:
    store, writer = await opened()
    copy = reopened(store)
    await store.append(writer, batch("b"), expected=writer.tail)
    assert (await copy.inspect_tail(HERE)).sequence == 1


def fragile_image() -> bytes:
    async def make() -> bytes:
        store, writer, _ = await filled(2, 1)
        await store.save_checkpoint(writer, Checkpoint(tail=writer.tail, machine_version=1, body=b"state"))
        return store.save()

    return trio.run(make)


IMAGE = fragile_image()


def test_every_single_wrong_byte_is_noticed() -> None:
    for place in range(len(IMAGE)):
        damaged = bytearray(IMAGE)
        damaged[place] ^= 0x01
        with pytest.raises(CorruptLog):
            MemoryConversations.load(bytes(damaged))


def test_every_cut_is_noticed() -> None:
    for length in range(len(IMAGE)):
        with pytest.raises(CorruptLog):
            MemoryConversations.load(IMAGE[:length])
    with pytest.raises(CorruptLog):
        MemoryConversations.load(IMAGE + b"\0")


def sealed(content: bytes) -> bytes:
    return content + hashlib.sha256(content).digest()


def forged(header: dict[str, object], lines: bytes, tail: bytes = b"", cut: int = 0, more: bytes = b"") -> bytes:
    """An image whose own digest is right: what is wrong with it has to be found by other means."""
    body = zlib.compress(lines)
    body = body[: len(body) - cut] + more
    whole = {
        "bytes": len(body),
        "checkpoint": None,
        "conversation": "c1",
        "created_at": AT,
        "epoch": 0,
        "size": len(lines),
        "tail": {"sequence": 1, "digest": chain(GENESIS, 1, lines.partition(b" ")[2].rstrip(b"\n"))},
        "tenant": TENANT,
    } | header
    return sealed(_MAGIC + json.dumps(whole).encode() + b"\n" + body + tail)


LINE = b"1 " + encode_batch(first()) + b"\n"


async def test_the_forger_can_write_a_sound_image() -> None:
    store = MemoryConversations.load(forged({}, LINE))
    assert (await store.read(HERE)).batches[0].batch == first()
    mark = {"sequence": 1, "digest": "d", "machine_version": 2, "bytes": 3}
    store = MemoryConversations.load(forged({"checkpoint": mark}, LINE, b"abc"))
    checkpoint = await store.load_checkpoint(HERE)
    assert checkpoint == Checkpoint(
        tail=Tail(sequence=SequenceNumber(1), digest=Digest("d")), machine_version=2, body=b"abc"
    )


@pytest.mark.parametrize(
    ("image", "problem"),
    [
        (b"", "does not begin"),
        (sealed(b"triolet memory conversations 2\n"), "does not begin"),
        (sealed(_MAGIC + b"{}"), "a header has no end"),
        (sealed(_MAGIC + b"{\n"), "a header is not JSON"),
        (sealed(_MAGIC + b"{}\n"), "a header lacks a field"),
        (sealed(_MAGIC + b"[]\n"), "a header lacks a field"),
        (forged({"epoch": "0"}, LINE), "a header lacks a field"),
        (forged({"bytes": 10**6}, LINE), "shorter than a header states"),
        (forged({"bytes": -1}, LINE), "shorter than a header states"),
        (forged({"checkpoint": {"bytes": 1}}, LINE), "a checkpoint's header"),
        (forged({"bytes": 3}, LINE), "the compressed bytes are cut"),
        (forged({"size": 3}, LINE), "more than stated"),
        # Without its last bytes the stream lacks its check sum, though all lines come out of it.
        (forged({}, LINE, cut=4), "the compressed bytes are cut"),
        (forged({}, LINE, more=b"more"), "more than stated"),
        (forged({"size": 10**6}, LINE), "the compressed bytes are cut"),
        (forged({}, LINE[:-1]), "the last line has no end"),
        (forged({}, LINE + b"\n"), "a line is no record count and batch"),
        (forged({}, b"x " + LINE[2:]), "a line is no record count and batch"),
        (forged({}, b"0 " + LINE[2:]), "a line is no record count and batch"),
        (forged({}, b"01" + LINE[1:]), "a line is no record count and batch"),
        (forged({}, b"-1" + LINE[1:]), "a line is no record count and batch"),
        (forged({}, b"9" * 30 + LINE[1:]), "a line is no record count and batch"),
        (forged({}, b"2" + LINE[1:]), "does not lead to the tail"),
        (forged({}, LINE + LINE), "does not lead to the tail"),
        (forged({}, b""), "does not lead to the tail"),
        (forged({"tail": {"sequence": 1, "digest": GENESIS}}, LINE), "does not lead to the tail"),
        (forged({"tail": {"sequence": 2, "digest": chain(GENESIS, 1, LINE[2:-1])}}, LINE), "does not lead"),
        (sealed(forged({}, LINE)[:-32] + forged({}, LINE)[len(_MAGIC) : -32]), "the conversation is there twice"),
    ],
)
def test_an_image_that_contradicts_itself_is_corrupt(image: bytes, problem: str) -> None:
    with pytest.raises(CorruptLog, match=problem):
        MemoryConversations.load(image)


def two_lines(second: bytes, count: int = 1) -> bytes:
    digest = chain(GENESIS, 1, LINE[2:-1])
    tail = {"sequence": 1 + count, "digest": chain(digest, 1 + count, second)}
    return forged({"tail": tail}, LINE + b"%d %b\n" % (count, second))


@pytest.mark.parametrize(
    ("second", "count", "problem"),
    [
        (b"not json", 1, "stored batch is corrupt"),
        (b"{}", 1, "stored batch is corrupt"),
        (encode_batch(batch("b")).replace(b'"at"', b'"extra":1,"at"', 1), 1, "exactly at, epoch"),
        (encode_batch(batch("b")).replace(b'"epoch":0', b'"epoch":false', 1), 1, "at /epoch"),
        (encode_batch(batch("b")).replace(b'"version":1', b'"version":true', 1), 1, "at /records/0"),
        (encode_batch(batch("b")).replace(b'"author":"ann"', b'"author":5', 1), 1, "at /records/0/author"),
        (encode_batch(batch("b")), 2, "another number of records"),
        (encode_batch(first()), 1, "a batch identity is there twice"),
    ],
)
async def test_a_batch_that_is_none_is_corrupt_when_it_is_read(second: bytes, count: int, problem: str) -> None:
    store = MemoryConversations.load(two_lines(second, count))
    tail = await store.inspect_tail(HERE)
    writer = await store.open_writer(HERE)
    verbs: list[Callable[[], Awaitable[object]]] = [
        lambda: store.read(HERE),
        lambda: store.append(writer, batch("new"), expected=tail),
        lambda: store.create(HERE, first()),
    ]
    for verb in verbs:
        with pytest.raises(CorruptLog, match=problem) as raised:
            await verb()
        assert raised.value.conversation == "c1"
        assert raised.value.sequence == 1 + count
        if second[:1] == b"n":
            assert isinstance(raised.value.__cause__, CorruptBatch)
    # It is kept as it was, for whoever has to repair it.
    assert await MemoryConversations.load(store.save()).inspect_tail(HERE) == tail


async def test_a_newer_programs_record_is_refused_before_any_write() -> None:
    newer = encode_batch(batch("b")).replace(b'"version":1', b'"version":2', 1)
    store = MemoryConversations.load(two_lines(newer))
    writer = await store.open_writer(HERE)
    with pytest.raises(UnsupportedRecord, match="'input_taken' version 2"):
        await store.append(writer, batch("new"), expected=writer.tail)
    with pytest.raises(UnsupportedRecord):
        await store.read(HERE)
    assert await store.inspect_tail(HERE) == writer.tail
    # Other conversations are not shut out.
    await store.create(NOWHERE, first(NOWHERE))
    assert len((await store.read(NOWHERE)).batches) == 1
