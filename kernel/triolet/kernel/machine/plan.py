"""What may happen next: `next_action(state)`, the other half of the machine.

Decides which work a state calls for. It starts nothing, and repeats an action for as long as the state calls
for it: whoever interprets the plan subtracts what is already under way.
"""

from collections.abc import Mapping
from typing import Final, Literal

import attrs

from triolet.kernel.machine.compaction import ClearResults, GiveUp, Measured, Summarize, request_key, step
from triolet.kernel.machine.guards import open_batch, open_run
from triolet.kernel.machine.state import ConversationState, RunState
from triolet.ports.admission import InputKind
from triolet.ports.approval import ApprovalRequest
from triolet.ports.identity import CallId, Instant
from triolet.ports.messages import ToolCall
from triolet.ports.outcomes import UnknownCall
from triolet.ports.records import ApprovalDecided, ModelResponded
from triolet.ports.tools import ExecutionClass


@attrs.frozen(kw_only=True, weakref_slot=False)
class Intake:
    """Waiting input of this kind may enter first: one, or all of it (RUN-014, RUN-015)."""

    kind: InputKind
    drain: Literal["one", "all"]


@attrs.frozen(kw_only=True, weakref_slot=False)
class AskModel:
    """Ask a model for the response to `turn`, no earlier than `not_before`.

    `forbid_tools` says that a limit allows no more calls.
    """

    turn: int
    attempt: int
    forbid_tools: bool
    not_before: Instant | None


@attrs.frozen(kw_only=True, weakref_slot=False)
class MeasureRequest:
    """Take in what waits, then look at the clock, and estimate the request to `turn` if limits depend on its size."""

    turn: int
    sized: bool
    forbid_tools: bool
    intake: tuple[Intake, ...]


@attrs.frozen(kw_only=True, weakref_slot=False)
class JudgeCalls:
    """Find out about every open call of the batch whether it may run (TOOL-004).

    `answers` are the approver's answers on record; a call that has a yes is not asked about again.
    """

    turn: int
    calls: tuple[ToolCall, ...]
    answers: Mapping[CallId, ApprovalDecided]


@attrs.frozen(kw_only=True, weakref_slot=False)
class StartCall:
    """Run this call once it has its permits; while not `prepared`, report the permits first (DUR-009)."""

    turn: int
    call: ToolCall
    execution: ExecutionClass
    prepared: bool


@attrs.frozen(kw_only=True, weakref_slot=False)
class JudgeAnswer:
    """Decode the final answer; if it would end the run, look for input of these kinds first, in this order."""

    answer: ModelResponded
    structured: bool
    intake: tuple[Intake, ...]


@attrs.frozen(kw_only=True, weakref_slot=False)
class ReportBudgetSpent:
    """Nothing may follow: the policy is to fail when a limit is reached."""


Action = (
    MeasureRequest
    | ClearResults
    | Summarize
    | GiveUp
    | AskModel
    | JudgeCalls
    | StartCall
    | JudgeAnswer
    | ReportBudgetSpent
)


@attrs.frozen(kw_only=True, weakref_slot=False)
class Plan:
    """The runnable actions, and what the state waits for: answers to requests, and word about unknown outcomes.

    Several may be open at once. A state that calls for nothing and waits for nothing is at rest: no run is open.
    """

    actions: tuple[Action, ...]
    waits: tuple[ApprovalRequest, ...] = ()
    unknown: tuple[UnknownCall, ...] = ()


AT_REST: Final = Plan(actions=())


def next_action(state: ConversationState, measured: Measured | None = None) -> Plan:
    """What this state calls for. `measured` is what is known about the coming request; only a seam looks at it."""
    match state.phase:
        case "seam":
            return _at_seam(state, measured)
        case "batch":
            return _in_batch(state)
        case "answered":
            run = open_run(state)
            if run.answer is None:
                raise AssertionError("an answered run has its answer")
            judge = JudgeAnswer(
                answer=run.answer,
                structured=run.started.structured,
                intake=_before_stopping(run),
            )
            return Plan(actions=(judge,))
        case "new" | "idle" | "opening":
            return AT_REST


def _before_stopping(run: RunState) -> tuple[Intake, ...]:
    # Steering goes before follow-ups, and either keeps a run from stopping that otherwise would. Where no turn is left
    # to answer it, it would only turn an answer into a failure.
    if run.grace_used or (run.over_turns and run.started.limits.exhaustion == "fail"):
        return ()
    return Intake(kind="steering", drain=run.started.drain), Intake(kind="follow-up", drain="one")


def _at_seam(state: ConversationState, measured: Measured | None) -> Plan:
    run = open_run(state)
    limits, limit = run.started.limits, run.limit_reached
    # The second can be where input came in after the answer of the grace turn: there is no turn left for it.
    if (limit is not None and limits.exhaustion == "fail") or run.grace_used:
        return Plan(actions=(ReportBudgetSpent(),))
    if measured is None or measured.key != request_key(state):
        measure = MeasureRequest(
            turn=run.turn + 1,
            sized=run.compacting or bool(limits.context_tokens or limits.max_tokens or limits.max_cost),
            forbid_tools=limit is not None,
            intake=(Intake(kind="steering", drain=run.started.drain),),
        )
        return Plan(actions=(measure,))
    ask = AskModel(turn=run.turn + 1, attempt=run.attempt + 1, forbid_tools=limit is not None, not_before=run.retry_at)
    return Plan(actions=(step(state, measured) or ask,))


def _in_batch(state: ConversationState) -> Plan:
    batch = open_batch(state)
    if batch.runnable is None:
        if batch.waiting or batch.unknown:
            return Plan(actions=(), waits=batch.waiting, unknown=batch.unsolved)
        return Plan(actions=(JudgeCalls(turn=batch.turn, calls=batch.undecided, answers=batch.answers),))
    starts: list[Action] = []
    for call in batch.open:
        execution = batch.runnable.get(call.id)
        if execution is not None and call.id not in batch.unknown:
            prepared = execution == "readonly" or call.id in batch.prepared
            starts.append(StartCall(turn=batch.turn, call=call, execution=execution, prepared=prepared))
    return Plan(actions=tuple(starts), unknown=batch.unsolved)
