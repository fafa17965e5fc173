"""Codecs: between a Python type and strict JSON, both ways through its schema.

Decides the order of the work. In: strict JSON, then the JSON Schema, then the Python value, so that nothing is
coerced and every refusal names its place. Out: the exact run-time types, then the same JSON Schema. What a codec
accepts is what its `schema` says, with the two differences that `decoding` names. Never does any of this in part: a
refusal leaves nothing behind. (CAP-004, CAP-014, RUN-028)
"""

import abc
import functools
from typing import Any, Generic, TypeVar, cast, overload

from triolet.ports.canonical import encode as encode_canonical
from triolet.ports.canonical import encode_trusted
from triolet.ports.errors import InvalidJson, InvalidValue, UnrenderableSchema
from triolet.ports.schema.decoding import Decoders
from triolet.ports.schema.encoding import Encoders
from triolet.ports.schema.misfit import Misfit
from triolet.ports.schema.reading import read, type_name
from triolet.ports.schema.rendering import render
from triolet.ports.schema.shapes import (
    ObjectShape,
    Shape,
    UnionShape,
    bare,
    is_bounded,
    is_constrained,
    is_plain,
)
from triolet.ports.schema.straight import straight
from triolet.ports.schema.unions import tags
from triolet.ports.schema.validation import Validator
from triolet.ports.strict_json import DEFAULT_LIMITS, JsonLimits, JsonText, JsonValue, check, parse

T = TypeVar("T")


class Codec(abc.ABC, Generic[T]):
    """Decodes and encodes values of one type.

    `name` names it in errors. `schema` is its JSON Schema; it is shared, so treat it as immutable. Every method is
    pure, and raises `InvalidJson` for what is not strict JSON (a fault in the form) and `InvalidValue` for what the
    schema or the type refuses (a fault in the content); both name the places.
    """

    __slots__ = ("name", "schema")

    name: str
    schema: dict[str, JsonValue]

    @abc.abstractmethod
    def decode(self, value: JsonValue, limits: JsonLimits = DEFAULT_LIMITS) -> T:
        """The Python value that `value` stands for. It shares nothing mutable with `value`."""

    @abc.abstractmethod
    def decode_text(self, text: str | bytes, limits: JsonLimits = DEFAULT_LIMITS) -> T:
        """`decode` of the JSON document `text`."""

    @abc.abstractmethod
    def encode(self, value: T) -> JsonValue:
        """The strict JSON for `value`, in fresh containers, accepted by the schema. `decode` takes it back."""

    def encode_text(self, value: T) -> JsonText:
        """`encode` as canonical JSON (RFC 8785)."""
        return JsonText(encode_canonical(self.encode(value)).decode())

    def __repr__(self) -> str:
        return f"<Codec {self.name}>"


class _TypeCodec(Codec[T]):
    __slots__ = (
        "_bounded",
        "_by_tag",
        "_constrained",
        "_decode",
        "_encode",
        "_plain",
        "_straight",
        "_tag",
        "_validator",
    )

    def __init__(self, name: str, shape: Shape) -> None:
        self.name = name
        self.schema = render(shape)
        self._validator = Validator(self.schema, name)
        self._tag, self._by_tag = _validators_by_tag(shape)
        self._decode = Decoders().of(shape)
        self._encode = Encoders().of(shape)
        self._straight = straight(shape)
        self._bounded, self._constrained, self._plain = is_bounded(shape), is_constrained(shape), is_plain(shape)

    def decode(self, value: JsonValue, limits: JsonLimits = DEFAULT_LIMITS) -> T:
        check(value, limits)
        return self._structure(value)

    def decode_text(self, text: str | bytes, limits: JsonLimits = DEFAULT_LIMITS) -> T:
        return self._structure(parse(text, limits))

    def encode(self, value: T) -> JsonValue:
        if self._straight is None:
            return self._encode_exactly(value)
        try:
            return self._straight(value)
        except Misfit:
            # What is not plainly right may be right all the same.
            return self._encode_exactly(value)

    def encode_text(self, value: T) -> JsonText:
        if self._plain:
            return JsonText(encode_trusted(self.encode(value)).decode())
        return super().encode_text(value)

    def _encode_exactly(self, value: T) -> JsonValue:
        try:
            encoded = self._encode(value)
        except Misfit as misfit:
            raise self._refusal(misfit.pointer, misfit.problem) from None
        except RecursionError:
            raise self._refusal("", "nested too deep, or it holds itself") from None
        if not self._bounded:
            try:
                check(encoded)
            except InvalidJson as error:
                raise self._refusal(error.pointer or "", error.problem) from None
        if self._constrained:
            self._validate(encoded)
        return encoded

    def _structure(self, value: JsonValue) -> T:
        self._validate(value)
        try:
            return cast(T, self._decode(value))
        except Misfit as misfit:
            raise self._refusal(misfit.pointer, misfit.problem) from None

    def _validate(self, value: JsonValue) -> None:
        if self._tag is not None and isinstance(value, dict):
            # With many members it is much faster to ask the right one, and the refusal is about it alone.
            tag = value.get(self._tag)
            if isinstance(tag, str) and tag in self._by_tag:
                self._by_tag[tag].validate(value)
                return
        self._validator.validate(value)

    def _refusal(self, place: str, problem: str) -> InvalidValue:
        return InvalidValue(subject=self.name, violations=((place, problem),))


def _validators_by_tag(shape: Shape) -> tuple[str | None, dict[str, Validator]]:
    validators: dict[str, Validator] = {}
    if not isinstance(shape, UnionShape) or shape.tag is None:
        return None, validators
    for member in shape.members:
        if isinstance(inner := bare(member), ObjectShape):
            validator = Validator(render(inner), inner.name)
            validators.update(dict.fromkeys(tags(inner, shape.tag), validator))
    return shape.tag, validators


@overload
def codec_for(kind: type[T]) -> Codec[T]: ...
@overload
def codec_for(kind: object) -> Codec[Any]: ...
def codec_for(kind: object) -> Codec[Any]:
    """The codec of a type: an attrs class, or anything else that `reading` describes.

    Codecs are made once and kept. Raises `UnrenderableSchema`, naming the type and the way to it, if there is none.
    """
    try:
        hash(kind)
    except TypeError:
        raise UnrenderableSchema(type_name=type_name(kind), place=type_name(kind), reason="not hashable") from None
    # Types that compare equal may be written differently (A | B, B | A), and a schema follows how its type is written.
    return _made(kind, "" if isinstance(kind, type) else repr(kind))


@functools.lru_cache(maxsize=4096)
def _made(kind: object, written: str) -> Codec[Any]:
    shape = read(kind)
    return _TypeCodec(type_name(kind), shape)
