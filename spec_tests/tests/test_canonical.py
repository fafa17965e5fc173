"""Canonical JSON is exactly RFC 8785, and digests keep their domains, sequences and predecessors apart."""

import json
import sys
from typing import Any

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from triolet.ports.canonical import GENESIS, chain, digest, encode, encode_text, encode_trusted
from triolet.ports.errors import InvalidJson
from triolet.ports.strict_json import MAX_INTEGER, JsonLimits, JsonValue, parse
from triolet.spec_tests import canonical_vectors

VECTORS: dict[str, Any] = json.loads(canonical_vectors.PATH.read_text(encoding="ascii"))

# What is whole and in between would be written as an integer that no reader keeps exact.
_floats = st.floats(allow_nan=False, allow_infinity=False).filter(
    lambda number: not (number.is_integer() and MAX_INTEGER < abs(number) < 1e21)
)
_integers = st.integers(-MAX_INTEGER, MAX_INTEGER)
# Mostly the characters around which the two key orders and the escapes turn.
_text = st.text(st.sampled_from('\0\x1f"\\/\x7fazé\u2028\ud7ff\ue000\uffff\U00010000\U0010ffff')) | st.text()


def documents(scalars: st.SearchStrategy[Any], keys: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return st.recursive(
        scalars, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(keys, inner, max_size=5), max_leaves=20
    )


_anything = documents(st.none() | st.booleans() | _integers | _floats | _text, _text)
_plain = documents(st.none() | st.booleans() | _integers | _text, st.text(st.characters(codec="ascii")))


@given(_anything)
@settings(max_examples=500)
def test_it_is_rfc_8785(value: JsonValue) -> None:
    assert encode(value) == rfc8785.dumps(value)
    assert encode_text(value).encode() == encode(value)


@given(_anything)
def test_it_is_a_fixed_point(value: JsonValue) -> None:
    canonical = encode(value)
    assert encode(parse(canonical)) == canonical


@given(_plain)
def test_what_keeps_the_promise_needs_no_look(value: JsonValue) -> None:
    assert encode_trusted(value) == rfc8785.dumps(value)


@given(_floats)
@settings(max_examples=500)
def test_every_number_survives(number: float) -> None:
    assert float(encode(number)) == number


def test_every_character_is_escaped_alike() -> None:
    every = "".join(chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code <= 0xDFFF)
    assert encode(every) == rfc8785.dumps(every)


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (float("nan"), ""),
        ({"a": [0, float("-inf")]}, "/a/1"),
        ([0.0, 2.0**53], "/1"),
        ([-1e20], "/0"),
        ({"a": "\ud800"}, "/a"),
        ({"\udc00": 1}, ""),
        ([MAX_INTEGER + 1], "/0"),
        ({"a": {"b": -MAX_INTEGER - 1}}, "/a/b"),
        ({"a": (1, 2)}, "/a"),
        ({"a": {1: 2}}, "/a"),
        ([{"a": {1, 2}}], "/0/a"),
        ([b"x"], "/0"),
    ],
)
def test_what_is_not_strict_json_is_refused(value: Any, place: str) -> None:
    with pytest.raises(InvalidJson) as caught:
        encode(value)
    assert caught.value.pointer == place


@pytest.mark.parametrize("value", ["\ud800", [2**53], [2**70], {"a": {1}}, {1: 2}])
def test_even_trust_has_limits(value: Any) -> None:
    with pytest.raises(InvalidJson):
        encode_trusted(value)


def test_depth_is_bounded_on_both_paths() -> None:
    deep: JsonValue = []
    for _ in range(300):
        deep = [deep]
    with pytest.raises(InvalidJson):
        encode(deep)
    with pytest.raises(InvalidJson):
        encode_trusted(deep)
    nearly: JsonValue = 0.5  # the slower path
    for _ in range(250):
        nearly = [nearly]
    assert parse(encode(nearly, JsonLimits(max_depth=250)), JsonLimits(max_depth=250)) == nearly


def test_the_vectors_are_current() -> None:
    assert canonical_vectors.PATH.read_text(encoding="ascii") == canonical_vectors.rendered()


@pytest.mark.parametrize("case", VECTORS["accepted"], ids=lambda case: case["name"])
def test_accepted_vectors(case: dict[str, str]) -> None:
    canonical = encode(parse(case["input"]))
    assert canonical.decode() == case["canonical"]
    assert digest(VECTORS["tag"], canonical) == case["digest"]


@pytest.mark.parametrize("case", VECTORS["refused"], ids=lambda case: case["name"])
def test_refused_vectors(case: dict[str, str]) -> None:
    with pytest.raises(InvalidJson) as caught:
        parse(case["input"])
    assert caught.value.pointer == case["pointer"]


def test_the_chain_vectors() -> None:
    previous = GENESIS
    assert previous == VECTORS["genesis"]
    for link in VECTORS["chain"]:
        previous = chain(previous, link["sequence"], link["body"].encode())
        assert previous == link["link"]


def test_the_examples_of_the_rfc_are_written_as_the_rfc_writes_them() -> None:
    canonical = {case["name"]: case["canonical"] for case in VECTORS["accepted"]}
    assert canonical["the example of RFC 8785, section 3.2.2"] == (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )
    assert [*json.loads(canonical["the keys of RFC 8785, section 3.2.3"])] == [
        "\r", "1", "\x80", "ö", "€", "😀", "\ufb33",
    ]  # fmt: skip


_links = st.tuples(st.integers(0, 2**64 - 1), st.binary(max_size=20))


@given(_links, _links, st.binary(), st.binary())
def test_a_link_seals_all_of_its_parts(one: tuple[int, bytes], other: tuple[int, bytes], a: bytes, b: bytes) -> None:
    previous, another = digest("test/one", a), digest("test/one", b)
    assert (chain(previous, *one) == chain(another, *other)) == ((a, one) == (b, other))


@given(st.binary())
def test_a_digest_belongs_to_its_domain(body: bytes) -> None:
    assert digest("test/one", body) != digest("test/two", body)
    assert digest("test/one", body) == digest("test/one", body)


@pytest.mark.parametrize("tag", ["", "A", "a\0b", "a//b", "/a", "a/", "a b", "ä"])
def test_a_tag_cannot_be_mistaken(tag: str) -> None:
    with pytest.raises(ValueError, match="tag"):
        digest(tag, b"")


@pytest.mark.parametrize("sequence", [-1, 2**64])
def test_a_sequence_has_64_bits(sequence: int) -> None:
    with pytest.raises(OverflowError):
        chain(GENESIS, sequence, b"")
