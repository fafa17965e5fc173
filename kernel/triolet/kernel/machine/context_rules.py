"""What becomes of measurements, summaries and failed tries: everything that is decided at the seam before a response.

Decides whether a try is made again, and when (F-053, RUN-013); whether a provider's refusal of the context's length is
worth a smaller request (RUN-027); and what a compaction, or the failure of one, leaves on record. It asks nobody.
"""

import hashlib
from typing import Final

from triolet.kernel.machine import budget, settle
from triolet.kernel.machine.advance import advance, fold
from triolet.kernel.machine.compaction import whole_turns
from triolet.kernel.machine.decision import Decision, Refused
from triolet.kernel.machine.guards import open_run
from triolet.kernel.machine.observations import (
    BudgetGranted,
    BudgetRefused,
    ContextFull,
    ModelCallEnded,
    RequestMeasured,
    ResultsDue,
    Summarized,
    SummaryFailed,
)
from triolet.kernel.machine.shown import is_boundary
from triolet.kernel.machine.state import ConversationState, RunState
from triolet.ports.identity import MICROSECONDS, Instant
from triolet.ports.records import (
    BudgetReached,
    BudgetWarned,
    CompactionCreated,
    CompactionFailed,
    ModelInterrupted,
    OverflowRetried,
    Record,
)

MAX_ADVICE: Final = 3_600.0
"""Seconds: a provider that wants more than that is not waited for."""


def measured(state: ConversationState, seen: RequestMeasured) -> Decision:
    """Limits are looked at before the request that would pass them (F-058)."""
    run = open_run(state)
    limit = run.started.limits.max_cost
    if run.exhausted is not None and limit is not None and run.usage.cost + (seen.cost or 0) > limit:
        # Cost is hard: it is not passed for the last turn that another limit still allows either.
        return (settle.exhausted(run, "cost"),)
    return budget.before_request(run, seen.tokens, seen.cost, seen.at)


def granted(state: ConversationState, seen: BudgetGranted) -> Decision:
    """What other runs know of a node, this one need not be told twice."""
    warned = open_run(state).warned
    return tuple(
        BudgetWarned(dimension=each.dimension, used=each.used, limit=each.limit, node=each.node)
        for each in seen.warnings
        if (each.node, each.dimension) not in warned
    )


def refused(state: ConversationState, seen: BudgetRefused) -> Decision:
    """A budget above the run has nothing left for this request: the run ends here, and says why."""
    run = open_run(state)
    if run.exhausted is not None:
        return (settle.exhausted(run, seen.dimension),)
    reached = BudgetReached(dimension=seen.dimension, used=seen.used, limit=seen.limit, node=seen.node)
    return (reached, settle.exhausted(open_run(advance(state, reached)), seen.dimension))


def results_due(state: ConversationState, seen: ResultsDue) -> Decision:
    """Old results are cleared."""
    run = open_run(state)
    return (
        CompactionCreated(
            run=run.started.run, turn=run.turn + 1, form="clear-tool-results", covers_through=seen.covers_through
        ),
    )


def summarized(state: ConversationState, seen: Summarized) -> Decision:
    """A summary takes the place of what it covers, if that is whole turns and no less than was covered before."""
    covered = state.history.covered_by(seen.covers_through)
    if covered is None or not is_boundary(state.history, covered) or covered < state.view.summarised:
        return Refused(problem="a summary covers whole turns, and no less than the one before it")
    run = state.run
    created = CompactionCreated(
        run=None if run is None else run.started.run,
        turn=0 if run is None else run.turn + 1,
        form="summarize",
        covers_through=seen.covers_through,
        summary=seen.text,
        summary_version=seen.version,
        retained_facts=seen.facts,
        token_estimate=seen.token_estimate,
        source_digest=seen.source_digest,
        compactor_version=seen.compactor_version,
        usage=seen.usage,
    )
    return (created,)


def summary_failed(state: ConversationState, seen: SummaryFailed) -> Decision:
    """The history stands, and what the attempt took is charged."""
    run = open_run(state)
    return (CompactionFailed(run=run.started.run, turn=run.turn + 1, reason=seen.reason, usage=seen.usage),)


def context_full(state: ConversationState, seen: ContextFull) -> Decision:
    """Nothing more can be taken away: the run fails without the request, and says both sizes (F-032)."""
    return (settle.context_full(open_run(state), seen),)


def model_ended(state: ConversationState, seen: ModelCallEnded) -> Decision:
    """A try without a response: made again later, made again smaller, or the run's failure."""
    run = open_run(state)
    retry_at = _retry_at(run, seen)
    interrupted = ModelInterrupted(
        turn=run.turn + 1,
        attempt=seen.attempt,
        model=seen.model,
        reason=seen.code,
        text=seen.text,
        usage=seen.usage,
        retry_at=retry_at,
    )
    records: tuple[Record, ...] = (interrupted,)
    if retry_at is not None:
        return records
    if seen.code == "context-too-large" and run.overflowed != run.turn + 1 and whole_turns(state.history) > 0:
        return (*records, OverflowRetried(turn=run.turn + 1))
    return (*records, settle.model_failed(open_run(fold(records, state)), seen))


def _retry_at(run: RunState, seen: ModelCallEnded) -> Instant | None:
    rules = run.started.retry
    if not seen.passing or seen.attempt >= rules.tries:
        return None
    wait = min(rules.longest_wait, rules.first_wait * 2 ** min(seen.attempt - 1, 60))
    wait -= int(wait * _share(f"{run.started.run}/{run.turn + 1}/{seen.attempt}") / 2)
    advice = 0.0 if seen.retry_after is None else seen.retry_after
    # Said so that NaN is no advice either: a wait without end is no plan.
    if not advice <= MAX_ADVICE:
        return None
    at = Instant(seen.at + max(wait, int(advice * MICROSECONDS)))
    deadline = run.started.deadline
    return at if deadline is None or at < deadline else None


def _share(key: str) -> float:
    """A number from 0 up to 1 that spreads tries and is the same whenever the log is folded."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "big") / 2**32
