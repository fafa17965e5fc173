"""Tries: one owner, one budget, within the deadline, and never of an effect that may have happened."""

from typing import Any

import pytest
import trio
import trio.testing

from tests.kernel_world import START, World, one_agent, talker
from triolet.adapters.scripted_model import Turn, call, text, turn
from triolet.kernel import Agent, Completed, Failed, InvalidAgent, Policy, RetryPolicy, tool
from triolet.ports.events import TextDelta, TurnInterrupted
from triolet.ports.language_model import MalformedResponse, ModelRefused, ModelUnavailable
from triolet.ports.records import ModelInterrupted, ModelResponded
from triolet.ports.usage import Usage

DOWN = ModelUnavailable(model="m", reason="overloaded")


def trying(tries: int = 3, **fields: Any) -> Agent[str, str]:
    retry = RetryPolicy(tries=tries, seconds=1, most_seconds=8)
    return talker(note, policy=Policy(retry=retry, **fields))


RAN: list[str] = []


@tool
async def note(what: str) -> str:
    """Note something."""
    RAN.append(what)
    return "noted"


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    RAN.clear()


def down(advice: float | None = None) -> Turn:
    return turn("x").failing(ModelUnavailable(model="m", reason="overloaded", retry_after=advice), after=0)


async def test_f_053_three_tries_are_three_requests(world: World, autojump_clock: trio.testing.MockClock) -> None:
    agent = trying()
    async with one_agent(world, agent, down(), down(), down()) as (kernel, model):
        result = await kernel.run(agent, "go")
    assert isinstance(result, Failed)
    assert result.error.failure.code == "model-unavailable"
    assert [request.attempt for request in model.requests] == [1, 2, 3]
    assert [record.retry_at is None for record in world.of(ModelInterrupted)] == [False, False, True]


async def test_f_053_no_try_after_the_callers_deadline(world: World, autojump_clock: trio.testing.MockClock) -> None:
    agent = trying(max_seconds=0.4)
    async with one_agent(world, agent, down()) as (kernel, model):
        result = await kernel.run(agent, "go")
    assert isinstance(result, Failed)
    [request] = model.requests
    assert request.deadline == START + 400_000
    # Not waited for in vain: the next try would come after the deadline, and that is known at once.
    assert (result.error.failure.code, len(model.requests), trio.current_time()) == ("model-unavailable", 1, 0)


async def test_f_053_a_stream_that_breaks_counts_and_does_not_show(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    agent = trying()
    broken = turn(text("half an answer"), usage=Usage(input_tokens=5, output_tokens=2)).cut()
    whole = turn(text("whole"), usage=Usage(input_tokens=5, output_tokens=1))
    async with one_agent(world, agent, broken, whole) as (kernel, _), kernel.stream(agent, "go") as run:
        events = [event async for event in run]
        result = await run.result()
    assert isinstance(result, Completed)
    assert result.output == "whole"
    assert {event.attempt for event in events if isinstance(event, TextDelta)} == {1, 2}
    [interrupted] = [event for event in events if isinstance(event, TurnInterrupted)]
    assert (interrupted.attempt, interrupted.retry_at is not None) == (1, True)
    [response] = world.of(ModelResponded)
    assert (response.attempt, response.message.text) == (2, "whole")
    assert (result.usage.calls, result.usage.input_tokens, result.usage.at_least) == (2, 5, True)


async def test_f_010_a_finished_call_is_not_run_again(world: World, autojump_clock: trio.testing.MockClock) -> None:
    agent = trying()
    script = (turn(call("note", {"what": "a"})), down(), down(), turn("done"))
    async with one_agent(world, agent, *script) as (kernel, model):
        result = await kernel.run(agent, "go")
    assert isinstance(result, Completed)
    assert (RAN, len(model.requests), result.turns) == (["a"], 4, 2)


@pytest.mark.parametrize(
    ("advice", "least", "most"),
    [(None, 0.5, 1.0), (20.0, 20.0, 20.0), (0.1, 0.5, 1.0), (-5.0, 0.5, 1.0)],
)
async def test_a_providers_advice_counts_where_it_is_longer(
    world: World, autojump_clock: trio.testing.MockClock, advice: float | None, least: float, most: float
) -> None:
    agent = trying()
    async with one_agent(world, agent, down(advice), turn("done")) as (kernel, _):
        await kernel.run(agent, "go")
    assert least <= trio.current_time() <= most


@pytest.mark.parametrize("advice", [float("inf"), float("nan"), 1e300, 4_000.0])
async def test_advice_without_end_is_not_followed(
    world: World, autojump_clock: trio.testing.MockClock, advice: float
) -> None:
    agent = trying(max_seconds=None)
    async with one_agent(world, agent, down(advice)) as (kernel, _):
        result = await kernel.run(agent, "go")
    assert isinstance(result, Failed)
    assert trio.current_time() == 0


@pytest.mark.parametrize(
    "error",
    [ModelRefused(model="m", reason="authentication"), ModelRefused(model="m", reason="content")],
)
async def test_what_will_not_pass_is_not_tried_again(world: World, error: Exception) -> None:
    agent = trying()
    async with one_agent(world, agent, turn("x").failing(error, after=0)) as (kernel, model):
        result = await kernel.run(agent, "go")
    assert isinstance(result, Failed)
    assert len(model.requests) == 1


async def test_a_malformed_response_is_tried_again(world: World, autojump_clock: trio.testing.MockClock) -> None:
    agent = trying()
    broken = turn("x").failing(MalformedResponse(problem="two ends"), after=0)
    async with one_agent(world, agent, broken, turn("done")) as (kernel, _):
        result = await kernel.run(agent, "go")
    assert isinstance(result, Completed)


async def test_waiting_for_a_try_ends_with_the_run(world: World, autojump_clock: trio.testing.MockClock) -> None:
    agent = trying()
    with trio.move_on_after(0.1) as scope:
        async with one_agent(world, agent, down()) as (kernel, model):
            await kernel.run(agent, "go")
    assert scope.cancelled_caught
    assert world.settlement().reason == "cancelled"
    assert len(model.requests) == 1


async def test_waits_differ_between_runs_and_never_for_one(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    agent = trying()
    waits: list[float] = []
    async with one_agent(world, agent, *(item for _ in range(6) for item in (down(), turn("done")))) as (kernel, _):
        for _ in range(6):
            before = trio.current_time()
            await kernel.run(agent, "go")
            waits.append(trio.current_time() - before)
    assert len(set(waits)) > 1
    assert all(0.5 <= wait <= 1 for wait in waits)


@pytest.mark.parametrize("fields", [{"tries": 0}, {"tries": True}, {"seconds": -1}, {"most_seconds": 0.1}])
def test_a_retry_policy_out_of_bounds_is_refused(fields: Any) -> None:
    with pytest.raises(InvalidAgent):
        RetryPolicy(**fields)
