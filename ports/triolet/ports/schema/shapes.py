"""The shape of a type as JSON sees it: what lies between Python's annotations and everything made from them.

Decides which distinctions exist: nine shapes, each with the facts that rendering, decoding and encoding need. Holds
no behaviour: `reading` makes shapes, `rendering`, `decoding` and `encoding` walk them. A recursive type is a cycle
through an `ObjectShape`; its fields, and the tag of a union, are filled in after they are made. (CAP-004)
"""

import enum
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import attrs

from triolet.ports.strict_json import JsonValue

Kind = Literal["null", "boolean", "integer", "number", "string"]


@attrs.frozen(kw_only=True, eq=False, weakref_slot=False)
class ScalarShape:
    """Any value of one scalar JSON type."""

    kind: Kind


@attrs.frozen(kw_only=True, eq=False, weakref_slot=False)
class ChoiceShape:
    """One of a few scalars: a `Literal`, or an `Enum` whose members are decoded.

    `members` pairs each scalar in JSON with its Python value, in declaration order.
    """

    members: tuple[tuple[str | int | bool | None, object], ...]
    enum_class: type[enum.Enum] | None = None


@attrs.frozen(kw_only=True, eq=False, weakref_slot=False)
class ListShape:
    """An array of any length, held in `container`."""

    item: "Shape"
    container: type[list[Any]] | type[tuple[Any, ...]] | type[frozenset[Any]]


@attrs.frozen(kw_only=True, eq=False, weakref_slot=False)
class TupleShape:
    """An array of exactly these items."""

    items: "tuple[Shape, ...]"


@attrs.frozen(kw_only=True, eq=False, weakref_slot=False)
class MapShape:
    """An object with any keys: `dict[str, T]`."""

    value: "Shape"


@attrs.frozen(kw_only=True, eq=False, weakref_slot=False)
class FieldShape:
    """One field of an object.

    `attribute` is its name in Python, `parameter` in ``__init__``, `json_name` in JSON. `default` is
    `attrs.NOTHING` if there is none to show.
    """

    attribute: str
    parameter: str
    json_name: str
    shape: "Shape"
    required: bool
    default: object


@attrs.define(kw_only=True, eq=False, weakref_slot=False)
class ObjectShape:
    """An attrs class. `name` shows what a generic one was specialised for."""

    cls: type[attrs.AttrsInstance]
    name: str
    description: str
    fields: tuple[FieldShape, ...] = ()


@attrs.define(kw_only=True, eq=False, weakref_slot=False)
class UnionShape:
    """One of several shapes that JSON can tell apart.

    `tag` is the JSON name of the field that tells its objects apart, if it has more than one.
    """

    members: "tuple[Shape, ...]"
    tag: str | None = None


@attrs.frozen(kw_only=True, eq=False, weakref_slot=False)
class AnyShape:
    """Any strict JSON value: `JsonValue`."""


@attrs.frozen(kw_only=True, eq=False, weakref_slot=False)
class NotedShape:
    """A shape with more JSON Schema keywords: constraints, or a description."""

    inner: "Shape"
    keywords: Mapping[str, JsonValue]


Shape = ScalarShape | ChoiceShape | ListShape | TupleShape | MapShape | ObjectShape | UnionShape | AnyShape | NotedShape


def bare(shape: Shape) -> Shape:
    """`shape` without its notes."""
    while isinstance(shape, NotedShape):
        shape = shape.inner
    return shape


def children(shape: Shape) -> tuple[Shape, ...]:
    """The shapes directly inside `shape`."""
    match shape:
        case ListShape():
            return (shape.item,)
        case TupleShape():
            return shape.items
        case MapShape():
            return (shape.value,)
        case ObjectShape():
            return tuple(field.shape for field in shape.fields)
        case UnionShape():
            return shape.members
        case NotedShape():
            return (shape.inner,)
        case ScalarShape() | ChoiceShape() | AnyShape():
            return ()


def reachable(shape: Shape) -> Iterator[Shape]:
    """`shape` and every shape inside it, each once, in the order of the declarations."""
    seen: set[int] = set()
    waiting = [shape]
    while waiting:
        shape = waiting.pop()
        if id(shape) not in seen:
            seen.add(id(shape))
            waiting.extend(reversed(children(shape)))
            yield shape


def is_bounded(shape: Shape) -> bool:
    """Whether the nesting of every value is bounded by the type itself: nothing recursive, no `JsonValue`."""
    return not any(isinstance(part, AnyShape) for part in reachable(shape)) and not _has_cycle(shape, (), set())


def _has_cycle(shape: Shape, around: tuple[Shape, ...], done: set[int]) -> bool:
    if shape in around:
        return True
    if id(shape) in done:
        return False
    done.add(id(shape))
    if isinstance(shape, ObjectShape):
        around = (*around, shape)
    return any(_has_cycle(child, around, done) for child in children(shape))


def is_plain(shape: Shape) -> bool:
    """Whether no value holds a float or a key that is not ASCII: what `canonical.encode_trusted` asks for."""
    return all(
        not isinstance(part, MapShape | AnyShape)
        and not (isinstance(part, ScalarShape) and part.kind == "number")
        and not (isinstance(part, ObjectShape) and any(not field.json_name.isascii() for field in part.fields))
        for part in reachable(shape)
    )


def is_constrained(shape: Shape) -> bool:
    """Whether a value of the right types may still break a constraint."""
    return any(isinstance(part, NotedShape) and part.keywords.keys() - {"description"} for part in reachable(shape))
