"""Checking a JSON value against a JSON Schema.

Decides how a schema is compiled: in the dialect that it names, fetching nothing, with patterns that run in linear
time. What it refuses is told in the words of `violations`. Never decodes. (CAP-004)
"""

from collections.abc import Mapping
from typing import Any, Final, NoReturn, Protocol, cast

import jsonschema_rs

from triolet.ports.errors import InvalidValue, UnrenderableSchema
from triolet.ports.json_pointer import pointer
from triolet.ports.schema.violations import fault_of_schema, violations
from triolet.ports.strict_json import JsonValue

_LISTED: Final = 1000
"""How many violations are looked at: a hostile document must not hold its reader."""


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

    __slots__ = ("_engine", "_is_valid", "_subject")

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

    def validate(self, value: JsonValue) -> None:
        """Return if the schema accepts `value`, which must be strict JSON. Raises `InvalidValue`."""
        if not self._is_valid(value):
            found = violations(self._engine.iter_errors(value), limit=_LISTED)
            raise InvalidValue(subject=self._subject, violations=found)


def _fetch_nothing(uri: str) -> NoReturn:
    raise LookupError("a schema may refer to its own definitions only")
