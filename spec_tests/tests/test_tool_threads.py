"""Synchronous handlers run in bounded threads, and nobody waits for one whose time is up (F-009)."""

import threading
from typing import Any

import pytest
import trio
import trio.testing

from tests.kernel_world import World, one_agent, shown_outcomes, talker
from tests.tool_stage import all_permits_return, limiters
from triolet.adapters.scripted_model import call, turn
from triolet.kernel import ToolContext, tool
from triolet.ports.outcomes import ToolDefect, ToolSuccess, ToolUnknownOutcome
from triolet.ports.tools import ExecutionClass


async def test_plain_functions_run_in_bounded_threads(world: World) -> None:
    seen: list[int] = []

    @tool(execution="readonly")
    def where(context: ToolContext, n: int) -> bool:
        """Tell the thread."""
        seen.append(n)
        assert context.call == f"run1-1-{n}"
        return threading.current_thread() is threading.main_thread()

    agent = talker(where)
    script = turn(*(call("where", {"n": n}) for n in range(5)))
    async with one_agent(world, agent, script, turn("Done."), max_threads=2) as (kernel, _), all_permits_return(kernel):
        await kernel.run(agent, "go")
    assert sorted(seen) == list(range(5))
    assert world.outcomes() == [ToolSuccess(output="false")] * 5  # type: ignore[arg-type]


async def _until(condition: Any) -> None:
    # Real threads follow no mock clock; what they signal is looked for without waiting any set time.
    while not condition():
        await trio.lowlevel.checkpoint()


@pytest.mark.parametrize(
    ("execution", "expected"),
    [
        ("uncertain", ToolUnknownOutcome(reason="timeout")),
        ("idempotent", ToolDefect(reason="timeout", effect_possible=True)),
        ("readonly", ToolDefect(reason="timeout", effect_possible=False)),
    ],
)
async def test_f_009_a_held_thread_times_out_and_what_it_returns_late_is_dropped(
    world: World, mock_clock: trio.testing.MockClock, execution: ExecutionClass, expected: Any
) -> None:
    began, held, ended = threading.Event(), threading.Event(), threading.Event()
    count = 0

    @tool(timeout=30, execution=execution)
    def block() -> str:
        """Block."""
        nonlocal count
        count += 1
        began.set()
        assert held.wait(20)
        ended.set()
        return "late"

    agent = talker(block)
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await trio.lowlevel.checkpoint()

    async with one_agent(world, agent, turn(call("block")), turn("Done.")) as (kernel, model), trio.open_nursery() as n:
        n.start_soon(tick)
        try:
            async with kernel.stream(agent, "go") as handle:
                await _until(began.is_set)
                before = ticks
                await _until(lambda: ticks > before + 10)
                mock_clock.jump(30)
                result = await handle.result()
                assert result.output == "Done."
                assert shown_outcomes(model.requests[1]) == [expected]
                on_record = world.records()
                # The thread is still there, and holds its place until it ends.
                assert limiters(kernel)[0].borrowed_tokens == 1
        finally:
            held.set()
        await _until(ended.is_set)
        await _until(lambda: limiters(kernel)[0].borrowed_tokens == 0)
        n.cancel_scope.cancel()
    assert world.records() == on_record
    assert (count, len(model.requests)) == (1, 2)


async def test_a_call_that_never_got_a_thread_has_surely_had_no_effect(
    world: World, mock_clock: trio.testing.MockClock
) -> None:
    began, held = threading.Event(), threading.Event()

    @tool(timeout=30)
    def block() -> str:
        """Block."""
        began.set()
        assert held.wait(20)
        return "late"

    agent = talker(block)
    script = turn(call("block"), call("block"))
    async with one_agent(world, agent, script, turn("Done."), max_threads=1) as (kernel, _):
        try:
            async with kernel.stream(agent, "go") as handle:
                await _until(began.is_set)
                await trio.testing.wait_all_tasks_blocked()
                mock_clock.jump(30)
                await handle.result()
        finally:
            held.set()
        await _until(lambda: limiters(kernel)[0].borrowed_tokens == 0)
    # Either of the two may get the one thread.
    assert set(world.outcomes()) == {
        ToolUnknownOutcome(reason="timeout"),
        ToolDefect(reason="timeout", effect_possible=False),
    }
