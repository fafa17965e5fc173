"""The literal table: every row can be used, every guard can refuse, and nothing outside it is ever applied."""

from collections.abc import Callable
from typing import Any, cast, get_args

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import catalogue_examples, context_examples, recovery_examples
from tests.machine_moves import (
    AT,
    BROKE,
    DONE,
    RUN,
    SPENT,
    after,
    answer,
    answered,
    batch,
    changed,
    decided,
    idle,
    judged,
    limits,
    message,
    opened,
    opening,
    permitted,
    requested,
    responded,
    running,
    seam,
)
from tests.record_values import values_of
from tests.test_approval_machine import ILLEGAL
from triolet.kernel.machine import guards as g
from triolet.kernel.machine.advance import IllegalRecord, advance
from triolet.kernel.machine.state import NEW, ConversationState, Phase
from triolet.kernel.machine.table import TABLE, legal
from triolet.ports import records as r
from triolet.ports.errors import Corrupt
from triolet.ports.identity import CallId, ConversationId, Epoch, InputId, RunId, TenantId
from triolet.ports.messages import Text
from triolet.ports.outcomes import ToolFailure, ToolRejected, ToolSuccess, ToolUnknownOutcome
from triolet.ports.records import Record
from triolet.ports.strict_json import JsonText
from triolet.ports.usage import UsageTotals

FIRST, SECOND, THIRD = CallId("r-1-0"), CallId("r-1-1"), CallId("r-1-2")
CREATED = r.ConversationCreated(conversation=ConversationId("c"), tenant=TenantId("t"))
[STARTED, *_] = decided(idle(), requested())
ONCE = UsageTotals().plus(SPENT)


def owned(epoch: int = 1) -> r.AttemptStarted:
    return r.AttemptStarted(epoch=Epoch(epoch))


def taken(source: Any = "user") -> r.InputTaken:
    return r.InputTaken(id=InputId("i"), source=source, author="a", offered_at=AT, parts=(Text(text="x"),))


def responds(*names: str, **fields: Any) -> Record:
    [record, *_] = decided(seam(), responded(*names))
    return changed(record, **fields)


def interrupted(**fields: Any) -> Record:
    given: dict[str, Any] = {"turn": 1, "attempt": 1, "model": "m", "reason": "cancelled", "text": "", "usage": SPENT}
    return r.ModelInterrupted(**{**given, **fields})


def decides(*rows: tuple[CallId, Any], turn: int = 1) -> r.CallsDecided:
    runnable = tuple(r.RunnableCall(call=call, execution=execution) for call, execution in rows)
    return r.CallsDecided(turn=turn, runnable=runnable)


def prepares(*calls: CallId) -> r.ToolPrepared:
    return r.ToolPrepared(calls=calls)


def settles(call: CallId, outcome: Any = BROKE) -> r.ToolSettled:
    return r.ToolSettled(call=call, outcome=outcome)


def step(call: CallId = FIRST, name: str = "s") -> r.StepSettled:
    return r.StepSettled(call=call, name=name, value=JsonText("1"))


def ends(status: Any = "aborted", **fields: Any) -> r.RunSettled:
    given: dict[str, Any] = {"run": RUN, "status": status, "usage": UsageTotals(), "turns": 0}
    if status == "aborted":
        given["reason"] = "lost"
    if status == "completed":
        given.update(finish="stop", output=JsonText('"x"'), usage=ONCE, turns=1)
    if status == "failed":
        given["failure"] = r.RunFailure(code="denied", detail="no")
    return r.RunSettled(**{**given, **fields})


def prepared(*executions: Any) -> ConversationState:
    """All of these calls are on record as started."""
    calls = [f"r-1-{index}" for index in range(len(executions))]
    return after(permitted(*calls), state=running(*executions))


def grace() -> ConversationState:
    """A run of one turn, which was used up by a call."""
    return after(judged({FIRST: BROKE}), state=batch("a", limits=limits(max_turns=1)))


def grace_answered() -> ConversationState:
    return after(responded(turn=2), state=grace())


# One example for each row: a state of its phase, a record of its family, and the phase that it leads to.
Row = tuple[Callable[[], ConversationState], Record, Phase]
ROWS: dict[tuple[Phase, type[Record]], Row] = {
    ("new", r.ConversationCreated): (lambda: NEW, CREATED, "idle"),
    ("idle", r.RunStarted): (idle, STARTED, "opening"),
    ("opening", r.AttemptStarted): (opening, owned(), "opening"),
    ("opening", r.InputTaken): (lambda: after(owned(), state=opening()), taken(), "seam"),
    ("opening", r.RunSettled): (opening, ends(), "idle"),
    ("seam", r.AttemptStarted): (seam, owned(2), "seam"),
    ("seam", r.InputTaken): (seam, taken("steering"), "seam"),
    ("seam", r.ModelResponded): (seam, responds("a"), "batch"),
    ("seam", r.ModelInterrupted): (seam, interrupted(), "seam"),
    ("seam", r.RunSettled): (seam, ends(), "idle"),
    ("batch", r.AttemptStarted): (lambda: running("uncertain"), owned(2), "batch"),
    ("batch", r.CallsDecided): (lambda: batch("a"), decides((FIRST, "readonly")), "batch"),
    ("batch", r.ToolPrepared): (lambda: running("uncertain"), prepares(FIRST), "batch"),
    ("batch", r.StepSettled): (lambda: prepared("durable"), step(), "batch"),
    ("batch", r.ToolSettled): (lambda: batch("a", "b"), settles(FIRST), "batch"),
    ("answered", r.AttemptStarted): (answer, owned(2), "answered"),
    ("answered", r.InputTaken): (answer, taken("follow-up"), "seam"),
    ("answered", r.RunSettled): (answer, ends("completed"), "idle"),
    **catalogue_examples.ROWS,
    **context_examples.ROWS,
    **recovery_examples.ROWS,
}


# The rows of approval and grants have their examples and refusals in test_approval_machine.
ASKING = (r.ApprovalRequested, r.ApprovalDecided, r.GrantGiven, r.GrantRevoked)


def test_the_examples_cover_the_table() -> None:
    assert ROWS.keys() == {(phase, family) for phase, family in TABLE if family not in ASKING}


@pytest.mark.parametrize("row", ROWS.values(), ids=[f"{phase}-{family.kind}" for phase, family in ROWS])
def test_every_row_can_be_used(row: Row) -> None:
    make, record, leads_to = row
    state = make()
    assert legal(state, record) is None
    then = advance(state, record)
    assert then.phase == leads_to
    assert then.sequence == state.sequence + 1


@pytest.mark.parametrize(
    ("state", "record", "phase"),
    [
        (seam(), responds(), "answered"),
        (batch("a"), settles(FIRST), "seam"),
        (prepared("uncertain"), settles(FIRST, DONE), "seam"),
        (answer(), taken("correction"), "seam"),
        (answer(), ends("failed", usage=ONCE, turns=1), "idle"),
        (after(owned(), state=opening()), taken("joined"), "seam"),
        (grace(), responds(turn=2), "answered"),
    ],
)
def test_the_other_way_through_a_row(state: ConversationState, record: Record, phase: Phase) -> None:
    assert advance(state, record).phase == phase


def batch_over_budget() -> ConversationState:
    """Two calls where one is allowed, in a log whose writer forgot to refuse them."""
    return after(responds("a", "b"), state=seam(limits=limits(max_tool_calls=1)))


def batch_in_grace() -> ConversationState:
    """A call in the grace turn, in a log whose writer forgot to refuse it."""
    return after(responds(turn=2, message=message("a", turn=2)), state=grace())


# One or more refusals for each guard of the table.
Refusal = tuple[Callable[[], ConversationState], Record]
REFUSALS: dict[g.Guard, tuple[Refusal, ...]] = {
    g.newer_epoch: (
        (seam, owned(1)),
        (seam, owned(0)),
        (lambda: after(owned(7), ends(), STARTED, state=opening()), owned(6)),
        (answer, owned(1)),
        (lambda: batch("a"), owned(1)),
    ),
    g.owned: ((opening, taken()),),
    g.opens_a_run: tuple(
        (lambda: after(owned(), state=opening()), taken(source)) for source in ("steering", "follow-up", "correction")
    ),
    g.enters_at_a_seam: tuple((seam, taken(source)) for source in ("correction", "follow-up", "user")),
    g.continues_a_run: ((answer, taken("user")),),
    g.same_run: (
        (seam, ends(run=RunId("other"))),
        (seam, ends(turns=1)),
        (seam, ends(usage=ONCE)),
        (answer, ends("completed", usage=UsageTotals())),
    ),
    g.not_completed: ((seam, ends("completed", usage=UsageTotals(), turns=0)),),
    g.finish_is_honest: (
        (answer, ends("completed", output=None)),
        (answer, ends("completed", finish="budget-exhausted")),
        (answer, ends("completed", finish="budget-exhausted", exhausted="turns")),
        (answer, ends("completed", exhausted="turns")),
        (grace_answered, ends("completed", usage=ONCE.plus(SPENT), turns=2)),
        (grace_answered, ends("completed", usage=ONCE.plus(SPENT), turns=2, finish="budget-exhausted")),
        (
            grace_answered,
            ends("completed", usage=ONCE.plus(SPENT), turns=2, finish="budget-exhausted", exhausted="tool-calls"),
        ),
    ),
    g.next_turn: ((seam, responds(turn=2)), (seam, responds(turn=0)), (seam, interrupted(turn=2))),
    g.within_turns: (
        (
            lambda: after(judged({FIRST: BROKE}), state=batch("a", limits=limits(max_turns=1, exhaustion="fail"))),
            responds(turn=2),
        ),
        (lambda: after(taken("follow-up"), state=grace_answered()), responds(turn=3)),
        (lambda: after(taken("follow-up"), state=grace_answered()), interrupted(turn=3)),
    ),
    g.next_attempt: (
        (seam, responds(attempt=2)),
        (seam, interrupted(attempt=0)),
        (lambda: after(interrupted(), state=seam()), responds(attempt=1)),
    ),
    g.own_call_ids: (
        (seam, responds(message=message("a", "b", turn=2))),
        (seam, responds(message=message("a", run="other"))),
    ),
    g.undecided: (
        (lambda: running("readonly"), decides((FIRST, "readonly"))),
        (lambda: batch("a"), decides((FIRST, "readonly"), turn=2)),
        (lambda: batch("a"), decides(turn=2)),
    ),
    g.tools_allowed: (
        (batch_over_budget, decides((FIRST, "readonly"))),
        (batch_in_grace, decides((CallId("r-2-0"), "readonly"), turn=2)),
    ),
    g.decides_open_calls: (
        (lambda: batch("a"), decides((SECOND, "readonly"))),
        (lambda: batch("a", "b"), decides((FIRST, "readonly"), (FIRST, "readonly"))),
        (lambda: batch("!a"), decides((FIRST, "readonly"))),
        (lambda: after(settles(FIRST), state=batch("a", "b")), decides((FIRST, "readonly"))),
    ),
    g.runnable_unprepared: (
        (lambda: running("uncertain"), prepares()),
        (lambda: running("uncertain"), prepares(SECOND)),
        (lambda: running("readonly"), prepares(FIRST)),
        (lambda: running("uncertain"), prepares(FIRST, FIRST)),
        (lambda: prepared("uncertain"), prepares(FIRST)),
        (lambda: batch("a"), prepares(FIRST)),
        (lambda: after(settles(FIRST), state=running("uncertain", "uncertain")), prepares(FIRST)),
    ),
    g.new_step_of_running_call: (
        (lambda: running("durable"), step()),
        (lambda: prepared("idempotent"), step()),
        (lambda: prepared("durable"), step(SECOND)),
        (lambda: after(step(), state=prepared("durable")), step()),
        (lambda: after(settles(FIRST, DONE), state=prepared("durable", "durable")), step(FIRST)),
        (lambda: batch("a"), step()),
    ),
    g.first_open_call: (
        (lambda: batch("a", "b"), settles(SECOND)),
        (lambda: after(settles(FIRST), state=batch("a", "b")), settles(FIRST)),
        (lambda: batch("a"), settles(CallId("r-2-0"))),
    ),
    g.outcome_was_possible: tuple(
        (make, settles(FIRST, outcome))
        for make in (lambda: batch("a"), lambda: running("uncertain"), lambda: running("durable"))
        for outcome in (
            ToolSuccess(output=JsonText("1")),
            ToolFailure(type="Full", payload=JsonText("{}")),
            ToolUnknownOutcome(reason="cancelled"),
        )
    ),
    **catalogue_examples.REFUSALS,
    **context_examples.REFUSALS,
    **recovery_examples.REFUSALS,
}


def test_every_guard_of_the_table_has_a_refusal() -> None:
    approval = {
        guard
        for state, record, _ in ILLEGAL
        if (state.phase, type(record)) in TABLE
        for guard in TABLE[state.phase, type(record)].guards
        if guard(state, record) is not None
    }
    assert {guard for move in TABLE.values() for guard in move.guards} == REFUSALS.keys() | approval


@pytest.mark.parametrize(
    ("guard", "make", "record"),
    [
        pytest.param(guard, *refusal, id=f"{guard.__name__}-{number}")
        for guard, refusals in REFUSALS.items()
        for number, refusal in enumerate(refusals)
    ],
)
def test_every_guard_can_refuse(guard: g.Guard, make: Callable[[], ConversationState], record: Record) -> None:
    state = make()
    # By the table, and by this guard, not by one that stands before it.
    row = TABLE[state.phase, type(record)]
    refusing = [other for other in row.guards if other(state, record) is not None]
    assert refusing[0] is guard
    problem = legal(state, record)
    assert problem is not None
    assert problem.endswith(str(guard(state, record)))
    assert len(problem) < 200
    _is_refused(state, record)


PHASES: dict[Phase, Callable[[], ConversationState]] = {
    "new": lambda: NEW,
    "idle": idle,
    "opening": opening,
    "seam": seam,
    "batch": lambda: prepared("durable"),
    "answered": answer,
}


def test_there_is_an_example_of_each_phase() -> None:
    assert PHASES.keys() == set(get_args(Phase))
    assert all(make().phase == phase for phase, make in PHASES.items())


@pytest.mark.parametrize("family", r.RECORD_TYPES, ids=lambda family: family.kind)
@settings(max_examples=3)
@given(data=st.data())
def test_a_family_is_refused_where_it_has_no_row(family: type[Record], data: st.DataObject) -> None:
    record = data.draw(values_of(cast("Any", family)))
    for phase, make in PHASES.items():
        if (phase, family) not in TABLE:
            state = make()
            assert legal(state, record) == f"{family.kind} has no place in phase {phase}"
            _is_refused(state, record)


def test_a_run_may_go_on_after_one_that_ended() -> None:
    state = after(answered(), state=answer())
    assert state.phase == "idle"
    assert state.run is None
    again = after(requested("second"), responded(run="second"), answered(), state=state)
    assert len(again.history) == 4


def test_only_a_rejection_for_budget_notes_the_limit() -> None:
    refused = ToolRejected(reason="budget", detail="")
    spent = after(settles(FIRST, refused), state=batch("a"))
    assert spent.run is not None
    assert spent.run.exhausted == "tool-calls"
    denied = after(settles(FIRST, ToolRejected(reason="denied", detail="")), state=batch("a"))
    assert denied.run is not None
    assert denied.run.exhausted is None


def test_conversation_opened_twice_is_refused() -> None:
    _is_refused(after(opened()), CREATED)


def _is_refused(state: ConversationState, record: Record) -> None:
    messages = tuple(state.history)
    copy = attrs.asdict(state, recurse=False)
    with pytest.raises(IllegalRecord) as caught:
        advance(state, record)
    assert isinstance(caught.value, Corrupt)
    assert caught.value.sequence == state.sequence + 1
    assert caught.value.kind == record.kind
    assert attrs.asdict(state, recurse=False) == copy
    assert tuple(state.history) == messages
