"""Limits of a run: what is forbidden never runs, exhaustion never looks like success, the conversation goes on."""

from typing import Any

import pytest
import trio
import trio.testing

from tests.kernel_world import World, one_agent, script, shown_outcomes, talker
from triolet.adapters.scripted_model import call, turn
from triolet.kernel import (
    Agent,
    BudgetExhaustedError,
    Completed,
    Failed,
    InvalidAgent,
    Policy,
    ToolsForbiddenError,
    tool,
)
from triolet.ports.language_model import OneTool, ToolChoice
from triolet.ports.outcomes import ToolRejected
from triolet.ports.records import ModelResponded, RunSettled, ToolSettled

RAN: list[int] = []


@tool
async def note(n: int) -> str:
    """Note a number."""
    RAN.append(n)
    return "noted"


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    RAN.clear()


def notes(count: int, start: int = 0) -> Any:
    return turn(*(call("note", {"n": start + n}) for n in range(count)))


def noter(exhaustion: Any = "final-answer", **fields: Any) -> Agent[str, str]:
    return talker(note, policy=Policy(exhaustion=exhaustion, **fields))


# --- turns (RUN-011, RUN-019) -------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 2, 3])
async def test_f_011_an_endless_tool_loop_ends_in_one_grace_turn(
    world: World, autojump_clock: trio.testing.MockClock, limit: int
) -> None:
    agent = noter(max_turns=limit)
    async with one_agent(world, agent, *(notes(1, n) for n in range(limit)), turn("That is all.")) as (kernel, model):
        result = await kernel.run(agent, "go")
    assert isinstance(result, Completed)
    assert (result.output, result.finish, result.exhausted) == ("That is all.", "budget-exhausted", "turns")
    assert result.turns == limit + 1
    assert len(model.requests) == limit + 1
    assert [(len(request.tools), request.tool_choice) for request in model.requests] == [(1, "auto")] * limit + [
        (0, "none")
    ]
    assert list(range(limit)) == RAN


async def test_f_011_under_fail_nothing_is_asked_beyond_the_limit(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    agent = noter("fail", max_turns=3)
    async with one_agent(world, agent, notes(1), notes(1), notes(1)) as (kernel, model):
        result = await kernel.run(agent, "go")
    assert isinstance(result, Failed)
    assert isinstance(result.error, BudgetExhaustedError)
    assert result.error.failure.dimension == "turns"
    assert len(model.requests) == 3
    assert len(RAN) == 3


async def test_an_answer_in_the_last_turn_is_an_ordinary_one(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    agent = noter(max_turns=2)
    async with one_agent(world, agent, notes(1), turn("Done.")) as (kernel, _):
        result = await kernel.run(agent, "go")
    assert isinstance(result, Completed)
    assert (result.finish, result.exhausted, result.turns) == ("stop", None, 2)


@pytest.mark.parametrize("exhaustion", ["final-answer", "fail"])
async def test_f_011_the_conversation_goes_on_after_the_limit(
    world: World, autojump_clock: trio.testing.MockClock, exhaustion: str
) -> None:
    agent = noter(exhaustion, max_turns=1)
    turns = (notes(1), turn("Stop.")) if exhaustion == "final-answer" else (notes(1),)
    async with one_agent(world, agent, *turns, turn("Hello again.")) as (kernel, model):
        async with kernel.conversation("c") as conversation:
            await conversation.run(agent, "go")
            result = await conversation.run(agent, "and now?")
    assert result.output == "Hello again."
    # The limit was the first run's: the second may call tools.
    assert model.requests[-1].tool_choice == "auto"
    assert len(world.of(RunSettled, "c")) == 2


async def test_f_005_a_misspelling_for_ever_ends_by_the_turn_limit(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    agent = noter(max_turns=4)
    async with one_agent(world, agent, *[turn(call("mote"))] * 4, turn("I give up.")) as (kernel, model):
        result = await kernel.run(agent, "go")
    assert isinstance(result, Completed)
    assert result.exhausted == "turns"
    assert len(model.requests) == 5


# --- calls (RUN-018) ----------------------------------------------------------------------------------


async def test_run_018_a_batch_over_the_limit_does_not_run_at_all(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    agent = noter(max_tool_calls=5)
    async with one_agent(world, agent, notes(8), turn("Without, then.")) as (kernel, model):
        result = await kernel.run(agent, "go")
    assert RAN == []
    assert isinstance(result, Completed)
    assert (result.output, result.finish, result.exhausted) == ("Without, then.", "budget-exhausted", "tool-calls")
    assert [outcome.kind for outcome in shown_outcomes(model.requests[1])] == ["rejected"] * 8
    assert all(isinstance(o, ToolRejected) and o.reason == "budget" for o in world.outcomes())
    assert [request.tool_choice for request in model.requests] == ["auto", "none"]
    # Never pending on record: the response and all of its refusals are one commit.
    [together] = [b for b in world.batches() if any(isinstance(r, ModelResponded) for r in b.records[:1])][:1]
    assert [type(r) for r in together.records] == [ModelResponded] + [ToolSettled] * 8


@pytest.mark.parametrize(
    ("limit", "sizes", "ran"),
    [(0, [1], 0), (3, [3], 3), (5, [3, 3], 3), (5, [3, 2], 5), (4, [3, 1, 1], 4)],
)
async def test_run_018_the_limit_counts_over_all_batches(
    world: World, autojump_clock: trio.testing.MockClock, limit: int, sizes: list[int], ran: int
) -> None:
    agent = noter(max_tool_calls=limit)
    async with one_agent(world, agent, *(notes(size) for size in sizes), turn("Done.")) as (kernel, _):
        result = await kernel.run(agent, "go")
    assert len(RAN) == ran
    assert isinstance(result, Completed)
    assert result.exhausted == (None if sum(sizes) <= limit else "tool-calls")


async def test_run_018_under_fail_the_run_ends_with_its_refusals(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    agent = noter("fail", max_tool_calls=1)
    async with one_agent(world, agent, notes(2)) as (kernel, model):
        result = await kernel.run(agent, "go")
    assert isinstance(result, Failed)
    assert isinstance(result.error, BudgetExhaustedError)
    assert result.error.failure.dimension == "tool-calls"
    assert (len(model.requests), RAN, len(world.outcomes())) == (1, [], 2)


async def test_both_limits_at_once_name_the_one_that_forbade_tools(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    agent = noter(max_turns=1, max_tool_calls=1)
    async with one_agent(world, agent, notes(2), turn("Done.")) as (kernel, model):
        result = await kernel.run(agent, "go")
    assert isinstance(result, Completed)
    assert result.exhausted == "tool-calls"
    assert len(model.requests) == 2


# --- forbidden turns (RUN-020) ------------------------------------------------------------------------


async def test_run_020_a_call_in_the_grace_turn_fails_the_run(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    agent = noter(max_turns=1)
    async with one_agent(world, agent, notes(1), notes(2, 10)) as (kernel, _):
        result = await kernel.run(agent, "go")
    assert isinstance(result, Failed)
    assert isinstance(result.error, ToolsForbiddenError)
    assert result.error.failure.dimension == "turns"
    assert RAN == [0]
    assert [getattr(outcome, "reason", None) for outcome in world.outcomes()] == [None, "forbidden", "forbidden"]


async def test_run_020_a_call_after_the_call_limit_fails_the_run(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    agent = noter(max_tool_calls=1)
    async with one_agent(world, agent, notes(2), notes(1)) as (kernel, _):
        result = await kernel.run(agent, "go")
    assert isinstance(result, Failed)
    assert isinstance(result.error, ToolsForbiddenError)
    assert RAN == []


@pytest.mark.parametrize("agent", [talker(note, tool_choice="none"), talker()], ids=["chosen none", "has none"])
async def test_run_020_a_call_where_none_was_offered_fails_the_run(
    world: World, autojump_clock: trio.testing.MockClock, agent: Agent[str, str]
) -> None:
    async with one_agent(world, agent, notes(1)) as (kernel, model):
        result = await kernel.run(agent, "go")
    assert isinstance(result, Failed)
    assert isinstance(result.error, ToolsForbiddenError)
    assert model.requests[0].tools == ()
    assert RAN == []


# --- tool_choice --------------------------------------------------------------------------------------


@pytest.mark.parametrize("choice", ["auto", "required", OneTool(name="note")])
async def test_the_agents_choice_is_in_every_request_until_a_limit(
    world: World, autojump_clock: trio.testing.MockClock, choice: ToolChoice
) -> None:
    agent = talker(note, tool_choice=choice, policy=Policy(max_turns=2))
    async with one_agent(world, agent, notes(1), notes(1), turn("Done.")) as (kernel, model):
        await kernel.run(agent, "go")
    assert [request.tool_choice for request in model.requests] == [choice, choice, "none"]


async def test_a_function_chooses_for_each_turn(world: World, autojump_clock: trio.testing.MockClock) -> None:
    agent = talker(note, tool_choice=lambda number: "required" if number == 1 else "none")
    async with one_agent(world, agent, notes(1), turn("Done.")) as (kernel, model):
        result = await kernel.run(agent, "go")
    assert [request.tool_choice for request in model.requests] == ["required", "none"]
    assert isinstance(result, Completed)
    # The agent's own choice is no limit that was reached.
    assert result.exhausted is None


def test_a_choice_of_a_tool_that_is_not_there_is_refused_when_the_agent_is_made() -> None:
    with pytest.raises(InvalidAgent):
        talker(note, tool_choice=OneTool(name="other"))
    with pytest.raises(InvalidAgent):
        talker(note, tool_choice="sometimes")
    with pytest.raises(InvalidAgent):
        talker(tool_choice="required")


@pytest.mark.parametrize("chosen", [OneTool(name="other"), "sometimes", None])
async def test_a_function_that_chooses_what_is_not_there_is_an_error_and_no_request(
    world: World, autojump_clock: trio.testing.MockClock, chosen: Any
) -> None:
    agent = talker(note, tool_choice=lambda _: chosen)
    model = script(turn("never"))
    async with world.kernel(agent, model=model) as kernel:
        with pytest.raises(InvalidAgent):
            await kernel.run(agent, "go")
    assert not model.requests
    assert world.settlement().reason == "crashed"


# --- time ---------------------------------------------------------------------------------------------


async def test_the_time_limit_is_hard_and_typed(world: World, autojump_clock: trio.testing.MockClock) -> None:
    agent = noter(max_seconds=30)
    began = trio.Event()
    async with one_agent(world, agent, notes(1), turn("x", "y").hanging(began, after=1)) as (kernel, model):
        before = trio.current_time()
        result = await kernel.run(agent, "go")
    assert trio.current_time() == before + 30
    assert isinstance(result, Failed)
    assert isinstance(result.error, BudgetExhaustedError)
    assert result.error.failure.dimension == "duration"
    assert len(model.requests) == 2
    [interrupted] = [r for r in world.records() if r.kind == "model_interrupted"]
    assert (interrupted.reason, interrupted.text) == ("deadline", "x")


async def test_without_a_time_limit_a_run_may_take_a_week(world: World, autojump_clock: trio.testing.MockClock) -> None:
    @tool(execution="readonly", timeout=1_000_000)
    async def wait() -> None:
        """Wait."""
        await trio.sleep_forever()

    agent = talker(wait, policy=Policy(max_seconds=None))
    async with one_agent(World(), agent, turn(call("wait")), turn("Done.")) as (kernel, _):
        result = await kernel.run(agent, "go")
    assert result.output == "Done."


@pytest.mark.parametrize(
    "fields",
    [
        {"max_turns": 0},
        {"max_turns": 10_001},
        {"max_tool_calls": -1},
        {"max_seconds": 0},
        {"max_seconds": float("inf")},
        {"max_seconds": float("nan")},
        {"max_seconds": 1e12},
        {"exhaustion": "perhaps"},
        {"concurrency": 0},
        {"tool_seconds": 0},
        {"tool_seconds": float("nan")},
        {"tool_seconds": 1e12},
        {"result_bytes": 255},
        {"result_bytes": 250_001},
    ],
)
def test_a_policy_out_of_its_bounds_is_refused_when_it_is_made(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidAgent):
        Policy(**fields)


@pytest.mark.parametrize("field", ["max_turns", "max_tool_calls", "concurrency", "result_bytes"])
def test_a_policy_counts_in_whole_numbers(field: str) -> None:
    for value in (300.5, 300.0, True, "300", None):
        with pytest.raises(InvalidAgent):
            Policy(**{field: value})  # type: ignore[arg-type]  # that is the point
