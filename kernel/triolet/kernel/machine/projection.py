"""Which semantic events a record gives its observers: the records' public face.

Decides what of a record is visible in a run's trace. It adds nothing that is not in the record or in the state
before it, so a late observer who reads the log sees what a live one saw (RUN-010).
"""

from triolet.kernel.machine.guards import open_batch
from triolet.kernel.machine.state import ConversationState
from triolet.ports.events import (
    ApprovalAsked,
    ApprovalGiven,
    BudgetExhausted,
    BudgetNearlyUsed,
    CallEnded,
    CompactionGaveUp,
    ContextCompacted,
    InputEntered,
    OutcomeResolved,
    OutcomeUnknown,
    RunBegan,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    SemanticEvent,
    TerminalEvent,
    ToolCatalogueTaken,
    Trace,
    TurnEnded,
    TurnInterrupted,
)
from triolet.ports.identity import Instant
from triolet.ports.records import (
    ApprovalDecided,
    ApprovalRequested,
    BudgetReached,
    BudgetWarned,
    CompactionCreated,
    CompactionFailed,
    InputTaken,
    ModelInterrupted,
    ModelResponded,
    Record,
    RunSettled,
    RunStarted,
    ToolCatalogueChanged,
    ToolResolved,
    ToolSettled,
    ToolUnknown,
)


def event_of(
    before: ConversationState, record: Record, trace: Trace, sequence: int, at: Instant
) -> SemanticEvent | TerminalEvent | None:
    """The event that this record gives, numbered `sequence`; None for a record that observers do not see."""
    match record:
        case RunStarted():
            return RunBegan(trace=trace, sequence=sequence, at=at)
        case InputTaken():
            return InputEntered(
                trace=trace,
                sequence=sequence,
                at=at,
                source=record.source,
                author=record.author,
                parts=record.parts,
            )
        case ModelResponded():
            return TurnEnded(
                trace=trace,
                sequence=sequence,
                at=at,
                turn=record.turn,
                text=record.message.text,
                calls=record.message.calls,
                finish=record.finish,
                usage=record.usage,
            )
        case ModelInterrupted():
            return TurnInterrupted(
                trace=trace,
                sequence=sequence,
                at=at,
                turn=record.turn,
                attempt=record.attempt,
                reason=record.reason,
                usage=record.usage,
                retry_at=record.retry_at,
            )
        case BudgetWarned():
            return BudgetNearlyUsed(
                trace=trace,
                sequence=sequence,
                at=at,
                dimension=record.dimension,
                used=record.used,
                limit=record.limit,
                node=record.node,
            )
        case BudgetReached():
            return BudgetExhausted(
                trace=trace,
                sequence=sequence,
                at=at,
                dimension=record.dimension,
                used=record.used,
                limit=record.limit,
                node=record.node,
            )
        case CompactionCreated():
            return ContextCompacted(
                trace=trace,
                sequence=sequence,
                at=at,
                turn=record.turn,
                form=record.form,
                covers_through=record.covers_through,
            )
        case CompactionFailed():
            return CompactionGaveUp(trace=trace, sequence=sequence, at=at, turn=record.turn, reason=record.reason)
        case ToolSettled():
            batch = open_batch(before)
            return CallEnded(
                trace=trace,
                sequence=sequence,
                at=at,
                turn=batch.turn,
                call=record.call,
                tool=batch.open[0].name,
                outcome=record.outcome,
            )
        case ToolCatalogueChanged():
            return ToolCatalogueTaken(
                trace=trace,
                sequence=sequence,
                at=at,
                source=record.source,
                server=record.server,
                version=record.source_version,
                digest=record.digest,
                tools=record.tools,
                set_aside=record.set_aside,
            )
        case ApprovalRequested(request=request):
            return ApprovalAsked(trace=trace, sequence=sequence, at=at, request=request)
        case ApprovalDecided():
            return ApprovalGiven(
                trace=trace,
                sequence=sequence,
                at=at,
                call=record.call,
                verdict=record.verdict,
                source=record.source,
                by=record.by,
                reason=record.reason,
            )
        case ToolUnknown():
            batch = open_batch(before)
            return OutcomeUnknown(
                trace=trace,
                sequence=sequence,
                at=at,
                turn=batch.turn,
                call=record.call,
                tool=next(call.name for call in batch.open if call.id == record.call),
                reason=record.reason,
            )
        case ToolResolved():
            return OutcomeResolved(
                trace=trace,
                sequence=sequence,
                at=at,
                call=record.call,
                started=record.outcome is not None,
                by=record.by,
                reason=record.reason,
            )
        case RunSettled():
            return terminal_of(record, trace, sequence, at)
        case _:
            return None


def terminal_of(record: RunSettled, trace: Trace, sequence: int, at: Instant) -> TerminalEvent:
    """The event that ends a run's trace."""
    if record.status == "completed":
        return RunCompleted(
            trace=trace,
            sequence=sequence,
            at=at,
            settlement=record,
            usage=record.usage,
            exhausted=record.exhausted,
        )
    if record.status == "failed" and record.failure is not None:
        return RunFailed(trace=trace, sequence=sequence, at=at, settlement=record, failure=record.failure)
    return RunInterrupted(trace=trace, sequence=sequence, at=at, settlement=record)
