"""Schemas by example: what is rendered; what is refused on the way in, on the way out and at construction, and how."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import attrs
import jsonschema_rs
import pytest

from tests.schema_samples import (
    EVERYTHING,
    Branch,
    City,
    Everything,
    Leaf,
    Level,
    Page,
    Percent,
    Unit,
    Weather,
    places,
    refused,
)
from triolet.ports.errors import UnrenderableSchema
from triolet.ports.schema import (
    Codec,
    Description,
    Ge,
    MaxLength,
    codec_for,
)
from triolet.ports.strict_json import JsonValue

Automatic = Literal["auto"]


def test_a_class_is_a_schema() -> None:
    assert codec_for(Weather).schema == {
        "type": "object",
        "description": "Asks for the weather.\n\nAs it is now.",
        "properties": {
            "city": {"type": "string", "minLength": 1, "description": "a place"},
            "unit": {"type": "string", "enum": ["c", "k"], "default": "c"},
            "days": {"type": "integer", "minimum": 1, "maximum": 14, "default": 1},
        },
        "required": ["city"],
        "additionalProperties": False,
    }


def test_every_kind_of_field() -> None:
    codec = codec_for(Everything)
    properties = codec.schema["properties"]
    assert isinstance(properties, dict)
    assert properties["nothing"] == {"type": "null"}
    assert properties["ratio"] == {"type": "number"}
    assert properties["level"] == {"type": "integer", "enum": [1, 2]}
    assert properties["mode"] == {"enum": ["auto", "manual", 7, True]}
    assert properties["fixed"] == {
        "type": "array",
        "minItems": 2,
        "maxItems": 2,
        "prefixItems": [{"type": "integer"}, {"type": "string"}],
    }
    assert properties["empty"] == {"type": "array", "minItems": 0, "maxItems": 0}
    assert properties["named"] == {
        "type": "object",
        "additionalProperties": {"type": "array", "items": {"type": "number"}},
    }
    assert properties["several"] == {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
    assert properties["free"] == {}
    assert properties["from"] == {"type": "string", "pattern": "^[a-z]+$"}
    assert properties["hidden"] == {"type": "integer", "default": 0}
    assert properties["made"] == {"type": "array", "items": {"type": "integer"}, "default": []}
    assert "computed" not in properties
    encoded = codec.encode(EVERYTHING)
    assert codec.decode(encoded) == EVERYTHING
    assert codec.decode_text(codec.encode_text(EVERYTHING)) == EVERYTHING
    assert isinstance(encoded, dict)
    assert encoded["several"] == ["a", "b"]
    assert encoded["hidden"] == 0


def test_recursive_classes_are_kept_as_references() -> None:
    schema = codec_for(Branch).schema
    assert schema["type"] == "object"
    assert isinstance(schema["$defs"], dict)
    assert list(schema["$defs"]) == ["Branch"]
    properties = schema["properties"]
    assert isinstance(properties, dict)
    children = properties["children"]
    assert isinstance(children, dict)
    leaf = {
        "type": "object",
        "properties": {"kind": {"type": "string", "const": "leaf"}, "size": {"type": "integer"}},
        "required": ["kind", "size"],
        "additionalProperties": False,
    }
    assert children["items"] == {"anyOf": [leaf, {"$ref": "#/$defs/Branch"}]}
    assert "$ref" not in json.dumps(codec_for(Leaf).schema)


def test_a_schema_can_be_moved_with_its_definitions() -> None:
    schema = dict(codec_for(Branch).schema)
    definitions = schema.pop("$defs")
    moved = {"type": "object", "properties": {"tree": schema}, "$defs": definitions}
    validator = jsonschema_rs.validator_for(moved)
    assert validator.is_valid({"tree": {"kind": "branch", "children": [{"kind": "branch", "children": []}]}})
    assert not validator.is_valid({"tree": {"kind": "branch", "children": [{"kind": "branch", "children": [1]}]}})


def test_a_class_used_twice_is_defined_once_and_namesakes_are_kept_apart() -> None:
    one = attrs.make_class("Part", {"a": attrs.field(type=int)})
    other = attrs.make_class("Part", {"b": attrs.field(type=int)})
    fields = {f"f{i}": attrs.field(type=kind) for i, kind in enumerate([one, other, one, other, Leaf])}
    codec: Codec[Any] = codec_for(attrs.make_class("Whole", fields))
    definitions = codec.schema["$defs"]
    assert isinstance(definitions, dict)
    assert list(definitions) == ["Part", "Part_2"]
    assert places(
        codec, {"f0": {"a": 1}, "f1": {"b": 1}, "f2": {"b": 1}, "f3": {"b": 1}, "f4": {"kind": "leaf", "size": 1}}
    ) == {"/f2/a": "is missing", "/f2/b": "is not a known field"}


def test_a_tag_is_required_in_json_though_python_has_a_default() -> None:
    assert codec_for(Leaf).schema["required"] == ["kind", "size"]
    assert places(codec_for(Leaf), {"size": 1}) == {"/kind": "is missing"}


def test_generic_classes_are_specialised() -> None:
    codec = codec_for(Page[Page[int]])
    page = Page(items=(Page(items=(1,)),), first=None)
    assert codec.name == "Page[Page[int]]"
    assert codec.decode(codec.encode(page)) == page
    assert places(codec, {"items": [{"items": ["x"]}]}) == {"/items/0/items/0": "must be integer, not string"}
    with pytest.raises(UnrenderableSchema, match=r"T at Page\.items\[\]"):
        codec_for(Page)


@attrs.define
class OutOfStock(Exception):
    """There is none left."""

    item: str
    left: Annotated[int, Ge(0)] = 0


def test_an_exception_class_is_a_schema() -> None:
    codec = codec_for(OutOfStock)
    assert codec.schema["description"] == "There is none left."
    failure = codec.decode({"item": "tea"})
    assert isinstance(failure, OutOfStock)
    assert (failure.item, failure.left) == ("tea", 0)
    assert codec.encode(failure) == {"item": "tea", "left": 0}
    assert refused(codec, OutOfStock("tea", -1)) == ("/left", "must be at least 0")


def test_codecs_are_made_once() -> None:
    assert codec_for(Weather) is codec_for(Weather)
    assert codec_for(Leaf | Branch).schema != codec_for(Branch | Leaf).schema  # equal types, written differently
    assert repr(codec_for(Weather)) == "<Codec Weather>"


@pytest.mark.parametrize(
    ("kind", "document", "value"),
    [
        (int, 5, 5),
        (float, 5, 5.0),
        (str, "x", "x"),
        (bool, True, True),
        (None, None, None),
        (list[int], [1], [1]),
        (Percent, 7, 7),
        (Literal[1], 1, 1),
        (Unit | None, "k", Unit.KELVIN),
        (Literal["a", False] | Unit | Level, "k", Unit.KELVIN),
        (Literal["a", False] | Unit | Level, "a", "a"),
        (Literal["a", False] | Unit | Level, 2, Level.HIGH),
        (Literal["a", False] | Unit | Level, False, False),
        (Automatic | str, "x", "x"),
        (Automatic | str, "auto", "auto"),
        (Leaf | int | str | list[bool] | None, [True], [True]),
        (Leaf | int | str | list[bool] | None, {"kind": "leaf", "size": 1}, Leaf(size=1)),
        (JsonValue, {"a": [0.5]}, {"a": [0.5]}),
        (dict[str, JsonValue], {"a": [0.5]}, {"a": [0.5]}),
        (Annotated[int | str | None, Ge(1), MaxLength(2)], None, None),
        (Annotated[Weather, Description("when")], {"city": "x"}, Weather(city=City("x"))),
    ],
    ids=str,
)
def test_anything_can_be_outermost(kind: Any, document: Any, value: Any) -> None:
    codec = codec_for(kind)
    decoded = codec.decode(document)
    assert decoded == value
    assert type(decoded) is type(value)
    assert codec.decode_text(codec.encode_text(value)) == value
    assert jsonschema_rs.validator_for(codec.schema).is_valid(document)
