"""Schemas by generated types: values survive the round trip; codec, rendered schema and msgspec give one verdict.

Types are generated together with a twin for msgspec, an independent implementation that validates on its own and
renders JSON Schema on its own, and with a strategy for their values. Documents are the encodings of valid values,
as they are or after a few random edits.
"""

import enum
import functools
import json
import keyword
import math
from collections.abc import Callable, Iterator
from types import NoneType
from typing import Annotated, Any, Literal, NewType

import attrs
import jsonschema_rs
import msgspec
import pytest
import rfc8785
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from triolet.ports.errors import InvalidJson, InvalidValue
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
    Pattern,
    codec_for,
    raw_codec,
)
from triolet.ports.strict_json import MAX_INTEGER, JsonValue, check


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Rank(enum.IntEnum):
    LOW = 1
    HIGH = 9


Name = NewType("Name", str)


@attrs.frozen
class Kind:
    """A type, its twin for msgspec (None if msgspec has none that means the same), and its values."""

    hint: Any
    twin: Any
    values: st.SearchStrategy[Any]


def has_whole_floats(value: object) -> bool:
    """Whether JSON Schema alone would take some of it for integers."""
    if isinstance(value, dict | list):
        return any(map(has_whole_floats, value.values() if isinstance(value, dict) else value))
    return isinstance(value, float) and value.is_integer()


_integers = st.integers(-MAX_INTEGER, MAX_INTEGER)
_floats = st.floats(-1e15, 1e15)
_text = st.text(max_size=5)

_SCALARS: list[Kind] = [
    Kind(NoneType, NoneType, st.none()),
    Kind(bool, bool, st.booleans()),
    Kind(int, int, _integers),
    Kind(float, float, _floats),
    Kind(str, str, _text),
    Kind(Name, str, _text),
    Kind(Colour, Colour, st.sampled_from(Colour)),
    Kind(Rank, Rank, st.sampled_from(Rank)),
    Kind(Literal["a", "b"], Literal["a", "b"], st.sampled_from(["a", "b"])),
    Kind(Literal[1, 2], Literal[1, 2], st.sampled_from([1, 2])),
    Kind(Annotated[int, Ge(0), Le(9)], Annotated[int, msgspec.Meta(ge=0, le=9)], st.integers(0, 9)),
    Kind(
        Annotated[float, Gt(0), Lt(1), Description("a share")],
        Annotated[float, msgspec.Meta(gt=0, lt=1)],
        st.floats(0, 1, exclude_min=True, exclude_max=True),
    ),
    Kind(
        Annotated[str, MinLength(1), MaxLength(3)],
        Annotated[str, msgspec.Meta(min_length=1, max_length=3)],
        st.text(min_size=1, max_size=3),
    ),
    Kind(
        Annotated[str, Pattern("^[a-z]+$")],
        Annotated[str, msgspec.Meta(pattern="^[a-z]+$")],
        st.text("abc", min_size=1, max_size=3),
    ),
]

# What msgspec has no twin for.
_OTHERS: list[Kind] = [
    Kind(
        JsonValue,
        Any,
        st.recursive(_floats | _text | st.none(), lambda inner: st.lists(inner, max_size=2), max_leaves=4),
    ),
    Kind(frozenset[str], Any, st.frozensets(_text, max_size=3)),
    Kind(Literal["x", 1, True] | None, Any, st.sampled_from(["x", 1, True, None])),
    Kind(Literal["auto"] | Colour | Rank | None, Any, st.sampled_from(["auto", Colour.RED, Rank.HIGH, None])),
]


def optional(kind: Kind) -> Kind:
    return Kind(kind.hint | None, kind.twin | None, st.none() | kind.values)


def listed(kind: Kind) -> Kind:
    return Kind(list[kind.hint], list[kind.twin], st.lists(kind.values, max_size=3))  # type: ignore[name-defined]


def bounded_list(kind: Kind) -> Kind:
    return Kind(
        Annotated[tuple[kind.hint, ...], MinItems(1), MaxItems(3)],  # type: ignore[name-defined]
        Annotated[tuple[kind.twin, ...], msgspec.Meta(min_length=1, max_length=3)],  # type: ignore[name-defined]
        st.lists(kind.values, min_size=1, max_size=3).map(tuple),
    )


def mapped(kind: Kind) -> Kind:
    return Kind(
        dict[str, kind.hint],  # type: ignore[name-defined]
        dict[str, kind.twin],  # type: ignore[name-defined]
        st.dictionaries(_text, kind.values, max_size=3),
    )


def paired(kind: Kind) -> Kind:
    return Kind(
        tuple[kind.hint, int],  # type: ignore[name-defined]
        tuple[kind.twin, int],  # type: ignore[name-defined]
        st.tuples(kind.values, _integers),
    )


_WRAPPERS: list[Callable[[Kind], Kind]] = [listed, bounded_list, mapped, paired]


@st.composite
def objects(draw: st.DrawFn, parts: st.SearchStrategy[Kind], tag: str | None = None) -> Kind:
    """A class of up to four fields, some with other names in JSON, some with defaults."""
    fields: dict[str, Any] = {}
    twins: list[tuple[Any, ...]] = []
    values: dict[str, st.SearchStrategy[Any]] = {}
    renamed: dict[str, str] = {}
    if tag is not None:
        kind: Any = Literal[tag]
        fields["kind"] = attrs.field(type=kind)
        values["kind"] = st.just(tag)
    names = draw(
        st.lists(st.from_regex(r"[a-z_][a-z0-9_]{0,3}", fullmatch=True), max_size=4, unique_by=lambda n: n.lstrip("_"))
    )
    for name in names:
        if keyword.iskeyword(name) or not name.strip("_0123456789") or name.lstrip("_")[0].isdigit() or name == "kind":
            continue
        part: Kind = draw(parts)
        hint: Any = part.hint
        json_name = name.lstrip("_")
        if draw(st.booleans()):
            json_name = f"{json_name}-{draw(st.sampled_from(['x', 'é', '~/', ' ']))}"
            hint = Annotated[hint, Alias(json_name)]
        parameter = name.lstrip("_")
        renamed[parameter] = json_name
        values[parameter] = part.values
        if draw(st.booleans()):
            default = functools.partial(lambda default: default, draw(part.values))
            fields[name] = attrs.field(type=hint, factory=default)
            twins.append((parameter, part.twin, msgspec.field(default_factory=default)))
        else:
            fields[name] = attrs.field(type=hint)
            twins.append((parameter, part.twin))
    made = attrs.make_class("Made", fields, frozen=True, kw_only=True)
    twin = msgspec.defstruct(
        "Made",
        twins,
        kw_only=True,
        forbid_unknown_fields=True,
        rename=renamed,
        tag_field="kind" if tag else None,
        tag=tag,
    )
    return Kind(made, twin, st.fixed_dictionaries(values).map(lambda given: made(**given)))


@st.composite
def unions(draw: st.DrawFn, parts: st.SearchStrategy[Kind]) -> Kind:
    """Two tagged classes, and perhaps a list, a string and null beside them."""
    members: list[Kind] = [draw(objects(parts, tag=tag)) for tag in ("one", "other")]
    members += draw(st.lists(st.sampled_from([_SCALARS[0], _SCALARS[4]]), unique=True))
    if draw(st.booleans()):
        members.append(listed(draw(parts)))
    hint, twin = members[0].hint, members[0].twin
    for member in members[1:]:
        hint, twin = hint | member.hint, twin | member.twin
    return Kind(hint, twin, st.one_of([member.values for member in members]))


def kinds(scalars: list[Kind]) -> st.SearchStrategy[Kind]:
    def larger(inner: st.SearchStrategy[Kind]) -> st.SearchStrategy[Kind]:
        wrapped = st.builds(lambda wrap, kind: wrap(kind), st.sampled_from(_WRAPPERS), inner)
        nullable = st.sampled_from([kind for kind in scalars if kind in _SCALARS[1:]]).map(optional)
        return wrapped | nullable | objects(inner) | unions(inner)

    return st.recursive(st.sampled_from(scalars), larger, max_leaves=6)


plain_kinds = kinds(_SCALARS)
all_kinds = kinds(_SCALARS + _OTHERS)


def paths(value: JsonValue, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield path
    if isinstance(value, dict):
        for key, child in value.items():
            yield from paths(child, (*path, key))
    elif isinstance(value, list):
        for i, child in enumerate(value):
            yield from paths(child, (*path, i))


_REPLACEMENTS: st.SearchStrategy[Any] = (
    st.sampled_from([None, True, False, 0, 1, -1, 9, 10, 0.5, 5.0, "", "a", "b", "5", "red", "LONG", "one"])
    | st.builds(list)
    | st.builds(dict)
)


@st.composite
def edited(draw: st.DrawFn, document: JsonValue) -> JsonValue:
    """`document` after up to three edits: a value replaced, an item or field gone, added or doubled."""
    document = json.loads(json.dumps(document))
    for _ in range(draw(st.integers(0, 3))):
        *before, last = ["", *draw(st.sampled_from(list(paths(document))))]
        holder: Any = {"": document}
        for step in before:
            holder = holder[step]
        match draw(st.sampled_from(["replace", "remove", "add", "float"])):
            case "float" if type(holder[last]) is int:
                holder[last] = float(holder[last])
            case "remove" if before:
                del holder[last]
            case "add" if isinstance(holder[last], dict):
                holder[last][draw(st.sampled_from(["extra", "kind", "a"]))] = draw(_REPLACEMENTS)
            case "add" if isinstance(holder[last], list):
                holder[last].append(draw(st.sampled_from(holder[last] or [1])))
            case _:
                holder[last] = draw(_REPLACEMENTS)
        if not before:
            document = holder[""]
    return document


def accepts(codec: Codec[Any], document: JsonValue) -> bool:
    """The codec's verdict, which must be the same for the value and its text, and typed."""
    text = json.dumps(document)
    try:
        decoded = codec.decode(document)
    except InvalidValue as refusal:
        violations = refusal.violations
    else:
        assert codec.decode_text(text) == decoded
        assert codec.decode(codec.encode(decoded)) == decoded
        return True
    with pytest.raises(InvalidValue) as caught:
        codec.decode_text(text)
    assert caught.value.violations == violations != ()
    return False


_slow = settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@given(all_kinds, st.data())
@_slow
def test_values_survive_the_round_trip(kind: Kind, data: st.DataObject) -> None:
    codec: Codec[Any] = codec_for(kind.hint)
    value = data.draw(kind.values)
    encoded = codec.encode(value)
    check(encoded)
    decoded = codec.decode(encoded)
    assert decoded == value
    assert type(decoded) is type(value)
    text = codec.encode_text(value)
    assert text.encode() == rfc8785.dumps(encoded)
    assert codec.decode_text(text) == value
    assert codec.encode(decoded) == encoded


@given(all_kinds)
@_slow
def test_rendering_is_sound_and_repeatable(kind: Kind) -> None:
    codec: Codec[Any] = codec_for(kind.hint)
    jsonschema_rs.meta.validate(codec.schema)
    check(codec.schema)
    codec_again = codec_for.__globals__["_made"].__wrapped__(kind.hint, "")
    assert json.dumps(codec_again.schema) == json.dumps(codec.schema)
    assert raw_codec(codec.schema, "again").schema == codec.schema


class Verdicts:
    """Counts verdicts, so that a test can show that it saw both."""

    def __init__(self) -> None:
        self.accepted = self.refused = 0

    def count(self, accepted: bool) -> None:
        self.accepted += accepted
        self.refused += not accepted

    def show(self, what: str, at_least: float) -> None:
        share = self.refused / (self.accepted + self.refused)
        print(f"{what}: refused {share:.0%} of {self.accepted + self.refused} documents, agreement 100%")
        assert at_least < share < 1 - at_least


def test_codec_and_rendered_schema_agree() -> None:
    verdicts = Verdicts()

    @given(all_kinds, st.data())
    @settings(_slow, max_examples=600)
    def agree(kind: Kind, data: st.DataObject) -> None:
        codec: Codec[Any] = codec_for(kind.hint)
        document = data.draw(edited(codec.encode(data.draw(kind.values))))
        expected = jsonschema_rs.Draft202012Validator(codec.schema).is_valid(document)
        actual = accepts(codec, document)
        # The one difference: JSON Schema takes 5.0 for an integer.
        assert actual == expected or (expected and has_whole_floats(document))
        assert accepts(raw_codec(codec.schema, "raw"), document) == actual or has_whole_floats(document)
        verdicts.count(actual)

    agree()
    verdicts.show("codec and rendered schema", at_least=0.2)


def test_codec_and_msgspec_agree() -> None:
    verdicts = Verdicts()

    @given(plain_kinds, st.data())
    @settings(_slow, max_examples=600)
    def agree(kind: Kind, data: st.DataObject) -> None:
        codec: Codec[Any] = codec_for(kind.hint)
        encoded = codec.encode(data.draw(kind.values))
        assert msgspec.json.decode(json.dumps(encoded), type=kind.twin) is not ...
        document = data.draw(edited(encoded))
        try:
            msgspec.json.decode(json.dumps(document), type=kind.twin)
        except msgspec.ValidationError:
            expected = False
        else:
            expected = True
        assert accepts(codec, document) == expected
        if not has_whole_floats(document):
            assert jsonschema_rs.validator_for(msgspec.json.schema(kind.twin)).is_valid(document) == expected
        verdicts.count(expected)

    agree()
    verdicts.show("codec and msgspec", at_least=0.2)


class Impostor(str):
    __slots__ = ()


_IMPOSTORS: list[Any] = [
    *(Impostor("x"), b"x", math.nan, math.inf, 2**53, "\ud800", {1}, 1j, object(), ()),
    *([], {}, 0.5, 5, True, None, "x"),
]


@given(all_kinds, st.data())
@_slow
def test_what_a_codec_writes_it_also_reads(kind: Kind, data: st.DataObject) -> None:
    """Whatever Python value is handed over, the codec refuses it, naming a place, or writes what it can read."""
    codec: Codec[Any] = codec_for(kind.hint)
    value = data.draw(kind.values)
    if attrs.has(type(value)) and attrs.fields(type(value)) and data.draw(st.booleans()):
        field = data.draw(st.sampled_from(attrs.fields(type(value))))
        object.__setattr__(value, field.name, data.draw(st.sampled_from(_IMPOSTORS)))
    elif data.draw(st.booleans()):
        value = data.draw(st.sampled_from(_IMPOSTORS))
    try:
        encoded = codec.encode(value)
    except InvalidValue as refusal:
        count = len(refusal.violations)
        assert count
    else:
        assert jsonschema_rs.Draft202012Validator(codec.schema).is_valid(encoded)
        assert codec.decode(encoded) == value


@given(all_kinds, st.sampled_from([math.nan, math.inf, 2**53, "\ud800", (1,), {1}, b"x", Impostor("x")]), st.data())
@_slow
def test_what_is_not_strict_json_is_refused_as_such(kind: Kind, fault: Any, data: st.DataObject) -> None:
    codec: Codec[Any] = codec_for(kind.hint)
    document: Any = {"": codec.encode(data.draw(kind.values))}
    *before, last = ["", *data.draw(st.sampled_from(list(paths(document[""]))))]
    holder: Any = document
    for step in before:
        holder = holder[step]
    holder[last] = fault
    with pytest.raises(InvalidJson) as caught:
        codec.decode(document[""])
    assert caught.value.pointer is not None
    assert caught.value.pointer.count("/") == len(before)
