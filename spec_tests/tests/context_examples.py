"""Examples and refusals for the rows of the table that are about budgets, compaction and tries."""

from typing import Any

from tests.machine_moves import RUN, SPENT, after, answer, batch, changed, decided, idle, responded, seam
from triolet.kernel.machine import guards as g
from triolet.ports import records as r
from triolet.ports.identity import SequenceNumber
from triolet.ports.records import Record
from triolet.ports.usage import Usage

WRONG = Usage(input_tokens=1, cache_read_tokens=2)
"""Figures that cannot be right."""


def warned(dimension: Any = "tokens") -> r.BudgetWarned:
    return r.BudgetWarned(dimension=dimension, used=8, limit=10)


def reached(dimension: Any = "tokens") -> r.BudgetReached:
    return r.BudgetReached(dimension=dimension, used=10, limit=10)


def overflow(turn: int = 1) -> r.OverflowRetried:
    return r.OverflowRetried(turn=turn)


def compacted(**fields: Any) -> r.CompactionCreated:
    given: dict[str, Any] = {
        "run": RUN,
        "turn": 1,
        "form": "summarize",
        "covers_through": SequenceNumber(4),
        "summary": "in short",
    }
    return r.CompactionCreated(**{**given, **fields})


def uncompacted(**fields: Any) -> r.CompactionFailed:
    given: dict[str, Any] = {"run": RUN, "turn": 1, "reason": "empty", "usage": SPENT}
    return r.CompactionFailed(**{**given, **fields})


def interrupted(**fields: Any) -> r.ModelInterrupted:
    given: dict[str, Any] = {"turn": 1, "attempt": 1, "model": "m", "reason": "cancelled", "text": "", "usage": SPENT}
    return r.ModelInterrupted(**{**given, **fields})


def with_wrong_usage() -> Record:
    [record, *_] = decided(seam(), responded())
    return changed(record, usage=WRONG)


ROWS: dict[Any, Any] = {
    ("idle", r.CompactionCreated): (idle, compacted(run=None, turn=0), "idle"),
    ("seam", r.BudgetWarned): (seam, warned(), "seam"),
    ("seam", r.BudgetReached): (seam, reached(), "seam"),
    ("seam", r.OverflowRetried): (seam, overflow(), "seam"),
    ("seam", r.CompactionCreated): (seam, compacted(), "seam"),
    ("seam", r.CompactionFailed): (seam, uncompacted(), "seam"),
    ("batch", r.BudgetWarned): (lambda: batch("a"), warned(), "batch"),
    ("batch", r.BudgetReached): (lambda: batch("a"), reached(), "batch"),
    ("answered", r.BudgetWarned): (answer, warned(), "answered"),
    ("answered", r.BudgetReached): (answer, reached(), "answered"),
}
REFUSALS: dict[Any, Any] = {
    g.honest_usage: (
        (seam, with_wrong_usage()),
        (seam, interrupted(usage=WRONG)),
        (seam, uncompacted(usage=WRONG)),
    ),
    g.coming_turn: (
        (seam, overflow(2)),
        (seam, compacted(turn=2)),
        (seam, compacted(run="other")),
        (seam, compacted(run=None)),
        (seam, uncompacted(turn=0)),
    ),
    g.first_overflow: ((lambda: after(overflow(), state=seam()), overflow()),),
    g.between_runs: ((idle, compacted()), (idle, compacted(run=None))),
    g.summary_or_none: (
        (seam, compacted(summary=None)),
        (seam, compacted(form="clear-tool-results")),
        (idle, compacted(run=None, turn=0, usage=WRONG)),
    ),
    g.first_warning: tuple(
        (lambda make=make: after(warned(), state=make()), warned()) for make in (seam, answer, lambda: batch("a"))
    ),
    g.first_limit: tuple(
        (lambda make=make: after(reached(), state=make()), reached("cost"))
        for make in (seam, answer, lambda: batch("a"))
    ),
}
