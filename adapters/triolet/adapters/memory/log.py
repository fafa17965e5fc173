"""One conversation's log in memory: live, or packed while nobody uses it.

Decides how a log is kept so that neither an append nor a page costs more on a long log: parallel append-only columns,
an index by batch identity, and 32 raw bytes for each digest. A batch stays the very object that was appended; its bytes
are made again where they are needed, which the chain of digests then confirms. It checks no epoch and no tail: that is
the store's part. (STORE-004, STORE-007)
"""

import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

import attrs
import trio

from triolet.ports.batch import Batch, CorruptBatch, decode_batch, encode_batch
from triolet.ports.canonical import Digest
from triolet.ports.conversation_store import (
    Address,
    Checkpoint,
    CorruptLog,
    Page,
    StoredBatch,
    Tail,
    tail_after,
)
from triolet.ports.identity import BatchId, Epoch, Instant, SequenceNumber

_DIGEST_BYTES = 32
_PREFIX = "sha256:"


@attrs.frozen(kw_only=True, weakref_slot=False)
class Packed:
    """A whole log as bytes: `body` is zlib over a line for each batch, its record count and its exact bytes.

    `size` is how many bytes the lines have. No line holds a line feed of its own, since JSON escapes them.
    """

    body: bytes
    size: int


class _Columns:
    """A live log: one entry for each batch in each column."""

    __slots__ = ("batches", "digests", "lasts", "places")

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.digests = bytearray()
        self.lasts = array("Q")
        self.places: dict[BatchId, int] = {}

    def add(self, batch: Batch, tail: Tail) -> None:
        self.places[batch.id] = len(self.batches)
        self.batches.append(batch)
        self.digests += bytes.fromhex(tail.digest[len(_PREFIX) :])
        self.lasts.append(tail.sequence)

    def tail(self, place: int) -> Tail:
        if place < 0:
            return Tail()
        raw = self.digests[place * _DIGEST_BYTES : (place + 1) * _DIGEST_BYTES]
        return Tail(sequence=SequenceNumber(self.lasts[place]), digest=Digest(_PREFIX + raw.hex()))


class MemoryLog:
    """A log with its epoch and its checkpoint. What needs its batches unpacks it first, as a whole or not at all."""

    __slots__ = ("_form", "address", "checkpoint", "created_at", "epoch", "tail")

    def __init__(
        self, *, address: Address, epoch: Epoch, created_at: Instant, tail: Tail, packed: Packed | None = None
    ) -> None:
        self.address = address
        self.epoch = epoch
        self.created_at = created_at
        self.tail = tail
        self.checkpoint: Checkpoint | None = None
        self._form: _Columns | Packed = _Columns() if packed is None else packed

    # An interrupt between two columns would leave a torn log behind; the protection costs nothing per call.
    @trio.lowlevel.enable_ki_protection
    def extend(self, batch: Batch, body: bytes) -> Tail:
        """Add a batch of a new identity, spelt in these bytes."""
        columns = self._live()
        tail = tail_after(self.tail, body, len(batch.records))
        columns.add(batch, tail)
        self.tail = tail
        return tail

    def find(self, batch: BatchId) -> int | None:
        """The place of the batch of this identity, from 0."""
        return self._live().places.get(batch)

    def tail_at(self, place: int, body: bytes) -> Tail | None:
        """Where the log ended behind the batch at `place`, if that batch is spelt in these bytes; else None."""
        columns = self._live()
        # The link seals all bytes of its batch, so it serves as their digest too.
        tail = columns.tail(place)
        same = tail_after(columns.tail(place - 1), body, len(columns.batches[place].records)) == tail
        return tail if same else None

    def page(self, after: SequenceNumber, limit: int) -> Page:
        """Whole batches from the one that holds record `after` + 1 on, the fewest that reach `limit` records."""
        columns = self._live()
        start = bisect_right(columns.lasts, after)
        first = columns.lasts[start - 1] + 1 if start else 1
        stop = min(bisect_left(columns.lasts, first + limit - 1) + 1, len(columns.batches))
        rows: list[StoredBatch] = []
        for place in range(start, stop):
            tail = columns.tail(place)
            rows.append(StoredBatch(batch=columns.batches[place], first=SequenceNumber(first), digest=tail.digest))
            first = tail.sequence + 1
        return Page(batches=tuple(rows), more=stop < len(columns.batches))

    def packed(self) -> Packed:
        """The log as bytes. Takes time with its length, unless it is packed already."""
        form = self._form
        if isinstance(form, Packed):
            return form
        lines = b"".join(b"%d %b\n" % (len(batch.records), encode_batch(batch)) for batch in form.batches)
        return Packed(body=zlib.compress(lines), size=len(lines))

    def pack(self) -> None:
        """Keep the log as bytes from here on, until a verb needs its batches."""
        self._form = self.packed()

    def verify(self) -> None:
        """Follow the chain of a packed log to its tail. Raises `CorruptLog`. Decodes no batch."""
        if isinstance(self._form, Packed):
            for _ in self._lines(self._form):
                pass

    def _live(self) -> _Columns:
        form = self._form
        if isinstance(form, Packed):
            form = self._form = self._unpack(form)
        return form

    def _unpack(self, packed: Packed) -> _Columns:
        columns = _Columns()
        for tail, count, body in self._lines(packed):
            try:
                batch = decode_batch(body)
            except CorruptBatch as error:
                raise self._corrupt(tail.sequence, error.message) from error
            if len(batch.records) != count:
                raise self._corrupt(tail.sequence, "a batch has another number of records than stated")
            if batch.id in columns.places:
                raise self._corrupt(tail.sequence, "a batch identity is there twice")
            columns.add(batch, tail)
        return columns

    def _lines(self, packed: Packed) -> Iterator[tuple[Tail, int, bytes]]:
        """Each batch's tail, record count and bytes. Raises `CorruptLog` at the end if the chain is another."""
        tail = Tail()
        *lines, rest = _inflate(self, packed).split(b"\n")
        if rest:
            raise self._corrupt(0, "the last line has no end")
        for line in lines:
            count, found, body = line.partition(b" ")
            if not found or not count.isdigit() or len(count) > 9 or count.startswith(b"0"):
                raise self._corrupt(tail.sequence + 1, "a line is no record count and batch")
            tail = tail_after(tail, body, int(count))
            yield tail, int(count), body
        if tail != self.tail:
            raise self._corrupt(tail.sequence, "the chain of digests does not lead to the tail")

    def _corrupt(self, sequence: int, problem: str) -> CorruptLog:
        return CorruptLog(conversation=self.address.conversation, sequence=sequence, problem=problem)


def _inflate(log: MemoryLog, packed: Packed) -> bytes:
    inflater = zlib.decompressobj()
    try:
        # Bounded by what is stated, so that damaged bytes cannot fill the memory.
        lines = inflater.decompress(packed.body, packed.size + 1)
    except zlib.error as error:
        problem = "the compressed bytes are damaged"
        raise CorruptLog(conversation=log.address.conversation, sequence=0, problem=problem) from error
    if not inflater.eof or inflater.unused_data or len(lines) != packed.size:
        problem = "the compressed bytes are cut, or more than stated"
        raise CorruptLog(conversation=log.address.conversation, sequence=0, problem=problem)
    return lines
