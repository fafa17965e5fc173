"""What observers of a run see: the closed union of run events.

Decides which happenings are visible and what each carries. *Semantic* events are derived from records, so a
late observer reads them all; *live* events (deltas, starts, progress) exist only while they happen and may be
dropped, which `Gap` counts (RUN-010). Exactly one *terminal* event ends an attempt's trace (RUN-002).
"""

from typing import Literal

import attrs

from triolet.ports.approval import ApprovalRequest
from triolet.ports.canonical import Digest
from triolet.ports.identity import AgentId, CallId, ConversationId, Instant, Principal, RunId, SequenceNumber
from triolet.ports.language_model import FinishReason
from triolet.ports.messages import Part, ToolCall
from triolet.ports.outcomes import Outcome, UnknownCall, UnknownReason
from triolet.ports.records import CompactionFault, Dimension, RunFailure, RunSettled
from triolet.ports.usage import Usage, UsageTotals

EVENT_VERSION = 1


@attrs.frozen(kw_only=True, weakref_slot=False)
class Trace:
    """What all events of one attempt share: one object, not eight fields an event."""

    version: int = EVENT_VERSION
    run: RunId
    conversation: ConversationId
    agent: AgentId


@attrs.frozen(kw_only=True, weakref_slot=False)
class RunEvent:
    """The head of every event. `sequence` counts from 1 within the trace and never repeats."""

    trace: Trace
    sequence: int
    at: Instant


@attrs.frozen(kw_only=True, weakref_slot=False)
class RunBegan(RunEvent):
    """Semantic: the run is on record."""

    kind: Literal["run-began"] = "run-began"


@attrs.frozen(kw_only=True, weakref_slot=False)
class InputEntered(RunEvent):
    """Semantic: input became part of the history."""

    kind: Literal["input-entered"] = "input-entered"
    source: Literal["user", "steering", "follow-up", "joined", "correction"]
    author: str
    parts: tuple[Part, ...]


@attrs.frozen(kw_only=True, weakref_slot=False)
class TurnBegan(RunEvent):
    """Live: a model is being asked. `attempt` counts the tries of this turn from 1 (F-053)."""

    kind: Literal["turn-began"] = "turn-began"
    turn: int
    attempt: int


@attrs.frozen(kw_only=True, weakref_slot=False)
class TextDelta(RunEvent):
    """Live: more of the answer's text, of this try."""

    kind: Literal["text-delta"] = "text-delta"
    turn: int
    attempt: int
    text: str


@attrs.frozen(kw_only=True, weakref_slot=False)
class ReasoningDelta(RunEvent):
    """Live: more of the model's visible reasoning, of this try."""

    kind: Literal["reasoning-delta"] = "reasoning-delta"
    turn: int
    attempt: int
    text: str


@attrs.frozen(kw_only=True, weakref_slot=False)
class TurnEnded(RunEvent):
    """Semantic: a complete response is on record."""

    kind: Literal["turn-ended"] = "turn-ended"
    turn: int
    text: str
    calls: tuple[ToolCall, ...]
    finish: FinishReason
    usage: Usage


@attrs.frozen(kw_only=True, weakref_slot=False)
class TurnInterrupted(RunEvent):
    """Semantic: a try ended without a complete response; what was streamed of it does not count (F-053).

    `retry_at` is when the turn is tried again; None says that it is not, or not because of a wait.
    """

    kind: Literal["turn-interrupted"] = "turn-interrupted"
    turn: int
    attempt: int
    reason: str
    usage: Usage
    retry_at: Instant | None


@attrs.frozen(kw_only=True, weakref_slot=False)
class CallBegan(RunEvent):
    """Live: a handler starts."""

    kind: Literal["call-began"] = "call-began"
    turn: int
    call: CallId
    tool: str


@attrs.frozen(kw_only=True, weakref_slot=False)
class CallProgressed(RunEvent):
    """Live: a handler says how far it is."""

    kind: Literal["call-progressed"] = "call-progressed"
    turn: int
    call: CallId
    note: str
    done: float | None
    total: float | None


@attrs.frozen(kw_only=True, weakref_slot=False)
class CallEnded(RunEvent):
    """Semantic: a call has its one outcome."""

    kind: Literal["call-ended"] = "call-ended"
    turn: int
    call: CallId
    tool: str
    outcome: Outcome


@attrs.frozen(kw_only=True, weakref_slot=False)
class Gap(RunEvent):
    """This observer was too slow and missed `missed` live events just before this point."""

    kind: Literal["gap"] = "gap"
    missed: int


@attrs.frozen(kw_only=True, weakref_slot=False)
class RunCompleted(RunEvent):
    """Terminal: the run has its output. `finish` and `exhausted` say whether a limit ended it (RUN-011)."""

    kind: Literal["run-completed"] = "run-completed"
    settlement: RunSettled
    usage: UsageTotals
    exhausted: Dimension | None


@attrs.frozen(kw_only=True, weakref_slot=False)
class RunFailed(RunEvent):
    """Terminal: the run failed, typed."""

    kind: Literal["run-failed"] = "run-failed"
    settlement: RunSettled
    failure: RunFailure


@attrs.frozen(kw_only=True, weakref_slot=False)
class RunInterrupted(RunEvent):
    """Terminal: the run was stopped before its end; where a settlement is owed it is `aborted`."""

    kind: Literal["run-interrupted"] = "run-interrupted"
    settlement: RunSettled


@attrs.frozen(kw_only=True, weakref_slot=False)
class RunSuspended(RunEvent):
    """Terminal for the attempt, and no settlement: the run waits, and nobody here can give what it waits for.

    `requests` are open approvals, `unknown` the calls whose outcome somebody has to say (DUR-017).
    """

    kind: Literal["run-suspended"] = "run-suspended"
    requests: tuple[ApprovalRequest, ...]
    unknown: tuple[UnknownCall, ...] = ()
    usage: UsageTotals
    turns: int


@attrs.frozen(kw_only=True, weakref_slot=False)
class ApprovalAsked(RunEvent):
    """Semantic: a request for approval is on record."""

    kind: Literal["approval-asked"] = "approval-asked"
    request: ApprovalRequest


@attrs.frozen(kw_only=True, weakref_slot=False)
class ApprovalGiven(RunEvent):
    """Semantic: a request's answer is on record; `verdict` says whether it is a yes."""

    kind: Literal["approval-given"] = "approval-given"
    call: CallId
    verdict: Literal["approved", "denied", "expired"]
    source: Literal["approver", "grant", "policy", "steering"]
    by: Principal
    reason: str


@attrs.frozen(kw_only=True, weakref_slot=False)
class OutcomeUnknown(RunEvent):
    """Semantic: a call may have had its effect and nobody knows; the run waits for word about it (DUR-017, OPS-002)."""

    kind: Literal["outcome-unknown"] = "outcome-unknown"
    turn: int
    call: CallId
    tool: str
    reason: UnknownReason


@attrs.frozen(kw_only=True, weakref_slot=False)
class OutcomeResolved(RunEvent):
    """Semantic: somebody said what became of a call; `started` is False where it surely never started."""

    kind: Literal["outcome-resolved"] = "outcome-resolved"
    call: CallId
    started: bool
    by: Principal
    reason: str


@attrs.frozen(kw_only=True, weakref_slot=False)
class BudgetNearlyUsed(RunEvent):
    """Semantic: most of a limit is used, announced once per dimension; `node` is a budget above the run (RUN-025)."""

    kind: Literal["budget-nearly-used"] = "budget-nearly-used"
    dimension: Dimension
    used: int
    limit: int
    node: str | None


@attrs.frozen(kw_only=True, weakref_slot=False)
class BudgetExhausted(RunEvent):
    """Semantic: a limit is reached; at most one more turn follows (RUN-011). `node` is the budget that refused."""

    kind: Literal["budget-exhausted"] = "budget-exhausted"
    dimension: Dimension
    used: int
    limit: int
    node: str | None


@attrs.frozen(kw_only=True, weakref_slot=False)
class ContextCompacted(RunEvent):
    """Semantic: from here on a model is shown less of the history; the log keeps it all (CAP-007)."""

    kind: Literal["context-compacted"] = "context-compacted"
    turn: int
    form: Literal["clear-tool-results", "summarize"]
    covers_through: SequenceNumber


@attrs.frozen(kw_only=True, weakref_slot=False)
class CompactionGaveUp(RunEvent):
    """Semantic: an attempt at a summary came to nothing, and the history stands."""

    kind: Literal["compaction-gave-up"] = "compaction-gave-up"
    turn: int
    reason: CompactionFault


@attrs.frozen(kw_only=True, weakref_slot=False)
class ToolCatalogueTaken(RunEvent):
    """Semantic: from here on a model is offered these tools of a source; `server` is what it calls itself (CAP-009)."""

    kind: Literal["tool-catalogue-taken"] = "tool-catalogue-taken"
    source: str
    server: str
    version: str
    digest: Digest
    tools: tuple[str, ...]
    set_aside: int


SemanticEvent = (
    RunBegan
    | InputEntered
    | TurnEnded
    | TurnInterrupted
    | CallEnded
    | ApprovalAsked
    | ApprovalGiven
    | OutcomeUnknown
    | OutcomeResolved
    | BudgetNearlyUsed
    | BudgetExhausted
    | ContextCompacted
    | CompactionGaveUp
    | ToolCatalogueTaken
)
LiveEvent = TurnBegan | TextDelta | ReasoningDelta | CallBegan | CallProgressed
TerminalEvent = RunCompleted | RunFailed | RunInterrupted | RunSuspended
Event = SemanticEvent | LiveEvent | TerminalEvent | Gap
