"""Budgets: what is charged to a run, when a limit is nearly used up, and when it is reached (RUN-011, RUN-025).

Decides the arithmetic of every limit and which of them are hard. A limit is looked at before more work begins, and what
was produced is kept: a response that passes a limit is on record, and its calls do not run (F-058). It prices and
estimates nothing, knows no budget above the run, and settles no run.
"""

from collections.abc import Iterable
from typing import Final

from triolet.kernel.machine.state import CallBatch, RunState
from triolet.ports.identity import Instant
from triolet.ports.outcomes import Outcome, ToolRejected, ToolSuccess, outcome_text
from triolet.ports.records import BudgetReached, BudgetWarned, Dimension, Record, ToolSettled
from triolet.ports.usage import Usage

WARN_AT: Final = 0.8
"""The share of a limit whose use is announced."""

_HARD: Final[frozenset[Dimension]] = frozenset(("duration", "cost"))
"""Limits after which not even a last turn is asked for."""


def closing_turn(run: RunState, dimension: Dimension) -> int:
    """The last turn that a run may have once this limit is reached."""
    grace = 0 if dimension in _HARD or run.started.limits.exhaustion == "fail" else 1
    last = run.turn + grace
    return last if run.closing is None else min(last, run.closing)


def with_result(run: RunState, record: ToolSettled, batch: CallBatch | None) -> RunState:
    """The run after one more result, with `batch` as what is left of its call batch."""
    outcome = record.outcome
    rejected = isinstance(outcome, ToolRejected) and outcome.reason in ("budget", "forbidden")
    failures = 0 if isinstance(outcome, ToolSuccess) else run.failures + (0 if rejected else 1)
    over = isinstance(outcome, ToolRejected) and outcome.reason == "budget"
    return RunState(
        started=run.started,
        epoch=run.epoch,
        turn=run.turn,
        attempt=run.attempt,
        retry_at=run.retry_at,
        usage=run.usage,
        spent=run.spent + record.programmatic,
        failures=failures,
        result_bytes=run.result_bytes + _size(outcome),
        exhausted=run.exhausted or ("tool-calls" if over else None),
        closing=run.closing,
        warned=run.warned,
        overflowed=run.overflowed,
        compacting=run.compacting,
        summarised=run.summarised,
        catalogues=run.catalogues,
        batch=batch,
        answer=run.answer,
    )


def after_response(run: RunState, usage: Usage, calls: int) -> tuple[Record, ...]:
    """What a response brings with it: warnings, and a limit on tokens or cost that it reaches.

    An answer may use a limit up to its last unit; a response with calls may not, because its results need a request.
    """
    limits, used = run.started.limits, run.usage
    tokens = used.tokens + usage.input_tokens + usage.output_tokens
    cost = used.cost + (usage.cost or 0)
    spent = run.spent + calls
    records = _warnings(
        run,
        (
            ("turns", run.turn + 1, limits.max_turns),
            # Calls that pass the limit will not run, and a run without calls has nothing to be warned of.
            ("tool-calls", spent, limits.max_tool_calls if run.spent < spent <= limits.max_tool_calls else None),
            ("tokens", tokens, limits.max_tokens),
            ("cost", cost, limits.max_cost),
        ),
    )
    if run.exhausted is not None:
        return records
    spare = 1 if calls else 0
    if limits.max_cost is not None and cost + spare > limits.max_cost:
        return (*records, BudgetReached(dimension="cost", used=cost, limit=limits.max_cost))
    if limits.max_tokens is not None and tokens + spare > limits.max_tokens:
        return (*records, BudgetReached(dimension="tokens", used=tokens, limit=limits.max_tokens))
    return records


def after_results(run: RunState) -> tuple[Record, ...]:
    """What a batch's last result brings with it: `run` is as it stands after that."""
    limits = run.started.limits
    rows: tuple[tuple[Dimension, int, int | None], ...] = (
        ("failures", run.failures, limits.max_failures),
        ("result-bytes", run.result_bytes, limits.max_result_bytes),
    )
    records = _warnings(run, rows)
    if run.exhausted is not None:
        return records
    for dimension, used, limit in rows:
        if limit is not None and used >= limit:
            return (*records, BudgetReached(dimension=dimension, used=used, limit=limit))
    return records


def before_request(run: RunState, tokens: int | None, cost: int | None, at: Instant) -> tuple[Record, ...]:
    """What the coming request would pass, by its estimate; and whether most of the run's time is used.

    The one request that a reached limit still allows is not measured against it again.
    """
    limits, started = run.started.limits, run.started
    records: tuple[Record, ...] = ()
    if started.warn_at is not None and at >= started.warn_at and (None, "duration") not in run.warned:
        records = (_duration_warning(started.warn_at, started.deadline, at),)
    if run.exhausted is None and limits.max_cost is not None and run.usage.cost + (cost or 0) > limits.max_cost:
        used = run.usage.cost + (cost or 0)
        return (*records, BudgetReached(dimension="cost", used=used, limit=limits.max_cost))
    if run.exhausted is None and limits.max_tokens is not None and run.usage.tokens + (tokens or 0) > limits.max_tokens:
        used = run.usage.tokens + (tokens or 0)
        return (*records, BudgetReached(dimension="tokens", used=used, limit=limits.max_tokens))
    return records


def _warnings(run: RunState, rows: Iterable[tuple[Dimension, int, int | None]]) -> tuple[Record, ...]:
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


def _size(outcome: Outcome) -> int:
    text = outcome.output if isinstance(outcome, ToolSuccess) else outcome_text(outcome)
    return len(text) if text.isascii() else len(text.encode())
