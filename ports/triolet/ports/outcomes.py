"""The six ways in which a tool call can end, and the text of each that a model reads (TOOL-003).

Decides the vocabulary only. Which happening becomes which outcome is one table in the kernel. An outcome
never holds an exception, a traceback or the text of one: a defect names a type and nothing else.
"""

from typing import Literal

import attrs

from triolet.ports.identity import CallId
from triolet.ports.strict_json import JsonText


@attrs.frozen(kw_only=True, weakref_slot=False)
class ToolSuccess:
    """The declared output, encoded by the tool's schema, redacted and bounded.

    `size` is the encoded size in bytes before it was cut to the run's bound, or None where nothing was cut.
    When it was cut, `output` is an envelope with `head`, `tail`, `size`, and `artifact`: the handle by which the whole
    value can be had, or null where nobody kept it (RUN-022).
    """

    kind: Literal["success"] = "success"
    output: JsonText
    size: int | None = None


@attrs.frozen(kw_only=True, weakref_slot=False)
class ToolRejected:
    """Policy, approval or budget said no. The handler did not start."""

    kind: Literal["rejected"] = "rejected"
    reason: Literal["denied", "expired", "budget", "forbidden"]
    detail: str


@attrs.frozen(kw_only=True, weakref_slot=False)
class ToolInvalidInput:
    """The call could not be understood: no such tool, arguments cut, not JSON, or not as the schema says."""

    kind: Literal["invalid-input"] = "invalid-input"
    reason: Literal["unknown-tool", "truncated", "not-json", "not-object", "schema"]
    detail: str
    near: tuple[str, ...] = ()


@attrs.frozen(kw_only=True, weakref_slot=False)
class ToolFailure:
    """The handler raised one of its declared failures; `payload` is that failure, encoded by its schema."""

    kind: Literal["failure"] = "failure"
    type: str
    payload: JsonText


@attrs.frozen(kw_only=True, weakref_slot=False)
class ToolDefect:
    """The handler broke its contract or was stopped, and what it may have done is bounded by its class.

    `type` names an exception's class. `effect_possible` says whether the handler had started and is not
    readonly.
    """

    kind: Literal["defect"] = "defect"
    reason: Literal["exception", "output", "cancelled", "timeout"]
    type: str | None = None
    effect_possible: bool


UnknownReason = Literal["cancelled", "timeout", "crashed", "connection-lost"]
"""Why nobody knows: the call was stopped, its time was up, its process went, or the line to its server did."""


@attrs.frozen(kw_only=True, weakref_slot=False)
class ToolUnknownOutcome:
    """An effect outside may have happened, and nobody recorded whether it did."""

    kind: Literal["unknown"] = "unknown"
    reason: UnknownReason


@attrs.frozen(kw_only=True, weakref_slot=False)
class UnknownCall:
    """A call that waits for somebody to say what became of it (DUR-017)."""

    call: CallId
    tool: str
    reason: UnknownReason


Outcome = ToolSuccess | ToolRejected | ToolInvalidInput | ToolFailure | ToolDefect | ToolUnknownOutcome


def outcome_text(outcome: Outcome) -> str:
    """What a model reads as a call's result. Every adapter shows this text and no other."""
    match outcome:
        case ToolSuccess(output=output):
            return output
        case ToolRejected(reason=reason, detail=detail):
            return f"Not run ({reason}): {detail}"
        case ToolInvalidInput(detail=detail, near=near):
            hint = f" Did you mean {', '.join(near)}?" if near else ""
            return f"Not run (invalid input): {detail}{hint}"
        case ToolFailure(type=type_, payload=payload):
            return f"Failed ({type_}): {payload}"
        case ToolDefect(reason=reason, effect_possible=effect):
            tail = " It may have had an effect." if effect else ""
            return f"The tool broke down ({reason}).{tail}"
        case ToolUnknownOutcome(reason=reason):
            return f"Outcome unknown ({reason}): the effect may or may not have happened. Do not simply repeat it."


def is_error(outcome: Outcome) -> bool:
    """Whether a provider that tells failed results apart should mark this one."""
    return not isinstance(outcome, ToolSuccess)
