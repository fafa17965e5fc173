"""What a schema lets in and out: validated both ways, bounded, and without a leak."""

from __future__ import annotations

import json
import traceback
from typing import Any

import attrs
import pytest

from tests.schema_samples import EVERYTHING, City, Everything, Leaf, Level, Page, Weather, places, refused
from triolet.ports.errors import InvalidJson, InvalidValue
from triolet.ports.schema import (
    codec_for,
    raw_codec,
)
from triolet.ports.strict_json import JsonLimits


def good(**changes: Any) -> dict[str, Any]:
    encoded = codec_for(Everything).encode(EVERYTHING)
    assert isinstance(encoded, dict)
    return {**encoded, **changes}


@pytest.mark.parametrize(
    ("changes", "place", "problem"),
    [
        ({"nothing": 0}, "/nothing", "must be null, not integer"),
        ({"flag": 1}, "/flag", "must be boolean, not integer"),
        ({"flag": "true"}, "/flag", "must be boolean, not string"),
        ({"count": True}, "/count", "must be integer, not boolean"),
        ({"count": "5"}, "/count", "must be integer, not string"),
        ({"count": 5.0}, "/count", "must be an integer, written without a fraction or an exponent"),
        ({"count": 5.5}, "/count", "must be integer, not number"),
        ({"ratio": "2.5"}, "/ratio", "must be number, not string"),
        ({"ratio": True}, "/ratio", "must be number, not boolean"),
        ({"text": 5}, "/text", "must be string, not integer"),
        ({"text": None}, "/text", "must be string, not null"),
        ({"unit": "KELVIN"}, "/unit", 'must be one of "c", "k"'),
        ({"level": 2.0}, "/level", "must be an integer, written without a fraction or an exponent"),
        ({"level": 3}, "/level", "must be one of 1, 2"),
        ({"mode": 1}, "/mode", 'must be one of "auto", "manual", 7, true'),
        ({"mode": 7.0}, "/mode", "must be an integer, written without a fraction or an exponent"),
        ({"maybe": {}}, "/maybe/city", "is missing"),
        ({"maybe": {"city": ""}}, "/maybe/city", "must have at least 1 characters"),
        ({"maybe": {"city": "x", "days": 15}}, "/maybe/days", "must be at most 14"),
        ({"maybe": []}, "/maybe", "must be object or null, not array"),
        ({"many": [1, "2"]}, "/many/1", "must be integer, not string"),
        ({"many": [1, 2, 3.0]}, "/many/2", "must be an integer, written without a fraction or an exponent"),
        ({"many": {}}, "/many", "must be array, not object"),
        ({"fixed": [1]}, "/fixed", "must have at least 2 items"),
        ({"fixed": [1, "x", 2]}, "/fixed", "must have at most 2 items"),
        ({"fixed": [1.0, "x"]}, "/fixed/0", "must be an integer, written without a fraction or an exponent"),
        ({"named": {"a": [1, "x"]}}, "/named/a/1", "must be number, not string"),
        ({"several": ["a", "a"]}, "/several", "must not repeat an item"),
        ({"tree": {"kind": "twig", "size": 1}}, "/tree/kind", 'must be one of "leaf", "branch"'),
        ({"tree": {"size": 1}}, "/tree", "is none of the 2 allowed forms"),
        (
            {"tree": {"kind": "branch", "children": [{"kind": "leaf", "size": "x"}]}},
            "/tree/children/0/size",
            "must be integer, not string",
        ),
        (
            {"tree": {"kind": "branch", "children": [{"kind": "leaf", "size": 1.0}]}},
            "/tree/children/0/size",
            "must be an integer, written without a fraction or an exponent",
        ),
        ({"either": True}, "/either", "must be integer or array or object or null, not boolean"),
        ({"either": 1.0}, "/either", "must be an integer, written without a fraction or an exponent"),
        ({"either": ["x", 1]}, "/either/1", "must be string, not integer"),
        ({"from": "ME"}, "/from", "must match the pattern ^[a-z]+$"),
        ({"extra": 1}, "/extra", "is not a known field"),
        ({"sender": "me"}, "/sender", "is not a known field"),
        ({"computed": 1}, "/computed", "is not a known field"),
    ],
)
def test_what_comes_in_is_validated(changes: dict[str, Any], place: str, problem: str) -> None:
    assert places(codec_for(Everything), good(**changes)) == {place: problem}


def test_every_violation_is_told() -> None:
    document = {"city": 1, "unit": "x", "days": 0, "more": 1, "most": 2}
    assert places(codec_for(Weather), document) == {
        "/city": "must be string, not integer",
        "/unit": 'must be one of "c", "k"',
        "/days": "must be at least 1",
        "/more": "is not a known field",
        "/most": "is not a known field",
    }


@pytest.mark.parametrize(
    ("changes", "place", "problem"),
    [
        ({"nothing": 0}, "/nothing", "must be None, not int"),
        ({"flag": 1}, "/flag", "must be bool, not int"),
        ({"count": True}, "/count", "must be int, not bool"),
        ({"count": 5.0}, "/count", "must be int, not float"),
        ({"count": "5"}, "/count", "must be int, not str"),
        ({"count": 2**53}, "/count", "an integer of 2^53 or more (use a string)"),
        ({"count": Level.LOW}, "/count", "must be int, not Level"),
        ({"ratio": float("nan")}, "/ratio", "a number that is not finite"),
        ({"ratio": float("-inf")}, "/ratio", "a number that is not finite"),
        ({"ratio": True}, "/ratio", "must be float, not bool"),
        ({"ratio": 2**53}, "/ratio", "an integer of 2^53 or more (use a string)"),
        ({"ratio": 2.0**53}, "/ratio", "a whole number of 2^53 or more (use a string)"),
        ({"text": b"x"}, "/text", "must be str, not bytes"),
        ({"text": "\ud800"}, "/text", "holds a lone surrogate"),
        ({"unit": "k"}, "/unit", "a str that is none of the allowed values"),
        ({"unit": []}, "/unit", "a list that is none of the allowed values"),
        ({"level": 2}, "/level", "a int that is none of the allowed values"),
        ({"mode": 1}, "/mode", "a int that is none of the allowed values"),
        ({"maybe": {"city": "x"}}, "/maybe", "must be Weather or None, not dict"),
        ({"maybe": Weather(city=City(""))}, "/maybe/city", "must have at least 1 characters"),
        ({"maybe": Weather(city=City("x"), days=True)}, "/maybe/days", "must be int, not bool"),
        ({"many": (1,)}, "/many", "must be list, not tuple"),
        ({"many": [1, None]}, "/many/1", "must be int, not NoneType"),
        ({"fixed": (1, "x", 2)}, "/fixed", "must have 2 items, not 3"),
        ({"fixed": (1, 2)}, "/fixed/1", "must be str, not int"),
        ({"fixed": [1, "x"]}, "/fixed", "must be tuple, not list"),
        ({"named": {1: []}}, "/named", "a key of type int"),
        ({"named": {"\ud800": []}}, "/named", "holds a lone surrogate"),
        ({"named": {"a": [0.5, "x"]}}, "/named/a/1", "must be float, not str"),
        ({"several": {"a"}}, "/several", "must be frozenset, not set"),
        ({"tree": Leaf(size=0.5)}, "/tree/size", "must be int, not float"),  # type: ignore[arg-type]  # the point
        ({"tree": None}, "/tree", "must be Leaf or Branch, not NoneType"),
        ({"free": {"a": [{1}]}}, "/free/a/0", "a value of type set"),
        ({"free": [float("nan")]}, "/free/0", "a number that is not finite"),
        ({"either": 0.5}, "/either", "must be int or list or dict or None, not float"),
        ({"sender": "ME"}, "/from", "must match the pattern ^[a-z]+$"),
    ],
)
def test_what_goes_out_is_validated(changes: dict[str, Any], place: str, problem: str) -> None:
    assert refused(codec_for(Everything), attrs.evolve(EVERYTHING, **changes)) == (place, problem)


def test_a_lookalike_is_not_the_class() -> None:
    @attrs.frozen(kw_only=True)
    class Lookalike(Weather):
        pass

    assert refused(codec_for(Weather), Lookalike(city=City("x"))) == ("", "must be Weather, not Lookalike")


def test_an_int_may_stand_for_a_float() -> None:
    decoded = codec_for(Page[float]).decode({"items": [1, 2.5]})
    assert [type(item) for item in decoded.items] == [float, float]
    assert codec_for(Page[float]).encode_text(Page(items=(1, 2.5))) == '{"first":null,"items":[1,2.5]}'


@attrs.define
class Ring:
    next: Ring | None = None


def ring(length: int) -> Ring:
    start = Ring()
    for _ in range(length - 1):
        start = Ring(start)
    return start


def test_depth_is_bounded_both_ways() -> None:
    codec = codec_for(Ring)
    assert codec.decode(codec.encode(ring(128))) == ring(128)
    assert refused(codec, ring(129))[1] == "nested too deep, or it holds itself"
    assert refused(codec, ring(10_000)) == ("", "nested too deep, or it holds itself")
    loop = Ring()
    loop.next = loop
    assert refused(codec, loop) == ("", "nested too deep, or it holds itself")
    for depth in (129, 10_000):
        with pytest.raises(InvalidJson):
            codec.decode_text('{"next":' * depth + "null" + "}" * depth)
    deep = '{"next":' * 250 + "null" + "}" * 250
    assert codec.decode_text(deep, JsonLimits(max_depth=250)) == ring(250)


def test_large_input_is_refused_with_its_place() -> None:
    codec = codec_for(Everything)
    large = "X" * 10_000_000
    assert places(codec, good(**{"from": large})) == {"/from": "must match the pattern ^[a-z]+$"}
    assert places(codec, good(count=large)) == {"/count": "must be integer, not string"}
    with pytest.raises(InvalidJson) as caught:
        codec.decode_text(json.dumps(good(text=large * 2)))
    assert caught.value.pointer == ""


def test_very_many_violations_are_bounded() -> None:
    with pytest.raises(InvalidValue) as caught:
        codec_for(list[int]).decode([*("x" * 5000)])
    assert len(caught.value.violations) == 20
    assert caught.value.more == 980
    with pytest.raises(InvalidValue) as caught:
        codec_for(Leaf).decode({"kind": "leaf", "size": 1, **{f"x{i}": 0 for i in range(5000)}})
    assert len(str(caught.value)) < 2000


def test_a_huge_document_is_refused_without_collecting_everything() -> None:
    huge: list[Any] = [1] * 200_000
    assert places(codec_for(list[int]), [*huge, "x", "x"]) == {"/200000": "must be integer, not string"}
    assert places(codec_for(list[int] | None), [*huge, "x"]) == {
        "": "is refused; with more than 20000 values it is too large to say where"
    }


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"city": "x", "city": "y"}', "/city"),
        ('{"city": NaN}', "/city"),
        ('{"city": "\\ud800"}', "/city"),
        ('{"city": "x", "days": 9007199254740992}', "/days"),
        ('{"city": "x", "days": 12345678901234567890}', "/days"),
        ('{"city": "x"', ""),
    ],
)
def test_what_is_not_strict_json_never_reaches_the_schema(text: str, place: str) -> None:
    with pytest.raises(InvalidJson) as caught:
        codec_for(Weather).decode_text(text)
    assert caught.value.pointer == place


@pytest.mark.parametrize(
    "value", [{"city": ("x",)}, {"city": {"x"}}, {1: 2}, {"city": "\ud800"}, {"city": float("nan")}]
)
def test_a_python_value_that_is_not_strict_json_is_refused_as_such(value: Any) -> None:
    with pytest.raises(InvalidJson):
        codec_for(Weather).decode(value)


def no_marker(error: InvalidValue | InvalidJson, marker: str) -> None:
    shown = traceback.format_exception(error)
    # A traceback shows lines of this file too; what it says of errors stands at the margin.
    said = [line for entry in shown for line in entry.splitlines() if not line.startswith(" ")]
    assert not any(marker in line for line in [*said, repr(error)])


@pytest.mark.parametrize("field", sorted(good()))
def test_no_value_leaks_through_a_refusal(field: str) -> None:
    marker = "M4RK3R"
    for value in (marker, [marker], {"kind": marker}, [[marker]], {"a": [marker, None]}):
        try:
            codec_for(Everything).decode(good(**{field: value}))
        except InvalidValue as error:
            no_marker(error, marker)


def _even(instance: object, attribute: object, value: int) -> None:
    if value % 2:
        raise ValueError(f"{value} is not even")


def _magnitude(value: int) -> int:
    return abs(value)


@attrs.frozen
class Checked:
    number: int = attrs.field(validator=_even, converter=_magnitude)


def test_a_class_s_own_checks_count_without_their_text() -> None:
    codec = codec_for(dict[str, list[Checked]])
    assert codec.decode({"a": [{"number": -2}]}) == {"a": [Checked(2)]}
    with pytest.raises(InvalidValue) as caught:
        codec.decode({"a": [{"number": 2}, {"number": 87}]})
    assert caught.value.violations == (("/a/1", "Checked refuses it (ValueError)"),)
    no_marker(caught.value, "87")


def test_nothing_decoded_shares_mutable_state_with_its_input() -> None:
    document = good(free={"a": [{}]}, either={"x": 1})
    before = json.dumps(document)
    decoded = codec_for(Everything).decode(document)
    assert isinstance(decoded.free, dict)
    assert isinstance(decoded.free["a"], list)
    assert isinstance(decoded.either, dict)
    decoded.free["a"].append(1)
    decoded.many.append(1)
    decoded.made.append(1)
    decoded.either["y"] = 2
    decoded.named[City("z")] = []
    assert json.dumps(document) == before
    raw = raw_codec({}, "anything")
    copy = raw.decode(document)
    assert copy == document
    assert copy is not document


def test_nothing_encoded_shares_mutable_state_with_its_value() -> None:
    value = attrs.evolve(EVERYTHING, free={"a": [{}]}, many=[1])
    encoded = codec_for(Everything).encode(value)
    assert isinstance(encoded, dict)
    assert encoded["many"] is not value.many
    assert isinstance(encoded["free"], dict)
    assert isinstance(value.free, dict)
    assert encoded["free"]["a"] is not value.free["a"]
