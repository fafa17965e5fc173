"""Compaction: whether the coming request is too large, and what to take away from it (RUN-026, RUN-027, CAP-007).

Decides where to cut: only between whole turns, and never into the newest one. Old results go first; where that is not
enough, everything but a recent part goes behind a summary. One attempt at a summary for each turn: what is still too
large after it will stay so (F-032). It writes no summary, counts no tokens, and changes no history.
"""

from collections.abc import Sequence
from typing import Final, Literal

import attrs

from triolet.kernel.machine.guards import open_run
from triolet.kernel.machine.history import History
from triolet.kernel.machine.shown import View, is_boundary
from triolet.kernel.machine.state import ConversationState
from triolet.ports.compactor import MAX_SUMMARY
from triolet.ports.identity import SequenceNumber
from triolet.ports.messages import ToolMessage
from triolet.ports.records import CompactionCreated, CompactionFault

KEPT_TURNS: Final = 2
"""Newest turns whose results are not cleared."""
KEPT_SHARE: Final = 0.5
"""The share of the limit that the part which stays may fill beside what every request carries."""
CLEARED_TOKENS: Final = 12
"""About what a cleared result takes."""
_WORTH_CLEARING: Final = 0.25
"""After a provider's refusal nobody knows how much too large the request was: a smaller saving is not tried."""


@attrs.frozen(kw_only=True, weakref_slot=False)
class Measured:
    """How large the coming request is, as somebody estimated it.

    `tokens` is all of it; `sizes` holds, for each message of the history, what it takes where it is shown in full.
    `fixed` is what every request carries: instructions, tools, schema. `key` says for which request this holds.
    """

    key: tuple[int, int, int, int]
    tokens: int
    fixed: int
    sizes: Sequence[int]


@attrs.frozen(kw_only=True, weakref_slot=False)
class ClearResults:
    """Replace the results of old turns."""

    covers_through: SequenceNumber


@attrs.frozen(kw_only=True, weakref_slot=False)
class Summarize:
    """Put the first `messages` messages of the history behind a summary."""

    turn: int
    messages: int
    covers_through: SequenceNumber
    by: Literal["model", "host"]


@attrs.frozen(kw_only=True, weakref_slot=False)
class GiveUp:
    """Nothing more can be taken away: the request is too large."""

    tokens: int
    limit: int | None


Step = ClearResults | Summarize | GiveUp


def request_key(state: ConversationState) -> tuple[int, int, int, int]:
    """What tells one coming request from another: turn, try, messages, compactions."""
    run = open_run(state)
    return (run.turn, run.attempt, len(state.history), state.view.count)


def step(state: ConversationState, measured: Measured) -> Step | None:
    """What has to be done before this request may be made; None if it may be made as it is."""
    run, view, history = open_run(state), state.view, state.history
    limit = run.started.limits.context_tokens
    if not run.compacting and (limit is None or measured.tokens <= limit):
        return None
    give_up = GiveUp(tokens=measured.tokens, limit=limit)
    if run.summarised == run.turn + 1:
        return give_up
    clear = _recent(history, KEPT_TURNS)
    saved = _savings(history, view, measured.sizes, clear)
    if saved > 0 and (not run.compacting or saved >= _WORTH_CLEARING * measured.tokens):
        return ClearResults(covers_through=history.completed_by(clear - 1))
    cut = _cut(history, view, measured, limit)
    if cut <= view.summarised or run.started.summarise == "never":
        return give_up
    return Summarize(
        turn=run.turn + 1,
        messages=cut,
        covers_through=history.completed_by(cut - 1),
        by=run.started.summarise,
    )


def summary_fault(text: str, tokens: int, covered: int) -> CompactionFault | None:
    """Why this is no summary of messages that take `covered` tokens; None if it is one (F-032)."""
    if not text:
        return "empty"
    return "no-smaller" if len(text) > MAX_SUMMARY or tokens >= covered else None


def view_after(state: ConversationState, record: CompactionCreated) -> View:
    """The view after a compaction. One that covers no whole turns, or nothing new, changes nothing."""
    history, view = state.history, state.view
    covered = history.covered_by(record.covers_through)
    if covered is None or not is_boundary(history, covered):
        return view
    if record.form == "summarize":
        # One that covers the same again takes the place of the one before.
        if record.summary is None or covered < view.summarised:
            return view
        return view.with_summary(record.summary, record.retained_facts, covered)
    return view.with_cleared(history, covered) if covered > max(view.cleared, view.summarised) else view


def whole_turns(history: History) -> int:
    """How many messages lie before the newest turn: the most that a compaction may cover."""
    return _recent(history, 1)


def _recent(history: History, turns: int) -> int:
    """Where the newest `turns` turns begin."""
    found = 0
    for index in range(len(history) - 1, 0, -1):
        if is_boundary(history, index):
            found += 1
            if found == turns:
                return index
    return 0


def _savings(history: History, view: View, sizes: Sequence[int], through: int) -> int:
    saved = 0
    for index in range(max(view.cleared, view.summarised), through):
        message = history[index]
        if isinstance(message, ToolMessage):
            saved += max(0, sizes[index] - CLEARED_TOKENS * len(message.results))
    return saved


def _cut(history: History, view: View, measured: Measured, limit: int | None) -> int:
    # The longest recent part that fills its share at most; at least the newest turn. Without a limit of our own, half
    # of what the provider refused.
    room = KEPT_SHARE * (measured.tokens if limit is None else limit) - measured.fixed
    newest, kept, cut = _recent(history, 1), 0, 0
    for index in range(len(history) - 1, view.summarised, -1):
        kept += measured.sizes[index] if index not in view.replaced else CLEARED_TOKENS
        if not is_boundary(history, index):
            continue
        if kept > room and cut:
            break
        cut = index
        if kept > room:
            break
    return min(cut, newest) if cut else 0
