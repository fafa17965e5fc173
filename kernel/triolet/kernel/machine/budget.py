"""Budgets: what is charged to a run, when a limit is nearly used up, and when it is reached (RUN-011, RUN-025).

Decides the arithmetic of every limit and which of them are hard. A limit is looked at before more work begins, and what
was produced is kept: a response that passes a limit is on record, and its calls do not run (F-058). It prices and
estimates nothing, asks no budget above the run, and settles no run.
"""

from collections.abc import Iterable
from typing import Final

from triolet.kernel.machine.observations import CallsJudged, Forbidden
from triolet.kernel.machine.outcome_table import over_budget, used_up
from triolet.kernel.machine.state import CallBatch, RunState
from triolet.ports.approval import ApprovalRequest
from triolet.ports.identity import CallId, Instant
from triolet.ports.outcomes import Outcome, ToolRejected, ToolSuccess, outcome_text
from triolet.ports.records import BudgetReached, BudgetWarned, Dimension, Record, ToolSettled
from triolet.ports.usage import Usage

WARN_AT: Final = 0.8
"""The share of a limit whose use is announced."""

_HARD: Final[frozenset[Dimension]] = frozenset(("duration", "cost"))
"""Limits after which not even a last turn is asked for."""

_Row = tuple[Dimension, int, int | None]
"""What is limited, how much of it is used, and the limit if there is one."""


def closing_turn(run: RunState, dimension: Dimension) -> int:
    """The last turn that a run may have once this limit is reached."""
    grace = 0 if dimension in _HARD or run.started.limits.exhaustion == "fail" else 1
    last = run.turn + grace
    return last if run.closing is None else min(last, run.closing)


def with_result(run: RunState, record: ToolSettled, batch: CallBatch | None) -> RunState:
    """The run after one more result, with `batch` as what is left of its call batch."""
    outcome = record.outcome
    return run.with_counts(
        batch,
        spent=run.spent + record.programmatic,
        failures=_failures_after(run.failures, outcome),
        result_bytes=run.result_bytes + _size(outcome),
        exhausted=run.exhausted or ("tool-calls" if _is_over_budget(outcome) else None),
    )


def after_response(run: RunState, usage: Usage, calls: int) -> tuple[Record, ...]:
    """What a response brings with it: warnings, and a limit on tokens or cost that it reaches.

    An answer may use a limit up to its last unit; a response with calls may not, because its results need a request.
    """
    limits, used = run.started.limits, run.usage
    spent = run.spent + calls
    tokens: _Row = ("tokens", used.tokens + usage.input_tokens + usage.output_tokens, limits.max_tokens)
    cost: _Row = ("cost", used.cost + (usage.cost or 0), limits.max_cost)
    # Calls that pass the limit will not run, and a run without calls has nothing to be warned of.
    most_calls = limits.max_tool_calls if run.spent < spent <= limits.max_tool_calls else None
    records = _warnings(
        run, (("turns", run.turn + 1, limits.max_turns), ("tool-calls", spent, most_calls), tokens, cost)
    )
    return records if run.exhausted is not None else (*records, *_reached((cost, tokens), spare=1 if calls else 0))


def after_results(run: RunState, results: Iterable[Outcome]) -> tuple[Record, ...]:
    """What the last results of a batch bring with them; `run` is as it stands before these."""
    limits = run.started.limits
    if limits.max_failures is None and limits.max_result_bytes is None:
        return ()
    failures, size, exhausted = run.failures, run.result_bytes, run.exhausted is not None
    for outcome in results:
        failures = _failures_after(failures, outcome)
        size += _size(outcome)
        exhausted = exhausted or _is_over_budget(outcome)
    rows: tuple[_Row, ...] = (
        ("failures", failures, limits.max_failures),
        ("result-bytes", size, limits.max_result_bytes),
    )
    records = _warnings(run, rows)
    return records if exhausted else (*records, *_reached(rows, spare=1))


def over_calls(run: RunState, programmatic: int) -> ToolRejected | None:
    """The outcome of one more programmatic call that the run has no room for, or None (RUN-017).

    `run` is as it stands before its batch, whose handlers have made so many `programmatic` calls.
    """
    limit = run.started.limits.max_tool_calls
    return over_budget(limit) if run.spent + programmatic >= limit else None


def refusals_of(seen: CallsJudged) -> dict[CallId, Outcome]:
    """The outcomes that calls have by being judged, and by what a budget above the run does not pay for.

    It does not pay for a part: of such a batch nothing runs (F-058).
    """
    refusals: dict[CallId, Outcome] = {}
    for call, verdict in seen.verdicts.items():
        if not isinstance(verdict, str | ApprovalRequest | Forbidden):
            refusals[call] = verdict
        elif isinstance(verdict, str) and seen.refusal is not None:
            refusals[call] = used_up(seen.refusal.dimension)
    return refusals


def before_request(run: RunState, tokens: int | None, cost: int | None, at: Instant) -> tuple[Record, ...]:
    """What the coming request would pass, by its estimate; and whether most of the run's time is used.

    The one request that a reached limit still allows is not measured against it again.
    """
    limits, started, used = run.started.limits, run.started, run.usage
    records: tuple[Record, ...] = ()
    if started.warn_at is not None and at >= started.warn_at and (None, "duration") not in run.warned:
        records = (_duration_warning(started.warn_at, started.deadline, at),)
    if run.exhausted is not None:
        return records
    rows: tuple[_Row, ...] = (
        ("cost", used.cost + (cost or 0), limits.max_cost),
        ("tokens", used.tokens + (tokens or 0), limits.max_tokens),
    )
    return (*records, *_reached(rows, spare=0))


def _reached(rows: Iterable[_Row], spare: int) -> tuple[Record, ...]:
    """The first limit that leaves less than `spare` units."""
    for dimension, used, limit in rows:
        if limit is not None and used + spare > limit:
            return (BudgetReached(dimension=dimension, used=used, limit=limit),)
    return ()


def _warnings(run: RunState, rows: Iterable[_Row]) -> tuple[Record, ...]:
    return tuple(
        BudgetWarned(dimension=dimension, used=used, limit=limit)
        for dimension, used, limit in rows
        if limit and used >= WARN_AT * limit and (None, dimension) not in run.warned
    )


def _duration_warning(warn_at: Instant, deadline: Instant | None, at: Instant) -> BudgetWarned:
    # In whole seconds since the start, which lies a known share before the deadline.
    end = warn_at if deadline is None else deadline
    limit = round((end - warn_at) / (1 - WARN_AT))
    used = limit - (end - at)
    return BudgetWarned(dimension="duration", used=max(0, used) // 1_000_000, limit=max(1, limit // 1_000_000))


def _failures_after(failures: int, outcome: Outcome) -> int:
    if isinstance(outcome, ToolSuccess):
        return 0
    # What was not allowed to run has not failed.
    rejected = isinstance(outcome, ToolRejected) and outcome.reason in ("budget", "forbidden")
    return failures if rejected else failures + 1


def _is_over_budget(outcome: Outcome) -> bool:
    return isinstance(outcome, ToolRejected) and outcome.reason == "budget"


def _size(outcome: Outcome) -> int:
    text = outcome.output if isinstance(outcome, ToolSuccess) else outcome_text(outcome)
    return len(text) if text.isascii() else len(text.encode())
