"""Which happening becomes which outcome: the one published table (TOOL-003).

====================================================================  ====================
what happened                                                         outcome
====================================================================  ====================
declared output                                                       ToolSuccess
denied, expired, over budget, forbidden                               ToolRejected
unknown name; arguments cut, not JSON, no object, not by the schema   ToolInvalidInput
declared failure type raised                                          ToolFailure
undeclared exception; output that breaks its schema                   ToolDefect
stopped before the start, or readonly, idempotent, durable            ToolDefect
stopped, or its answer lost, after an uncertain tool started          ToolUnknownOutcome
its answer lost, readonly, idempotent, durable                        ToolDefect
====================================================================  ====================

Decides by a call's execution class and how far it got; it knows no handler and no exception.
"""

from typing import Literal

from triolet.ports.messages import ToolCall
from triolet.ports.outcomes import (
    Outcome,
    ToolDefect,
    ToolInvalidInput,
    ToolRejected,
    ToolUnknownOutcome,
)
from triolet.ports.records import Dimension
from triolet.ports.tools import ExecutionClass

Stop = Literal["cancelled", "timeout", "crashed"]

_DEFECT_TEXT = {
    "truncated": "the response was cut off inside this call's batch; send it again, shorter",
    "not-json": "the arguments are not valid JSON",
    "not-object": "the arguments are valid JSON but no object",
}


def stopped(why: Stop, execution: ExecutionClass | None, *, started: bool) -> Outcome:
    """The outcome of a call that was stopped. `execution` is None where it was never decided."""
    if started and execution == "uncertain":
        return ToolUnknownOutcome(reason=why)
    effect = started and execution is not None and execution != "readonly"
    return ToolDefect(reason="cancelled" if why == "crashed" else why, effect_possible=effect)


def broken(reason: Literal["exception", "output"], type_: str | None, execution: ExecutionClass) -> Outcome:
    """The outcome of a handler that raised something undeclared, or returned what its schema refuses."""
    return ToolDefect(reason=reason, type=type_, effect_possible=execution != "readonly")


def lost(reason: Literal["timeout", "connection-lost"], type_: str, execution: ExecutionClass) -> Outcome:
    """The outcome of a handler that sent its request and will never know what became of it."""
    if execution == "uncertain":
        return ToolUnknownOutcome(reason=reason)
    if reason == "timeout":
        return stopped(reason, execution, started=True)
    return broken("exception", type_, execution)


def defective(call: ToolCall) -> ToolInvalidInput | None:
    """The outcome of a call that its response already spoilt, or None (RUN-004)."""
    if call.defect is None:
        return None
    return ToolInvalidInput(reason=call.defect.reason, detail=_DEFECT_TEXT[call.defect.reason])


def unknown_tool(name: str, near: tuple[str, ...]) -> ToolInvalidInput:
    """The outcome of a call to a tool that does not exist (F-005)."""
    return ToolInvalidInput(reason="unknown-tool", detail=f"there is no tool named {name[:80]!r}.", near=near)


def denied(why: Literal["denied", "expired"], reason: str) -> ToolRejected:
    """The outcome of a call that authority or an approver refused; the model may read the reason."""
    return ToolRejected(reason=why, detail=reason or "no reason was given")


def over_budget(limit: int) -> ToolRejected:
    """The outcome of every call of a batch that would pass the limit on tool calls (RUN-018)."""
    return ToolRejected(reason="budget", detail=f"this run may make {limit} tool calls; answer with what you have")


def used_up(dimension: Dimension) -> ToolRejected:
    """The outcome of every call of a batch whose response reached a limit: its results could not be paid for."""
    return ToolRejected(reason="budget", detail=f"this run's {dimension} are used up; answer with what you have")


FORBIDDEN = ToolRejected(reason="forbidden", detail="tools were forbidden in this turn")
"""The outcome of every call in a turn that forbids tools (RUN-020)."""
