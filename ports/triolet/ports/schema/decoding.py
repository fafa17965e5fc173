"""From validated JSON to Python values, by shape.

Decides how a JSON value that the rendered schema already accepts becomes its Python value. Builds fresh containers,
so that nothing decoded shares mutable state with its input. Closes the two gaps that a JSON Schema leaves: 5.0 is
not an integer here, and a class's own validators may refuse what its fields allow. Never checks anything else.
(CAP-004)
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import attrs
import orjson

from triolet.ports.schema.misfit import Misfit
from triolet.ports.schema.shapes import (
    AnyShape,
    ChoiceShape,
    Kind,
    ListShape,
    MapShape,
    NotedShape,
    ObjectShape,
    ScalarShape,
    Shape,
    TupleShape,
    UnionShape,
    bare,
)
from triolet.ports.schema.unions import tags

Decoder = Callable[[Any], Any]

# `type` with one argument, said so that both type checkers know what comes out.
_class_of: Final = cast(Callable[[object], type[object]], type)
_NOT_AN_INTEGER: Final = "must be an integer, written without a fraction or an exponent"


@attrs.frozen
class Decoders:
    """Makes decoders, one for each object however often it is used."""

    _made: dict[int, Decoder] = attrs.field(factory=dict[int, Decoder], init=False)

    def of(self, shape: Shape) -> Decoder:
        """The decoder of `shape`. Raises `Misfit`."""
        match shape:
            case NotedShape():
                return self.of(shape.inner)
            case ScalarShape():
                return _SCALARS[shape.kind]
            case ChoiceShape():
                return _choice(shape)
            case ListShape():
                return _list(shape.container, self.of(shape.item))
            case TupleShape():
                return _tuple([self.of(item) for item in shape.items])
            case MapShape():
                return _map(self.of(shape.value))
            case UnionShape():
                return _union(shape, [(bare(member), self.of(member)) for member in shape.members])
            case AnyShape():
                return _any
            case ObjectShape():
                return self._object(shape)

    def _object(self, shape: ObjectShape) -> Decoder:
        if id(shape) in self._made:
            return self._made[id(shape)]

        def recursive(value: Any) -> Any:
            return self._made[id(shape)](value)

        self._made[id(shape)] = recursive
        parts: list[tuple[str, str, Decoder | None]] = []
        for field in shape.fields:
            part = self.of(field.shape)
            parts.append((field.json_name, field.parameter, None if part is _as_it_is else part))
        cls, name = shape.cls, shape.name

        def decode(value: Any) -> Any:
            arguments: dict[str, Any] = {}
            key = ""
            try:
                for key, parameter, part in parts:
                    if key in value:
                        arguments[parameter] = part(value[key]) if part else value[key]
            except Misfit as misfit:
                misfit.steps.append(key)
                raise
            try:
                return cls(**arguments)
            except Exception as error:  # noqa: BLE001
                # The class's own validators and converters. Their text may hold the value, so only its type is told.
                raise Misfit(f"{name} refuses it ({type(error).__name__})") from None

        self._made[id(shape)] = decode
        return decode


def _as_it_is(value: Any) -> Any:
    return value


def _integer(value: Any) -> Any:
    if type(value) is not int:
        raise Misfit(_NOT_AN_INTEGER)
    return value


_SCALARS: Final[dict[Kind, Decoder]] = {
    "null": _as_it_is,
    "boolean": _as_it_is,
    "integer": _integer,
    "number": float,
    "string": _as_it_is,
}


def _choice(shape: ChoiceShape) -> Decoder:
    # JSON Schema finds 5.0 among [5] and the type in the key does not.
    table: dict[tuple[type, object], object] = {(type(scalar), scalar): value for scalar, value in shape.members}

    def decode(value: Any) -> Any:
        try:
            return table[type(value), value]
        except KeyError:
            raise Misfit(_NOT_AN_INTEGER) from None

    return decode


def _list(container: Callable[[Any], Any], item: Decoder) -> Decoder:
    if item is _as_it_is:
        return container

    def decode(value: Any) -> Any:
        decoded: list[Any] = []
        try:
            for element in value:
                decoded.append(item(element))  # noqa: PERF401  # its length is the place of the fault
        except Misfit as misfit:
            misfit.steps.append(len(decoded))
            raise
        return decoded if container is list else container(decoded)

    return decode


def _tuple(items: list[Decoder]) -> Decoder:
    def decode(value: Any) -> Any:
        decoded: list[Any] = []
        try:
            for item, element in zip(items, value, strict=True):
                decoded.append(item(element))
        except Misfit as misfit:
            misfit.steps.append(len(decoded))
            raise
        return tuple(decoded)

    return decode


def _map(part: Decoder) -> Decoder:
    if part is _as_it_is:
        return dict

    def decode(value: Any) -> Any:
        decoded: dict[str, Any] = {}
        key = ""
        try:
            for key, element in value.items():
                decoded[key] = part(element)
        except Misfit as misfit:
            misfit.steps.append(key)
            raise
        return decoded

    return decode


def _union(union: UnionShape, members: list[tuple[Shape, Decoder]]) -> Decoder:
    tag = union.tag
    by_tag: dict[object, Decoder] = {}
    # A Literal or an Enum takes some values of a JSON type; whatever else may take that type takes the others.
    by_value: dict[tuple[type, object], Decoder] = {}
    by_type: dict[type, Decoder] = {}
    for shape, member in members:
        if tag is not None and isinstance(shape, ObjectShape):
            by_tag.update(dict.fromkeys(tags(shape, tag), member))
        elif isinstance(shape, ChoiceShape):
            by_value.update({(type(scalar), scalar): member for scalar, _ in shape.members})
        else:
            by_type.update(dict.fromkeys(_json_types(shape), member))

    def decode(value: Any) -> Any:
        kind = _class_of(value)
        if by_tag and kind is dict:
            return by_tag[value[tag]](value)
        member = by_type.get(kind)
        if by_value and kind is not list and kind is not dict:
            member = by_value.get((kind, value), member)
        if member is None:
            raise Misfit(_NOT_AN_INTEGER)
        return member(value)

    return decode


def _json_types(shape: Shape) -> Sequence[type]:
    match shape:
        case ScalarShape():
            return _JSON_TYPES[shape.kind]
        case ListShape() | TupleShape():
            return (list,)
        case _:
            return (dict,)


_JSON_TYPES: Final[dict[Kind, Sequence[type]]] = {
    "null": (type(None),),
    "boolean": (bool,),
    "integer": (int,),
    "number": (float, int),
    "string": (str,),
}


def _any(value: Any) -> Any:
    return orjson.loads(orjson.dumps(value)) if isinstance(value, dict | list) else value
