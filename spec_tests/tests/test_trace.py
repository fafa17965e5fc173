"""The event source: ordered, bounded, and never a reason for a run to wait; one terminal event, and it is the last."""

from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from tests.kernel_world import START, World, one_agent, talker
from tests.machine_moves import after, answer, answered, decided, opened, requested, responded, seam
from triolet.adapters.clocks import TrioClock
from triolet.adapters.scripted_model import call, reasoning, text, turn
from triolet.kernel import ToolContext, tool
from triolet.kernel.machine.state import ConversationState
from triolet.kernel.trace import RING, EventReader, EventSource
from triolet.ports.events import (
    CallBegan,
    CallEnded,
    CallProgressed,
    Event,
    Gap,
    InputEntered,
    LiveEvent,
    ReasoningDelta,
    RunBegan,
    RunCompleted,
    SemanticEvent,
    TerminalEvent,
    TextDelta,
    Trace,
    TurnBegan,
    TurnEnded,
)
from triolet.ports.identity import AgentId, ConversationId, Instant, RunId
from triolet.ports.records import Record

TRACE = Trace(run=RunId("r"), conversation=ConversationId("c"), agent=AgentId("a"))
IDLE = after(opened())


class _Still:
    def now(self) -> Instant:
        return START


class Emitter:
    """A source with short ways to emit."""

    def __init__(self, *, observed: bool = True) -> None:
        self.source = EventSource(TRACE, _Still(), observed=observed)

    def begin(self) -> None:
        """Two semantic events: the run began, and its input."""
        self._record(IDLE, *decided(IDLE, requested()))

    def live(self, count: int = 1) -> None:
        for _ in range(count):
            self.source.live(TextDelta, turn=1, attempt=1, text="x")

    def semantic(self) -> None:
        """One semantic event: a turn ended."""
        self._record(seam(), *decided(seam(), responded()))

    def settle(self) -> None:
        """The terminal event."""
        self._record(answer(), *decided(answer(), answered()))

    def _record(self, state: ConversationState, *records: Record) -> None:
        for record in records:
            self.source.record(state, record, START)


def there(reader: EventReader) -> list[Event]:
    """What the reader can read now, without waiting."""
    events: list[Event] = []
    while (event := reader._source.next_for(reader)) is not None:
        events.append(event)
    return events


def assert_in_order(events: list[Event]) -> None:
    numbers = [event.sequence for event in events]
    assert numbers == sorted(set(numbers)), numbers


# --- one reader ---------------------------------------------------------------------------------------


def test_events_come_in_order_of_their_numbers() -> None:
    emit = Emitter()
    emit.begin()
    emit.live(2)
    emit.semantic()
    emit.live()
    emit.settle()
    events = there(emit.source.reader())
    assert [type(event) for event in events] == [
        RunBegan,
        InputEntered,
        TextDelta,
        TextDelta,
        TurnEnded,
        TextDelta,
        RunCompleted,
    ]
    assert [event.sequence for event in events] == [1, 2, 3, 4, 5, 6, 7]
    assert all(event.trace is TRACE for event in events)


def test_a_full_ring_misses_nothing_and_one_more_is_a_gap() -> None:
    emit = Emitter()
    emit.live(RING)
    reader, late = emit.source.reader(), emit.source.reader()
    assert len(there(reader)) == RING
    emit.live()
    gap, *rest = there(late)
    assert isinstance(gap, Gap)
    assert gap.missed == 1
    assert gap.sequence == 1
    assert [event.sequence for event in rest] == list(range(2, RING + 2))
    assert len(there(reader)) == 1


def test_a_late_reader_gets_every_semantic_event_and_the_gap_in_its_place() -> None:
    emit = Emitter()
    emit.begin()
    emit.live(RING + 50)
    emit.semantic()
    emit.settle()
    events = there(emit.source.reader())
    assert_in_order(events)
    assert [type(event) for event in events[:3]] == [RunBegan, InputEntered, Gap]
    assert sum(event.missed for event in events if isinstance(event, Gap)) == 50
    assert [type(event) for event in events[-2:]] == [TurnEnded, RunCompleted]


def test_a_gap_takes_no_number_that_another_event_has() -> None:
    emit = Emitter()
    emit.live()
    emit.semantic()
    emit.live(RING)
    events = there(emit.source.reader())
    assert_in_order(events)
    assert [type(event) for event in events[:3]] == [Gap, TurnEnded, TextDelta]


def test_a_reader_that_falls_behind_again_gets_a_second_gap() -> None:
    emit = Emitter()
    reader = emit.source.reader()
    for round_ in (1, 2):
        emit.live(RING + round_)
        gap, *rest = there(reader)
        assert isinstance(gap, Gap)
        assert gap.missed == round_
        assert len(rest) == RING


@given(steps=st.lists(st.tuples(st.sampled_from(["live", "many", "semantic", "read"]), st.integers(1, 5)), max_size=40))
def test_whatever_is_emitted_and_read_every_event_is_read_or_counted(steps: list[tuple[str, int]]) -> None:
    emit = Emitter()
    reader, late = emit.source.reader(), emit.source.reader()
    seen: list[Event] = []
    live = semantic = 0
    for what, count in steps:
        match what:
            case "live" | "many":
                number = count * (RING // 3 if what == "many" else 1)
                emit.live(number)
                live += number
            case "semantic":
                emit.semantic()
                semantic += 1
            case _:
                for _ in range(count):
                    event = emit.source.next_for(reader)
                    seen += [event] if event is not None else []
    emit.settle()
    emit.source.end()
    for events in (seen + there(reader), there(late)):
        assert_in_order(events)
        assert sum(isinstance(event, SemanticEvent) for event in events) == semantic
        missed = sum(event.missed for event in events if isinstance(event, Gap))
        assert missed + sum(isinstance(event, LiveEvent) for event in events) == live
        assert [isinstance(event, TerminalEvent) for event in events].count(True) == 1
        assert isinstance(events[-1], TerminalEvent)


# --- the end ------------------------------------------------------------------------------------------


def test_nothing_follows_the_terminal_event() -> None:
    emit = Emitter()
    emit.begin()
    reader = emit.source.reader()
    emit.settle()
    # A handler's context that outlived its run, or a thread that was abandoned.
    emit.live()
    for events in (there(reader), there(emit.source.reader())):
        assert isinstance(events[-1], RunCompleted)
        assert_in_order(events)
    assert there(reader) == []
    emit.live()
    assert there(reader) == []


def test_nothing_follows_the_end_of_an_attempt_that_settled_nothing() -> None:
    emit = Emitter()
    emit.begin()
    emit.source.end()
    emit.live()
    assert [type(event) for event in there(emit.source.reader())] == [RunBegan, InputEntered]


def test_where_nobody_observes_only_the_terminal_event_is_kept() -> None:
    emit = Emitter(observed=False)
    emit.begin()
    emit.live(1000)
    emit.settle()
    assert isinstance(emit.source.terminal, RunCompleted)
    assert [type(event) for event in there(emit.source.reader())] == [RunCompleted]


async def test_readers_end_with_the_source(autojump_clock: trio.testing.MockClock) -> None:
    emit = Emitter()
    emit.begin()
    seen: dict[str, list[Event]] = {"one": [], "two": []}

    async def read(name: str) -> None:
        async for event in emit.source.reader():
            seen[name].append(event)

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read, "one")
            nursery.start_soon(read, "two")
            await trio.testing.wait_all_tasks_blocked()
            assert len(seen["one"]) == len(seen["two"]) == 2
            emit.settle()
            emit.source.end()
    assert seen["one"] == seen["two"]
    assert [type(event) for event in seen["one"]] == [RunBegan, InputEntered, RunCompleted]
    # Iterating once more gives nothing, and waits for nothing.
    done = emit.source.reader()
    assert len([event async for event in done]) == 3
    assert [event async for event in done] == []


async def test_a_cancelled_reader_misses_no_event(autojump_clock: trio.testing.MockClock) -> None:
    emit = Emitter()
    reader = emit.source.reader()
    emit.live(3)
    with trio.CancelScope() as scope:
        scope.cancel()
        await reader.__anext__()
    assert scope.cancelled_caught
    with trio.fail_after(1):
        assert [(await reader.__anext__()).sequence for _ in range(3)] == [1, 2, 3]
    with trio.CancelScope() as scope:
        scope.cancel()
        await reader.__anext__()
    emit.live()
    assert (await reader.__anext__()).sequence == 4


# --- real runs ----------------------------------------------------------------------------------------


@tool(execution="readonly")
async def count(context: ToolContext, upto: int) -> int:
    """Count."""
    for number in range(upto):
        context.progress("counting", done=float(number))
    return upto


TURNS = (
    turn(reasoning("Hmm."), "I count.", call("count", {"upto": 2}), call("nope")),
    turn(text("Counted.", chunks=2)),
)


async def test_the_timeline_of_a_run(world: World, autojump_clock: trio.testing.MockClock) -> None:
    agent = talker(count)
    async with one_agent(world, agent, *TURNS) as (kernel, _), kernel.stream(agent, "go") as handle:
        events = [event async for event in handle]
        again = [event async for event in handle.events()]
        result = await handle.result()
    assert events == again
    assert_in_order(events)
    kinds = [type(event) for event in events]
    assert kinds == [
        RunBegan,
        InputEntered,
        TurnBegan,
        ReasoningDelta,
        TextDelta,
        TurnEnded,
        CallBegan,
        CallProgressed,
        CallProgressed,
        CallEnded,
        CallEnded,
        TurnBegan,
        TextDelta,
        TextDelta,
        TurnEnded,
        RunCompleted,
    ]
    assert result.output == "Counted."
    ends = [event for event in events if isinstance(event, CallEnded)]
    assert [(event.turn, event.call, event.tool) for event in ends] == [
        (1, "run1-1-0", "count"),
        (1, "run1-1-1", "nope"),
    ]


async def test_no_event_is_seen_before_its_record_is_true(world: World, autojump_clock: trio.testing.MockClock) -> None:
    agent = talker(count)
    async with one_agent(world, agent, *TURNS) as (kernel, _):
        world.store.pauses = trio.lowlevel.checkpoint
        async with kernel.stream(agent, "go") as handle:
            async for event in handle:
                on_record = [type(record).__name__ for record in world.records()]
                match event:
                    case RunBegan():
                        assert "RunStarted" in on_record
                    case TurnEnded(turn=number):
                        assert on_record.count("ModelResponded") == number
                    case CallEnded():
                        assert "ToolSettled" in on_record
                    case RunCompleted():
                        assert on_record[-1] == "RunSettled"
                    case _:
                        pass


@pytest.mark.parametrize("behaviour", ["vanishes", "sleeps", "never reads", "raises"])
async def test_no_observer_holds_up_or_decides_a_run(
    world: World, autojump_clock: trio.testing.MockClock, behaviour: str
) -> None:
    agent = talker(count)
    many = turn(text("x" * 2 * RING, chunks=2 * RING))
    async with one_agent(world, agent, TURNS[0], many) as (kernel, _), kernel.stream(agent, "go") as handle:

        async def observe() -> None:
            async for _ in handle:
                if behaviour == "vanishes":
                    return
                await trio.sleep(3600)

        if behaviour == "raises":
            with pytest.raises(RuntimeError):
                async for _ in handle:
                    raise RuntimeError
        before = trio.current_time()
        async with trio.open_nursery() as nursery:
            if behaviour in ("vanishes", "sleeps"):
                nursery.start_soon(observe)
            result = await handle.result()
            nursery.cancel_scope.cancel()
        assert result.output == "x" * 2 * RING
        assert trio.current_time() == before
        late = [event async for event in handle]
    assert_in_order(late)
    assert sum(event.missed for event in late if isinstance(event, Gap)) > 0
    assert isinstance(late[-1], RunCompleted)
    semantic = [event for event in late if isinstance(event, SemanticEvent)]
    assert [type(event) for event in semantic] == [RunBegan, InputEntered, TurnEnded, CallEnded, CallEnded, TurnEnded]


async def test_events_carry_the_clocks_time(world: World, mock_clock: trio.testing.MockClock) -> None:
    world.clock = TrioClock(START)
    agent = talker(count)
    opens = trio.Event()
    async with one_agent(world, agent, turn("x").gated(opens)) as (kernel, _), kernel.stream(agent, "go") as handle:
        reader: Any = handle.events()
        assert (await reader.__anext__()).at == START
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(7)
        opens.set()
        last = [event async for event in reader][-1]
    assert last.at == START + 7_000_000
