"""Codecs for schemas that arrive as JSON: dynamic tools, MCP servers.

Decides which foreign schemas are taken: strict JSON, valid in the dialect they name, complete in themselves.
Recursion is kept as it is; a reference that leads nowhere or out of the document is refused, also where nothing
uses it, since providers refuse it as well. Never fetches anything and never rewrites a schema. (CAP-004)
"""

from collections.abc import Mapping
from typing import Any, Final, cast

import orjson

from triolet.ports.errors import InvalidJson, UnrenderableSchema
from triolet.ports.schema.codec import Codec
from triolet.ports.schema.validation import Validator
from triolet.ports.strict_json import DEFAULT_LIMITS, WHOLE_FLOATS, JsonLimits, JsonValue, check, parse, survey


def raw_codec(schema: Mapping[str, JsonValue], name: str) -> Codec[JsonValue]:
    """A codec that validates against `schema` and leaves JSON as it is.

    The schema is copied. Raises `UnrenderableSchema` if it is not valid, not complete in itself, or has a pattern
    that needs more than linear time.
    """
    return _RawCodec(schema, name)


class _RawCodec(Codec[JsonValue]):
    __slots__ = ("_exact", "_validator")

    def __init__(self, schema: Mapping[str, JsonValue], name: str) -> None:
        self.name = name
        self.schema = _copied(schema, name)
        self._validator = Validator(self.schema, name)
        _refuse_dangling(self.schema, name)
        self._exact: Validator | None = None

    def decode(self, value: JsonValue, limits: JsonLimits = DEFAULT_LIMITS) -> JsonValue:
        self._validate(value, survey(value, limits))
        copy: JsonValue = orjson.loads(orjson.dumps(value))
        return copy

    def decode_text(self, text: str | bytes, limits: JsonLimits = DEFAULT_LIMITS) -> JsonValue:
        value = parse(text, limits)
        self._validate(value, survey(value, limits))
        return value

    def encode(self, value: JsonValue) -> JsonValue:
        return self.decode(value)

    def _validate(self, value: JsonValue, traits: int) -> None:
        self._validator.validate(value)
        if traits & WHOLE_FLOATS:
            # JSON Schema takes 5.0 for an integer. Asking in Python costs more, so only such a document pays for it.
            if self._exact is None:
                self._exact = Validator(self.schema, self.name, keywords={"type": _ExactType})
            self._exact.validate(value)


class _ExactType:
    """The keyword ``type``, except that 5.0 is a number and not an integer."""

    def __init__(self, parent_schema: dict[str, Any], value: Any, schema_path: list[str | int]) -> None:
        names = cast(list[str], value if isinstance(value, list) else [value])
        self._types = tuple(kind for name in names for kind in _PYTHON_TYPES[name])
        self._problem = f"must be {' or '.join(names)} (an integer has no fraction or exponent)"

    def validate(self, instance: Any) -> None:
        if type(instance) not in self._types:
            raise ValueError(self._problem)


_PYTHON_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "array": (list,),
    "boolean": (bool,),
    "integer": (int,),
    "null": (type(None),),
    "number": (int, float),
    "object": (dict,),
    "string": (str,),
}


def _copied(schema: Mapping[str, JsonValue], name: str) -> dict[str, JsonValue]:
    plain = dict(schema)
    try:
        check(plain)
    except InvalidJson as error:
        place = error.pointer or "its top"
        raise UnrenderableSchema(type_name=name, place=place, reason=error.problem) from None
    copy: dict[str, JsonValue] = orjson.loads(orjson.dumps(plain))
    return copy


def _refuse_dangling(schema: dict[str, JsonValue], name: str) -> None:
    """Refuse references that compiling does not look at because nothing leads to the definition that holds them."""
    used: list[JsonValue] = []
    for group in ("$defs", "definitions"):
        if isinstance(definitions := schema.get(group), dict):
            used.extend({"$ref": f"#/{group}/{_as_fragment(key)}"} for key in definitions)
    if used:
        present = schema.get("allOf", [])
        Validator({**schema, "allOf": [*(present if isinstance(present, list) else []), *used]}, name)


def _as_fragment(key: str) -> str:
    escaped = key.replace("~", "~0").replace("/", "~1").encode()
    return "".join(chr(byte) if chr(byte).isalnum() and byte < 128 else f"%{byte:02X}" for byte in escaped)
