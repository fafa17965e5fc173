"""Rows 1 to 6: what the kernel itself costs, on a model that costs nothing and never yields.

Decides the workloads. Everything goes through the public API, with history validation and events on, over a memory
store. The model keeps none of its requests: what they hold would be counted as the kernel's.
"""

import gc
import random
import time
import tracemalloc
from collections.abc import Iterable
from typing import Any, Self

import attrs
import trio

from bench.row import Effort, Row, expect, rounds_of
from triolet.adapters.memory import MemoryConversations, in_memory
from triolet.adapters.scripted_model import ScriptedModel, ScriptItem, call, text, turn
from triolet.kernel import Agent, Completed, Kernel, Policy, RunResult, Toolkit, open_kernel, tool
from triolet.ports.conversation_store import Address
from triolet.ports.events import Gap, TextDelta
from triolet.ports.identity import DEFAULT_TENANT, ConversationId
from triolet.ports.language_model import ModelRequest

_CALLS, _BATCHES, _DELTAS, _TASKS, _MESSAGES = 8, 10, 2_000, 1_000, 100


@tool(execution="readonly")
async def trivial(n: int) -> int:
    """Give it back."""
    return n


@tool(execution="readonly")
async def waits(n: int) -> int:
    """Give it back after ten milliseconds."""
    await trio.sleep(0.01)
    return n


_FREE = Policy(max_turns=5_000, max_tool_calls=10_000, max_seconds=None)
PLAIN: Agent[str, str] = Agent(id="plain", input=str, output=str, instructions="Answer.")
TOOLED: Agent[str, str] = Agent(
    id="tooled", input=str, output=str, instructions="Work.", toolkit=Toolkit([trivial, waits]), policy=_FREE
)


async def one_run(effort: Effort) -> list[Row]:
    """Row 1: a run without tools, run and streamed."""
    # Shorter rounds and more of them: a run is short, and what else the machine does comes in pieces longer than that.
    each, effort = effort.times(10), attrs.evolve(effort, rounds=8 * effort.rounds)
    async with _kernel([turn(text("done"))]) as kernel:

        async def run() -> None:
            for _ in range(each):
                _ended("run", await kernel.run(PLAIN, "go"), "done")

        async def stream() -> None:
            for _ in range(each):
                async with kernel.stream(PLAIN, "go") as handle:
                    kinds = [event.kind async for event in handle]
                    _ended("stream", await handle.result(), "done")
                expect("stream", holds=kinds[-1] == "run-completed" and len(kinds) == 6, problem="events are missing")

        ran, streamed = await rounds_of(effort, each, run), await rounds_of(effort, each, stream)
    return [
        Row(name="1 run without tools", value=ran[0], median=ran[1], unit="us CPU", target=100, floor_note=_RUN),
        Row(
            name="1 run without tools, streamed",
            value=streamed[0],
            median=streamed[1],
            unit="us CPU",
            target=150,
            floor_note=_STREAM,
        ),
    ]


async def tool_calls(effort: Effort) -> list[Row]:
    """Row 2: ten turns of eight parallel trivial calls."""
    script = [turn(*[call("trivial", {"n": n}) for n in range(_CALLS)]) for _ in range(_BATCHES)] + [turn("done")]
    async with _kernel([turn("unused")]) as kernel:

        async def run() -> None:
            result = await kernel.run(TOOLED, "go", model=ScriptedModel(script, remember=0))
            _ended("tool calls", result, "done")
            expect("tool calls", holds=result.turns == _BATCHES + 1, problem="turns are missing")

        best, median = await rounds_of(effort, _CALLS * _BATCHES, run)
    return [Row(name="2 tool call", value=best, median=median, unit="us CPU", target=60, floor_note=_CALL)]


async def deltas(effort: Effort) -> list[Row]:
    """Row 3: one response of 2,000 deltas through the event stream, to an observer who keeps up."""
    count = effort.times(_DELTAS)
    model = ScriptedModel([turn(text("x" * count, chunks=count))], then_repeat=True, remember=0)
    async with _kernel([turn("unused")]) as kernel:

        async def run() -> None:
            seen = missed = 0
            async with kernel.stream(PLAIN, "go", model=model) as handle:
                async for event in handle:
                    if isinstance(event, TextDelta):
                        seen += 1
                    elif isinstance(event, Gap):
                        missed += event.missed
                _ended("deltas", await handle.result(), "x" * count)
            expect("deltas", holds=(seen, missed) == (count, 0), problem=f"{seen} seen and {missed} missed of {count}")

        best, median = await rounds_of(effort, count, run)
    return [Row(name="3 text delta", value=best, median=median, unit="us CPU", target=2.5, floor_note=_DELTA)]


async def many_runs(effort: Effort) -> list[Row]:
    """Row 4: a thousand runs at once, each with one tool that takes ten milliseconds."""
    count = effort.times(_TASKS)

    def respond(request: ModelRequest) -> Any:
        return turn(call("waits", {"n": 1})) if request.turn == 1 else turn("done")

    async with _kernel([respond]) as kernel:
        ended: list[RunResult[str]] = []

        async def one() -> None:
            ended.append(await kernel.run(TOOLED, "go"))

        async def all_of_them() -> None:
            async with trio.open_nursery() as nursery:
                for _ in range(count):
                    nursery.start_soon(one)

        seconds: list[float] = []
        for _ in range(max(1, effort.rounds // 8)):
            ended.clear()
            began = time.process_time()
            await all_of_them()
            seconds.append(time.process_time() - began)
            for result in ended:
                _ended("many runs", result, "done")
            expect("many runs", holds=len(ended) == count, problem="runs are missing")
        ended.clear()
        added = await _peak_of(all_of_them)
    share = count / _TASKS
    seconds.sort()
    return [
        Row(
            name="4 a thousand runs at once",
            value=seconds[0] / share,
            median=seconds[len(seconds) // 2] / share,
            unit="s CPU",
            target=0.5,
            floor_note=_CALL,
        ),
        Row(
            name="4 memory added by a run",
            value=added / count / 1024,
            unit="KiB",
            target=20,
            floor_note=_WAITING,
        ),
    ]


async def idle_conversation(effort: Effort) -> list[Row]:
    """Row 5: what a conversation of a hundred messages takes while nothing happens, live and packed."""
    count = max(2, effort.times(20))
    store = MemoryConversations()
    people = _People()
    model = ScriptedModel([lambda _: turn(people.say())], then_repeat=True, remember=0)
    async with open_kernel(agents=[PLAIN], capabilities=in_memory(model=model, conversations=store)) as kernel:
        async with _Held(kernel, people) as warm:
            await warm.converse("warm")
        gc.collect()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            async with _Held(kernel, people) as held:
                for number in range(count):
                    await held.converse(f"c{number}")
                gc.collect()
                live = (tracemalloc.get_traced_memory()[0] - before) / count
            for number in range(count):
                store.pack(Address(tenant=DEFAULT_TENANT, conversation=ConversationId(f"c{number}")))
            gc.collect()
            packed = (tracemalloc.get_traced_memory()[0] - before) / count
        finally:
            tracemalloc.stop()
    return [
        Row(name="5 idle conversation, live", value=live / 1024, unit="KiB", target=45, floor_note=_LIVE),
        Row(name="5 idle conversation, packed", value=packed / 1024, unit="KiB", target=30),
    ]


async def late_turns(effort: Effort) -> list[Row]:
    """Row 6: the tenth and the thousandth turn of one run, each with one call."""
    last = max(60, effort.times(1_000))
    script: list[ScriptItem] = [*[turn(call("trivial", {"n": 1}))] * (last + 10), turn("done")]
    early: list[float] = []
    late: list[float] = []
    async with _kernel([turn("unused")]) as kernel:
        for _ in range(max(3, effort.rounds // 3)):
            model = _Marking(script)
            result = await kernel.run(TOOLED, "go", model=model)
            _ended("late turns", result, "done")
            marks = model.marks
            expect("late turns", holds=len(marks) == last + 11, problem="turns are missing")
            early.append((marks[20] - marks[5]) / 15)
            late.append((marks[last + 7] - marks[last - 8]) / 15)
    first, thousandth = min(early) * 1e3, min(late) * 1e3
    return [
        Row(name="6 turn 1,000 over turn 10", value=thousandth / first, unit="ratio", target=1.1),
        Row(name="6 turn 1,000", value=thousandth, unit="ms CPU", target=0.3),
    ]


class _Marking(ScriptedModel):
    """Notes the processor time at each request."""

    def __init__(self, script: Iterable[ScriptItem]) -> None:
        super().__init__(script, remember=0)
        self.marks: list[float] = []

    def stream(self, request: ModelRequest) -> Any:
        self.marks.append(time.process_time())
        return super().stream(request)


class _People:
    """Who says sentences of about 185 bytes, no two of them alike: nothing is shared, and little can be packed away."""

    def __init__(self) -> None:
        self._chance = random.Random(5)
        self.last = ""

    def say(self) -> str:
        """One more sentence."""
        words = ("".join(self._chance.choices("etaoinshrdlu", k=self._chance.randint(2, 9))) for _ in range(30))
        self.last = " ".join(words)[:185]
        return self.last


@attrs.define
class _Held:
    """Conversations that stay open."""

    kernel: Kernel
    people: _People
    open: list[Any] = attrs.field(factory=list[Any])

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for scope in reversed(self.open):
            await scope.__aexit__(None, None, None)

    async def converse(self, name: str) -> None:
        """Open a conversation, and have its messages said."""
        scope = self.kernel.conversation(name)
        talk = await scope.__aenter__()
        self.open.append(scope)
        for _ in range(_MESSAGES // 2):
            result = await talk.run(PLAIN, self.people.say())
            _ended("conversation", result, self.people.last)
        expect("conversation", holds=len(talk.history) == _MESSAGES, problem="messages are missing")


async def _peak_of(work: Any) -> float:
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        await work()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def _kernel(script: list[ScriptItem]) -> Any:
    model = ScriptedModel(script, then_repeat=True, remember=0)
    return open_kernel(agents=[PLAIN, TOOLED], capabilities=in_memory(model=model))


def _ended(row: str, result: RunResult[str], output: str) -> None:
    fine = isinstance(result, Completed) and result.output == output and result.exhausted is None
    expect(row, holds=fine, problem="a run did not end with its answer")


_RUN = (
    "five verbs of the store, two commits that are encoded, hashed and folded, and two scopes that make a run "
    "cancellable: the profile is flat, and no part of it is more than a tenth"
)
_STREAM = "what a run costs, and a task and a nursery for it beside its observer"
_CALL = "each call has a task and a deadline of its own, and its result a record and a state of the run"
_DELTA = "an event is an immutable value of seven fields, and making that is a third of it"
_WAITING = "tasks, scopes and frames of a run that waits for its tool are half of it; the rest is its state and its log"
_LIVE = "a live log keeps its batches as the objects that were appended; only a hint that it is idle packs them"
