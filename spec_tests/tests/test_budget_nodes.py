"""Budgets above the run: conserved over the hierarchy, never passed by parallel consumers, charged whatever happens."""

from typing import Any

import attrs
import pytest
import trio
import trio.testing
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from tests.kernel_world import World, one_agent, talker
from triolet.adapters.estimators import ByteEstimator
from triolet.adapters.memory import MemoryBudgets
from triolet.adapters.scripted_model import call, text, turn
from triolet.kernel import (
    Agent,
    BudgetExhaustedError,
    Completed,
    Failed,
    Policy,
    RetryPolicy,
    ToolContext,
    Toolkit,
    tool,
)
from triolet.kernel.accounts import chain_of
from triolet.ports.budget import BudgetRefusal, ReservationReused, Reserved
from triolet.ports.conversation_store import Address
from triolet.ports.identity import AgentId, ConversationId, TenantId
from triolet.ports.outcomes import ToolRejected, ToolSuccess
from triolet.ports.records import BudgetReached, BudgetWarned
from triolet.ports.usage import Usage

NODES = ("global", "tenant:a", "tenant:b", "agent:a/x", "conversation:a/1", "conversation:a/2")
CHAINS = (
    ("global", "tenant:a", "agent:a/x", "conversation:a/1"),
    ("global", "tenant:a", "agent:a/x", "conversation:a/2"),
    ("global", "tenant:b"),
)
LIMITS: Any = {
    "global": {"tokens": 100, "turns": 12},
    "tenant:a": {"tokens": 60},
    "conversation:a/1": {"tokens": 30, "tool-calls": 5},
}
AMOUNTS: Any = st.dictionaries(st.sampled_from(["tokens", "turns", "tool-calls", "cost"]), st.integers(0, 40))


class _Accounts(RuleBasedStateMachine):
    """Reservations in any order against a plain tally."""

    keys = Bundle("keys")

    def __init__(self) -> None:
        super().__init__()
        self.budgets = MemoryBudgets(LIMITS)
        self.open: dict[str, tuple[tuple[str, ...], Any]] = {}
        self.spent: dict[tuple[str, str], int] = {}
        self.over: set[tuple[str, str]] = set()
        self.made = 0

    def tally(self, node: str, dimension: str) -> int:
        reserved: int = sum(amounts.get(dimension, 0) for chain, amounts in self.open.values() if node in chain)
        return self.spent.get((node, dimension), 0) + reserved

    @rule(target=keys, chain=st.sampled_from(CHAINS), amounts=AMOUNTS)
    def reserve(self, chain: Any, amounts: Any) -> str:
        self.made += 1
        key = f"k{self.made}"
        answer = trio.run(self.budgets.reserve, key, chain, amounts)
        passed = [
            (node, dimension)
            for node in chain
            for dimension, amount in amounts.items()
            if amount and dimension in LIMITS.get(node, {})
            if self.tally(node, dimension) + amount > LIMITS[node][dimension]
        ]
        if isinstance(answer, BudgetRefusal):
            assert (answer.node, answer.dimension) in passed
        else:
            assert passed == []
            self.open[key] = (chain, amounts)
            # The same again changes nothing.
            assert trio.run(self.budgets.reserve, key, chain, amounts) == Reserved()
        return key

    @rule(key=consumes(keys), used=AMOUNTS)
    def settle(self, key: str, used: Any) -> None:
        trio.run(self.budgets.settle, key, used)
        if key in self.open:
            chain, _ = self.open.pop(key)
            for node in chain:
                for dimension, amount in used.items():
                    self.spent[node, dimension] = self.tally_spent(node, dimension) + amount
        trio.run(self.budgets.settle, key, used)

    def tally_spent(self, node: str, dimension: str) -> int:
        return self.spent.get((node, dimension), 0)

    @rule(key=consumes(keys))
    def release(self, key: str) -> None:
        for _ in range(2):
            trio.run(self.budgets.release, key)
        self.open.pop(key, None)

    @invariant()
    def each_unit_is_charged_once_to_each_node(self) -> None:
        for node in NODES:
            spent: Any = trio.run(self.budgets.spent, node)
            assert {name: amount for name, amount in spent.items() if amount} == {
                dimension: amount for (name, dimension), amount in self.spent.items() if name == node and amount
            }


TestAccounts = _Accounts.TestCase
TestAccounts.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


async def test_a_key_stands_for_one_reservation() -> None:
    budgets = MemoryBudgets({})
    await budgets.reserve("k", ("global",), {"tokens": 1})
    with pytest.raises(ReservationReused):
        await budgets.reserve("k", ("global",), {"tokens": 2})


@pytest.mark.parametrize("amounts", [{"tokens": -1}, {"tokens": True}, {"tokens": 1.5}, {"time": 1}])
async def test_wrong_amounts_are_refused(amounts: Any) -> None:
    with pytest.raises(ValueError, match=r"amount|dimension"):
        await MemoryBudgets({}).reserve("k", ("global",), amounts)
    with pytest.raises(ValueError, match=r"amount|dimension"):
        MemoryBudgets({"global": amounts})


@pytest.mark.parametrize("chain", [(), ("a", "a"), ("",), ("x" * 301,)])
async def test_wrong_chains_are_refused(chain: Any) -> None:
    with pytest.raises(ValueError, match="chain"):
        await MemoryBudgets({}).reserve("k", chain, {"tokens": 1})


# --- runs ---------------------------------------------------------------------------------------------


@tool(execution="readonly")
async def look() -> int:
    """Look."""
    return 1


def plain(**fields: Any) -> Agent[str, str]:
    return talker(look, policy=Policy(retry=RetryPolicy(tries=1), **fields))


def budgeted(world: World, limits: Any) -> MemoryBudgets:
    budgets = MemoryBudgets(limits)
    world.ports.update(budgets=budgets, estimator=ByteEstimator())
    return budgets


async def test_sec_012_a_run_is_charged_to_every_node(world: World) -> None:
    budgets = budgeted(world, {})
    agent = plain()
    usage = Usage(input_tokens=70, output_tokens=5)
    async with (
        one_agent(world, agent, turn(call("look"), usage=usage), turn(text("done"), usage=usage)) as (kernel, _),
        kernel.conversation("c") as talk,
    ):
        await talk.run(agent, "go")
    address = Address(tenant=TenantId("default"), conversation=ConversationId("c"))
    for node in chain_of(address, AgentId("talker")):
        assert await budgets.spent(node) == {"turns": 2, "tool-calls": 1, "tokens": 150, "cost": 0}


async def test_f_058_two_runs_share_the_last_unit_and_one_gets_it(world: World) -> None:
    budgets = budgeted(world, {"global": {"turns": 1}})
    agent = plain()
    results: list[Any] = []
    gate = trio.Event()
    async with one_agent(world, agent, turn("done").gated(gate)) as (kernel, model):

        async def run() -> None:
            results.append(await kernel.run(agent, "go"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            nursery.start_soon(run)
            await trio.testing.wait_all_tasks_blocked()
            gate.set()
    assert sorted(type(result).__name__ for result in results) == ["Completed", "Failed"]
    [failed] = [result for result in results if isinstance(result, Failed)]
    assert isinstance(failed.error, BudgetExhaustedError)
    assert failed.error.failure.dimension == "turns"
    assert len(model.requests) == 1
    assert (await budgets.spent("global"))["turns"] == 1


async def test_sec_012_a_refusal_names_the_node(world: World) -> None:
    budgeted(world, {"tenant:default": {"tokens": 5}})
    agent = plain()
    async with one_agent(world, agent, turn("never")) as (kernel, model):
        result = await kernel.run(agent, "go")
    assert isinstance(result, Failed)
    [reached] = world.of(BudgetReached)
    assert (reached.node, reached.dimension, reached.limit) == ("tenant:default", "tokens", 5)
    assert list(model.requests) == []


async def test_sec_012_warnings_of_nodes_are_told_once(world: World) -> None:
    budgeted(world, {"global": {"turns": 5}})
    agent = plain()
    async with one_agent(world, agent, *[turn(call("look"))] * 4, turn("done")) as (kernel, _):
        await kernel.run(agent, "go")
    assert [(record.node, record.dimension) for record in world.of(BudgetWarned)] == [("global", "turns")]


async def test_f_058_a_batch_that_a_node_cannot_pay_for_does_not_run_in_part(world: World) -> None:
    budgets = budgeted(world, {"global": {"tool-calls": 2}})
    agent = plain()
    async with one_agent(world, agent, turn(*[call("look")] * 3), turn("enough")) as (kernel, model):
        result = await kernel.run(agent, "go")
    assert isinstance(result, Completed)
    assert result.exhausted == "tool-calls"
    assert [type(outcome) for outcome in world.outcomes()] == [ToolRejected] * 3
    assert model.requests[1].tools == ()
    assert (await budgets.spent("global"))["tool-calls"] == 0


async def test_run_017_programs_pay_the_nodes_too(world: World) -> None:
    budgeted(world, {"global": {"tool-calls": 2}})
    outcomes: list[Any] = []

    @tool(execution="readonly")
    async def play(context: ToolContext) -> int:
        """Play."""
        outcomes.extend([await context.call_tool("look", "{}") for _ in range(3)])
        return 1

    agent = talker(attrs.evolve(play, calls=Toolkit([look])))
    async with one_agent(world, agent, turn(call("play")), turn("done")) as (kernel, _):
        await kernel.run(agent, "go")
    assert [type(outcome) for outcome in outcomes] == [ToolSuccess, ToolRejected, ToolRejected]


@pytest.mark.parametrize("how", ["failed", "cancelled"])
async def test_f_049_what_was_used_is_charged_whatever_became_of_it(
    world: World, autojump_clock: trio.testing.MockClock, how: str
) -> None:
    budgets = budgeted(world, {})
    agent = plain()
    words = turn(text("half an answer of some length"))
    broken = words.cut() if how == "failed" else words.gated(trio.Event(), after=1)
    with trio.move_on_after(1):
        async with one_agent(world, agent, broken) as (kernel, _):
            await kernel.run(agent, "go")
    spent = await budgets.spent("global")
    assert spent["tokens"] > 10
    # Nothing stays reserved.
    assert isinstance(await budgets.reserve("probe", ("global",), {"tokens": 1}), Reserved)
    assert await budgets.spent("global") == spent


async def test_a_request_that_was_never_made_gives_back_what_was_set_aside(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    budgets = budgeted(world, {"global": {"turns": 1}})
    agent = plain()

    async def stuck() -> None:
        world.store.pauses = None  # sealing gets through
        await trio.sleep_forever()

    async with one_agent(world, agent, turn("done"), turn("done")) as (kernel, model):
        world.store.pauses = stuck
        with trio.move_on_after(1):
            await kernel.run(agent, "go")
        assert list(model.requests) == []
        result = await kernel.run(agent, "again")
    assert isinstance(result, Completed)
    assert (await budgets.spent("global"))["turns"] == 1
