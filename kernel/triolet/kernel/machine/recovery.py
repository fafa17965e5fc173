"""Recovery: what a new owner makes of a run that it finds open, and what becomes of calls whose effect is uncertain.

Decides from the state and from what is known outside, never from a clock or a guess (DUR-013): a prepared call without
a result is unknown, unless its class says that it may run again, or somebody knows what it came to (DUR-009). It
starts nothing, and never makes an outcome up.
"""

from collections.abc import Iterator, Mapping
from typing import Literal

from triolet.kernel.machine import approvals
from triolet.kernel.machine.advance import fold
from triolet.kernel.machine.decision import Decision, Refused
from triolet.kernel.machine.guards import open_run
from triolet.kernel.machine.observations import ApprovalAnswered, AttemptResumed
from triolet.kernel.machine.state import CallBatch, ConversationState
from triolet.ports.identity import CallId
from triolet.ports.outcomes import Outcome, ToolUnknownOutcome
from triolet.ports.records import AttemptStarted, Record, ToolResolved, ToolUnknown

Classification = Literal["resumed", "interrupted-response", "open-batch"]


def classify(state: ConversationState) -> Classification:
    """What an open run was in the middle of: nothing that was lost, a model's response, or a call batch."""
    batch = open_run(state).batch
    if state.phase == "seam":
        return "interrupted-response"
    if batch is None or batch.waiting or batch.unknown:
        return "resumed"
    return "open-batch"


def uncertain(batch: CallBatch) -> tuple[CallId, ...]:
    """The prepared calls of which a new owner cannot tell whether they had their effect, unless somebody knows."""
    return tuple(
        call.id for call in batch.open if batch.prepared.get(call.id) == "uncertain" and call.id not in batch.resolved
    )


def resumed(state: ConversationState, seen: AttemptResumed) -> Decision:
    """A new attempt: what it found, what is known by now about the calls that it found, and the answers that came."""
    records: tuple[Record, ...] = (AttemptStarted(epoch=seen.epoch, worker=seen.worker, recovery=classify(state)),)
    run = open_run(state)
    if run.batch is None:
        return records
    if run.started.unknown == "wait":
        records = (*records, *_found(run.batch, seen))
    for request in run.batch.waiting:
        after, answer = fold(records, state), seen.answers.get(request.id)
        if answer is None or after.run is None:  # not answered yet, or a denial has ended the run
            continue
        told = approvals.answered(after, ApprovalAnswered(call=request.call, decision=answer, at=seen.at))
        if isinstance(told, Refused):
            return told
        records = (*records, *told)
    return records


def told_apart(
    batch: CallBatch, outcomes: Mapping[CallId, Outcome]
) -> tuple[tuple[ToolUnknown, ...], Mapping[CallId, Outcome]]:
    """Which of the outcomes nobody knows, put on record at once (OPS-002), and which are results (RUN-005)."""
    unknown = tuple(
        ToolUnknown(call=call.id, reason=outcome.reason)
        for call in batch.open
        if isinstance(outcome := outcomes.get(call.id), ToolUnknownOutcome) and call.id not in batch.unknown
    )
    known = {call: outcome for call, outcome in outcomes.items() if not isinstance(outcome, ToolUnknownOutcome)}
    return unknown, {**known, **batch.resolved}


def _found(batch: CallBatch, seen: AttemptResumed) -> Iterator[Record]:
    for call in batch.open:
        execution = batch.prepared.get(call.id)
        if execution is None or call.id in batch.resolved:
            continue
        told = seen.resolutions.get(call.id)
        # That a call which may run again never started is no news.
        if told is not None and (told.outcome is not None or execution == "uncertain"):
            yield ToolResolved(call=call.id, outcome=told.outcome, by=told.by, reason=told.reason)
        elif execution == "uncertain" and call.id not in batch.unknown:
            yield ToolUnknown(call=call.id, reason="crashed")
