"""The console observer: what it shows of a run, on what terminals, and that nobody's text takes a terminal over."""

import io
import re
import unicodedata
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from triolet.adapters.console import Page, Timeline, open_page, show_timeline, visible, visible_line
from triolet.adapters.memory import in_memory
from triolet.adapters.scripted_model import ScriptedModel, call, reasoning, text, turn
from triolet.kernel import Agent, Toolkit, open_kernel, tool
from triolet.ports.approval import ApprovalRequest
from triolet.ports.canonical import Digest
from triolet.ports.events import (
    ApprovalAsked,
    ApprovalGiven,
    CallBegan,
    CallEnded,
    CallProgressed,
    Event,
    Gap,
    InputEntered,
    ReasoningDelta,
    RunBegan,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunSuspended,
    TextDelta,
    Trace,
    TurnBegan,
    TurnEnded,
    TurnInterrupted,
)
from triolet.ports.identity import AgentId, CallId, ConversationId, Instant, Principal, RequestId, RunId
from triolet.ports.messages import CallDefect, Media, Text, ToolCall
from triolet.ports.outcomes import ToolFailure, ToolRejected, ToolSuccess
from triolet.ports.records import RunFailure, RunSettled
from triolet.ports.strict_json import JsonText
from triolet.ports.usage import Usage, UsageTotals

_TRACE = Trace(run=RunId("r1"), conversation=ConversationId("c1"), agent=AgentId("a1"))
_START = 1_700_000_000_000_000
_CALL = ToolCall(id=CallId("r1-1-0"), name="add", arguments=JsonText('{"a":1,"b":[2,3]}'))
_BOSS = Principal(name="boss")
_USAGE = Usage(input_tokens=1_200, output_tokens=30, cache_read_tokens=1_000)
_TOTALS = UsageTotals(calls=2, input_tokens=2_400, output_tokens=60, cache_read_tokens=2_000)
_SETTLED = RunSettled(run=RunId("r1"), status="completed", usage=_TOTALS, turns=2, output=JsonText('"6"'))
_ESCAPES = "\x1b[2J\x1b]0;owned\x07\x9b31m\x08\r\u202e\u2028\u200b\ufeff\x00"


@pytest.fixture(autouse=True)
def ordinary_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the terminal of whoever runs the tests is like does not matter."""
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


class _Script:
    """Makes events in order, 10 ms apart."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, kind: type[Any], **fields: object) -> Event:
        self._count += 1
        at = Instant(_START + 10_000 * (self._count - 1))
        event: Event = kind(trace=_TRACE, sequence=self._count, at=at, **fields)
        return event


def _ordinary() -> list[Event]:
    make = _Script()
    ok = ToolSuccess(output=JsonText('{"sum":6}'))
    return [
        make(RunBegan),
        make(InputEntered, source="user", author="anonymous", parts=(Text(text="What is 1 + 2 + 3?"),)),
        make(TurnBegan, turn=1, attempt=1),
        make(ReasoningDelta, turn=1, attempt=1, text="I had better "),
        make(ReasoningDelta, turn=1, attempt=1, text="add them."),
        make(TurnEnded, turn=1, text="", calls=(_CALL,), finish="tool-calls", usage=_USAGE),
        make(CallBegan, turn=1, call=_CALL.id, tool="add"),
        make(CallProgressed, turn=1, call=_CALL.id, note="half-way", done=1.0, total=2.0),
        make(CallEnded, turn=1, call=_CALL.id, tool="add", outcome=ok),
        make(TurnBegan, turn=2, attempt=1),
        make(TextDelta, turn=2, attempt=1, text="It is "),
        make(TextDelta, turn=2, attempt=1, text="6."),
        make(TurnEnded, turn=2, text="It is 6.", calls=(), finish="stop", usage=_USAGE),
        make(RunCompleted, settlement=_SETTLED, usage=_TOTALS, exhausted=None),
    ]


_ORDINARY_PAGE = """\
  0.01 s  asked     What is 1 + 2 + 3?
  0.02 s  turn 1    asking the model
  0.03 s  thinks    I had better add them.
  0.05 s  calls     add {"a": 1, "b": [2, 3]}
  0.05 s            1,200 tokens in (1,000 cached), 30 out · 0.03 s
  0.07 s            half-way (1 of 2)
  0.08 s  ✓         add 20.0 ms → {"sum": 6}
  0.09 s  turn 2    asking the model
  0.10 s            It is 6.
  0.12 s            1,200 tokens in (1,000 cached), 30 out · 0.03 s
  0.13 s  done      completed · 0.13 s · 2 turns · 1 call · 2,400 tokens in
                    (2,000 cached), 60 out
"""


def _shown(events: list[Event], *, width: int = 80, terminal: bool = False, **options: Any) -> str:
    file = io.StringIO()
    console = Console(file=file, width=width, force_terminal=terminal, color_system="truecolor" if terminal else None)
    timeline = Timeline(Page(console))
    for event in events:
        timeline.show(event)
    return file.getvalue()


def _plain(output: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", output)


def test_an_ordinary_run_reads_like_this() -> None:
    assert _shown(_ordinary()) == _ORDINARY_PAGE


def test_a_terminal_shows_the_same_words_with_styles_only() -> None:
    styled = _shown(_ordinary(), terminal=True)
    assert "\x1b[" in styled
    assert _plain(styled) == _ORDINARY_PAGE


def test_no_color_leaves_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    coloured = re.compile(r"\x1b\[(?:[0-9]+;)*(?:3[0-8]|4[0-8]|9[0-7])(?=[;m])")
    assert coloured.search(_shown(_ordinary(), terminal=True))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not coloured.search(_shown(_ordinary(), terminal=True))


def test_text_is_there_as_soon_as_it_arrives() -> None:
    file = io.StringIO()
    timeline = Timeline(open_page(file, width=80))
    seen: list[str] = []
    for event in _ordinary():
        timeline.show(event)
        if isinstance(event, TextDelta):
            seen.append(file.getvalue().splitlines()[-1].strip())
    assert [line.removeprefix("0.10 s").strip() for line in seen] == ["It is", "It is 6."]


def test_what_was_missed_is_made_up_from_the_whole_response() -> None:
    make = _Script()
    page = _shown(
        [
            make(InputEntered, source="user", author="x", parts=(Text(text="?"),)),
            make(Gap, missed=1_234),
            make(TextDelta, turn=1, attempt=1, text="tail"),
            make(TurnEnded, turn=1, text="head and tail", calls=(_CALL,), finish="tool-calls", usage=Usage()),
            make(CallEnded, turn=1, call=_CALL.id, tool="add", outcome=ToolSuccess(output=JsonText("1"))),
        ]
    )
    assert "1,234 live events were missed here" in page
    assert "  head and tail\n" in page
    # Its start was missed, so nobody knows how long the call took.
    assert "✓         add → 1\n" in page


def test_a_second_try_does_not_look_like_the_first_ones_text() -> None:
    make = _Script()
    page = _shown(
        [
            make(TurnBegan, turn=1, attempt=1),
            make(TextDelta, turn=1, attempt=1, text="half an ans"),
            make(
                TurnInterrupted,
                turn=1,
                attempt=1,
                reason="model-unavailable",
                usage=Usage(at_least=True),
                retry_at=None,
            ),
            make(TurnBegan, turn=1, attempt=2),
            make(TextDelta, turn=1, attempt=2, text="whole"),
            make(TurnEnded, turn=1, text="whole", calls=(), finish="length", usage=_USAGE),
        ],
        width=100,
    )
    lines = page.splitlines()
    assert [line[10:].strip() for line in lines] == [
        "turn 1    asking the model",
        "half an ans",
        "cut off   turn 1: model-unavailable",
        "turn 1    asking the model again (try 2)",
        "whole",
        "1,200 tokens in (1,000 cached), 30 out · 0.02 s · ended by length",
    ]


@pytest.mark.parametrize(
    ("kind", "settled", "more", "expected"),
    [
        (
            RunFailed,
            RunSettled(run=RunId("r1"), status="failed", usage=UsageTotals(), turns=1),
            {"failure": RunFailure(code="model-refused", detail="no such model")},
            "failed    model-refused: no such model · 0.00 s · 1 turn · 0 calls",
        ),
        (
            RunInterrupted,
            RunSettled(run=RunId("r1"), status="aborted", usage=UsageTotals(), turns=0, reason="requested"),
            {},
            "stopped   requested · 0.00 s · 0 turns · 0 calls",
        ),
        (
            RunCompleted,
            _SETTLED,
            {"usage": UsageTotals(), "exhausted": "turns"},
            "done      completed · the limit on turns was reached · 0.00 s",
        ),
    ],
)
def test_the_last_line_says_how_it_ended(
    kind: type[Any], settled: RunSettled, more: dict[str, Any], expected: str
) -> None:
    event = _Script()(kind, settlement=settled, **more)
    file = io.StringIO()
    timeline = Timeline(open_page(file, width=200))
    timeline.show(event)
    assert expected in file.getvalue()
    assert timeline.terminal is event


def _asked(summary: str) -> ApprovalRequest:
    return ApprovalRequest(
        id=RequestId("q1"),
        run=_TRACE.run,
        conversation=_TRACE.conversation,
        agent=_TRACE.agent,
        call=_CALL.id,
        tool="pay",
        principal=_BOSS,
        summary=summary,
        targets=(),
        risk="high",
        preview="{}",
        arguments=Digest("d"),
        expires_at=None,
        denial="terminal",
    )


def test_approvals_and_a_suspension_are_shown() -> None:
    make = _Script()
    page = _shown(
        [
            make(ApprovalAsked, request=_asked("pay 10 into A1")),
            make(
                ApprovalGiven, call=_CALL.id, verdict="approved", source="grant", by=Principal(name="boss"), reason=""
            ),
            make(RunSuspended, requests=(_asked("x"),), usage=UsageTotals(), turns=1),
        ]
    )
    assert [line[10:] for line in page.splitlines()] == [
        "waits     pay · high risk · pay 10 into A1",
        "approved  by boss (grant)",
        "suspended waits for 1 answer · 0.02 s · 1 turn · 0 calls",
    ]


def _hostile(poison: str) -> list[Event]:
    """Every text that comes from outside holds `poison`."""
    make = _Script()
    media = Media(media_type=poison, base64="")
    json_poison = JsonText('"' + poison.replace("\\", "").replace('"', "") + '"')
    bad = CallDefect(reason="not-json", raw=poison)
    spoilt = ToolCall(id=CallId("r1-1-1"), name=poison, arguments=JsonText("{}"), defect=bad)
    calls = (ToolCall(id=_CALL.id, name=poison, arguments=json_poison), spoilt)
    return [
        make(RunBegan),
        make(
            InputEntered,
            source="steering",
            author=poison,
            parts=(Text(text=poison), media),
        ),
        make(TurnBegan, turn=1, attempt=1),
        make(ReasoningDelta, turn=1, attempt=1, text=poison),
        make(TextDelta, turn=1, attempt=1, text=poison),
        make(TurnEnded, turn=1, text=f"other {poison}", calls=calls, finish="tool-calls", usage=Usage()),
        make(CallBegan, turn=1, call=_CALL.id, tool=poison),
        make(CallProgressed, turn=1, call=_CALL.id, note=poison, done=None, total=None),
        make(CallEnded, turn=1, call=_CALL.id, tool=poison, outcome=ToolSuccess(output=json_poison)),
        make(CallEnded, turn=1, call=spoilt.id, tool=poison, outcome=ToolRejected(reason="denied", detail=poison)),
        make(CallEnded, turn=1, call=spoilt.id, tool=poison, outcome=ToolFailure(type=poison, payload=json_poison)),
        make(TurnInterrupted, turn=2, attempt=1, reason=poison, usage=Usage(), retry_at=None),
        make(ApprovalAsked, request=_asked(poison)),
        make(
            ApprovalGiven,
            call=_CALL.id,
            verdict="denied",
            source="approver",
            by=Principal(name=poison),
            reason=poison,
        ),
        make(
            RunFailed,
            settlement=RunSettled(run=RunId("r1"), status="failed", usage=UsageTotals(), turns=1),
            failure=RunFailure(code="denied", detail=poison),
        ),
    ]


def test_nobody_writes_to_the_terminal_but_the_page() -> None:
    page = _shown(_hostile(_ESCAPES + "x"), width=120)
    assert {char for char in page if not char.isprintable()} == {"\n"}
    assert "␛[2J" in page
    styled = _plain(_shown(_hostile(_ESCAPES + "x"), width=120, terminal=True))
    assert styled == page


def test_nobodys_text_is_markup() -> None:
    poison = "[bold red]x[/bold red] [link=https://example.org]y[/link] :smile: [/]"
    page = _shown(_hostile(poison), width=150)
    assert page.count(poison) >= 10
    assert _plain(_shown(_hostile(poison), width=150, terminal=True)) == page


@given(
    st.text(st.characters(codec="utf-8"), max_size=300)
    | st.lists(st.sampled_from(["word", "x" * 150, " ", "\n", "日本語", "👩‍👩‍👧", "\t", "é"]), max_size=40).map(
        "".join
    ),
    st.integers(10, 150),
)
def test_lines_fit_the_terminal_and_hold_nothing_unsafe(poison: str, width: int) -> None:
    page = _shown(_hostile(poison), width=width)
    for line in page.splitlines():
        assert cell_len(line) <= width, line
    # Joiners are wanted; of the others, what no version of Unicode known here calls printable.
    odd = {char for char in page if not char.isprintable()} - {"\n", "\u200c", "\u200d"}
    assert {unicodedata.category(char) for char in odd} <= {"Cn", "Co", "Zs"}


def test_megabytes_are_no_page() -> None:
    page = _shown(_hostile("[" + "ab " * 1_000_000))
    assert page.count("\n") < 150
    assert "more characters)" in page
    assert max(len(line) for line in page.splitlines()) <= 80


def test_a_terminal_without_unicode_gets_ascii() -> None:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding="ascii", errors="strict")
    timeline = Timeline(open_page(file, width=100))
    for event in [*_ordinary()[:-1], *_hostile("naïve → 日本")]:
        timeline.show(event)
    file.flush()
    page = raw.getvalue().decode("ascii")
    assert 'ok        add 20.0 ms -> {"sum": 6}' in page
    assert r"na\xefve" in page


async def test_it_observes_a_real_run() -> None:
    @tool(execution="readonly")
    async def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    agent = Agent(id=AgentId("adder"), input=str, output=str, toolkit=Toolkit([add]))
    first = turn(reasoning("hm", chunks=2), call("add", {"a": 1, "b": 2}), call("add", {"a": 1}), call("sub", {}))
    model = ScriptedModel([first, turn(text("It is three.", chunks=4))])
    file = io.StringIO()
    async with (
        open_kernel(agents=[agent], capabilities=in_memory(model=model)) as kernel,
        kernel.stream(agent, "1 + 2?") as run,
    ):
        terminal = await show_timeline(run.events(), Console(file=file, width=100))
    assert isinstance(terminal, RunCompleted)
    rows = [line[10:].rstrip() for line in file.getvalue().splitlines()]
    assert rows[:4] == [
        "asked     1 + 2?",
        "turn 1    asking the model",
        "thinks    hm",
        'calls     add {"a": 1, "b": 2}',
    ]
    assert "calls     sub {}" in rows
    assert [row[:13] for row in rows if row[0] in "✓✗"] == ["✓         add", "✗         add", "✗         sub"]
    assert "          It is three." in rows
    assert rows[-1].startswith("done      completed")


async def test_events_that_end_early_give_no_terminal_event() -> None:
    async def some() -> AsyncIterator[Event]:
        for event in _ordinary()[:5]:
            yield event

    assert await show_timeline(some(), Console(file=io.StringIO())) is None


class _Gone(io.StringIO):
    """A reader who has left."""

    def flush(self) -> None:
        raise BrokenPipeError


def test_a_reader_who_has_gone_is_the_callers_business() -> None:
    timeline = Timeline(open_page(_Gone(), width=80))
    with pytest.raises(BrokenPipeError):
        timeline.show(_ordinary()[1])


def test_clocks_that_go_back_do_not_take_the_timeline_with_them() -> None:
    early = RunBegan(trace=_TRACE, sequence=1, at=Instant(_START))
    later = TurnBegan(trace=_TRACE, sequence=2, at=Instant(_START - 5_000_000), turn=1, attempt=1)
    assert _shown([early, later]).startswith("  0.00 s  turn 1")


@pytest.mark.parametrize(
    ("given_text", "expected"),
    [
        ("plain", "plain"),
        ("a\r\nb\rc\nd", "a\nb\nc\nd"),
        ("a\tb", "a b"),
        ("\x1b[31mred", "␛[31mred"),
        ("\x7f\x80\x9b", "␡\ufffd\ufffd"),
        ("\u202egnp.exe", "\ufffdgnp.exe"),
        ("z" + "\u0301" * 50, "z" + "\u0301" * 3),
        ("👩‍👩‍👧 café ❤️", "👩‍👩‍👧 café ❤️"),
        ("\ud800", "\ufffd"),
        ("\U000e0041\U000e0042", "\ufffd\ufffd"),
    ],
)
def test_visible_text(given_text: str, expected: str) -> None:
    assert visible(given_text) == expected


def test_visible_line_is_one_line() -> None:
    assert visible_line("  a\n\n b\t\x0bc ") == "a b ␋c"


@given(st.text())
def test_visible_text_is_safe_and_stays_so(given_text: str) -> None:
    shown = visible(given_text)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u2028-\u202e\u2066-\u2069\ud800-\udfff]", shown)
    assert visible(shown) == shown
