"""Durable steps: each runs once and is on record before its handler goes on; what cannot be a step is refused."""

from typing import Any

import pytest
import trio
import trio.testing

from tests.kernel_world import World, one_agent, talker
from triolet.adapters.scripted_model import call, turn
from triolet.kernel import ToolContext, tool
from triolet.kernel.pipeline.context import MAX_STEP_NAME
from triolet.ports.identity import CallId
from triolet.ports.outcomes import ToolDefect, ToolSuccess
from triolet.ports.records import StepSettled, ToolSettled
from triolet.ports.strict_json import JsonText, JsonValue
from triolet.ports.tool_context import StepRefused


async def one() -> JsonValue:
    return 1


async def run(world: World, *tools: Any, names: tuple[str, ...] = ("work",)) -> None:
    agent = talker(*tools)
    async with one_agent(world, agent, turn(*(call(name) for name in names)), turn("Done.")) as (kernel, _):
        assert (await kernel.run(agent, "go")).output == "Done."


async def test_a_step_is_on_record_before_the_handler_goes_on(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    seen: list[Any] = []

    @tool(execution="durable")
    async def work(context: ToolContext) -> list[int]:
        """Work."""

        async def body() -> JsonValue:
            seen.append([step.name for step in world.of(StepSettled)])
            await trio.sleep(1)
            return {"n": [1, 2.5, "é"]}

        first = await context.step("first", body)
        seen.append([step.name for step in world.of(StepSettled)])
        second = await context.step("second", one)
        seen.append([step.name for step in world.of(StepSettled)])
        assert (first, second) == ({"n": [1, 2.5, "é"]}, 1)
        return [1]

    world.store.pauses = trio.lowlevel.checkpoint
    await run(world, work)
    assert seen == [[], ["first"], ["first", "second"]]
    assert [(step.call, step.value) for step in world.of(StepSettled)] == [
        ("run1-1-0", '{"n":[1,2.5,"é"]}'),
        ("run1-1-0", "1"),
    ]
    assert world.outcomes() == [ToolSuccess(output=JsonText("[1]"))]


async def test_steps_of_parallel_calls_do_not_mix(world: World, autojump_clock: trio.testing.MockClock) -> None:
    @tool(execution="durable")
    async def work(context: ToolContext) -> str:
        """Work."""

        async def body() -> JsonValue:
            await trio.sleep(5 - int(context.call[-1]))
            return context.call

        own = await context.step("same name", body)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(context.step, "a", one)
            nursery.start_soon(context.step, "b", one)
        return str(own)

    await run(world, work, names=("work",) * 3)
    assert [getattr(outcome, "output", None) for outcome in world.outcomes()] == [
        '"run1-1-0"',
        '"run1-1-1"',
        '"run1-1-2"',
    ]
    steps = {(step.call, step.name) for step in world.of(StepSettled)}
    assert len(steps) == len(world.of(StepSettled)) == 9


async def test_a_step_that_failed_leaves_no_record(world: World, autojump_clock: trio.testing.MockClock) -> None:
    @tool(execution="durable")
    async def work(context: ToolContext) -> str:
        """Work."""

        async def body() -> JsonValue:
            raise LookupError("gone")

        with pytest.raises(LookupError, match="gone"):
            await context.step("first", body)
        return "went on"

    await run(world, work)
    assert world.of(StepSettled) == []
    assert world.outcomes() == [ToolSuccess(output=JsonText('"went on"'))]


@pytest.mark.parametrize("execution", ["readonly", "idempotent", "uncertain"])
async def test_only_durable_tools_have_steps(
    world: World, autojump_clock: trio.testing.MockClock, execution: Any
) -> None:
    ran: list[int] = []

    @tool(execution=execution)
    async def work(context: ToolContext) -> None:
        """Work."""

        async def body() -> JsonValue:
            ran.append(1)
            return 1

        await context.step("first", body)

    await run(world, work)
    assert world.outcomes() == [
        ToolDefect(reason="exception", type="StepRefused", effect_possible=execution != "readonly")
    ]
    assert not ran
    assert not world.of(StepSettled)


BAD_NAMES = ["", "x" * (MAX_STEP_NAME + 1), "a\ud800", "a\0", 5, None, ["a"]]


@pytest.mark.parametrize("name", BAD_NAMES, ids=range(len(BAD_NAMES)))
async def test_a_name_that_no_record_can_hold_is_refused_before_the_body_runs(
    world: World, autojump_clock: trio.testing.MockClock, name: Any
) -> None:
    ran: list[int] = []

    @tool(execution="durable")
    async def work(context: ToolContext) -> str:
        """Work."""

        async def body() -> JsonValue:
            ran.append(1)
            return 1

        with pytest.raises(StepRefused) as caught:
            await context.step(name, body)
        assert len(str(caught.value)) < 400
        return str(await context.step("x" * MAX_STEP_NAME, one))

    await run(world, work)
    assert not ran
    assert [getattr(outcome, "output", None) for outcome in world.outcomes()] == ['"1"']


async def test_a_name_may_be_used_once_a_call(world: World, autojump_clock: trio.testing.MockClock) -> None:
    @tool(execution="durable")
    async def work(context: ToolContext) -> str:
        """Work."""
        await context.step("again", one)
        with pytest.raises(StepRefused):
            await context.step("again", one)
        return "ok"

    await run(world, work, names=("work", "work"))
    assert len(world.of(StepSettled)) == 2


BAD_VALUES = [float("nan"), {1, 2}, b"x", (1,), {1: 1}, 2**53, "a\ud800", "\x01" * 4_000_000]


@pytest.mark.parametrize("value", BAD_VALUES, ids=range(len(BAD_VALUES)))
async def test_a_value_that_nobody_could_read_back_is_refused_and_not_recorded(
    world: World, autojump_clock: trio.testing.MockClock, value: Any
) -> None:
    @tool(execution="durable")
    async def work(context: ToolContext) -> None:
        """Work."""

        async def body() -> JsonValue:
            return value  # type: ignore[no-any-return]

        await context.step("first", body)

    await run(world, work)
    assert world.outcomes() == [ToolDefect(reason="exception", type="InvalidJson", effect_possible=True)]
    assert not world.of(StepSettled)


async def test_the_largest_value_that_is_accepted_can_be_recorded(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    @tool(execution="durable")
    async def work(context: ToolContext) -> int:
        """Work."""

        async def body() -> JsonValue:
            return '"' * 8_000_000

        return len(str(await context.step("first", body)))

    await run(world, work)
    assert world.outcomes() == [ToolSuccess(output=JsonText("8000000"))]


@pytest.mark.parametrize("moment", ["before the body", "in the body", "after the run"])
async def test_a_context_that_outlives_its_call_records_no_step(
    world: World, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock, moment: str
) -> None:
    refused = trio.Event()
    opens = trio.Event()
    went_on = trio.Event()
    in_body = trio.Event()

    async def outlive(context: ToolContext) -> None:
        async def body() -> JsonValue:
            in_body.set()
            await opens.wait()
            return 1

        if moment != "in the body":
            await went_on.wait()
        with pytest.raises(StepRefused):
            await context.step("late", body)
        refused.set()

    @tool(execution="durable")
    async def work(context: ToolContext) -> None:
        """Leave a task behind that still has the context."""
        nursery.start_soon(outlive, context)
        if moment == "in the body":
            await in_body.wait()

    agent = talker(work)
    gate = trio.Event()
    async with one_agent(world, agent, turn(call("work")), turn("Done.").gated(gate)) as (kernel, _):
        async with kernel.stream(agent, "go") as handle:
            await trio.testing.wait_all_tasks_blocked()
            assert len(world.of(ToolSettled)) == 1
            if moment != "after the run":
                went_on.set()
                opens.set()
                await refused.wait()
            gate.set()
            assert (await handle.result()).output == "Done."
        went_on.set()
        opens.set()
        await refused.wait()
    assert not world.of(StepSettled)


async def test_a_step_that_waits_for_its_record_when_its_call_times_out(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    @tool(execution="durable", timeout=3)
    async def work(context: ToolContext) -> None:
        """Work."""
        await context.step("slow to record", one)

    async def slow_disk() -> None:
        if world.store.logs and any(record.kind == "tool_prepared" for record in world.records()):
            await trio.sleep(10)

    world.store.pauses = slow_disk
    await run(world, work)
    # The append that was under way is true, the call has its one outcome, and the order of both is legal.
    assert [step.name for step in world.of(StepSettled)] == ["slow to record"]
    assert world.outcomes() == [ToolDefect(reason="timeout", effect_possible=True)]
    kinds = [record.kind for record in world.records()]
    assert kinds.index("step_settled") < kinds.index("tool_settled")


async def test_call_ids_of_steps_are_the_kernels(world: World, autojump_clock: trio.testing.MockClock) -> None:
    @tool(execution="durable")
    async def work(context: ToolContext) -> str:
        """Work."""
        await context.step("first", one)
        return context.operation_key

    await run(world, work)
    assert [step.call for step in world.of(StepSettled)] == [CallId("run1-1-0")]
