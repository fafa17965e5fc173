"""Schemas by example: what is rendered; what is refused on the way in, on the way out and at construction, and how."""

from __future__ import annotations

import enum
import json
import traceback
from typing import Annotated, Any, Generic, Literal, NewType, Optional, TypeVar

import attrs
import jsonschema_rs
import pytest

from triolet.ports.errors import InvalidJson, InvalidValue, UnrenderableSchema
from triolet.ports.schema import (
    Alias,
    Codec,
    Description,
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

T = TypeVar("T")
City = NewType("City", str)
_NewType: Any = NewType  # at run time it takes Annotated too
Percent = _NewType("Percent", Annotated[int, Ge(0), Le(100)])


Automatic = Literal["auto"]


class Unit(enum.Enum):
    CELSIUS = "c"
    KELVIN = "k"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@attrs.frozen(kw_only=True)
class Weather:
    """Asks for the weather.

    As it is now.
    """

    city: Annotated[City, Description("a place"), MinLength(1)]
    unit: Unit = Unit.CELSIUS
    days: Annotated[int, Ge(1), Le(14)] = 1


@attrs.frozen(kw_only=True)
class Leaf:
    kind: Literal["leaf"] = "leaf"
    size: int


@attrs.frozen(kw_only=True)
class Branch:
    kind: Literal["branch"] = "branch"
    children: tuple[Leaf | Branch, ...] = ()


@attrs.frozen
class Everything:
    nothing: None
    flag: bool
    count: int
    ratio: float
    text: str
    unit: Unit
    level: Level
    mode: Literal["auto", "manual", 7, True]
    maybe: Weather | None
    many: list[int]
    fixed: tuple[int, str]
    empty: tuple[()]
    named: dict[City, list[float]]
    several: frozenset[str]
    tree: Leaf | Branch
    free: JsonValue
    either: Optional[int | list[str] | dict[str, int]]  # noqa: UP045  # the older spelling too
    sender: Annotated[str, Alias("from"), Pattern("^[a-z]+$")]
    _hidden: int = 0
    made: list[int] = attrs.field(factory=list)
    computed: int = attrs.field(init=False, default=1)


EVERYTHING = Everything(
    nothing=None,
    flag=True,
    count=3,
    ratio=2.5,
    text="é",
    unit=Unit.KELVIN,
    level=Level.HIGH,
    mode=7,
    maybe=Weather(city=City("Oslo")),
    many=[1, 2],
    fixed=(1, "x"),
    empty=(),
    named={City("a"): [1.0, 0.5]},
    several=frozenset({"b", "a"}),
    tree=Branch(children=(Leaf(size=1), Branch())),
    free={"a": [1, None, {"b": 0.5}]},
    either=["x"],
    sender="me",
)


def places(codec: Codec[Any], document: Any) -> dict[str, str]:
    """What the codec says of a document, both from a value and from a text."""
    with pytest.raises(InvalidValue) as caught:
        codec.decode(document)
    with pytest.raises(InvalidValue) as again:
        codec.decode_text(json.dumps(document))
    assert again.value.violations == caught.value.violations
    return dict(caught.value.violations)


def refused(codec: Codec[Any], value: Any) -> tuple[str, str]:
    """What the codec says of a Python value."""
    with pytest.raises(InvalidValue) as caught:
        codec.encode(value)
    with pytest.raises(InvalidValue):
        codec.encode_text(value)
    ((place, problem),) = caught.value.violations
    return place, problem


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


@attrs.frozen
class Page(Generic[T]):
    items: tuple[T, ...]
    first: T | None = None


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
