"""How calls and runs ended, from their outcomes and settlements: codes and types, never details.

Decides which outcome of a tool and which end of a run is a failure, and what is only cancelled.
"""

from typing import Final

from triolet.kernel.telemetry.endings import CANCELLED, WELL, Ending, failed
from triolet.kernel.telemetry.otel import Attributes
from triolet.ports.events import RunCompleted, RunFailed, RunInterrupted, TerminalEvent
from triolet.ports.outcomes import (
    Outcome,
    ToolDefect,
    ToolFailure,
    ToolInvalidInput,
    ToolRejected,
    ToolSuccess,
    ToolUnknownOutcome,
)

OUTCOMES: Final = (ToolSuccess, ToolRejected, ToolInvalidInput, ToolFailure, ToolDefect, ToolUnknownOutcome)


def ending_of_call(outcome: Outcome) -> Ending:
    """How a call ended."""
    match outcome:
        case ToolSuccess():
            return WELL
        case ToolDefect(reason="cancelled") | ToolUnknownOutcome(reason="cancelled"):
            return CANCELLED
        case ToolFailure(type=type_):
            return failed("tool-failure", type_)
        case ToolDefect(reason=reason, type=type_):
            return failed("tool-defect", type_ or reason)
        case ToolUnknownOutcome(reason=reason):
            return failed("tool-unknown", reason)
        case ToolRejected(reason=reason) | ToolInvalidInput(reason=reason):
            return failed("tool-refused", reason)


def ending_of_run(terminal: TerminalEvent | None) -> tuple[Ending, Attributes]:
    """How an attempt at a run ended, and what else is told of that; without a terminal event it broke down."""
    match terminal:
        case None:
            return WELL, {}
        case RunCompleted():
            return WELL, {"triolet.run.status": "completed"}
        case RunFailed(failure=failure):
            told: Attributes = {"triolet.run.status": "failed"}
            if failure.dimension is not None:
                told["triolet.budget.dimension"] = failure.dimension
            return failed("run", failure.code), told
        case RunInterrupted(settlement=settlement):
            reason = settlement.reason or "cancelled"
            ending = failed("run", reason) if reason in ("crashed", "lost") else CANCELLED
            return ending, {"triolet.run.status": "aborted", "triolet.abort.reason": reason}
        case _:
            return WELL, {"triolet.run.status": "suspended"}
