"""The guards that the table of legal moves names.

Each decides one condition on a state and a record, and answers None or what is wrong, without content. A guard
never changes anything and never looks at time.
"""

from collections.abc import Callable
from typing import Any

from triolet.kernel.machine.state import CallBatch, ConversationState, RunState
from triolet.ports.approval import request_id
from triolet.ports.identity import call_id
from triolet.ports.outcomes import ToolFailure, ToolSuccess, ToolUnknownOutcome
from triolet.ports.records import (
    AbortRequested,
    ApprovalDecided,
    ApprovalRequested,
    AttemptStarted,
    BudgetReached,
    BudgetWarned,
    CallsDecided,
    CompactionCreated,
    CompactionFailed,
    GrantGiven,
    GrantRevoked,
    InputTaken,
    ModelInterrupted,
    ModelResponded,
    OverflowRetried,
    RunSettled,
    StepSettled,
    ToolCatalogueChanged,
    ToolPrepared,
    ToolResolved,
    ToolSettled,
    ToolUnknown,
)

Guard = Callable[[ConversationState, Any], str | None]


def open_run(state: ConversationState) -> RunState:
    """The open run; every phase but `new` and `idle` has one."""
    if state.run is None:
        raise AssertionError(f"phase {state.phase} without a run")
    return state.run


def open_batch(state: ConversationState) -> CallBatch:
    """The open call batch; phase `batch` always has one."""
    batch = open_run(state).batch
    if batch is None:
        raise AssertionError(f"phase {state.phase} without a batch")
    return batch


def newer_epoch(state: ConversationState, record: AttemptStarted) -> str | None:
    """Ownership only moves on (DUR-006). One owner may start several runs, but attempts each of them once."""
    owner = open_run(state).epoch
    if owner is None:
        return None if record.epoch >= state.epoch else f"epoch {record.epoch} is below {state.epoch}"
    return None if record.epoch > owner else f"epoch {record.epoch} is not above {owner}"


def owned(state: ConversationState, _: InputTaken) -> str | None:
    """Nothing enters a run that no attempt owns."""
    return None if open_run(state).epoch is not None else "no attempt owns the run"


def opens_a_run(_: ConversationState, record: InputTaken) -> str | None:
    """A run begins with somebody's input."""
    return None if record.source in ("user", "joined") else f"{record.source} input cannot open a run"


def enters_at_a_seam(_: ConversationState, record: InputTaken) -> str | None:
    """Steering and joined input enter before a request; anything else needs an answer (RUN-014, RUN-015)."""
    return None if record.source in ("steering", "joined") else f"{record.source} input does not enter here"


def continues_a_run(_: ConversationState, record: InputTaken) -> str | None:
    """What keeps a run from stopping that otherwise would: anything but a second opening (RUN-015)."""
    return "user input opens a run, it does not continue one" if record.source == "user" else None


def same_run(state: ConversationState, record: RunSettled) -> str | None:
    """A settlement is the open run's own, with that run's sums."""
    run = open_run(state)
    if record.run != run.started.run:
        return "it settles another run"
    return None if record.usage == run.usage and record.turns == run.turn else "its sums are not the run's"


def not_completed(_: ConversationState, record: RunSettled) -> str | None:
    """Only an answered run completes."""
    return "there is no answer to complete with" if record.status == "completed" else None


def finish_is_honest(state: ConversationState, record: RunSettled) -> str | None:
    """Exhaustion never looks like success, nor success like exhaustion (RUN-011)."""
    if record.status != "completed":
        return None
    run = open_run(state)
    if record.output is None:
        return "a completed run has an output"
    over = run.exhausted or ("turns" if run.grace_used else None)
    if record.exhausted != over or (record.finish == "budget-exhausted") != (over is not None):
        return "its finish does not say which limit ended the run"
    if record.disposition is not None and record.finish != "stop":
        return "only an ordinary completion has a disposition"
    return None


def next_turn(state: ConversationState, record: ModelResponded | ModelInterrupted) -> str | None:
    """Turns are counted without gaps."""
    expected = open_run(state).turn + 1
    return None if record.turn == expected else f"turn {record.turn} where {expected} is next"


def within_turns(state: ConversationState, _: ModelResponded | ModelInterrupted) -> str | None:
    """One turn beyond the limit, under `final-answer` only (RUN-019)."""
    run = open_run(state)
    if run.grace_used:
        return "the last turn that a limit allows is used up"
    return "the turns are used up" if run.over_turns and run.started.limits.exhaustion == "fail" else None


def honest_usage(_: ConversationState, record: ModelResponded | ModelInterrupted | CompactionFailed) -> str | None:
    """Sums that later work relies on are built of figures that can be right (RUN-023)."""
    return record.usage.problem()


def coming_turn(state: ConversationState, record: OverflowRetried | CompactionCreated | CompactionFailed) -> str | None:
    """What is done for a request is done for the next one of the open run."""
    run = open_run(state)
    if not isinstance(record, OverflowRetried) and record.run != run.started.run:
        return "it belongs to another run"
    return None if record.turn == run.turn + 1 else f"turn {record.turn} where {run.turn + 1} is next"


def first_overflow(state: ConversationState, record: OverflowRetried) -> str | None:
    """A turn's request is made smaller and sent again once (RUN-027)."""
    return "this turn was retried before" if open_run(state).overflowed == record.turn else None


def between_runs(_: ConversationState, record: CompactionCreated) -> str | None:
    """Outside a run, nobody's turn is compacted."""
    return None if record.run is None and record.turn == 0 else "no run is open"


def summary_or_none(_: ConversationState, record: CompactionCreated) -> str | None:
    """A summary has its text, and clearing has none; what a summary took is told in figures that can be right."""
    if (record.form == "summarize") != (record.summary is not None):
        return "its form and its summary do not agree"
    return None if record.usage is None else record.usage.problem()


def first_warning(state: ConversationState, record: BudgetWarned) -> str | None:
    """Once per dimension (RUN-025)."""
    return "it was announced before" if (record.node, record.dimension) in open_run(state).warned else None


def first_limit(state: ConversationState, _: BudgetReached) -> str | None:
    """The first limit that is reached is the one that ends the run."""
    return None if open_run(state).exhausted is None else "another limit was reached before"


def next_attempt(state: ConversationState, record: ModelResponded | ModelInterrupted) -> str | None:
    """Tries of a turn are counted without gaps (F-053)."""
    expected = open_run(state).attempt + 1
    return None if record.attempt == expected else f"try {record.attempt} where {expected} is next"


def own_call_ids(state: ConversationState, record: ModelResponded) -> str | None:
    """A call's identity is derived, never taken over (TOOL-001)."""
    run = open_run(state).started.run
    for index, call in enumerate(record.message.calls):
        if call.id != call_id(run, record.turn, index):
            return f"call {index} does not carry its derived identity"
    return None


def undecided(state: ConversationState, record: CallsDecided) -> str | None:
    """A batch is decided once per attempt, before any result."""
    batch = open_batch(state)
    if batch.runnable is not None:
        return "the batch is already decided"
    return None if record.turn == batch.turn else "it decides another turn"


def unlike_before(state: ConversationState, record: ToolCatalogueChanged) -> str | None:
    """What a source offers is recorded when it is not what is on record already (CAP-009)."""
    return "it is on record already" if open_run(state).catalogues.get(record.source) == record else None


def before_deciding(state: ConversationState, _: ToolCatalogueChanged) -> str | None:
    """Calls under way keep the tools that they were decided by (F-014)."""
    return None if open_batch(state).runnable is None else "the batch is already decided"


def tools_allowed(state: ConversationState, record: CallsDecided) -> str | None:
    """Nothing runs once a limit forbids tools; nor does a batch that would pass the call limit (RUN-018)."""
    run, batch = open_run(state), open_batch(state)
    if not record.runnable:
        return None
    if run.exhausted is not None or run.grace_used:
        return "tools are forbidden"
    limit = run.started.limits.max_tool_calls
    return None if run.spent <= limit else f"{len(batch.calls)} more calls pass the limit of {limit}"


def decides_open_calls(state: ConversationState, record: CallsDecided) -> str | None:
    """Only an open call without a defect may run, once (RUN-004)."""
    fit = {call.id for call in open_batch(state).open if call.defect is None}
    for row in record.runnable:
        if row.call not in fit:
            return "a call is not open, is defective, or is named twice"
        fit.discard(row.call)
    return None


def approved(state: ConversationState, record: CallsDecided) -> str | None:
    """No request is open, and no call runs whose answer is not a yes (APPR-002)."""
    batch = open_batch(state)
    if batch.waiting:
        return "a request has no answer yet"
    for row in record.runnable:
        answer = batch.answers.get(row.call)
        if answer is not None and answer.verdict != "approved":
            return "a call would run against its answer"
    return None


def asks_about_open_call(state: ConversationState, record: ApprovalRequested) -> str | None:
    """A call is asked about once, before its batch is decided, under its derived identity (APPR-001)."""
    run, batch, request = open_run(state), open_batch(state), record.request
    if batch.runnable is not None:
        return "the batch is already decided"
    if request.run != run.started.run or request.id != request_id(request.call):
        return "the request does not carry its derived identity"
    if request.call in batch.requests:
        return "the call was asked about before"
    fit = any(call.id == request.call and call.defect is None for call in batch.open)
    return None if fit else "the call is not open, or is defective"


def answers_a_request(state: ConversationState, record: ApprovalDecided) -> str | None:
    """One answer for each request; silence can only deny as `expired` (CAP-006)."""
    batch = open_batch(state)
    request = batch.requests.get(record.call)
    if request is None or request.id != record.request:
        return "there is no such request"
    if record.call in batch.answers:
        return "the request has its answer"
    if record.verdict == "expired" and record.source != "policy":
        return "only silence expires"
    return "edited arguments need a yes" if record.edited is not None and record.verdict != "approved" else None


def granted_by_an_answer(state: ConversationState, record: GrantGiven) -> str | None:
    """A grant comes from a yes that names it, and matches by arguments or by targets, never by name alone (F-029)."""
    if (record.arguments is None) == (record.targets is None) or record.targets == ():
        return "it does not say what it matches by"
    if any(grant.grant == record.grant for grant in state.grants):
        return "it was given before"
    named = any(
        answer.grant == record.grant and answer.verdict == "approved" and answer.source == "approver"
        for answer in open_batch(state).answers.values()
    )
    return None if named else "no answer gives it"


def known_grant(state: ConversationState, record: GrantRevoked) -> str | None:
    """Only a grant that stands can be revoked."""
    stands = any(grant.grant == record.grant for grant in state.grants)
    return None if stands else "there is no such grant"


def runnable_unprepared(state: ConversationState, record: ToolPrepared) -> str | None:
    """Only a decided call that may have an effect is prepared, once (DUR-009)."""
    batch = open_batch(state)
    if not record.calls:
        return "it prepares nothing"
    still = {call.id for call in batch.open} - batch.prepared.keys()
    for call in record.calls:
        if (batch.runnable or {}).get(call, "readonly") == "readonly":
            return "a call is not runnable, or is readonly"
        if call not in still:
            return "a call is prepared twice, or has its result"
        still.discard(call)
    return None


def new_step_of_running_call(state: ConversationState, record: StepSettled) -> str | None:
    """A step belongs to a prepared, open call of a durable tool, and is recorded once (DUR-010)."""
    batch = open_batch(state)
    if (batch.runnable or {}).get(record.call) != "durable" or record.call not in batch.prepared:
        return "its call is not a running durable one"
    if all(call.id != record.call for call in batch.open):
        return "its call has a result"
    return "the step is already recorded" if (record.call, record.name) in batch.steps else None


def unknown_was_possible(state: ConversationState, record: ToolUnknown) -> str | None:
    """Only a prepared call may have had an effect that nobody knows of; it is said once (DUR-009)."""
    run, batch = open_run(state), open_batch(state)
    if run.started.unknown != "wait":
        return "unknown outcomes of this run are results"
    if all(call.id != record.call for call in batch.open) or record.call not in batch.prepared:
        return "its call is not open, or was never prepared"
    return "it is known, or was said before" if record.call in (*batch.unknown, *batch.resolved) else None


def resolves_a_prepared_call(state: ConversationState, record: ToolResolved) -> str | None:
    """Word about a call counts once, and only where there is something to tell (DUR-017)."""
    batch = open_batch(state)
    if all(call.id != record.call for call in batch.open) or record.call not in batch.prepared:
        return "its call is not open, or was never prepared"
    if isinstance(record.outcome, ToolUnknownOutcome):
        return "that is no resolution"
    return "it was resolved before" if record.call in batch.resolved else None


def aborts_this_run(state: ConversationState, record: AbortRequested) -> str | None:
    """An abort is about the open run."""
    return None if record.run == open_run(state).started.run else "it aborts another run"


def first_open_call(state: ConversationState, record: ToolSettled) -> str | None:
    """Results come in declaration order, one for each call (RUN-006)."""
    return None if open_batch(state).open[0].id == record.call else "it is not the first call without a result"


def outcome_was_possible(state: ConversationState, record: ToolSettled) -> str | None:
    """A call that never ran has no result of a handler; one with a possible effect was prepared first."""
    batch = open_batch(state)
    if record.call in batch.unknown and not isinstance(record.outcome, ToolUnknownOutcome):
        return "nobody has said what became of the call"
    if batch.resolved.get(record.call, record.outcome) != record.outcome:
        return "the call was resolved to something else"
    if not isinstance(record.outcome, ToolSuccess | ToolFailure | ToolUnknownOutcome):
        return None
    if record.call in batch.prepared or (batch.runnable or {}).get(record.call) == "readonly":
        return None
    return "a handler's outcome for a call that was never started"
