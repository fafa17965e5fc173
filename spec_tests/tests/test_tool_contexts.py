"""What a handler is given: its call, its ports, and somebody to tell how far it is."""

from typing import Any

import pytest
import trio
import trio.testing

from tests.kernel_world import World, one_agent, talker
from triolet.adapters.scripted_model import call, turn
from triolet.kernel import Aborted, Agent, ToolContext, tool
from triolet.ports.events import CallBegan, CallEnded, CallProgressed
from triolet.ports.outcomes import ToolDefect, ToolSuccess


@pytest.mark.parametrize("threaded", [False, True])
async def test_progress_is_seen_live_and_never_recorded(world: World, threaded: bool) -> None:
    def report(context: ToolContext) -> str:
        context.progress("half", done=1, total=2)
        context.progress("x" * 5_000)
        context.progress("a\ud800\0")
        return "ok"

    @tool(execution="readonly")
    async def work(context: ToolContext) -> str:
        """Work."""
        return report(context)

    @tool(name="work", execution="readonly")
    def work_in_thread(context: ToolContext) -> str:
        """Work."""
        return report(context)

    agent = talker(work_in_thread if threaded else work)
    async with one_agent(world, agent, turn(call("work")), turn("Done.")) as (kernel, _):
        async with kernel.stream(agent, "go") as handle:
            events = [event async for event in handle]
    assert world.outcomes() == [ToolSuccess(output='"ok"')]  # type: ignore[arg-type]
    notes = [event for event in events if isinstance(event, CallProgressed)]
    assert [(event.note, event.done, event.total) for event in notes] == [
        ("half", 1, 2),
        ("x" * 1_000, None, None),
        ("a\ufffd\ufffd", None, None),
    ]
    kinds = [type(event) for event in events]
    assert kinds.index(CallBegan) < kinds.index(CallProgressed) < kinds.index(CallEnded)
    assert "half" not in str(world.records())


@pytest.mark.parametrize("way", ["async", "thread"])
async def test_progress_where_nobody_observes_is_no_fault(world: World, way: str) -> None:
    @tool(name="work")
    async def work(context: ToolContext) -> str:
        """Work."""
        context.progress("half")
        return "ok"

    @tool(name="work")
    def work_in_thread(context: ToolContext) -> str:
        """Work."""
        context.progress("half")
        return "ok"

    agent = talker(work_in_thread if way == "thread" else work)
    async with one_agent(world, agent, turn(call("work")), turn("Done.")) as (kernel, _):
        await kernel.run(agent, "go")
    assert world.outcomes() == [ToolSuccess(output='"ok"')]  # type: ignore[arg-type]


async def test_a_context_that_outlives_its_call_tells_nobody_anything(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    kept: list[ToolContext] = []

    @tool(execution="readonly")
    async def keep(context: ToolContext) -> None:
        """Keep it."""
        kept.append(context)

    agent = talker(keep)
    opens = trio.Event()
    async with one_agent(world, agent, turn(call("keep")), turn("Done.").gated(opens)) as (kernel, _):
        async with kernel.stream(agent, "go") as handle:
            await trio.testing.wait_all_tasks_blocked()
            kept[0].progress("too late")
            opens.set()
            await handle.result()
            kept[0].progress("far too late")
            events = [event async for event in handle]
    assert not [event for event in events if isinstance(event, CallProgressed)]


async def test_a_handler_gets_the_ports_that_its_tool_declares_and_no_other(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    got: list[Any] = []

    @tool(requires=["clock"])
    async def use(context: ToolContext) -> str:
        """Use."""
        got.append(context.port("clock"))
        context.port("conversations")
        return "unreachable"

    agent = talker(use)
    async with one_agent(world, agent, turn(call("use")), turn("Done.")) as (kernel, _):
        await kernel.run(agent, "go")
    assert got == [world.clock]
    assert world.outcomes() == [ToolDefect(reason="exception", type="UndeclaredPort", effect_possible=True)]


async def test_a_handler_knows_its_call_its_run_and_who_asks(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    seen: list[Any] = []

    @tool
    async def tell(context: ToolContext) -> None:
        """Tell."""
        seen.append((context.call, context.operation_key, context.run, context.conversation, context.attempt))
        seen.append(context.principal.name)

    agent: Agent[str, str] = talker(tell)
    async with one_agent(world, agent, turn("x", call("tell")), turn("Done.")) as (kernel, _):
        assert not isinstance(await kernel.run(agent, "go"), Aborted)
    assert seen == [("run1-1-0", "run1-1-0", "run1", "conversation1", 1), "anonymous"]
