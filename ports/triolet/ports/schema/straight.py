"""Straight encoders: for values that are plainly right, one piece of code without a loop and without a second look.

Decides which values those are: exact types, short ASCII text, integers within their bounds, members of a closed list.
What is encoded here the exact encoder would encode alike and the schema would accept, so neither is asked. Of anything
else nothing is decided: the caller asks them both, and they say what is wrong with it, if anything is. Records are
encoded at each commit, so the code is written out, as attrs writes an `__init__`. (CAP-004)
"""

from collections.abc import Callable
from typing import Any, Final, cast

from triolet.ports.schema.misfit import Misfit
from triolet.ports.schema.shapes import (
    ChoiceShape,
    ListShape,
    NotedShape,
    ObjectShape,
    ScalarShape,
    Shape,
    UnionShape,
    bare,
    is_bounded,
    is_plain,
)
from triolet.ports.strict_json import MAX_INTEGER, JsonValue

Encoder = Callable[[Any], JsonValue]

_DOUBT: Final = "is not plainly right"
_BOUNDS: Final = frozenset(("minimum", "maximum", "description"))
_class_of: Final = cast(Callable[[object], type[object]], type)


class _Unsuited(Exception):
    """A shape whose values need the exact encoder or the schema."""


def straight(shape: Shape) -> Encoder | None:
    """The encoder of the plain values of `shape`; `Misfit` is what it raises for all others. None: it has none."""
    if not is_bounded(shape) or not is_plain(shape):
        return None
    try:
        return _encoder(shape)
    except _Unsuited:
        return None


def _encoder(shape: Shape) -> Encoder:
    match bare(shape):
        case ObjectShape() as inner if inner is shape:
            return _object(inner)
        case ListShape(container=container) as inner if container is tuple and inner is shape:
            return _items(_encoder(inner.item))
        case UnionShape() as inner if inner is shape:
            return _by_type(inner)
        case ScalarShape() | ChoiceShape():
            return _written(f"def encode(v):\n if {_doubt(shape)}: raise Misfit(doubt)\n return v", {})
        case _:
            raise _Unsuited


def _object(shape: ObjectShape) -> Encoder:
    names: dict[str, Any] = {"cls": shape.cls}
    code = ["def encode(value):", " if type(value) is not cls: raise Misfit(doubt)"]
    for place, field in enumerate(shape.fields):
        v = f"v{place}"
        code.append(f" {v} = value.{field.attribute}")
        needed, condition = _without_null(field.shape), f"{v} is not None and " if _has_null(field.shape) else ""
        if isinstance(bare(needed), ScalarShape | ChoiceShape):
            code.append(f" if {condition}({_doubt(needed, v)}): raise Misfit(doubt)")
        else:
            names[f"encode{place}"] = _encoder(needed)
            code.append(
                f" {v} = encode{place}({v})" if not condition else f" if {v} is not None: {v} = encode{place}({v})"
            )
    pairs = ", ".join(f"{field.json_name!r}: v{place}" for place, field in enumerate(shape.fields))
    return _written("\n".join([*code, f" return {{{pairs}}}"]), names)


def _items(item: Encoder) -> Encoder:
    def encode(value: Any) -> JsonValue:
        if type(value) is not tuple:
            raise Misfit(_DOUBT)
        return [item(element) for element in cast(tuple[object, ...], value)]

    return encode


def _by_type(shape: UnionShape) -> Encoder:
    table: dict[type, Encoder] = {}
    for member in shape.members:
        inner = bare(member)
        # Two members of one Python type would have to be tried one after the other.
        if not isinstance(inner, ObjectShape) or inner.cls in table:
            raise _Unsuited
        table[inner.cls] = _encoder(member)

    def encode(value: Any) -> JsonValue:
        found = table.get(_class_of(value))
        if found is None:
            raise Misfit(_DOUBT)
        return found(value)

    return encode


def _doubt(shape: Shape, v: str = "v") -> str:
    """When `v` is not plainly of this scalar shape."""
    least, most = -MAX_INTEGER, MAX_INTEGER
    while isinstance(shape, NotedShape):
        if shape.keywords.keys() - _BOUNDS:
            raise _Unsuited
        least = max(least, _bound(shape.keywords.get("minimum", least)))
        most = min(most, _bound(shape.keywords.get("maximum", most)))
        shape = shape.inner
    match shape:
        case ChoiceShape(members=members, enum_class=None) if all(type(scalar) is str for scalar, _ in members):
            texts = tuple(str(scalar) for scalar, _ in members)
            return f"type({v}) is not str or {v} not in {texts!r}"
        case ScalarShape(kind="string"):
            return f"type({v}) is not str or not {v}.isascii()"
        case ScalarShape(kind="integer"):
            return f"type({v}) is not int or not {least} <= {v} <= {most}"
        case ScalarShape(kind="boolean"):
            return f"{v} is not True and {v} is not False"
        case _:
            raise _Unsuited


def _bound(value: JsonValue) -> int:
    if type(value) is not int:
        raise _Unsuited
    return value


def _has_null(shape: Shape) -> bool:
    return isinstance(shape, UnionShape) and any(_is_null(member) for member in shape.members)


def _without_null(shape: Shape) -> Shape:
    if not isinstance(shape, UnionShape) or not _has_null(shape):
        return shape
    members = tuple(member for member in shape.members if not _is_null(member))
    return members[0] if len(members) == 1 else UnionShape(members=members, tag=shape.tag)


def _is_null(shape: Shape) -> bool:
    return isinstance(shape, ScalarShape) and shape.kind == "null"


def _written(code: str, names: dict[str, Any]) -> Encoder:
    names |= {"Misfit": Misfit, "doubt": _DOUBT}
    exec(code, names)
    made: Encoder = names["encode"]
    return made
