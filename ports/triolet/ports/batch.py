"""Batches: the unit in which records are written, and their exact bytes.

Decides how a batch is spelt on disk: canonical JSON, one object per record with its `kind` and `version`
(STORE-005). Writers are checked as strictly as readers (STORE-006), the bytes are what is hashed, and nothing
is ever re-encoded to verify it. It decides nothing about which records may follow which.
"""

from typing import Final, cast

import attrs

from triolet.ports.canonical import encode_trusted
from triolet.ports.errors import Corrupt, InvalidJson, InvalidValue
from triolet.ports.identity import BatchId, Epoch, Instant, RunId
from triolet.ports.records import RECORD_TYPES, Record
from triolet.ports.schema import codec_for
from triolet.ports.strict_json import JsonLimits, JsonValue, parse

BATCH_LIMITS: Final = JsonLimits(max_bytes=64 * 1024 * 1024, max_depth=32)
"""A batch larger or deeper than this is not read. Payloads of calls are JSON *text* inside, so depth is small."""


@attrs.frozen(kw_only=True, weakref_slot=False)
class Batch:
    """Records, at least one, that become true together. A record's identity is its batch and its index.

    `run` is None for what stands outside any run: a conversation's creation, an operator's act.
    """

    id: BatchId
    run: RunId | None
    epoch: Epoch
    at: Instant
    records: tuple[Record, ...]


@attrs.define(kw_only=True)
class CorruptBatch(Corrupt):
    """Stored bytes are no batch: not JSON, not as the schema says. They are never repaired by guessing."""

    place: str
    problem: str

    @property
    def message(self) -> str:
        """Where and what."""
        return f"stored batch is corrupt at {self.place or 'the top'}: {self.problem}"


@attrs.define(kw_only=True)
class UnsupportedRecord(Corrupt):
    """A stored record's family or version is unknown here; a newer program wrote it (STORE-011)."""

    kind: str
    version: int

    @property
    def message(self) -> str:
        """Which family and version."""
        return f"no reader for record {self.kind!r} version {self.version}"


_FAMILIES: Final[dict[tuple[str, int], type[Record]]] = {
    (family.kind, family.version): family for family in RECORD_TYPES
}
_KNOWN: Final = frozenset(RECORD_TYPES)


def encode_batch(batch: Batch) -> bytes:
    """The exact bytes of a batch.

    Raises `InvalidValue` if the batch is empty or larger than `BATCH_LIMITS`, or if a field or a record breaks its
    own schema: whatever `decode_batch` would refuse is never written.
    """
    fault = _fault_of_head(batch.at, batch.epoch, batch.id, batch.run, len(batch.records))
    if fault is not None:
        raise InvalidValue(subject="batch", violations=(fault,))
    records: list[JsonValue] = []
    for index, record in enumerate(batch.records):
        family = type(record)
        if family not in _KNOWN:
            raise InvalidValue(subject="batch", violations=((f"/records/{index}", "is no record"),))
        try:
            body = cast("dict[str, JsonValue]", codec_for(family).encode(record))
        except InvalidValue as error:
            raise error.below(f"/records/{index}") from None
        body["kind"] = record.kind
        body["version"] = record.version
        records.append(body)
    try:
        # Records hold text, integers and flags only (payloads are JSON text), under ASCII names.
        encoded = encode_trusted(
            {"at": batch.at, "epoch": batch.epoch, "id": batch.id, "records": records, "run": batch.run}
        )
    except InvalidJson as error:
        raise InvalidValue(subject="batch", violations=((error.pointer or "", error.problem),)) from None
    if len(encoded) > BATCH_LIMITS.max_bytes:
        problem = f"is {len(encoded)} bytes, where {BATCH_LIMITS.max_bytes} are allowed"
        raise InvalidValue(subject="batch", violations=(("", problem),))
    return encoded


def decode_batch(body: bytes) -> Batch:
    """The batch that these bytes spell. Raises `CorruptBatch` or `UnsupportedRecord`."""
    try:
        document = parse(body, limits=BATCH_LIMITS)
    except InvalidJson as error:
        raise CorruptBatch(place=error.pointer or "", problem=error.problem) from error
    match document:
        case {"at": at, "epoch": epoch, "id": id_, "records": [*rows], "run": run, **rest} if not rest:
            fault = _fault_of_head(at, epoch, id_, run, len(rows))
            if fault is not None:
                raise CorruptBatch(place=fault[0], problem=fault[1])
            records = tuple(_decode_record(row, f"/records/{index}") for index, row in enumerate(rows))
            return Batch(
                id=cast("BatchId", id_),
                run=cast("RunId | None", run),
                epoch=cast("Epoch", epoch),
                at=cast("Instant", at),
                records=records,
            )
        case _:
            raise CorruptBatch(place="", problem="is no object with exactly at, epoch, id, records and run")


def _fault_of_head(at: object, epoch: object, id_: object, run: object, records: int) -> tuple[str, str] | None:
    """What is wrong with a batch's own fields, as pointer and problem: the same for writers and readers."""
    if type(at) is not int:
        return "/at", "is no integer"
    if type(epoch) is not int or epoch < 0:
        return "/epoch", "is no integer from 0"
    if type(id_) is not str or not id_:
        return "/id", "is no text, or empty"
    if run is not None and (type(run) is not str or not run):
        return "/run", "is neither null nor text, or empty"
    if not records:
        return "/records", "is empty"
    return None


def _decode_record(row: JsonValue, place: str) -> Record:
    match row:
        case {"kind": str(kind), "version": int(version), **body} if version is not True and version is not False:
            family = _FAMILIES.get((kind, version))
            if family is None:
                raise UnsupportedRecord(kind=kind[:80], version=version)
            try:
                return codec_for(family).decode(cast("dict[str, JsonValue]", body), BATCH_LIMITS)
            except InvalidValue as error:
                pointer, problem = error.violations[0]
                raise CorruptBatch(place=place + pointer, problem=problem) from error
        case _:
            raise CorruptBatch(place=place, problem="is no object with kind and version")
