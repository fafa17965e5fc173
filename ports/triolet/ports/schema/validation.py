"""Checking a JSON value against a JSON Schema.

Decides how a schema is compiled: in the dialect that it names, fetching nothing, with patterns that run in linear
time. What it refuses is told in the words of `violations`. Never decodes. (CAP-004)
"""

from collections.abc import Mapping
from typing import Any, Final, NoReturn, Protocol, cast

import jsonschema_rs
import orjson

from triolet.ports.errors import InvalidValue, UnrenderableSchema
from triolet.ports.json_pointer import pointer
from triolet.ports.schema.violations import Violation, fault_of_schema, violations
from triolet.ports.strict_json import JsonValue

EXPLAINED: Final = 20_000
"""Up to how many values a refused document may have for every violation to be listed (about 20 µs each)."""


class Keyword(Protocol):
    """How a JSON Schema keyword checks a value: `validate` raises `ValueError` with a text that holds no value."""

    def __init__(self, parent_schema: dict[str, Any], value: Any, schema_path: list[str | int]) -> None: ...

    def validate(self, instance: Any) -> None:
        """Refuse `instance` with a `ValueError`."""


class Validator:
    """A compiled JSON Schema. `subject` names it in errors; `keywords` replaces built-in keywords.

    Raises `UnrenderableSchema` for a schema that is not valid, has a reference that leads nowhere or out of the
    document, or has a pattern that needs more than linear time.
    """

    __slots__ = ("_engine", "_has_unions", "_is_valid", "_subject")

    def __init__(
        self, schema: Mapping[str, JsonValue], subject: str, keywords: dict[str, type[Keyword]] | None = None
    ) -> None:
        self._subject = subject
        try:
            self._engine = jsonschema_rs.validator_for(
                cast(dict[str, Any], schema),
                retriever=_fetch_nothing,
                pattern_options=jsonschema_rs.RegexOptions(),
                keywords=cast(Any, keywords),
            )
        except jsonschema_rs.ValidationError as error:
            place = pointer(error.instance_path) or "its top"
            raise UnrenderableSchema(type_name=subject, place=place, reason=fault_of_schema(error)) from None
        self._is_valid = self._engine.is_valid
        text = orjson.dumps(schema)
        self._has_unions = b'"anyOf"' in text or b'"oneOf"' in text

    def validate(self, value: JsonValue) -> None:
        """Return if the schema accepts `value`, which must be strict JSON. Raises `InvalidValue`."""
        if not self._is_valid(value):
            raise InvalidValue(subject=self._subject, violations=self._violations(value))

    def _violations(self, value: JsonValue) -> tuple[Violation, ...]:
        # Before it tells the first violation the engine collects all of them, and all those of every member of a union.
        # In a huge document that takes seconds: there only the first is asked for, or none if there are unions.
        if not _is_larger(value, EXPLAINED):
            return violations(self._engine.iter_errors(value))
        if self._has_unions:
            return (("", f"is refused; with more than {EXPLAINED} values it is too large to say where"),)
        try:
            self._engine.validate(value)
        except jsonschema_rs.ValidationError as error:
            return violations([error])
        raise AssertionError("a schema gave two answers")


def _is_larger(value: JsonValue, most: int) -> bool:
    waiting, count = [value], 0
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict | list):
            count += len(node)
            if count > most:
                return True
            waiting.extend(node.values() if isinstance(node, dict) else node)
    return False


def _fetch_nothing(uri: str) -> NoReturn:
    raise LookupError("a schema may refer to its own definitions only")
