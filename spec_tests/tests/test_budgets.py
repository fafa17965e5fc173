"""Budgets of a run: looked at before the work, kept what was produced, and the dimension is always told."""

from typing import Any

import pytest
import trio.testing

from tests.kernel_world import World, one_agent, shown_outcomes, talker
from triolet.adapters.estimators import ByteEstimator
from triolet.adapters.price_table import PriceTable, Rates
from triolet.adapters.scripted_model import call, text, turn
from triolet.kernel import (
    Agent,
    Allowance,
    BudgetExhaustedError,
    Completed,
    Failed,
    InvalidAgent,
    MissingCapabilities,
    Policy,
    RetryPolicy,
    tool,
)
from triolet.ports.events import BudgetExhausted, BudgetNearlyUsed
from triolet.ports.outcomes import ToolRejected
from triolet.ports.records import BudgetReached, BudgetWarned, ModelResponded, RunSettled
from triolet.ports.usage import Usage

RAN: list[str] = []


@tool(execution="readonly")
async def look(what: str) -> str:
    """Look at something."""
    RAN.append(what)
    return what * 3


@tool
async def fail(what: str) -> str:
    """Break."""
    RAN.append(what)
    raise ValueError(what)


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    RAN.clear()


def limited(**fields: Any) -> Agent[str, str]:
    return talker(look, fail, policy=Policy(retry=RetryPolicy(tries=1), **fields))


def spending(*parts: Any, tokens: int) -> Any:
    return turn(*parts, usage=Usage(input_tokens=tokens - 1, output_tokens=1))


@pytest.fixture
def priced(world: World) -> World:
    world.ports["estimator"] = ByteEstimator()
    world.ports["prices"] = PriceTable({"scripted": Rates(input=1_000_000, output=1_000_000)})
    return world


# --- tokens (RUN-025, F-058) --------------------------------------------------------------------------


async def test_f_058_an_answer_that_passes_the_token_limit_is_the_result(priced: World) -> None:
    agent = limited(max_tokens=1_000)
    async with one_agent(priced, agent, spending(text("done"), tokens=1_001)) as (kernel, model):
        result = await kernel.run(agent, "go")
    assert isinstance(result, Completed)
    assert (result.output, result.finish, result.exhausted) == ("done", "budget-exhausted", "tokens")
    assert len(model.requests) == 1


async def test_f_058_one_that_does_not_decode_gets_one_last_request(priced: World) -> None:
    agent: Agent[Any, Any] = talker(look, output=int, policy=Policy(max_tokens=1_000))
    script = (spending(text("many"), tokens=1_001), spending(text("7"), tokens=5))
    async with one_agent(priced, agent, *script) as (kernel, model):
        result = await kernel.run(agent, "go")
    assert isinstance(result, Completed)
    assert (result.output, result.exhausted) == (7, "tokens")
    assert [request.tool_choice for request in model.requests] == ["auto", "none"]


async def test_run_025_a_response_that_uses_the_tokens_up_runs_none_of_its_calls(priced: World) -> None:
    agent = limited(max_tokens=1_000)
    script = (spending(call("look", {"what": "a"}), tokens=1_000), spending(text("enough"), tokens=5))
    async with one_agent(priced, agent, *script) as (kernel, model):
        result = await kernel.run(agent, "go")
    assert isinstance(result, Completed)
    assert (result.output, result.exhausted, RAN) == ("enough", "tokens", [])
    [outcome] = shown_outcomes(model.requests[1])
    assert isinstance(outcome, ToolRejected)
    assert outcome.reason == "budget"
    assert model.requests[1].tools == ()


async def test_run_025_a_request_that_would_pass_the_tokens_is_the_last_one(priced: World) -> None:
    agent = limited(max_tokens=1_000)
    script = (spending(call("look", {"what": "x" * 200}), tokens=900), spending(text("enough"), tokens=5))
    async with one_agent(priced, agent, *script) as (kernel, model):
        result = await kernel.run(agent, "go")
    assert isinstance(result, Completed)
    assert (result.exhausted, RAN) == ("tokens", ["x" * 200])
    [reached] = priced.of(BudgetReached)
    assert reached.used > 1_000
    assert model.requests[1].tool_choice == "none"


async def test_run_011_the_failing_policy_fails_before_the_work(priced: World) -> None:
    agent = limited(max_tokens=1_000, exhaustion="fail")
    async with one_agent(priced, agent, spending(call("look", {"what": "a"}), tokens=1_000)) as (kernel, _):
        result = await kernel.run(agent, "go")
    assert isinstance(result, Failed)
    assert isinstance(result.error, BudgetExhaustedError)
    assert (result.error.failure.dimension, RAN) == ("tokens", [])
    assert result.usage.tokens == 1_000


# --- cost (RUN-025) -----------------------------------------------------------------------------------


async def test_run_025_cost_is_hard(priced: World) -> None:
    agent = limited(max_cost=500)
    async with one_agent(priced, agent, spending(call("look", {"what": "a"}), tokens=500)) as (kernel, model):
        result = await kernel.run(agent, "go")
    assert isinstance(result, Failed)
    assert isinstance(result.error, BudgetExhaustedError)
    assert (result.error.failure.dimension, len(model.requests), RAN) == ("cost", 1, [])
    assert result.usage.cost == 500


async def test_run_025_a_request_that_would_pass_the_cost_is_not_made(priced: World) -> None:
    agent = limited(max_cost=400)
    script = spending(call("look", {"what": "x" * 300}), tokens=100)
    async with one_agent(priced, agent, script) as (kernel, model):
        result = await kernel.run(agent, "go")
    assert isinstance(result, Failed)
    assert (len(model.requests), RAN) == (1, ["x" * 300])
    [reached] = priced.of(BudgetReached)
    assert (reached.dimension, reached.limit) == ("cost", 400)


async def test_cap_017_each_call_carries_its_price(priced: World) -> None:
    agent = limited()
    async with one_agent(priced, agent, spending(text("done"), tokens=12)) as (kernel, _):
        result = await kernel.run(agent, "go")
    [response] = priced.of(ModelResponded)
    assert (response.usage.cost, result.usage.cost) == (12, 12)


# --- failures and result bytes (RUN-011) --------------------------------------------------------------


async def test_run_011_failures_in_a_row_end_with_one_last_turn(world: World) -> None:
    agent = limited(max_failures=2)
    broken = turn(call("fail", {"what": "a"}))
    script = (broken, turn(call("look", {"what": "b"})), broken, broken, turn("I give up."))
    async with one_agent(world, agent, *script) as (kernel, model):
        result = await kernel.run(agent, "go")
    assert isinstance(result, Completed)
    assert (result.exhausted, len(model.requests), model.requests[4].tool_choice) == ("failures", 5, "none")


async def test_run_011_all_results_of_a_run_are_bounded_together(world: World) -> None:
    agent = limited(max_result_bytes=200)
    script = (turn(call("look", {"what": "x" * 50})), turn(call("look", {"what": "y" * 50})), turn("Done."))
    async with one_agent(world, agent, *script) as (kernel, _):
        result = await kernel.run(agent, "go")
    assert isinstance(result, Completed)
    assert result.exhausted == "result-bytes"


# --- warnings (RUN-025) -------------------------------------------------------------------------------


async def test_run_025_each_dimension_warns_once(priced: World, autojump_clock: trio.testing.MockClock) -> None:
    agent = limited(max_turns=5, max_tool_calls=5, max_tokens=1_000, max_cost=10_000, max_seconds=10)

    @tool(execution="readonly")
    async def wait(what: str) -> str:
        """Wait."""
        await trio.sleep(9)
        return what

    agent = talker(wait, policy=agent.policy)
    again = spending(call("wait", {"what": "a"}), tokens=410)
    async with (
        one_agent(priced, agent, again, spending(text("x"), tokens=410)) as (kernel, _),
        kernel.stream(agent, "go") as run,
    ):
        events = [event async for event in run if isinstance(event, BudgetNearlyUsed)]
    assert [(event.dimension, event.used, event.limit) for event in events] == [
        ("duration", 9, 10),
        ("tokens", 820, 1_000),
    ]
    assert [record.dimension for record in priced.of(BudgetWarned)] == ["duration", "tokens"]


async def test_run_011_a_reached_limit_is_told_while_it_happens(priced: World) -> None:
    agent = limited(max_tokens=1_000)
    script = (spending(call("look", {"what": "a"}), tokens=1_500), spending(text("enough"), tokens=5))
    async with one_agent(priced, agent, *script) as (kernel, _), kernel.stream(agent, "go") as run:
        seen = [event async for event in run if isinstance(event, BudgetExhausted)]
    assert [(event.dimension, event.used, event.limit) for event in seen] == [("tokens", 1_500, 1_000)]


# --- allowances (RUN-021) -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("allowance", "turns"), [(Allowance(max_turns=1), 1), (Allowance(max_turns=9), 2), (Allowance(), 2)]
)
async def test_run_021_an_allowance_only_tightens(world: World, allowance: Allowance, turns: int) -> None:
    agent = limited(max_turns=2)
    looks = [turn(call("look", {"what": str(n)})) for n in range(turns)]
    async with one_agent(world, agent, *looks, turn("enough")) as (kernel, _):
        result = await kernel.run(agent, "go", allowance=allowance)
    assert isinstance(result, Completed)
    assert (result.exhausted, result.turns) == ("turns", turns + 1)


async def test_run_021_an_allowance_shortens_the_time(world: World, autojump_clock: trio.testing.MockClock) -> None:
    agent = limited(max_seconds=None)
    async with one_agent(world, agent, turn("x").gated(trio.Event())) as (kernel, _):
        result = await kernel.run(agent, "go", allowance=Allowance(max_seconds=3))
    assert isinstance(result, Failed)
    assert result.error.failure.dimension == "duration"


@pytest.mark.parametrize("fields", [{"max_turns": 0}, {"max_seconds": 0}, {"max_tokens": -1}, {"max_cost": True}])
def test_an_allowance_out_of_bounds_is_refused(fields: Any) -> None:
    with pytest.raises(InvalidAgent):
        Allowance(**fields)


async def test_cap_002_limits_name_the_ports_that_they_need(world: World) -> None:
    agents = [talker(id="a", policy=Policy(max_tokens=1)), talker(id="b", policy=Policy(max_cost=1, summarise="host"))]
    with pytest.raises(MissingCapabilities) as caught:
        async with world.kernel(*agents, model=object()):  # type: ignore[arg-type]  # it is not asked
            pass
    assert {port for port, _ in caught.value.missing} == {"estimator", "prices", "compactor"}


async def test_usage_is_charged_whatever_becomes_of_the_run(priced: World) -> None:
    agent = limited(max_tokens=10_000)
    async with one_agent(priced, agent, turn("four words of text").cut()) as (kernel, _):
        result = await kernel.run(agent, "go " * 30)
    assert isinstance(result, Failed)
    # Nobody reported anything: the estimate of what was sent and received.
    assert result.usage.at_least
    assert result.usage.input_tokens >= 30
    assert result.usage.output_tokens >= 6
    [settled] = priced.of(RunSettled)
    assert settled.usage == result.usage
