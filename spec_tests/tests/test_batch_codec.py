"""Batches on disk: every record family comes back as it was, and what is no batch is refused with a typed error."""

import json
from collections.abc import Callable
from typing import Any, cast

import attrs
import orjson
import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.record_values import batches, records, values_of
from triolet.ports.batch import BATCH_LIMITS, Batch, CorruptBatch, UnsupportedRecord, decode_batch, encode_batch
from triolet.ports.errors import Corrupt, InvalidValue, TrioletError
from triolet.ports.identity import (
    BatchId,
    CallId,
    ConversationId,
    Epoch,
    InputId,
    Instant,
    RunId,
    TenantId,
)
from triolet.ports.messages import Text
from triolet.ports.outcomes import ToolSuccess
from triolet.ports.records import (
    RECORD_TYPES,
    AttemptStarted,
    ConversationCreated,
    InputTaken,
    Record,
    RunSettled,
    ToolSettled,
)
from triolet.ports.strict_json import MAX_INTEGER, JsonText
from triolet.ports.usage import UsageTotals

CREATED = ConversationCreated(conversation=ConversationId("c"), tenant=TenantId("t"))


def batch(*given_records: Record, **fields: Any) -> Batch:
    given_fields: dict[str, Any] = {
        "id": BatchId("c/0/0"),
        "run": None,
        "epoch": Epoch(0),
        "at": Instant(5),
        "records": given_records or (CREATED,),
    }
    return Batch(**{**given_fields, **fields})


def spelt(change: Callable[[dict[str, Any]], Any], of: Batch | None = None) -> bytes:
    """The bytes of a batch, changed by hand."""
    document = json.loads(encode_batch(of or batch()))
    changed = change(document)
    return orjson.dumps(document if changed is None else changed)


# --- both ways ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", RECORD_TYPES, ids=lambda family: family.kind)
@settings(max_examples=20)
@given(data=st.data())
def test_every_family_comes_back_as_it_was(family: type[Record], data: st.DataObject) -> None:
    one = batch(data.draw(values_of(cast("Any", family))))
    body = encode_batch(one)
    assert decode_batch(body) == one
    [row] = json.loads(body)["records"]
    assert (row["kind"], row["version"]) == (family.kind, family.version)
    # Every field is on disk, those with defaults too: a reader never has to know what was once a default.
    assert row.keys() == {field.name for field in attrs.fields(family)} | {"kind", "version"}


@settings(max_examples=50)
@given(one=batches())
def test_a_batch_comes_back_as_it_was_from_its_one_spelling(one: Batch) -> None:
    body = encode_batch(one)
    again = decode_batch(body)
    assert again == one
    assert encode_batch(again) == body == rfc8785.dumps(json.loads(body))


@settings(max_examples=50)
@given(one=batches(most=2), other=batches(most=2), field=st.sampled_from([f.name for f in attrs.fields(Batch)]))
def test_two_batches_have_the_same_bytes_only_if_they_are_equal(one: Batch, other: Batch, field: str) -> None:
    changed = attrs.evolve(one, **{field: getattr(other, field)})
    assert (encode_batch(one) == encode_batch(changed)) == (one == changed)


def test_kinds_are_distinct() -> None:
    assert len({(family.kind, family.version) for family in RECORD_TYPES}) == len(RECORD_TYPES)


# --- what a writer is refused -------------------------------------------------------------------------

SETTLED = RunSettled(run=RunId("r"), status="aborted", usage=UsageTotals(), turns=1, reason="lost")
INPUT = InputTaken(id=InputId("i"), source="user", author="a", offered_at=Instant(1), parts=(Text(text="x"),))


@pytest.mark.parametrize(
    ("bad", "place"),
    [
        (batch(records=()), "/records"),
        (batch(records=("no record",)), "/records/0"),
        (batch(id=""), "/id"),
        (batch(id=7), "/id"),
        (batch(id="\ud800"), "/id"),
        (batch(run=""), "/run"),
        (batch(epoch=-1), "/epoch"),
        (batch(epoch=True), "/epoch"),
        (batch(epoch=1.0), "/epoch"),
        (batch(at=None), "/at"),
        (batch(at=2**53), "/at"),
        (batch(CREATED, AttemptStarted(epoch=Epoch(2**53))), "/records/1/epoch"),
        (batch(AttemptStarted(epoch=Epoch(10**40))), "/records/0/epoch"),
        (batch(AttemptStarted(epoch=1.5)), "/records/0/epoch"),  # type: ignore[arg-type]  # that is the point
        (batch(AttemptStarted(epoch=True)), "/records/0/epoch"),  # type: ignore[arg-type]  # that is the point
        (batch(cast("Any", attrs.evolve)(CREATED, tenant="\udfff")), "/records/0/tenant"),
        (batch(cast("Any", attrs.evolve)(CREATED, tenant=None)), "/records/0/tenant"),
        (batch(cast("Any", attrs.evolve)(SETTLED, status="done")), "/records/0/status"),
        (batch(cast("Any", attrs.evolve)(SETTLED, usage=UsageTotals(calls=-1))), "/records/0/usage/calls"),
        (batch(cast("Any", attrs.evolve)(INPUT, parts=[Text(text="x")])), "/records/0/parts"),
        (batch(cast("Any", attrs.evolve)(INPUT, parts=("x",))), "/records/0/parts/0"),
        (batch(cast("Any", attrs.evolve)(INPUT, parts=(Text(text="a\ud800"),))), "/records/0/parts/0/text"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_writer_is_refused_with_the_place(bad: Batch, place: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        encode_batch(bad)
    assert caught.value.violations[0][0] == place
    assert len(str(caught.value)) < 600


def test_a_batch_beyond_the_bound_is_not_written() -> None:
    big = ToolSuccess(output=JsonText('"' + "x" * (BATCH_LIMITS.max_bytes // 2) + '"'))
    half = ToolSettled(call=CallId("c"), outcome=big)
    assert len(encode_batch(batch(half))) < BATCH_LIMITS.max_bytes
    with pytest.raises(InvalidValue, match="bytes, where"):
        encode_batch(batch(half, half))


# --- what a reader refuses ----------------------------------------------------------------------------

ATTEMPT = batch(AttemptStarted(epoch=Epoch(1)))


def _in_record(**fields: Any) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        document["records"][0].update(fields)

    return change


def _without(name: str) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        del document["records"][0][name]

    return change


def _head(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda document: document.update(fields)


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda _: [], ""),
        (lambda _: 5, ""),
        (lambda _: {}, ""),
        (lambda document: {**document, "extra": 1}, ""),
        (lambda document: {k: v for k, v in document.items() if k != "run"}, ""),
        (_head(at=1.0), "/at"),
        (_head(at="1"), "/at"),
        (_head(at=True), "/at"),
        (_head(epoch=-1), "/epoch"),
        (_head(id=""), "/id"),
        (_head(id=None), "/id"),
        (_head(run=""), "/run"),
        (_head(run=[]), "/run"),
        (_head(records=[]), "/records"),
        (_head(records={}), ""),
        (_head(records=[[]]), "/records/0"),
        (_head(records=[{}]), "/records/0"),
        (_head(records=[{"kind": "attempt_started", "epoch": 1}]), "/records/0"),
        (_in_record(version="1"), "/records/0"),
        (_in_record(version=1.0), "/records/0"),
        (_in_record(version=True), "/records/0"),
        (_in_record(kind=None), "/records/0"),
        (_in_record(epoch=1.5), "/records/0/epoch"),
        (_in_record(epoch=1.0), "/records/0/epoch"),
        (_in_record(epoch=None), "/records/0/epoch"),
        (_in_record(recovery="perhaps"), "/records/0/recovery"),
        (_in_record(surprise=1), "/records/0"),
        (_without("epoch"), "/records/0"),
    ],
)
def test_what_is_no_batch_is_corrupt_and_says_where(change: Callable[[dict[str, Any]], Any], place: str) -> None:
    with pytest.raises(CorruptBatch) as caught:
        decode_batch(spelt(change, ATTEMPT))
    # A missing or a surplus field is told at the object or at the field; both lead a reader there.
    assert caught.value.place.startswith(place)
    assert place or caught.value.place == ""
    assert isinstance(caught.value, Corrupt)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"\xff\xfe",
        encode_batch(batch())[:-1],
        encode_batch(batch()) + b"x",
        encode_batch(batch()).replace(b'"at":5', b'"at":5,"at":5'),
        encode_batch(batch()).replace(b'"at":5', b'"at":%d' % 2**53),
        encode_batch(batch()).replace(b'"at":5', b'"at":%d' % 10**60),
        encode_batch(batch()).replace(b'"at":5', b'"at":NaN'),
        encode_batch(batch()).replace(b'"at":5', b'"at":1e400'),
        encode_batch(batch()).replace(b'"tenant":"t"', b'"tenant":"\\ud800"'),
        b"[" * 10_000 + b"]" * 10_000,
    ],
    ids=range(13),
)
def test_bytes_that_are_no_strict_json_are_corrupt(body: bytes) -> None:
    with pytest.raises(CorruptBatch):
        decode_batch(body)


@pytest.mark.parametrize("change", [_in_record(version=2), _in_record(version=0), _in_record(kind="mood_changed")])
def test_what_a_newer_program_wrote_is_unsupported_and_not_guessed(change: Callable[[dict[str, Any]], Any]) -> None:
    with pytest.raises(UnsupportedRecord) as caught:
        decode_batch(spelt(change, ATTEMPT))
    assert isinstance(caught.value, Corrupt)


def test_an_unknown_kind_is_told_in_bounds() -> None:
    with pytest.raises(UnsupportedRecord) as caught:
        decode_batch(spelt(_in_record(kind="k" * 100_000), ATTEMPT))
    assert len(str(caught.value)) < 200


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-MAX_INTEGER, MAX_INTEGER)
    | st.floats(allow_nan=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(record=records(), data=st.data(), foreign=JSON)
def test_a_mutated_record_is_a_typed_error_or_another_valid_record(
    record: Record, data: st.DataObject, foreign: object
) -> None:
    document = json.loads(encode_batch(batch(record)))
    row = document["records"][0]
    match data.draw(st.sampled_from(["replace", "drop", "add"])):
        case "replace":
            row[data.draw(st.sampled_from(sorted(row)))] = foreign
        case "drop":
            del row[data.draw(st.sampled_from(sorted(row)))]
        case _:
            row[data.draw(st.text(max_size=5))] = foreign
    try:
        decoded = decode_batch(orjson.dumps(document))
    except TrioletError as error:
        assert isinstance(error, CorruptBatch | UnsupportedRecord)
        assert len(str(error)) < 1_500
    else:
        assert decode_batch(encode_batch(decoded)) == decoded


@given(body=st.binary(max_size=60))
def test_arbitrary_bytes_are_a_typed_error(body: bytes) -> None:
    with pytest.raises(CorruptBatch):
        decode_batch(body)
