"""Examples and refusals for the rows of the table that are about unknown outcomes and aborts."""

from collections.abc import Callable
from typing import Any

from tests.machine_moves import DONE, RUN, after, answer, batch, opening, permitted, running, seam
from triolet.kernel.machine import guards as g
from triolet.kernel.machine.state import ConversationState
from triolet.ports import records as r
from triolet.ports.identity import ANONYMOUS, CallId, RunId
from triolet.ports.outcomes import Outcome, ToolUnknownOutcome

FIRST, SECOND = CallId("r-1-0"), CallId("r-1-1")
UNKNOWN = r.ToolUnknown(call=FIRST, reason="crashed")
LOST = ToolUnknownOutcome(reason="crashed")
ABORT = r.AbortRequested(run=RUN, by=ANONYMOUS, reason="enough")


def resolves(call: CallId = FIRST, outcome: Outcome | None = DONE) -> r.ToolResolved:
    return r.ToolResolved(call=call, outcome=outcome, by=ANONYMOUS, reason="looked")


def started(*executions: Any, unknown: str = "wait") -> ConversationState:
    """A durable run whose first batch has a call of each class, all of them prepared."""
    calls = [f"{RUN}-1-{index}" for index in range(len(executions))]
    return after(permitted(*calls), state=running(*executions, unknown=unknown))


def doubtful() -> ConversationState:
    return after(UNKNOWN, state=started("uncertain", "uncertain"))


Made = Callable[[], ConversationState]

ROWS: dict[Any, Any] = {
    ("batch", r.ToolUnknown): (lambda: started("uncertain"), UNKNOWN, "batch"),
    ("batch", r.ToolResolved): (doubtful, resolves(), "batch"),
    ("opening", r.AbortRequested): (opening, ABORT, "opening"),
    ("seam", r.AbortRequested): (seam, ABORT, "seam"),
    ("batch", r.AbortRequested): (lambda: batch("a"), ABORT, "batch"),
    ("answered", r.AbortRequested): (answer, ABORT, "answered"),
}

REFUSALS: dict[Any, Any] = {
    g.unknown_was_possible: (
        (lambda: started("uncertain", unknown="result"), UNKNOWN),
        (lambda: running("uncertain", unknown="wait"), UNKNOWN),
        (lambda: started("uncertain"), r.ToolUnknown(call=SECOND, reason="crashed")),
        (doubtful, UNKNOWN),
        (lambda: after(resolves(), state=doubtful()), UNKNOWN),
    ),
    g.resolves_a_prepared_call: (
        (lambda: running("uncertain", unknown="wait"), resolves()),
        (lambda: started("uncertain"), resolves(SECOND)),
        (doubtful, resolves(outcome=LOST)),
        (lambda: after(resolves(), state=doubtful()), resolves()),
    ),
    g.aborts_this_run: ((seam, r.AbortRequested(run=RunId("other"), by=ANONYMOUS, reason="")),),
}

IMPOSSIBLE: tuple[tuple[Made, r.Record], ...] = (
    (doubtful, r.ToolSettled(call=FIRST, outcome=DONE)),
    (lambda: after(resolves(), state=doubtful()), r.ToolSettled(call=FIRST, outcome=LOST)),
)
"""Results that somebody would have to make up."""
