"""A whole memory ledger as bytes, and back.

Decides the layout: a magic line with the version, one canonical JSON document, and the SHA-256 of everything before.
Reading is strict and never repairs. (STORE-005, STORE-006, STORE-011)
"""

import base64
import binascii
import hashlib
from typing import Final

import attrs

from triolet.adapters.memory.ledger.book import MemoryBook
from triolet.adapters.store_rules.book import Entry
from triolet.ports.conversation_store import Address
from triolet.ports.errors import InvalidJson, InvalidValue
from triolet.ports.identity import CallId, Epoch, Instant, SequenceNumber
from triolet.ports.ledger import CorruptLedger, Kept, Standing
from triolet.ports.outcomes import Outcome
from triolet.ports.schema import codec_for
from triolet.ports.strict_json import JsonLimits

_MAGIC: Final = b"triolet memory ledger 1\n"
_SEAL_BYTES: Final = 32
_LIMITS: Final = JsonLimits(max_bytes=1024 * 1024 * 1024, max_depth=32)


@attrs.frozen(kw_only=True, weakref_slot=False)
class _Stashed:
    call: CallId
    outcome: Outcome


@attrs.frozen(kw_only=True, weakref_slot=False)
class _Entry:
    standing: Standing
    since: Instant
    reserved: str | None
    stash: tuple[_Stashed, ...]
    kept: tuple[Kept, ...]


@attrs.frozen(kw_only=True, weakref_slot=False)
class _Lane:
    address: Address
    epoch: Epoch


@attrs.frozen(kw_only=True, weakref_slot=False)
class _Image:
    entries: tuple[_Entry, ...]
    lanes: tuple[_Lane, ...]
    last: int


def write_book(book: MemoryBook) -> bytes:
    """Everything that is kept, settled work included."""
    image = _Image(
        entries=tuple(_row(entry) for entry in book.entries.values()),
        lanes=tuple(_Lane(address=lane.address, epoch=lane.epoch) for lane in book.lanes.values()),
        last=book.last,
    )
    content = _MAGIC + codec_for(_Image).encode_text(image).encode()
    return content + hashlib.sha256(content).digest()


def fill_book(book: MemoryBook, image: bytes) -> None:
    """Enter everything that `image` holds into an empty book. Raises `CorruptLedger`."""
    content, seal = image[:-_SEAL_BYTES], image[-_SEAL_BYTES:]
    if not content.startswith(_MAGIC):
        raise CorruptLedger(problem="it does not begin as an image of this version does")
    if hashlib.sha256(content).digest() != seal:
        raise CorruptLedger(problem="its digest is another")
    try:
        read = codec_for(_Image).decode_text(content[len(_MAGIC) :], _LIMITS)
        for row in read.entries:
            book.add(_entry(row))
    except (InvalidJson, InvalidValue, binascii.Error) as error:
        raise CorruptLedger(problem="it does not read as its schema says") from error
    for lane in read.lanes:
        book.lane(lane.address).epoch = lane.epoch
    book.last = SequenceNumber(read.last)


def _row(entry: Entry) -> _Entry:
    return _Entry(
        standing=entry.standing,
        since=entry.since,
        reserved=None if entry.reserved is None else base64.b64encode(entry.reserved).decode(),
        stash=tuple(_Stashed(call=call, outcome=outcome) for call, outcome in entry.stash.items()),
        kept=tuple(entry.kept.values()),
    )


def _entry(row: _Entry) -> Entry:
    return Entry(
        standing=row.standing,
        since=row.since,
        reserved=None if row.reserved is None else base64.b64decode(row.reserved, validate=True),
        stash={each.call: each.outcome for each in row.stash},
        kept={each.command.key: each for each in row.kept},
    )
