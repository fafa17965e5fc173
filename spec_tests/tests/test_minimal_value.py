"""The smallest value of a schema: for types, for foreign schemas, and where there is none."""

from typing import Annotated, Any, Literal

import attrs
import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triolet.adapters.request_driven_model import (
    NoMinimalValue,
    minimal_value,
)
from triolet.ports.errors import UnrenderableSchema
from triolet.ports.records import RECORD_TYPES
from triolet.ports.schema import (
    Codec,
    Ge,
    Gt,
    Le,
    Lt,
    MaxLength,
    MinItems,
    MinLength,
    MultipleOf,
    Pattern,
    codec_for,
)


@attrs.frozen
class Leaf:
    kind: Literal["leaf"]
    value: int


@attrs.frozen
class Fork:
    kind: Literal["fork"]
    left: "Tree"
    right: "Tree"


Tree = Fork | Leaf


@attrs.frozen
class Chain:
    label: str
    next: "Chain | None"


@attrs.frozen
class Bounds:
    low: Annotated[int, Ge(3), Le(9)]
    above: Annotated[int, Gt(-2), Lt(5)]
    negative: Annotated[int, Lt(-4)]
    many: Annotated[int, Gt(10), MultipleOf(7)]
    half: Annotated[float, Gt(0), Lt(1)]
    name: Annotated[str, MinLength(2), MaxLength(4)]
    code: Annotated[str, Pattern("^[A-Z]+$")]
    items: Annotated[tuple[int, ...], MinItems(2)]
    pair: tuple[int, str]
    distinct: Annotated[frozenset[str], MinItems(3)]
    marks: Annotated[frozenset[int], MinItems(2)]
    mode: Literal["fast", "slow"]
    table: dict[str, int]
    note: str | None
    absent: int = 5


MINIMAL: list[tuple[Any, Any]] = [
    (Leaf, {"kind": "leaf", "value": 0}),
    (Fork, {"kind": "fork", "left": {"kind": "leaf", "value": 0}, "right": {"kind": "leaf", "value": 0}}),
    (Chain, {"label": "", "next": None}),
    (
        Bounds,
        {
            "low": 3,
            "above": 0,
            "negative": -5,
            "many": 14,
            "half": 0.5,
            "name": "aa",
            "code": "A",
            "items": [0, 0],
            "pair": [0, ""],
            "distinct": ["", "0", "1"],
            "marks": [0, 1],
            "mode": "fast",
            "table": {},
            "note": "",
        },
    ),
    (int, 0),
    (float, 0),
    (bool, False),
    (list[int], []),
]


@pytest.mark.parametrize(("kind", "value"), MINIMAL)
def test_the_smallest_value_of_a_type(kind: Any, value: Any) -> None:
    codec = codec_for(kind)
    made = minimal_value(codec.schema)
    assert made == value
    assert type(made) is type(value)
    codec.decode(made)


@pytest.mark.parametrize("family", RECORD_TYPES)
def test_every_record_family_has_a_smallest_value(family: type) -> None:
    codec: Codec[Any] = codec_for(family)
    assert isinstance(codec.decode(minimal_value(codec.schema)), family)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({}, None),
        ({"type": ["string", "null"]}, ""),
        ({"enum": [3, 4]}, 3),
        ({"const": {"a": [1]}}, {"a": [1]}),
        ({"properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"a": 0}),
        ({"required": ["x"]}, {"x": None}),
        ({"type": "object", "required": ["x"], "additionalProperties": {"type": "string"}}, {"x": ""}),
        ({"items": {"type": "string"}, "minItems": 1}, [""]),
        (
            {"allOf": [{"type": "object", "required": ["a"]}, {"properties": {"a": {"const": 1}}, "required": ["b"]}]},
            {"a": 1, "b": None},
        ),
        ({"oneOf": [{"type": "integer", "minimum": 2}, {"type": "string"}]}, 2),
        ({"anyOf": [False, {"type": "boolean"}]}, False),
        ({"$ref": "#/definitions/a~1b", "definitions": {"a/b": {"type": "integer", "minimum": 1}}}, 1),
        ({"$ref": "#/$defs/a%25/items", "$defs": {"a%": {"items": {"const": 2}}}}, 2),
        (
            {"type": "object", "properties": {"me": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}, "required": ["me"]},
            {"me": None},
        ),
        ({"type": "integer", "exclusiveMinimum": 0, "maximum": 1}, 1),
        ({"type": "number", "minimum": 0.25, "maximum": 0.75}, 0.25),
        ({"type": "number", "multipleOf": 0.5, "minimum": 0.25}, 0.5),
        ({"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}, "2000-01-01"),
        (
            {
                "type": "array",
                "uniqueItems": True,
                "minItems": 2,
                "items": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
            },
            [{"n": 0}, {"n": 1}],
        ),
        ({"not": {"type": "null"}}, False),
        (
            {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/c"}, "c": {"const": 3}}},
            3,
        ),
        ({"const": {"$ref": "nowhere"}}, {"$ref": "nowhere"}),
        (
            {"prefixItems": [{"const": 1}, {"const": 2}], "minItems": 2, "$defs": {"x": {"$ref": "#/prefixItems/1"}}},
            [1, 2],
        ),
        ({"$ref": "#/allOf/1", "allOf": [{}, {"const": 4}]}, 4),
    ],
)
def test_the_smallest_value_of_a_foreign_schema(schema: dict[str, object], value: object) -> None:
    assert minimal_value(schema) == value
    jsonschema_rs.validator_for(schema).validate(value)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": "^quite a rare text$"},
        {"type": "string", "pattern": "("},
        {"type": "string", "pattern": "^(a|a)*b$", "minLength": 60},
        {"type": "number", "multipleOf": 5e-324, "minimum": 5},
        {"type": "integer", "minimum": 2**60},
        {
            "type": "array",
            "uniqueItems": True,
            "minItems": 5000,
            "items": {"anyOf": [{"const": 1}, {"$ref": "#/items"}]},
        },
        {"type": "array", "minItems": 10**9},
        {"type": "array", "items": False, "minItems": 1},
        {"type": "array", "uniqueItems": True, "minItems": 3, "items": {"type": "boolean"}},
        {"type": "integer", "minimum": 2, "maximum": 1},
        {"type": "object", "required": ["a"], "additionalProperties": False},
        {"type": "object", "minProperties": 1},
        {"anyOf": []},
        {"$ref": "#"},
        {"$ref": "#/$defs/gone"},
        {"$ref": "#here", "$defs": {"a": {"$anchor": "here", "const": 1}}},
        {"not": {}},
    ],
)
def test_where_no_value_is_known_it_says_so(schema: dict[str, object]) -> None:
    with pytest.raises((NoMinimalValue, UnrenderableSchema)):
        minimal_value(schema)


LEAVES: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("integer")},
        optional={"minimum": st.integers(-9, 9), "maximum": st.integers(20, 30), "multipleOf": st.integers(1, 5)},
    ),
    st.fixed_dictionaries({"type": st.just("string")}, optional={"minLength": st.integers(0, 5)}),
    st.sampled_from([{"type": "boolean"}, {"type": "null"}, {"const": 7}, {"enum": ["x", "y"]}]),
)
SCHEMAS: st.SearchStrategy[dict[str, Any]] = st.recursive(
    LEAVES | st.just({"$ref": "#/$defs/D"}),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}, optional={"minItems": st.integers(0, 3)}),
        st.dictionaries(st.sampled_from("abc"), inner).map(
            lambda fields: {
                "type": "object",
                "properties": fields,
                "required": sorted(fields),
                "additionalProperties": False,
            }
        ),
        st.lists(inner, min_size=1, max_size=3).map(lambda members: {"anyOf": members}),
    ),
    max_leaves=8,
)


@given(
    SCHEMAS,
    st.one_of(
        LEAVES,
        SCHEMAS.map(lambda schema: {"anyOf": [schema, {"type": "null"}]}),
    ),
)
def test_generated_schemas_get_a_valid_value(schema: dict[str, object], definition: dict[str, object]) -> None:
    whole = {**schema, "$defs": {"D": definition}}
    first = minimal_value(whole)
    assert minimal_value(whole) == first
    jsonschema_rs.validator_for(whole).validate(first)


def test_a_deep_schema_is_no_crash() -> None:
    schema: dict[str, object] = {"type": "null"}
    for _ in range(40):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    assert minimal_value(schema) is not None
