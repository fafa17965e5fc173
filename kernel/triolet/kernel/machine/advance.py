"""The fold: what a legal record makes of a state.

Decides the meaning of each family for state and history, once, for live runs, recovery and projections alike
(STORE-008). It refuses what the table refuses, and never looks at anything but its two arguments.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import attrs

from triolet.kernel.machine.budget import closing_turn, with_result
from triolet.kernel.machine.compaction import view_after
from triolet.kernel.machine.grants import grants_after
from triolet.kernel.machine.guards import open_batch, open_run
from triolet.kernel.machine.history import History
from triolet.kernel.machine.state import KNOWN_TAKEN, NEW, CallBatch, ConversationState, RunState
from triolet.kernel.machine.table import legal, phase_after
from triolet.ports.errors import Corrupt
from triolet.ports.identity import CallId, InputId, Instant, SequenceNumber
from triolet.ports.messages import ToolMessage, ToolResult, UserMessage
from triolet.ports.outcomes import Outcome, UnknownReason
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
    ConversationCreated,
    GrantGiven,
    GrantRevoked,
    InputTaken,
    ModelInterrupted,
    ModelResponded,
    OverflowRetried,
    Record,
    RunSettled,
    RunStarted,
    StepSettled,
    ToolCatalogueChanged,
    ToolPrepared,
    ToolResolved,
    ToolSettled,
    ToolUnknown,
)


@attrs.define(kw_only=True)
class IllegalRecord(Corrupt):
    """A record that the table does not allow here. It was not applied; a log that holds it cannot be folded."""

    sequence: int
    kind: str
    problem: str

    @property
    def message(self) -> str:
        """Which record, where, and why not."""
        return f"record {self.sequence} ({self.kind}) is illegal: {self.problem}"


def advance(state: ConversationState, record: Record) -> ConversationState:
    """The state after `record`. Raises `IllegalRecord`, and `state` still stands."""
    problem = legal(state, record)
    sequence = SequenceNumber(state.sequence + 1)
    if problem is not None:
        raise IllegalRecord(sequence=sequence, kind=record.kind, problem=problem)
    history, run = _EFFECTS[type(record)](state, record)
    return ConversationState(
        phase=phase_after(state, record),
        sequence=sequence,
        epoch=record.epoch if isinstance(record, AttemptStarted) else state.epoch,
        history=history,
        view=view_after(state, record) if isinstance(record, CompactionCreated) else state.view,
        run=run,
        grants=grants_after(state.grants, record),
        settled=record if isinstance(record, RunSettled) else state.settled,
        taken=_taken_after(state, record) if isinstance(record, InputTaken) else state.taken,
    )


def fold(records: Iterable[Record], state: ConversationState = NEW) -> ConversationState:
    """The state after all `records`, in order."""
    for record in records:
        state = advance(state, record)
    return state


def _taken_after(state: ConversationState, record: InputTaken) -> tuple[tuple[InputId, Instant], ...]:
    # A run's own input comes from its caller, and a caller's key may look like an id out of the queue.
    if record.source not in ("steering", "follow-up"):
        return state.taken
    return (*state.taken, (record.id, record.offered_at))[-KNOWN_TAKEN:]


# What each family does to the history and to the open run.
_Effect = tuple[History, RunState | None]


def _created(state: ConversationState, _: ConversationCreated) -> _Effect:
    return state.history, None


def _run_started(state: ConversationState, record: RunStarted) -> _Effect:
    return state.history, RunState(started=record)


def _attempt_started(state: ConversationState, record: AttemptStarted) -> _Effect:
    # What an earlier attempt decided does not bind this one: authority is asked again (RUN-031).
    run = open_run(state)
    if run.epoch is None:
        # The first attempt finds the run as it was started.
        return state.history, RunState(started=run.started, epoch=record.epoch)
    batch = run.batch and attrs.evolve(run.batch, runnable=None)
    return state.history, attrs.evolve(run, epoch=record.epoch, batch=batch)


def _input_taken(state: ConversationState, record: InputTaken) -> _Effect:
    run = open_run(state)
    return (
        state.history.plus(UserMessage(parts=record.parts), SequenceNumber(state.sequence + 1)),
        run if run.answer is None else attrs.evolve(run, answer=None),
    )


def _model_responded(state: ConversationState, record: ModelResponded) -> _Effect:
    run = open_run(state)
    calls = record.message.calls
    after = RunState(
        started=run.started,
        epoch=run.epoch,
        turn=record.turn,
        usage=run.usage.plus(record.usage),
        spent=run.spent + len(calls),
        failures=run.failures,
        result_bytes=run.result_bytes,
        exhausted=run.exhausted,
        closing=run.closing,
        warned=run.warned,
        overflowed=run.overflowed,
        summarised=run.summarised,
        catalogues=run.catalogues,
        batch=CallBatch(turn=record.turn, calls=calls) if calls else None,
        answer=None if calls else record,
    )
    return state.history.plus(record.message, SequenceNumber(state.sequence + 1)), after


def _model_interrupted(state: ConversationState, record: ModelInterrupted) -> _Effect:
    run = open_run(state)
    usage = run.usage.plus(record.usage)
    return state.history, attrs.evolve(run, attempt=record.attempt, usage=usage, retry_at=record.retry_at)


def _overflow_retried(state: ConversationState, record: OverflowRetried) -> _Effect:
    return state.history, attrs.evolve(open_run(state), overflowed=record.turn, compacting=True)


def _compaction_created(state: ConversationState, record: CompactionCreated) -> _Effect:
    run = state.run
    if run is None:
        return state.history, None
    summarised = record.turn if record.form == "summarize" else run.summarised
    usage = run.usage if record.usage is None else run.usage.plus(record.usage)
    return state.history, attrs.evolve(run, usage=usage, summarised=summarised, compacting=False)


def _compaction_failed(state: ConversationState, record: CompactionFailed) -> _Effect:
    run = open_run(state)
    return state.history, attrs.evolve(run, usage=run.usage.plus(record.usage), summarised=record.turn)


def _budget_warned(state: ConversationState, record: BudgetWarned) -> _Effect:
    run = open_run(state)
    return state.history, attrs.evolve(run, warned=run.warned | {(record.node, record.dimension)})


def _budget_reached(state: ConversationState, record: BudgetReached) -> _Effect:
    run = open_run(state)
    closing = closing_turn(run, record.dimension)
    return state.history, attrs.evolve(run, exhausted=run.exhausted or record.dimension, closing=closing)


def _calls_decided(state: ConversationState, record: CallsDecided) -> _Effect:
    runnable = {row.call: row.execution for row in record.runnable}
    return _with_batch(state, attrs.evolve(open_batch(state), runnable=runnable))


def _approval_requested(state: ConversationState, record: ApprovalRequested) -> _Effect:
    batch = open_batch(state)
    return _with_batch(state, attrs.evolve(batch, requests={**batch.requests, record.request.call: record.request}))


def _approval_decided(state: ConversationState, record: ApprovalDecided) -> _Effect:
    batch = open_batch(state)
    return _with_batch(state, attrs.evolve(batch, answers={**batch.answers, record.call: record}))


def _catalogue_changed(state: ConversationState, record: ToolCatalogueChanged) -> _Effect:
    run = open_run(state)
    return state.history, attrs.evolve(run, catalogues={**run.catalogues, record.source: record})


def _unchanged(state: ConversationState, _: GrantGiven | GrantRevoked | AbortRequested) -> _Effect:
    return state.history, state.run


def _tool_prepared(state: ConversationState, record: ToolPrepared) -> _Effect:
    batch = open_batch(state)
    runnable = batch.runnable or {}
    started = {call: runnable[call] for call in record.calls}
    return _with_batch(state, attrs.evolve(batch, prepared={**batch.prepared, **started}))


def _tool_unknown(state: ConversationState, record: ToolUnknown) -> _Effect:
    batch = open_batch(state)
    return _with_batch(state, attrs.evolve(batch, unknown={**batch.unknown, record.call: record.reason}))


def _tool_resolved(state: ConversationState, record: ToolResolved) -> _Effect:
    batch = open_batch(state)
    unknown = {call: reason for call, reason in batch.unknown.items() if call != record.call}
    if record.outcome is None:
        prepared = {call: execution for call, execution in batch.prepared.items() if call != record.call}
        return _with_batch(state, attrs.evolve(batch, unknown=unknown, prepared=prepared))
    resolved = {**batch.resolved, record.call: record.outcome}
    return _with_batch(state, attrs.evolve(batch, unknown=unknown, resolved=resolved))


def _step_settled(state: ConversationState, record: StepSettled) -> _Effect:
    batch = open_batch(state)
    steps = {**batch.steps, (record.call, record.name): record.value}
    return _with_batch(state, attrs.evolve(batch, steps=steps))


def _tool_settled(state: ConversationState, record: ToolSettled) -> _Effect:
    batch = open_batch(state)
    outcomes = (*batch.outcomes, record.outcome)
    if len(outcomes) < len(batch.calls):
        return state.history, with_result(open_run(state), record, _with_outcomes(batch, outcomes, record.call))
    results = tuple(
        ToolResult(call=call.id, name=call.name, outcome=outcome)
        for call, outcome in zip(batch.calls, outcomes, strict=True)
    )
    return state.history.plus(ToolMessage(results=results), SequenceNumber(state.sequence + 1)), with_result(
        open_run(state), record, None
    )


def _without(unknown: Mapping[CallId, UnknownReason], settled: CallId) -> Mapping[CallId, UnknownReason]:
    # A run that ends while nobody knows settles the call as unknown.
    return {call: reason for call, reason in unknown.items() if call != settled} if unknown else unknown


def _with_outcomes(batch: CallBatch, outcomes: tuple[Outcome, ...], settled: CallId) -> CallBatch:
    return CallBatch(
        turn=batch.turn,
        calls=batch.calls,
        outcomes=outcomes,
        runnable=batch.runnable,
        prepared=batch.prepared,
        steps=batch.steps,
        requests=batch.requests,
        answers=batch.answers,
        unknown=_without(batch.unknown, settled),
        resolved=batch.resolved,
    )


def _run_settled(state: ConversationState, _: RunSettled) -> _Effect:
    return state.history, None


def _with_batch(state: ConversationState, batch: CallBatch) -> _Effect:
    return state.history, open_run(state).with_batch(batch)


_EFFECTS: Final[dict[type[Record], Callable[[ConversationState, Any], _Effect]]] = {
    ConversationCreated: _created,
    RunStarted: _run_started,
    AttemptStarted: _attempt_started,
    InputTaken: _input_taken,
    ModelResponded: _model_responded,
    ModelInterrupted: _model_interrupted,
    OverflowRetried: _overflow_retried,
    CompactionCreated: _compaction_created,
    CompactionFailed: _compaction_failed,
    BudgetWarned: _budget_warned,
    BudgetReached: _budget_reached,
    ToolCatalogueChanged: _catalogue_changed,
    CallsDecided: _calls_decided,
    ApprovalRequested: _approval_requested,
    ApprovalDecided: _approval_decided,
    GrantGiven: _unchanged,
    GrantRevoked: _unchanged,
    ToolPrepared: _tool_prepared,
    ToolUnknown: _tool_unknown,
    ToolResolved: _tool_resolved,
    AbortRequested: _unchanged,
    StepSettled: _step_settled,
    ToolSettled: _tool_settled,
    RunSettled: _run_settled,
}
