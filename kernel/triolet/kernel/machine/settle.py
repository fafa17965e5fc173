"""How a run ends: the one settlement, built here and nowhere else (RUN-002, RUN-011).

Decides which of completed, failed and aborted a run becomes, what it says about the limit that ended it, and
how its open calls are sealed. Each function takes the run as it stands after all other records of the same
commit, so that the sums are the run's. It writes nothing by itself; `decide` returns what it builds.
"""

from typing import Literal

from triolet.kernel.machine import outcome_table
from triolet.kernel.machine.guards import open_run
from triolet.kernel.machine.observations import AnswerJudged, ContextFull, ModelCallEnded, Stopped
from triolet.kernel.machine.state import CallBatch, ConversationState, RunState
from triolet.ports.identity import CallId
from triolet.ports.messages import Text
from triolet.ports.outcomes import Outcome, ToolUnknownOutcome
from triolet.ports.records import (
    AbortRequested,
    CompactionFailed,
    Dimension,
    FailureCode,
    InputTaken,
    ModelInterrupted,
    Record,
    RunFailure,
    RunSettled,
    ToolSettled,
)

KERNEL_AUTHOR = "kernel"


def answered(run: RunState, seen: AnswerJudged) -> tuple[Record, ...]:
    """A final answer: success once it decodes; otherwise a correction while turns are left (RUN-028)."""
    answer = run.answer
    if answer is None:
        raise AssertionError("an answered run has its answer")
    if answer.finish == "content-filter":
        return (_failed(run, "model-refused", "the provider's content filter cut the answer"),)
    over = run.exhausted or ("turns" if run.grace_used else None)
    if over is not None and run.started.limits.exhaustion == "fail":
        return (exhausted(run, over),)
    if seen.output is not None:
        cut: Literal["stop", "length"] = "length" if answer.finish == "length" else "stop"
        return (
            RunSettled(
                run=run.started.run,
                status="completed",
                usage=run.usage,
                turns=run.turn,
                finish="budget-exhausted" if over else cut,
                exhausted=over,
                output=seen.output,
                disposition=seen.disposition if over is None and cut == "stop" else None,
            ),
        )
    if run.grace_used and over == "cost":
        return (exhausted(run, over),)
    if run.grace_used:
        return (_failed(run, "output-invalid", "the last answer allowed does not match the schema", over),)
    correction = InputTaken(
        id=seen.correction,
        source="correction",
        author=KERNEL_AUTHOR,
        offered_at=seen.at,
        parts=(Text(text=seen.problem or "the answer does not match the schema"),),
    )
    return (correction,)


def exhausted(run: RunState, dimension: Dimension) -> RunSettled:
    """The typed failure of a run whose policy is to fail when a limit is reached."""
    return _failed(run, "budget-exhausted", f"the limit on {dimension} is reached", dimension)


def denied(run: RunState) -> RunSettled:
    """A terminal denial, by an approver, by silence or by an authorizer, fails the run (APPR-001, RUN-031)."""
    return _failed(run, "denied", "a call of the run was denied")


def tools_forbidden(run: RunState) -> RunSettled:
    """A model that calls tools where none are offered fails its run (RUN-020)."""
    return _failed(run, "tools-forbidden", "the model called a tool in a turn that forbids tools", run.limit_reached)


def context_full(run: RunState, seen: ContextFull) -> RunSettled:
    """A request that nothing makes small enough is not made; both sizes are told (F-032)."""
    if seen.limit is None:
        detail = f"the provider refused about {seen.tokens} tokens, and nothing more can be taken away"
    else:
        detail = f"the next request takes about {seen.tokens} tokens, the limit is {seen.limit}"
    return _failed(run, "context-too-large", detail)


def model_failed(run: RunState, seen: ModelCallEnded) -> RunSettled:
    """A model call that ended without a response, with no try left."""
    return _failed(run, seen.code, seen.detail)


def stopped(run: RunState, seen: Stopped) -> RunSettled:
    """The end of a run whose open calls `sealed` has closed. Using up the time is a failure, not an abort."""
    if seen.cause == "deadline":
        return _failed(run, "budget-exhausted", "the run's time is used up", "duration")
    return RunSettled(run=run.started.run, status="aborted", usage=run.usage, turns=run.turn, reason=seen.cause)


def asked(run: RunState, seen: Stopped) -> tuple[Record, ...]:
    """Who asked for the end, in the same commit as the end: repeating it finds the run settled (DUR-012)."""
    if seen.asked is None:
        return ()
    return (AbortRequested(run=run.started.run, by=seen.asked.by, reason=seen.asked.reason),)


def sealed(state: ConversationState, seen: Stopped) -> tuple[Record, ...]:
    """Give every open call its one result, or note the model call under way (RUN-005)."""
    run = open_run(state)
    if run.batch is not None:
        return tuple(
            ToolSettled(
                call=call.id,
                outcome=_ended_call(run, run.batch, call.id, seen),
                programmatic=seen.programmatic.get(call.id, 0),
            )
            for call in run.batch.open
        )
    if seen.asking is None or state.phase != "seam":
        return ()
    if seen.asking.summary:
        return (CompactionFailed(run=run.started.run, turn=run.turn + 1, reason="cancelled", usage=seen.asking.usage),)
    interrupted = ModelInterrupted(
        turn=run.turn + 1,
        attempt=seen.asking.attempt,
        model=seen.asking.model,
        reason="deadline" if seen.cause == "deadline" else "cancelled",
        text=seen.asking.text,
        usage=seen.asking.usage,
    )
    return (interrupted,)


def _ended_call(run: RunState, batch: CallBatch, call: CallId, seen: Stopped) -> Outcome:
    known = batch.resolved.get(call) or seen.outcomes.get(call)
    if known is not None:
        return known
    if call in batch.unknown:
        return ToolUnknownOutcome(reason=batch.unknown[call])
    prepared = batch.prepared.get(call)
    if seen.cause == "lost":
        # Nobody is left who knows how far it got: from its preparation on it may have had its effect (DUR-009).
        return outcome_table.stopped("crashed", prepared, started=prepared is not None)
    # A call that may run again may have run in an earlier attempt; an uncertain one would be known as unknown.
    earlier = run.started.unknown == "wait" and prepared not in (None, "uncertain")
    why: outcome_table.Stop = "timeout" if seen.cause == "deadline" else "cancelled"
    execution = (batch.runnable or batch.prepared).get(call)
    return outcome_table.stopped(why, execution, started=earlier or call in seen.started)


def _failed(run: RunState, code: FailureCode, detail: str, dimension: Dimension | None = None) -> RunSettled:
    return RunSettled(
        run=run.started.run,
        status="failed",
        usage=run.usage,
        turns=run.turn,
        failure=RunFailure(code=code, detail=detail, dimension=dimension),
    )
