"""The timeline: each event of a run as a row, while it happens.

Decides which words and figures stand for an event, and when they are shown: text grows as it streams, and what the
observer missed of it is made up from the complete response. It changes nothing, waits for nothing but the next
event, and shows no event twice. Times are seconds since the first event, by the events' own stamps. (RUN-010)
"""

import contextlib
import json
from collections.abc import AsyncIterable, Iterable
from typing import Final

from rich.console import Console

from triolet.adapters.console.page import Page, Part
from triolet.adapters.console.visible import visible_line
from triolet.ports.events import (
    ApprovalAsked,
    ApprovalGiven,
    BudgetExhausted,
    BudgetNearlyUsed,
    CallBegan,
    CallEnded,
    CallProgressed,
    CompactionGaveUp,
    ContextCompacted,
    Event,
    Gap,
    InputEntered,
    OutcomeResolved,
    OutcomeUnknown,
    ReasoningDelta,
    RunBegan,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunSuspended,
    TerminalEvent,
    TextDelta,
    ToolCatalogueTaken,
    TurnBegan,
    TurnEnded,
    TurnInterrupted,
)
from triolet.ports.identity import MICROSECONDS, CallId, Instant
from triolet.ports.messages import Media, ToolCall
from triolet.ports.messages import Part as MessagePart
from triolet.ports.outcomes import is_error, outcome_text
from triolet.ports.usage import Usage, UsageTotals

_SOURCES: Final = {"user": "asked", "correction": "corrects"}
_PROBLEM_STYLE: Final = "red"
MOST_READ: Final = 4_000
"""Characters of arguments and results that are looked at; far fewer are shown."""


async def show_timeline(events: AsyncIterable[Event], console: Console) -> TerminalEvent | None:
    """Show `events` on `console` until they end; return the terminal one, or None if they end without it.

    Model and tool text is neutralised and bounded, and never read as markup. Raises what writing raises.
    """
    timeline = Timeline(Page(console))
    async for event in events:
        timeline.show(event)
    return timeline.terminal


class Timeline:
    """Shows the events of one run on a page."""

    def __init__(self, page: Page) -> None:
        self.terminal: TerminalEvent | None = None
        self._page = page
        self._start: Instant | None = None
        self._now = 0.0
        self._turn_began = 0.0
        self._streamed = ""
        self._call_began: dict[CallId, float] = {}
        self._calls = 0

    def show(self, event: Event) -> None:
        """Show one event. They come in the order of their sequence numbers."""
        if self._start is None:
            self._start = event.at
        # Wall clocks may be set back; a timeline never is.
        self._now = max(self._now, (event.at - self._start) / MICROSECONDS)
        match event:
            case RunBegan():
                pass
            case InputEntered():
                self._row(_SOURCES.get(event.source, event.source), (_input(event.parts), ""))
            case TurnBegan():
                self._turn_begins(event)
            case TextDelta():
                self._streamed += event.text
                self._page.stream(self._now, "", event.text, "")
            case ReasoningDelta():
                self._page.stream(self._now, "thinks", event.text, "dim italic")
            case TurnEnded():
                self._turn_ends(event)
            case TurnInterrupted():
                # What was streamed of this try is not part of the answer.
                tokens = _tokens(event.usage)
                self._row(
                    "cut off",
                    (f"turn {event.turn}: {event.reason}", _PROBLEM_STYLE),
                    (tokens and f" · {tokens}", "dim"),
                )
            case CallBegan():
                self._call_began[event.call] = self._now
            case CallProgressed():
                self._row("", (f"{visible_line(event.note)}{_share(event.done, event.total)}", "dim"))
            case CallEnded():
                self._call_ends(event)
            case Gap():
                self._row("…", (f"{event.missed:,} live events were missed here", "dim"))
            case ApprovalAsked(request=request):
                wanted = f" · {request.risk} risk · {_readable(request.summary)}"
                self._row("waits", (request.tool, "bold"), (wanted, "yellow"))
            case ApprovalGiven():
                because = f" · {visible_line(event.reason)}" if event.reason else ""
                self._row(event.verdict, (f"by {event.by.name} ({event.source}){because}", "dim"))
            case OutcomeUnknown():
                self._row("unknown", (event.tool, "bold"), (f" · {event.reason}: somebody has to say", _PROBLEM_STYLE))
            case OutcomeResolved():
                because = f" · {visible_line(event.reason)}" if event.reason else ""
                what = "it happened as told" if event.started else "it never started"
                self._row("resolved", (f"{what}, by {event.by.name}{because}", "dim"))
            case BudgetNearlyUsed():
                self._row("budget", (f"{event.dimension}: {event.used:,} of {event.limit:,} used", "yellow"))
            case BudgetExhausted():
                self._row("budget", (f"{event.dimension} used up: {event.used:,} of {event.limit:,}", _PROBLEM_STYLE))
            case ContextCompacted():
                how = (
                    "old results are cleared" if event.form == "clear-tool-results" else "earlier turns are summarised"
                )
                self._row("compacts", (how, "dim"))
            case CompactionGaveUp():
                self._row("compacts", (f"no summary: {event.reason}", _PROBLEM_STYLE))
            case ToolCatalogueTaken():
                who = visible_line(f"{event.server} {event.version}".strip())
                aside = f", {event.set_aside:,} set aside" if event.set_aside else ""
                self._row("tools", (event.source, "bold"), (f" · {who} · {len(event.tools):,} tools{aside}", "dim"))
            case RunCompleted() | RunFailed() | RunInterrupted() | RunSuspended():
                self.terminal = event
                self._run_ends(event)

    def _turn_begins(self, event: TurnBegan) -> None:
        self._turn_began = self._now
        self._streamed = ""
        again = f" again (try {event.attempt})" if event.attempt > 1 else ""
        self._row(f"turn {event.turn}", (f"asking the model{again}", "dim"))

    def _turn_ends(self, event: TurnEnded) -> None:
        if event.text != self._streamed:
            self._row("", (event.text, ""), lines=8)
        for call in event.calls:
            self._row("calls", *_call(call))
        self._calls += len(event.calls)
        ended = "" if event.finish in ("stop", "tool-calls") else f" · ended by {event.finish}"
        seconds = self._now - self._turn_began
        if tokens := _tokens(event.usage):
            ended = f"{tokens} · {seconds:.2f} s{ended}"
        if ended:
            self._row("", (ended, "dim"))

    def _call_ends(self, event: CallEnded) -> None:
        began = self._call_began.pop(event.call, None)
        # A call that never started has no duration; nor has one whose start was missed.
        took = "" if began is None else f" {_duration(self._now - began)}"
        failed = is_error(event.outcome)
        head = (event.tool, _PROBLEM_STYLE if failed else "green")
        text = _readable(outcome_text(event.outcome))
        self._row("✗" if failed else "✓", head, (took, "dim"), (f" → {text}", ""), lines=3)

    def _run_ends(self, event: TerminalEvent) -> None:
        usage, turns = _sums(event)
        counts = f"{self._now:.2f} s", _counted(turns, "turn"), _counted(self._calls, "call")
        sums: Part = ("".join(f" · {sum_}" for sum_ in (*counts, _tokens(usage)) if sum_), "dim")
        match event:
            case RunCompleted():
                early = "" if event.exhausted is None else f" · the limit on {event.exhausted} was reached"
                self._row("done", ("completed", "bold green"), (early, "yellow"), sums)
            case RunFailed(failure=failure):
                self._row("failed", (f"{failure.code}: {failure.detail}", "bold red"), sums)
            case RunInterrupted(settlement=settled):
                self._row("stopped", (settled.reason or "aborted", "bold yellow"), sums)
            case RunSuspended(requests=requests):
                waits = f"waits for {_counted(len(requests), 'answer')}"
                self._row("suspended", (waits, "bold yellow"), sums)

    def _row(self, label: str, *parts: Part, lines: int = 4) -> None:
        self._page.row(self._now, label, *parts, lines=lines)


def _sums(event: TerminalEvent) -> tuple[UsageTotals, int]:
    if isinstance(event, RunSuspended):
        return event.usage, event.turns
    return event.settlement.usage, event.settlement.turns


def _input(parts: Iterable[MessagePart]) -> str:
    shown = (
        f"({part.media_type}, {len(part.base64):,} characters of base64)" if isinstance(part, Media) else part.text
        for part in parts
    )
    return "\n".join(shown)


def _call(call: ToolCall) -> tuple[Part, ...]:
    if call.defect is not None:
        return (call.name, "bold"), (f" (unusable: {call.defect.reason})", _PROBLEM_STYLE)
    return (call.name, "bold"), (f" {_readable(call.arguments)}", "")


def _readable(text: str) -> str:
    """`text` on one line; JSON with a space behind each comma and colon, so that it can be broken there."""
    if len(text) <= MOST_READ and text.startswith(("{", "[")):
        # A result in words may happen to begin like that.
        with contextlib.suppress(ValueError, RecursionError):
            text = json.dumps(json.loads(text), ensure_ascii=False)
    return visible_line(text[:MOST_READ])


def _tokens(usage: Usage | UsageTotals) -> str:
    """The figures, or nothing where none were reported."""
    if not usage.input_tokens and not usage.output_tokens:
        return ""
    cached = f" ({usage.cache_read_tokens:,} cached)" if usage.cache_read_tokens else ""
    least = "at least " if usage.at_least else ""
    return f"{least}{usage.input_tokens:,} tokens in{cached}, {usage.output_tokens:,} out"


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def _share(done: float | None, total: float | None) -> str:
    if done is None:
        return ""
    return f" ({done:g})" if total is None else f" ({done:g} of {total:g})"


def _counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"
