"""Every rule about what becomes of an observation: `decide(state, observation)` gives records, or a refusal.

Decides which records are written, and in which order; the interpreter never builds one. It changes no state and
reads nothing but its arguments. How a run ends is `triolet.kernel.machine.settle`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from triolet.kernel.machine import approvals, budget, context_rules, outcome_table, recovery, settle
from triolet.kernel.machine.advance import fold
from triolet.kernel.machine.decision import Decision, Refused
from triolet.kernel.machine.guards import open_batch, open_run
from triolet.kernel.machine.observations import (
    NO_CALLS,
    AnswerJudged,
    ApprovalAnswered,
    ApprovalSilent,
    AttemptResumed,
    BudgetGranted,
    BudgetRefused,
    BudgetSpent,
    CallsEnded,
    CallsJudged,
    CataloguesSeen,
    ContextFull,
    ConversationOpened,
    Forbidden,
    GrantEnded,
    InputsOffered,
    ModelCallEnded,
    Observation,
    PermitsHeld,
    RequestMeasured,
    ResponseReduced,
    ResultsDue,
    RunRequested,
    SteeredWhileWaiting,
    StepEnded,
    Stopped,
    Summarized,
    SummaryFailed,
)
from triolet.kernel.machine.state import ConversationState, Phase
from triolet.ports.admission import Admitted
from triolet.ports.approval import ApprovalRequest
from triolet.ports.identity import CallId
from triolet.ports.outcomes import Outcome
from triolet.ports.records import (
    AttemptStarted,
    BudgetReached,
    CallsDecided,
    ConversationCreated,
    GrantRevoked,
    InputTaken,
    ModelResponded,
    Record,
    RunnableCall,
    RunStarted,
    StepSettled,
    ToolCatalogueChanged,
    ToolPrepared,
    ToolSettled,
)


def decide(state: ConversationState, observation: Observation) -> Decision:
    """The records that this observation makes true, or why it can make none."""
    phases, rule = _RULES[type(observation)]
    if state.phase not in phases:
        return Refused(problem=f"{type(observation).__name__} does not fit phase {state.phase}")
    return rule(state, observation)


def _opened(_: ConversationState, seen: ConversationOpened) -> Decision:
    return (ConversationCreated(conversation=seen.conversation, tenant=seen.tenant),)


def _requested(_: ConversationState, seen: RunRequested) -> Decision:
    return (
        RunStarted(
            run=seen.run,
            agent=seen.agent,
            agent_version=seen.agent_version,
            definition=seen.definition,
            principal=seen.principal,
            limits=seen.limits,
            deadline=seen.deadline,
            unknown=seen.unknown,
            structured=seen.structured,
            instructions=seen.instructions,
            approval=seen.approval,
            drain=seen.drain,
            retry=seen.retry,
            summarise=seen.summarise,
            warn_at=seen.warn_at,
        ),
        AttemptStarted(epoch=seen.epoch),
        InputTaken(
            id=seen.input,
            source="user",
            author=seen.author,
            offered_at=seen.at,
            parts=seen.parts,
            submission=seen.submission,
        ),
    )


def _responded(state: ConversationState, seen: ResponseReduced) -> Decision:
    run = open_run(state)
    response = ModelResponded(
        turn=run.turn + 1,
        attempt=seen.attempt,
        model=seen.model,
        message=seen.message,
        finish=seen.finish,
        usage=seen.usage,
    )
    calls = seen.message.calls
    limits = run.started.limits
    spent = budget.after_response(run, seen.usage, len(calls))
    reached = spent[-1] if spent and isinstance(spent[-1], BudgetReached) else None
    forbidden = bool(calls) and (seen.forbidden or run.limit_reached is not None)
    if forbidden:
        refusal: Outcome = outcome_table.FORBIDDEN
    elif calls and reached is not None:
        refusal = outcome_table.used_up(reached.dimension)
    elif calls and run.spent + len(calls) > limits.max_tool_calls:
        refusal = outcome_table.over_budget(limits.max_tool_calls)
    else:
        return (response, *spent)
    # Never recorded as pending: the response and the refusal of its whole batch are one commit (RUN-018).
    refused: tuple[Record, ...] = (
        response,
        *spent,
        *(ToolSettled(call=call.id, outcome=refusal) for call in calls),
    )
    after = open_run(fold(refused, state))
    if forbidden:
        return (*refused, settle.tools_forbidden(after))
    if limits.exhaustion == "fail" or after.grace_used:
        return (*refused, settle.exhausted(after, after.limit_reached or "tool-calls"))
    return refused


def _judged(state: ConversationState, seen: CallsJudged) -> Decision:
    batch = open_batch(state)
    if set(seen.verdicts) != {call.id for call in batch.undecided}:
        return Refused(problem="verdicts must cover exactly the open calls of the batch")
    for call, verdict in seen.verdicts.items():
        if isinstance(verdict, Forbidden):
            return approvals.forbidden(state, call, verdict)
    requests = tuple(verdict for verdict in seen.verdicts.values() if isinstance(verdict, ApprovalRequest))
    if requests:
        return approvals.asked(state, requests, seen.at)
    refusals = budget.refusals_of(seen)
    runnable = tuple(
        RunnableCall(call=call, execution=verdict)
        for call, verdict in seen.verdicts.items()
        if isinstance(verdict, str) and call not in refusals
    )
    return (CallsDecided(turn=batch.turn, runnable=runnable), *_settle_in_order(state, refusals, NO_CALLS))


def _permitted(state: ConversationState, seen: PermitsHeld) -> Decision:
    batch = open_batch(state)
    runnable = batch.runnable or {}
    risky = tuple(call for call in seen.calls if runnable.get(call) != "readonly" and call not in batch.prepared)
    return (ToolPrepared(calls=risky),) if risky else ()


def _step_ended(_: ConversationState, seen: StepEnded) -> Decision:
    return (StepSettled(call=seen.call, name=seen.name, value=seen.value),)


def _ended(state: ConversationState, seen: CallsEnded) -> Decision:
    return _settle_in_order(state, seen.outcomes, seen.programmatic)


def _settle_in_order(
    state: ConversationState, outcomes: Mapping[CallId, Outcome], programmatic: Mapping[CallId, int]
) -> tuple[Record, ...]:
    # As many as are known without skipping one: the record of a result never overtakes a slower sibling's.
    run, batch = open_run(state), open_batch(state)
    records: list[Record] = []
    results: list[Outcome] = []
    if run.started.unknown == "wait":
        unknown, outcomes = recovery.told_apart(batch, outcomes)
        records.extend(unknown)
    for call in batch.open:
        outcome = outcomes.get(call.id)
        if outcome is None:
            return tuple(records)
        records.append(ToolSettled(call=call.id, outcome=outcome, programmatic=programmatic.get(call.id, 0)))
        results.append(outcome)
    return (*records, *budget.after_results(run, results))


def _inputs_offered(_: ConversationState, seen: InputsOffered) -> Decision:
    return _taken(seen.inputs)


def _taken(inputs: tuple[Admitted, ...]) -> tuple[Record, ...]:
    return tuple(
        InputTaken(
            id=admitted.offer.id,
            source=admitted.offer.kind,
            author=admitted.offer.author,
            offered_at=admitted.offer.offered_at,
            parts=admitted.offer.parts,
            submission=admitted.submission,
        )
        for admitted in inputs
    )


def _catalogues_seen(state: ConversationState, seen: CataloguesSeen) -> Decision:
    on_record = open_run(state).catalogues
    records = tuple(
        ToolCatalogueChanged(
            source=each.source,
            source_version=each.version,
            digest=each.digest,
            tools=each.tools,
            server=each.server,
            protocol=each.protocol,
            transport=each.transport,
            capabilities=each.capabilities,
            set_aside=each.set_aside,
        )
        for each in seen.catalogues
    )
    return tuple(record for record in records if on_record.get(record.source) != record)


def _grant_ended(_: ConversationState, seen: GrantEnded) -> Decision:
    return (GrantRevoked(grant=seen.grant, by=seen.by, reason=seen.reason),)


def _answer_judged(state: ConversationState, seen: AnswerJudged) -> Decision:
    if seen.output is not None and seen.inputs:
        return _taken(seen.inputs)
    return settle.answered(open_run(state), seen)


def _budget_spent(state: ConversationState, _: BudgetSpent) -> Decision:
    run = open_run(state)
    if run.limit_reached is None:
        return Refused(problem="no limit is reached")
    return (settle.exhausted(run, run.limit_reached),)


def _stopped(state: ConversationState, seen: Stopped) -> Decision:
    sealed = (*settle.asked(open_run(state), seen), *settle.sealed(state, seen))
    return (*sealed, settle.stopped(open_run(fold(sealed, state)), seen))


_RUNNING: Final[tuple[Phase, ...]] = ("opening", "seam", "batch", "answered")

_RULES: Final[dict[type[Observation], tuple[tuple[Phase, ...], Callable[[ConversationState, Any], Decision]]]] = {
    ConversationOpened: (("new",), _opened),
    RunRequested: (("idle",), _requested),
    RequestMeasured: (("seam",), context_rules.measured),
    BudgetGranted: (("seam",), context_rules.granted),
    BudgetRefused: (("seam",), context_rules.refused),
    ResultsDue: (("seam",), context_rules.results_due),
    Summarized: (("idle", "seam"), context_rules.summarized),
    SummaryFailed: (("seam",), context_rules.summary_failed),
    ContextFull: (("seam",), context_rules.context_full),
    ResponseReduced: (("seam",), _responded),
    ModelCallEnded: (("seam",), context_rules.model_ended),
    CallsJudged: (("batch",), _judged),
    ApprovalAnswered: (("batch",), approvals.answered),
    ApprovalSilent: (("batch",), approvals.silent),
    SteeredWhileWaiting: (("batch",), approvals.steered),
    InputsOffered: (("seam",), _inputs_offered),
    CataloguesSeen: (("seam", "batch"), _catalogues_seen),
    AttemptResumed: (("seam", "batch", "answered"), recovery.resumed),
    GrantEnded: (("idle", "batch"), _grant_ended),
    PermitsHeld: (("batch",), _permitted),
    StepEnded: (("batch",), _step_ended),
    CallsEnded: (("batch",), _ended),
    AnswerJudged: (("answered",), _answer_judged),
    BudgetSpent: (("seam",), _budget_spent),
    Stopped: (_RUNNING, _stopped),
}
