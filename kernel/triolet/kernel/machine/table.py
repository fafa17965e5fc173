"""The legal moves: which record may follow in which phase, under which guards, and where it leads.

Theory of operation
-------------------
A conversation is always in one phase. A record is legal if the table has a row for the phase and the record's
family, and every guard of the row holds. Whoever is about to write asks `legal` first, so an illegal record is
never stored; whoever reads a log applies the same rows, so a log that breaks them is corrupt. A family without
a row is not legal anywhere yet.

A run alternates between `seam`, where input may enter and a model is asked, and `batch`, where the calls of one
response are decided, prepared and settled. Four promises are rows and guards here, and nowhere else:

* no handler before all are decided: only `calls_decided` makes calls runnable, `tool_prepared` and results need
  a runnable call, and `calls_decided` covers the whole batch or is refused (TOOL-004);
* nothing but a stored approval lets a call run that was asked about: `calls_decided` is refused while a request has
  no answer, and for a call whose answer is no (APPR-002);
* declaration order: `tool_settled` must be for the first call without a result (RUN-006);
* a whole batch or none: a batch leaves for the seam with its last result, and a run cannot settle inside one
  (RUN-005).

This module never builds a record and never changes a state.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from triolet.kernel.machine import guards as g
from triolet.kernel.machine.guards import Guard
from triolet.kernel.machine.state import ConversationState, Phase
from triolet.ports import records as r


@attrs.frozen(kw_only=True, weakref_slot=False)
class Move:
    """One row: the guards that must hold, and the phase after. `to` may choose by state and record."""

    guards: tuple[Guard, ...]
    to: Phase | Callable[[ConversationState, Any], Phase]


def _by_calls(_: ConversationState, record: r.ModelResponded) -> Phase:
    return "batch" if record.message.calls else "answered"


def _by_rest(state: ConversationState, _: r.ToolSettled) -> Phase:
    batch = g.open_batch(state)
    return "seam" if len(batch.open) == 1 else "batch"


BRANCHES: Final[Mapping[object, tuple[Phase, ...]]] = {_by_calls: ("batch", "answered"), _by_rest: ("batch", "seam")}
"""Where the rows that choose may lead, for the diagram."""

#   phase        record                 guards                                                        next phase
_ROWS: Final[tuple[tuple[Phase, type[r.Record], tuple[Guard, ...], Any], ...]] = (
    ("new",      r.ConversationCreated, (),                                                           "idle"),
    ("idle",     r.RunStarted,          (),                                                           "opening"),
    ("idle",     r.GrantRevoked,        (g.known_grant,),                                             "idle"),
    ("idle",     r.CompactionCreated,   (g.between_runs, g.summary_or_none),                          "idle"),
    ("opening",  r.AttemptStarted,      (g.newer_epoch,),                                             "opening"),
    ("opening",  r.InputTaken,          (g.owned, g.opens_a_run),                                     "seam"),
    ("opening",  r.AbortRequested,      (g.aborts_this_run,),                                         "opening"),
    ("opening",  r.RunSettled,          (g.same_run, g.not_completed),                                "idle"),
    ("seam",     r.AttemptStarted,      (g.newer_epoch,),                                             "seam"),
    ("seam",     r.InputTaken,          (g.enters_at_a_seam,),                                        "seam"),
    ("seam",     r.ToolCatalogueChanged, (g.unlike_before,),                                          "seam"),
    ("seam",     r.BudgetWarned,        (g.first_warning,),                                           "seam"),
    ("seam",     r.BudgetReached,       (g.first_limit,),                                             "seam"),
    ("seam",     r.OverflowRetried,     (g.coming_turn, g.first_overflow),                            "seam"),
    ("seam",     r.CompactionCreated,   (g.coming_turn, g.summary_or_none),                           "seam"),
    ("seam",     r.CompactionFailed,    (g.coming_turn, g.honest_usage),                              "seam"),
    ("seam",     r.ModelResponded,      (g.next_turn, g.within_turns, g.next_attempt, g.own_call_ids, g.honest_usage),
                                                                                                      _by_calls),
    ("seam",     r.ModelInterrupted,    (g.next_turn, g.within_turns, g.next_attempt, g.honest_usage), "seam"),
    ("seam",     r.AbortRequested,      (g.aborts_this_run,),                                         "seam"),
    ("seam",     r.RunSettled,          (g.same_run, g.not_completed),                                "idle"),
    ("batch",    r.AttemptStarted,      (g.newer_epoch,),                                             "batch"),
    ("batch",    r.ToolCatalogueChanged, (g.before_deciding, g.unlike_before),                        "batch"),
    ("batch",    r.BudgetWarned,        (g.first_warning,),                                           "batch"),
    ("batch",    r.BudgetReached,       (g.first_limit,),                                             "batch"),
    ("batch",    r.ApprovalRequested,   (g.asks_about_open_call,),                                    "batch"),
    ("batch",    r.ApprovalDecided,     (g.answers_a_request,),                                       "batch"),
    ("batch",    r.GrantGiven,          (g.granted_by_an_answer,),                                    "batch"),
    ("batch",    r.GrantRevoked,        (g.known_grant,),                                             "batch"),
    ("batch",    r.CallsDecided,        (g.undecided, g.tools_allowed, g.decides_open_calls, g.approved), "batch"),
    ("batch",    r.ToolPrepared,        (g.runnable_unprepared,),                                     "batch"),
    ("batch",    r.StepSettled,         (g.new_step_of_running_call,),                                "batch"),
    ("batch",    r.ToolUnknown,         (g.unknown_was_possible,),                                    "batch"),
    ("batch",    r.ToolResolved,        (g.resolves_a_prepared_call,),                                "batch"),
    ("batch",    r.AbortRequested,      (g.aborts_this_run,),                                         "batch"),
    ("batch",    r.ToolSettled,         (g.first_open_call, g.outcome_was_possible),                  _by_rest),
    ("answered", r.AttemptStarted,      (g.newer_epoch,),                                             "answered"),
    ("answered", r.BudgetWarned,        (g.first_warning,),                                           "answered"),
    ("answered", r.BudgetReached,       (g.first_limit,),                                             "answered"),
    ("answered", r.InputTaken,          (g.continues_a_run,),                                         "seam"),
    ("answered", r.AbortRequested,      (g.aborts_this_run,),                                         "answered"),
    ("answered", r.RunSettled,          (g.same_run, g.finish_is_honest),                             "idle"),
)  # fmt: skip

TABLE: Final[Mapping[tuple[Phase, type[r.Record]], Move]] = {
    (phase, family): Move(guards=guards, to=to) for phase, family, guards, to in _ROWS
}


def legal(state: ConversationState, record: r.Record) -> str | None:
    """None if `record` may follow `state`; otherwise why not, in one bounded sentence without content."""
    move = TABLE.get((state.phase, type(record)))
    if move is None:
        return f"{record.kind} has no place in phase {state.phase}"
    for guard in move.guards:
        problem = guard(state, record)
        if problem is not None:
            return f"{record.kind} in phase {state.phase}: {problem}"
    return None


def phase_after(state: ConversationState, record: r.Record) -> Phase:
    """Where a legal record leads."""
    to = TABLE[state.phase, type(record)].to
    return to(state, record) if callable(to) else to
