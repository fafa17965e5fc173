"""Settling what a handler returned or raised: encode, then redact.

Decides the outcome of a handler that ended by itself, in the pipeline's order: the schema first, then the tool's
redaction (TOOL-002). An exception's text never enters an outcome. How large it may be is the next stage's.
"""

from typing import Any, Final

import attrs

from triolet.kernel.machine.outcome_table import broken, lost
from triolet.kernel.pipeline.repair import repaired
from triolet.ports.canonical import encode_text
from triolet.ports.errors import InvalidJson, InvalidValue
from triolet.ports.outcomes import Outcome, ToolFailure, ToolSuccess
from triolet.ports.schema import Codec
from triolet.ports.strict_json import JsonText, check
from triolet.ports.tool_context import OutcomeUnknown
from triolet.ports.tools import Tool

_NUL: Final = "\\u0000"


def settle_output(tool: Tool[Any, Any], output: object) -> Outcome:
    """The outcome of a handler that returned `output`."""
    try:
        return ToolSuccess(output=_encoded(tool, tool.output, output))
    except (InvalidJson, InvalidValue) as error:
        return broken("output", type(error).__name__, tool.execution)


def settle_exception(tool: Tool[Any, Any], error: Exception) -> Outcome:
    """The outcome of a handler that raised: its declared failure, a lost answer, or a defect that names a type only."""
    failure = _declared(tool, error)
    if failure is not None:
        try:
            payload = _encoded(tool, tool.failures[failure], _as(failure, error))
            return ToolFailure(type=failure.__name__, payload=payload)
        except Exception:  # noqa: BLE001 -- its fields, or the tool's redaction: either way nothing of it is seen
            return broken("exception", type(error).__name__[:100], tool.execution)
    if isinstance(error, OutcomeUnknown):
        return lost(error.reason, type(error).__name__[:100], tool.execution)
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
