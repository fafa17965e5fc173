"""From Python values to strict JSON, by shape.

Decides that a value is written only if it is exactly what its type says: exact classes, finite floats, bounded
integers, clean text. A dataclass that looks alike, a list where a tuple is declared or a bool where an int is
declared is refused, naming the place. Never coerces (but for int where float is declared, as Python's typing has
it) and never checks constraints: the codec checks the result against the rendered schema. (CAP-004)
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import attrs
import orjson

from triolet.ports.errors import InvalidJson
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
from triolet.ports.strict_json import EXPONENTS_FROM, MAX_INTEGER, JsonValue, check

# `type` with one argument, said so that both type checkers know what comes out.
_class_of: Final = cast(Callable[[object], type[object]], type)

Encoder = Callable[[Any], JsonValue]


@attrs.frozen
class Encoders:
    """Makes encoders, one for each object however often it is used."""

    _made: dict[int, Encoder] = attrs.field(factory=dict[int, Encoder], init=False)

    def of(self, shape: Shape) -> Encoder:
        """The encoder of `shape`: returns fresh strict JSON, or raises `Misfit`.

        A value that holds itself ends in `RecursionError`.
        """
        match shape:
            case NotedShape():
                return self.of(shape.inner)
            case ScalarShape():
                return _SCALARS[shape.kind]
            case ChoiceShape():
                return _choice(shape)
            case ListShape():
                return _list(shape, self.of(shape.item))
            case TupleShape():
                return _tuple([self.of(item) for item in shape.items])
            case MapShape():
                return _map(self.of(shape.value))
            case UnionShape():
                return _union([(member, self.of(member)) for member in shape.members])
            case AnyShape():
                return _any
            case ObjectShape():
                return self._object(shape)

    def _object(self, shape: ObjectShape) -> Encoder:
        if id(shape) in self._made:
            return self._made[id(shape)]

        def recursive(value: Any) -> JsonValue:
            return self._made[id(shape)](value)

        self._made[id(shape)] = recursive
        parts = [(field.json_name, field.attribute, self.of(field.shape)) for field in shape.fields]
        cls, name = shape.cls, shape.name

        def encode(value: Any) -> JsonValue:
            if type(value) is not cls:
                raise _wrong(name, value)
            encoded: dict[str, JsonValue] = {}
            key = ""
            try:
                for key, attribute, part in parts:
                    encoded[key] = part(getattr(value, attribute))
            except Misfit as misfit:
                misfit.steps.append(key)
                raise
            return encoded

        self._made[id(shape)] = encode
        return encode


def _wrong(expected: str, value: object) -> Misfit:
    return Misfit(f"must be {expected}, not {type(value).__name__}")


def _clean(text: str) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise Misfit("holds a lone surrogate") from None
    return text


def _string(value: Any) -> JsonValue:
    if type(value) is not str:
        raise _wrong("str", value)
    return value if value.isascii() else _clean(value)


def _integer(value: Any) -> JsonValue:
    if type(value) is not int:
        raise _wrong("int", value)
    if not -MAX_INTEGER <= value <= MAX_INTEGER:
        raise Misfit("an integer of 2^53 or more (use a string)")
    return value


def _number(value: Any) -> JsonValue:
    if type(value) is int:
        return float(cast(int, _integer(value)))
    if type(value) is not float:
        raise _wrong("float", value)
    if not math.isfinite(value):
        raise Misfit("a number that is not finite")
    if MAX_INTEGER < abs(value) < EXPONENTS_FROM and value.is_integer():
        raise Misfit("a whole number of 2^53 or more (use a string)")
    return value


def _boolean(value: Any) -> JsonValue:
    if type(value) is not bool:
        raise _wrong("bool", value)
    return value


def _null(value: Any) -> JsonValue:
    if value is not None:
        raise _wrong("None", value)
    return None


_SCALARS: Final[dict[Kind, Encoder]] = {
    "string": _string,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "null": _null,
}


def _choice(shape: ChoiceShape) -> Encoder:
    # The type is part of the key: True is not 1, and a member of a str Enum is not its value.
    table: dict[tuple[type, object], JsonValue] = {(type(value), value): scalar for scalar, value in shape.members}

    def encode(value: Any) -> JsonValue:
        try:
            return table[type(value), value]
        except (KeyError, TypeError):
            raise Misfit(f"a {type(value).__name__} that is none of the allowed values") from None

    return encode


def _list(shape: ListShape, item: Encoder) -> Encoder:
    container = shape.container

    def encode(value: Any) -> JsonValue:
        if type(value) is not container:
            raise _wrong(container.__name__, value)
        encoded: list[JsonValue] = []
        try:
            for element in value:
                encoded.append(item(element))  # noqa: PERF401  # its length is the place of the fault
        except Misfit as misfit:
            misfit.steps.append(len(encoded))
            raise
        if container is frozenset:
            encoded.sort(key=orjson.dumps)  # a set has no order of its own
        return encoded

    return encode


def _tuple(items: list[Encoder]) -> Encoder:
    def encode(value: Any) -> JsonValue:
        if type(value) is not tuple:
            raise _wrong("tuple", value)
        elements = cast(tuple[object, ...], value)
        if len(elements) != len(items):
            raise Misfit(f"must have {len(items)} items, not {len(elements)}")
        encoded: list[JsonValue] = []
        try:
            for element, item in zip(elements, items, strict=True):
                encoded.append(item(element))
        except Misfit as misfit:
            misfit.steps.append(len(encoded))
            raise
        return encoded

    return encode


def _map(part: Encoder) -> Encoder:
    def encode(value: Any) -> JsonValue:
        if type(value) is not dict:
            raise _wrong("dict", value)
        encoded: dict[str, JsonValue] = {}
        for key, element in cast(dict[object, object], value).items():
            if type(key) is not str:
                raise Misfit(f"a key of type {type(key).__name__}")
            _clean(key)
            try:
                encoded[key] = part(element)
            except Misfit as misfit:
                misfit.steps.append(key)
                raise
        return encoded

    return encode


def _union(members: list[tuple[Shape, Encoder]]) -> Encoder:
    table: dict[type, list[Encoder]] = {}
    for shape, encode_member in members:
        for kind in _python_types(bare(shape)):
            table.setdefault(kind, []).append(encode_member)
    allowed = " or ".join("None" if kind is type(None) else kind.__name__ for kind in table)

    def encode(value: Any) -> JsonValue:
        kind = _class_of(value)
        candidates = table.get(kind)
        if candidates is None:
            raise _wrong(allowed, value)
        for candidate in candidates[:-1]:  # Literals of one type, and perhaps the type itself
            try:
                return candidate(value)
            except Misfit:
                continue
        return candidates[-1](value)

    return encode


def _python_types(shape: Shape) -> Sequence[type]:
    match shape:
        case ScalarShape():
            return _PYTHON_TYPES[shape.kind]
        case ChoiceShape():
            return tuple(dict.fromkeys(type(value) for _, value in shape.members))
        case ListShape():
            return (shape.container,)
        case TupleShape():
            return (tuple,)
        case MapShape():
            return (dict,)
        case ObjectShape():
            return (shape.cls,)
        case UnionShape() | AnyShape() | NotedShape():
            raise AssertionError("unions are flat, and JsonValue is in none")


_PYTHON_TYPES: Final[dict[Kind, Sequence[type]]] = {
    "null": (type(None),),
    "boolean": (bool,),
    "integer": (int,),
    "number": (float, int),
    "string": (str,),
}


def _any(value: Any) -> JsonValue:
    try:
        check(value)
    except InvalidJson as error:
        raise Misfit(error.problem, error.pointer or "") from None
    copy: JsonValue = orjson.loads(orjson.dumps(value))
    return copy
