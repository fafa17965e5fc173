"""Settling what a handler returned or raised: encode, redact, bound.

Decides the outcome of a handler that ended by itself, in the pipeline's order: the schema first, then the tool's
redaction, then the run's bound (TOOL-002, RUN-022). An exception's text never enters an outcome.
"""

from typing import Any, Final

import attrs

from triolet.kernel.machine.outcome_table import broken
from triolet.kernel.pipeline.repair import repaired
from triolet.ports.canonical import encode_text
from triolet.ports.errors import InvalidJson, InvalidValue
from triolet.ports.outcomes import Outcome, ToolFailure, ToolSuccess
from triolet.ports.schema import Codec
from triolet.ports.strict_json import JsonText, JsonValue, check
from triolet.ports.tools import Tool

_ENVELOPE_OVERHEAD: Final = 128
_NUL: Final = "\\u0000"


def settle_output(tool: Tool[Any, Any], output: object, limit: int) -> Outcome:
    """The outcome of a handler that returned `output`; an encoding of more than `limit` bytes is cut."""
    try:
        text = _encoded(tool, tool.output, output)
    except (InvalidJson, InvalidValue) as error:
        return broken("output", type(error).__name__, tool.execution)
    return _bounded(text, limit)


def settle_exception(tool: Tool[Any, Any], error: Exception, limit: int) -> Outcome:
    """The outcome of a handler that raised: its declared failure, or a defect that names a type only."""
    failure = _declared(tool, error)
    if failure is not None:
        try:
            payload = _encoded(tool, tool.failures[failure], _as(failure, error))
            return ToolFailure(type=failure.__name__, payload=_bounded(payload, limit).output)
        except Exception:  # noqa: BLE001 -- its fields, or the tool's redaction: either way nothing of it is seen
            return broken("exception", type(error).__name__[:100], tool.execution)
    return broken("exception", type(error).__name__[:100], tool.execution)


def _declared(tool: Tool[Any, Any], error: Exception) -> type[Exception] | None:
    if type(error) in tool.failures:
        return type(error)
    return next((failure for failure in tool.failures if isinstance(error, failure)), None)


def _as(failure: type[Any], error: Exception) -> object:
    # A subclass of what was declared is that failure, seen through its declared fields only.
    if type(error) is failure:
        return error
    fields = attrs.fields(failure)
    return failure(**{field.alias: getattr(error, field.name) for field in fields if field.init})


def _encoded(tool: Tool[Any, Any], codec: Codec[Any], value: object) -> JsonText:
    try:
        encoded = codec.encode(value)
    except (InvalidJson, InvalidValue):
        # Broken text is not the handler's fault: what it read outside may be anything. Every other fault stays.
        encoded = codec.encode(repaired(value))
    if tool.redact is not None:
        encoded = tool.redact(encoded)
        check(encoded)
    text = encode_text(encoded)
    return encode_text(repaired(encoded)) if _NUL in text else text


def _bounded(text: JsonText, limit: int) -> ToolSuccess:
    if len(text) <= limit and (text.isascii() or len(text.encode()) <= limit):
        return ToolSuccess(output=text)
    data = text.encode()
    # Escaping can double a byte inside the envelope, so each half gets a quarter of what is left.
    share = max(0, limit - _ENVELOPE_OVERHEAD) // 4
    # Cutting inside a character drops that character, it never breaks it.
    head = data[:share].decode(errors="ignore")
    tail = data[len(data) - share :].decode(errors="ignore")
    envelope: JsonValue = {"cut": True, "head": head, "size": len(data), "tail": tail}
    return ToolSuccess(output=encode_text(envelope), size=len(data))
