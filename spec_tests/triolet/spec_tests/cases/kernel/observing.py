"""Slow, late and vanished observers: how much is kept for them, and that nobody else notices them.

RUN-010.
"""

from collections.abc import Sequence
from typing import Final

import trio

from triolet.adapters.scripted_model import ScriptItem, text, turn
from triolet.kernel import Completed
from triolet.ports.events import (
    Event,
    Gap,
    InputEntered,
    LiveEvent,
    RunBegan,
    RunCompleted,
    SemanticEvent,
    TerminalEvent,
    TextDelta,
    TurnEnded,
)
from triolet.spec_tests.cases.kernel.setting import KernelSubject, open_bench, turns_pass
from triolet.spec_tests.claims import ensure, ensure_equal
from triolet.spec_tests.definition import case

_PIECES: Final = 2_000
_LEAST: Final = 64
"""Live events that an observer may fall behind without missing one."""
_MOST: Final = 1_024
"""Live events that are kept for anybody at most."""


@case("RUN-010")
async def a_slow_observer_is_told_what_it_missed(subject: KernelSubject) -> None:
    """One that sleeps through an answer of 2,000 deltas reads the newest of them, and how many came before those."""
    begun, go_on = trio.Event(), trio.Event()
    events: list[Event] = []
    async with (
        open_bench(subject, [_answer()]) as bench,
        bench.kernel.stream(bench.agent, "go") as handle,
        trio.open_nursery() as nursery,
    ):

        async def read_slowly() -> None:
            async for event in handle:
                events.append(event)
                if not begun.is_set():
                    begun.set()
                    await go_on.wait()

        nursery.start_soon(read_slowly)
        ensure_equal(type(await handle.result()), Completed, "the result while an observer sleeps")
        await begun.wait()
        go_on.set()
    _ensure_bounded(events, "a slow observer")


@case("RUN-010")
async def a_late_observer_misses_deltas_only(subject: KernelSubject) -> None:
    """One that comes when all is over reads every semantic event, and of the deltas the newest, as many as are kept."""
    async with (
        open_bench(subject, [_answer()]) as bench,
        bench.kernel.stream(bench.agent, "go") as handle,
    ):
        await handle.result()
        events = [event async for event in handle.events()]
    _ensure_bounded(events, "a late observer")
    semantic = [type(event) for event in events if isinstance(event, SemanticEvent)]
    ensure_equal(semantic, [RunBegan, InputEntered, TurnEnded], "semantic events that a late observer gets")
    ensure_equal(sum(isinstance(event, TerminalEvent) for event in events), 1, "terminal events, for a late observer")


@case("RUN-010")
async def an_observer_that_leaves_is_not_missed(subject: KernelSubject) -> None:
    """One that stops reading, and one that is cancelled while it waits: no other misses an event over that."""
    opened = trio.Event()
    waiting: list[Event] = []
    async with (
        open_bench(subject, [turn("held").gated(opened)]) as bench,
        bench.kernel.stream(bench.agent, "go") as handle,
    ):
        async for _ in handle:
            break

        async def wait_for_more() -> None:
            async for event in handle:
                waiting.append(event)  # noqa: PERF401 -- it is cancelled in between, and what it has read counts

        async with trio.open_nursery() as leaving:
            leaving.start_soon(wait_for_more)
            await turns_pass(lambda: len(waiting) > 1, "the events before the answer")
            leaving.cancel_scope.cancel()
        opened.set()
        events = [event async for event in handle]
        ensure_equal(type(await handle.result()), Completed, "the result after observers have left")
    ensure_equal(events[: len(waiting)], waiting, "what one that was cancelled had read")
    ensure_equal(type(events[-1]), RunCompleted, "the last event of the one that stayed")
    ensure(any(isinstance(event, TextDelta) for event in events), "the one that stayed missed a delta")


def _ensure_bounded(events: Sequence[Event], who: str) -> None:
    live = [event for event in events if isinstance(event, LiveEvent)]
    deltas = [event for event in live if isinstance(event, TextDelta)]
    missed = sum(event.missed for event in events if isinstance(event, Gap))
    ensure_equal(len(live) + missed, _PIECES + 1, f"live events that {who} saw or was told of")
    ensure(len(live) >= _LEAST, f"{who} was left {len(live)} live events, where {_LEAST} may lie between two looks")
    ensure(len(live) <= _MOST, f"{len(live)} live events were kept for {who}: that is no bound")
    ensure_equal("".join(each.text for each in deltas), _TEXT[-len(deltas) :], f"the newest deltas, for {who}")
    numbers = [event.sequence for event in events]
    ensure_equal(numbers, sorted(set(numbers)), f"the numbers of what {who} saw")


_TEXT: Final = "".join(chr(ord("a") + place % 26) for place in range(_PIECES))


def _answer() -> ScriptItem:
    return turn(text(_TEXT, chunks=_PIECES))


OBSERVING = (
    a_slow_observer_is_told_what_it_missed,
    a_late_observer_misses_deltas_only,
    an_observer_that_leaves_is_not_missed,
)
