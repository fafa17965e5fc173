"""One interpreter, one terminal event, one settlement; and observers who cannot hold it up.

RUN-001, RUN-002, RUN-010.
"""

from collections.abc import Sequence
from typing import Final

import attrs
import trio

from triolet.adapters.scripted_model import ScriptItem, call, text, turn
from triolet.kernel import Agent, Completed, Policy, tool
from triolet.ports.events import (
    CallEnded,
    Event,
    RunSuspended,
    TerminalEvent,
    TurnEnded,
    TurnInterrupted,
)
from triolet.ports.language_model import ModelUnavailable
from triolet.ports.records import RunSettled
from triolet.spec_tests.cases.kernel.setting import KernelSubject, open_bench, text_agent, turns_pass
from triolet.spec_tests.claims import ensure, ensure_equal
from triolet.spec_tests.definition import case


@attrs.frozen(kw_only=True)
class Answer:
    """A structured answer."""

    words: int


@tool(execution="readonly")
async def count(text: str) -> int:
    """Count words."""
    return len(text.split())


@tool
async def fail() -> str:
    """Fail."""
    raise RuntimeError("no")


_UNAVAILABLE: Final = ModelUnavailable(model="scripted", reason="overloaded", status=503)
_LOOP: Final = [turn(call("count", {"text": "a b"}))] * 4

SCENARIOS: Final[dict[str, tuple[Agent[str, object], Sequence[ScriptItem]]]] = {
    "an answer": (text_agent(), [turn("hello")]),
    "tools": (
        text_agent(count, fail),
        [turn("Let me see.", call("count", {"text": "a b"}), call("fail"), call("nope")), turn("two")],
    ),
    "a correction": (text_agent(count, output=Answer), [turn("two"), turn('{"words": 2}')]),
    "used-up turns": (text_agent(count, policy=Policy(max_turns=2)), [*_LOOP[:2], turn("enough")]),
    "used-up calls": (text_agent(count, policy=Policy(max_tool_calls=1)), [*_LOOP[:2], turn("enough")]),
    "a failing limit": (text_agent(count, policy=Policy(max_turns=2, exhaustion="fail")), _LOOP),
    "a forbidden call": (text_agent(count, policy=Policy(max_turns=1)), _LOOP),
    "a model that breaks": (text_agent(), [turn("half an answer").failing(_UNAVAILABLE, after=1)]),
}
"""Ways in which a run can go, by agent and script, that need nobody's help."""


@case("RUN-001")
async def run_is_what_stream_shows(subject: KernelSubject) -> None:
    """`run` and `stream` of the same script give the same result and write the same records, batch by batch."""
    for name, (agent, script) in SCENARIOS.items():
        async with open_bench(subject, script, agent) as plain:
            result = await plain.run()
        async with open_bench(subject, script, agent) as streamed:
            _, observed = await streamed.observe()
        ensure_equal(_shape(observed), _shape(result), f"the result of `stream`, for {name}")
        ensure_equal(streamed.store.batches, plain.store.batches, f"what `stream` wrote, for {name}")


def _shape(result: object) -> object:
    # Errors are compared by what they say: two exceptions are never equal.
    error = getattr(result, "error", None)
    return (type(result), getattr(result, "usage", None), str(error)) if error is not None else result


@case("RUN-001")
async def the_result_is_what_the_terminal_event_says(subject: KernelSubject) -> None:
    """Result, terminal event and settlement on record agree on status, usage, turns, limit and failure."""
    for name, (agent, script) in SCENARIOS.items():
        async with open_bench(subject, script, agent) as bench:
            events, result = await bench.observe()
        last = events[-1]
        (settled,) = bench.recorded(RunSettled)
        if not isinstance(last, TerminalEvent) or isinstance(last, RunSuspended):
            ensure(condition=False, problem=f"the last event is not the end of a run, for {name}")
            return
        ensure_equal(last.settlement, settled, f"the settlement that the terminal event shows, for {name}")
        ensure_equal(
            (result.usage, result.turns), (settled.usage, settled.turns), f"the sums of the result, for {name}"
        )
        status = "completed" if isinstance(result, Completed) else "failed"
        ensure_equal(settled.status, status, f"the status on record, for {name}")


@case("RUN-002")
async def every_ending_has_one_terminal_event(subject: KernelSubject) -> None:
    """However a run ends, its trace has one terminal event, last; the log has one settlement, last; numbers grow."""
    for name, (agent, script) in SCENARIOS.items():
        async with open_bench(subject, script, agent) as bench:
            events, _ = await bench.observe()
        _ensure_ended_once(events, name)
        ensure_equal(len(bench.recorded(RunSettled)), 1, f"settlements, for {name}")
        ensure(isinstance(bench.records[-1], RunSettled), f"something follows the settlement, for {name}")


@case("RUN-002")
async def a_stopped_run_ends_once_too(subject: KernelSubject) -> None:
    """Stopped by its handle, twice, or by its time: one terminal event and one settlement; stopping late is nothing."""
    for name, seconds in (("its handle", None), ("its time", 0.05)):
        began = trio.Event()
        agent = text_agent(policy=Policy(max_seconds=seconds))
        async with (
            open_bench(subject, [turn("half").hanging(began, after=1)], agent) as bench,
            bench.kernel.stream(bench.agent, "go") as handle,
        ):
            await began.wait()
            if seconds is None:
                handle.cancel()
                handle.cancel()
            result = await handle.result()
            handle.cancel()
            _ensure_ended_once([event async for event in handle.events()], f"a run stopped by {name}")
            ensure_equal(_shape(await handle.result()), _shape(result), "the result when asked again")
        settled = bench.recorded(RunSettled)
        due = ["aborted" if seconds is None else "failed"]
        ensure_equal([record.status for record in settled], due, f"settlements of a run stopped by {name}")


@case("RUN-010")
async def leaving_the_scope_ends_the_run(subject: KernelSubject) -> None:
    """A run whose `stream` scope is left while it is under way is settled as aborted before the scope is gone."""
    began = trio.Event()
    async with open_bench(subject, [turn("half").hanging(began)]) as bench:
        async with bench.kernel.stream(bench.agent, "go"):
            await began.wait()
        ensure_equal([record.status for record in bench.recorded(RunSettled)], ["aborted"], "settlements")


@case("RUN-010")
async def nobody_has_to_listen(subject: KernelSubject) -> None:
    """A run that nobody reads, or that one reader left half-way, comes to its end all the same."""
    script = [_long_answer(3_000), turn("")]
    async with open_bench(subject, script) as bench:
        async with bench.kernel.stream(bench.agent, "go") as handle:
            idle, leaving = handle.events(), handle.events()
            await anext(leaving)
            result = await handle.result()
            del leaving
            ensure_equal(type(result), Completed, "the result of a run that nobody reads")
            kinds = [type(event) async for event in idle]
        ensure(TurnEnded in kinds, "a reader that had not begun in time misses what is on record")


@case("RUN-010")
async def readers_do_not_wait_for_each_other(subject: KernelSubject) -> None:
    """Two readers read the whole trace, each at its own pace, and the run does not wait for the slower."""
    gate = trio.Event()
    slow_events: list[Event] = []
    quick_events: list[Event] = []
    script = [turn(call("count", {"text": "a b"})), turn("two")]
    async with (
        open_bench(subject, script, text_agent(count)) as bench,
        bench.kernel.stream(bench.agent, "go") as handle,
        trio.open_nursery() as nursery,
    ):

        async def read_slowly() -> None:
            async for event in handle:
                slow_events.append(event)
                await gate.wait()

        nursery.start_soon(read_slowly)
        quick_events.extend([event async for event in handle])
        await turns_pass(lambda: len(slow_events) == 1, "the slow reader's first event")
        ensure_equal(type(await handle.result()), Completed, "the result while a reader is stuck")
        gate.set()
    ensure_equal(slow_events, quick_events, "what the slow reader saw in the end")
    kinds = [type(event) for event in quick_events if isinstance(event, CallEnded | TurnInterrupted)]
    ensure_equal(kinds, [CallEnded], "ends of calls")


def _ensure_ended_once(events: Sequence[Event], name: str) -> None:
    terminal = [event for event in events if isinstance(event, TerminalEvent)]
    ensure_equal(len(terminal), 1, f"terminal events, for {name}")
    ensure(events[-1] is terminal[0], f"events follow the terminal one, for {name}")
    numbers = [event.sequence for event in events]
    ensure_equal(numbers, sorted(set(numbers)), f"the numbers of the events, for {name}")


def _long_answer(pieces: int) -> ScriptItem:
    return turn(text("x" * pieces, chunks=pieces))


INTERPRETING = (
    run_is_what_stream_shows,
    the_result_is_what_the_terminal_event_says,
    every_ending_has_one_terminal_event,
    a_stopped_run_ends_once_too,
    leaving_the_scope_ends_the_run,
    nobody_has_to_listen,
    readers_do_not_wait_for_each_other,
)
