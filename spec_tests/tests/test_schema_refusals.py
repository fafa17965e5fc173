"""What has no schema is refused when a codec is made; constraints and foreign schemas."""

from __future__ import annotations

import enum
import json
from typing import Annotated, Any, Generic, Literal

import attrs
import pytest

from tests.schema_samples import Leaf, Percent, T, Unit, Weather, places
from triolet.ports.errors import InvalidJson, InvalidValue, UnrenderableSchema
from triolet.ports.schema import (
    Alias,
    Codec,
    Ge,
    Gt,
    Le,
    Lt,
    MaxItems,
    MaxLength,
    MinItems,
    MinLength,
    MultipleOf,
    Pattern,
    codec_for,
    raw_codec,
)
from triolet.ports.strict_json import DEFAULT_LIMITS, JsonLimits, JsonValue

Unannotated = attrs.make_class("Unannotated", ["x"])


@attrs.frozen
class Inside:
    deep: list[dict[str, set[int]]]


@attrs.frozen
class Elsewhere:
    x: NoSuchName  # type: ignore[name-defined]  # noqa: F821  # the point


@attrs.frozen
class Unfolding(Generic[T]):
    x: Unfolding[list[T]] | None


@attrs.frozen
class Namesakes:
    one: Annotated[int, Alias("x")]
    other: Annotated[int, Alias("x")]


@attrs.frozen
class Misplaced:
    x: Annotated[str, Alias("y")] | None


@attrs.frozen
class OtherLeaf:
    kind: Literal["leaf"]


@attrs.frozen
class Loose:
    kind: Literal["a", "b"] = "a"


class Mixed(enum.Enum):
    ONE = 1
    TWO = "two"


class Flags(enum.Flag):
    ONE = 1


@pytest.mark.parametrize(
    ("kind", "place", "reason"),
    [
        (object, "object", "not a type that JSON has a form for"),
        (Any, "Any", "not a type that JSON has a form for"),
        (bytes, "bytes", "not a type that JSON has a form for"),
        (set[int], "set[int]", "not a type that JSON has a form for"),
        (list, "list", "what is in it is not said (JsonValue stands for any JSON)"),
        (dict, "dict", "what is in it is not said (JsonValue stands for any JSON)"),
        (Inside, "Inside.deep[]{}", "not a type that JSON has a form for"),
        (Unannotated, "Unannotated.x", "the field has no annotation"),
        (Elsewhere, "Elsewhere", "its annotations cannot be resolved (NoSuchName)"),
        (Unfolding[int], "Unfolding[int]", "it unfolds into ever new types"),
        (Namesakes, "Namesakes", "two of its fields are named x in JSON"),
        (Misplaced, "Misplaced.x", "Alias belongs into the outermost Annotated of a field"),
        (dict[int, str], "dict[int, str]", "JSON objects have str keys only"),
        (frozenset[Leaf], "frozenset[Leaf]", "a frozenset holds str, int, or Literal or Enum values of one type only"),
        (
            frozenset[Literal[1, True]],
            "frozenset[Literal[1, True]]",
            "a frozenset holds str, int, or Literal or Enum values of one type only",
        ),
        (Literal[b"x"], "Literal[b'x']", "a Literal of type bytes"),
        (Literal[2**53], "Literal[9007199254740992]", "an integer of 2^53 or more"),
        (Mixed, "Mixed", "the members of an Enum must be all str or all int"),
        (Flags, "Flags", "the members of an Enum must be all str or all int"),
        (int | float, "int | float", "an integer is a number too (use float alone)"),
        (Literal[1] | float, "Literal[1] | float", "an integer is a number too (use float alone)"),
        (Unit | str, "Unit | str", "an Enum and its plain type cannot be told apart"),
        (Unit | Literal["k"], "Unit | Literal['k']", "two Enum or Literal members share a value"),
        (JsonValue | None, "JsonValue | None", "JsonValue includes every other member"),
        (list[int] | tuple[str, ...], "list[int] | tuple[str, ...]", "two members are arrays"),
        (dict[str, int] | Leaf, "dict[str, int] | Leaf", "dict and another object cannot be told apart"),
        (
            list[Weather | Leaf],
            "list[Weather | Leaf][]",
            "its classes share no required Literal field whose values tell them apart",
        ),
        (
            Leaf | OtherLeaf,
            "Leaf | OtherLeaf",
            "its classes share no required Literal field whose values tell them apart",
        ),
        (Leaf | Loose, "Leaf | Loose", "its classes share no required Literal field whose values tell them apart"),
        (Annotated[int, MaxLength(1)], "Annotated[int, MaxLength(value=1)]", "MaxLength does not apply to it"),
        (
            Annotated[Unit, MaxLength(1)],
            "Annotated[Unit, MaxLength(value=1)]",
            "MaxLength does not apply to it",
        ),
        (
            Annotated[int | None, MinItems(1)],
            "Annotated[int | None, MinItems(value=1)]",
            "MinItems does not apply to it",
        ),
        (Annotated[float, Le(float("inf"))], "Annotated[float, Le(value=inf)]", "Le needs a finite number"),
        (Annotated[int, "positive"], "Annotated[int, 'positive']", "an unknown note in Annotated"),
        (Annotated[str, MinLength(-1)], "/minLength", "must be at least 0"),
        (Annotated[str, Pattern("(")], "/pattern", "not a pattern that can be matched in linear time"),
        (Annotated[str, Pattern("(?=a)")], "/pattern", "not a pattern that can be matched in linear time"),
        (Annotated[str, Pattern(r"(a)\1")], "/pattern", "not a pattern that can be matched in linear time"),
        (Annotated[int, MultipleOf(0)], "/multipleOf", "must be greater than 0"),
        ([], "[]", "not hashable"),
        ("Weather", "'Weather'", "not a type that JSON has a form for"),
    ],
    ids=str,
)
def test_what_has_no_schema_is_refused_at_construction(kind: Any, place: str, reason: str) -> None:
    with pytest.raises(UnrenderableSchema) as caught:
        codec_for(kind)
    assert (caught.value.place, caught.value.reason) == (place, reason)


@pytest.mark.parametrize(
    ("kind", "accepted", "rejected"),
    [
        (Annotated[int, Ge(1)], [1, 2], [0]),
        (Annotated[float, Gt(1)], [1.5], [1, 1.0, 0.5]),
        (Annotated[int, Le(1)], [1, 0], [2]),
        (Annotated[float, Lt(1.5)], [1, 1.25], [1.5, 2]),
        (Annotated[int, MultipleOf(3)], [0, 9, -3], [1]),
        (Annotated[str, MinLength(2)], ["ab", "😀é"], ["a", "😀", ""]),
        (Annotated[str, MaxLength(1)], ["", "😀"], ["ab"]),
        (Annotated[str, Pattern("b")], ["abc"], ["ac"]),
        (Annotated[list[int], MinItems(1), MaxItems(2)], [[1], [1, 2]], [[], [1, 2, 3]]),
        (Annotated[Annotated[int, Ge(0)] | None, Le(5)], [None, 0, 5], [-1, 6]),
        (Percent | None, [None, 0, 100], [-1, 101]),
    ],
    ids=str,
)
def test_constraints_hold_both_ways(kind: Any, accepted: list[Any], rejected: list[Any]) -> None:
    codec = codec_for(kind)
    for value in accepted:
        assert codec.decode(value) == value
        assert codec.decode(codec.encode(value)) == value
    for value in rejected:
        with pytest.raises(InvalidValue):
            codec.decode(value)
        with pytest.raises(InvalidValue):
            codec.encode(value)


TREE: dict[str, JsonValue] = {
    "type": "object",
    "properties": {
        "size": {"type": "integer"},
        "mode": {"enum": ["a", None]},
        "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
    },
    "required": ["size"],
    "$defs": {
        "tree": {
            "type": "object",
            "properties": {"size": {"type": ["integer", "null"]}, "children": {"items": {"$ref": "#/$defs/tree"}}},
        }
    },
}


def test_a_foreign_schema_validates_and_changes_nothing() -> None:
    codec = raw_codec(TREE, "tree")
    assert codec.schema == TREE
    assert codec.schema is not TREE
    document: JsonValue = {"size": 1, "children": [{"children": [{"size": 2}]}, {"size": None}], "other": 1.5}
    assert codec.decode(document) == document
    assert codec.decode_text(json.dumps(document)) == document
    assert codec.encode(document) == document
    assert codec.encode_text(document) == (
        '{"children":[{"children":[{"size":2}]},{"size":null}],"other":1.5,"size":1}'
    )
    assert places(codec, {"children": [{"children": [{"size": "x"}]}], "mode": "b"}) == {
        "/children/0/children/0/size": "must be null or integer, not string",
        "/size": "is missing",
        "/mode": 'must be one of "a", null',
    }
    with pytest.raises(InvalidJson):
        codec.decode({"size": float("nan")})
    with pytest.raises(InvalidJson):
        codec.encode({"size": 1, "other": {1}})  # type: ignore[dict-item]  # the point


def test_a_whole_float_is_no_integer_under_a_foreign_schema_either() -> None:
    codec = raw_codec(TREE, "tree")
    assert codec.decode({"size": 1, "other": 5.0}) == {"size": 1, "other": 5.0}
    problem = "must be integer (an integer has no fraction or exponent)"
    assert places(codec, {"size": 5.0}) == {"/size": problem}
    ((place, _),) = places(codec, {"size": 1, "children": [{"size": 5.0}]}).items()
    assert place == "/children/0/size"
    choice = raw_codec({"anyOf": [{"type": "integer", "maximum": 3}, {"type": "number", "minimum": 4}]}, "choice")
    assert choice.decode(5.0) == 5.0
    with pytest.raises(InvalidValue):
        choice.decode(3.0)


@pytest.mark.parametrize(
    "schema",
    [
        {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {"type": "integer"}}},
        {"$defs": {"a": {"$anchor": "here", "type": "integer"}}, "$ref": "#here"},
        {"$id": "https://example.com/root", "$defs": {"a": {"$id": "part", "type": "integer"}}, "$ref": "part"},
        {"$defs": {"a b/c~d": {"$ref": "#"}}},
        {"$ref": "#"},
        {"properties": {"$ref": {"type": "string"}, "type": {"const": "type"}}},
        {"const": {"$ref": "#/nowhere"}},
        {"pattern": "^(a+)+$"},
    ],
    ids=str,
)
def test_foreign_schemas_that_are_taken(schema: dict[str, Any]) -> None:
    assert raw_codec(schema, "tool").schema == schema


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"type": "string "}, "/type"),
        ({"type": 5}, "/type"),
        ({"properties": {"required": ["a"]}}, "/properties/required"),
        ({"required": "a"}, "/required"),
        ({"$ref": "#/$defs/missing"}, "its top"),
        ({"properties": {"a": {"$ref": "#/$defs/missing"}}}, "its top"),
        ({"$defs": {"unused": {"$ref": "#/$defs/missing"}}}, "its top"),
        ({"definitions": {"unused": {"items": {"$ref": "#/definitions/missing"}}}}, "its top"),
        ({"$ref": "https://example.com/schema"}, "its top"),
        ({"$ref": "file:///etc/passwd"}, "its top"),
        ({"$ref": "other.json"}, "its top"),
        ({"$schema": "https://example.com/dialect"}, "its top"),
        ({"pattern": "(?=a)"}, "/pattern"),
        ({"properties": {"a": {"pattern": r"(a)\1"}}}, "/properties/a/pattern"),
        ({"minimum": float("nan")}, "/minimum"),
        ({"enum": [{1}]}, "/enum/0"),
        ({"maximum": 2**53}, "/maximum"),
    ],
    ids=str,
)
def test_foreign_schemas_that_are_refused(schema: dict[str, Any], place: str) -> None:
    with pytest.raises(UnrenderableSchema) as caught:
        raw_codec(schema, "tool")
    assert caught.value.type_name == "tool"
    assert caught.value.place == place


def test_a_pattern_cannot_hold_the_loop() -> None:
    codec = raw_codec({"type": "string", "pattern": "^(a+)+$"}, "tool")
    with pytest.raises(InvalidValue):
        codec.decode("a" * 50_000 + "!")


def test_a_codec_of_one_s_own() -> None:
    class Upper(Codec[str]):
        name = "upper"
        schema: dict[str, JsonValue] = {"type": "string"}  # noqa: RUF012

        def decode(self, value: JsonValue, limits: JsonLimits = DEFAULT_LIMITS) -> str:
            return str(value).upper()

        def decode_text(self, text: str | bytes, limits: JsonLimits = DEFAULT_LIMITS) -> str:
            return self.decode(json.loads(text))

        def encode(self, value: str) -> JsonValue:
            return value.lower()

    assert Upper().encode_text("ABC") == '"abc"'
