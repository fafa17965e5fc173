"""Programmatic calls: the way of a direct call, under the outer permit, one at a time, paid before they start."""

from collections.abc import Sequence
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from tests.approval_world import Office
from tests.kernel_world import World, one_agent, script, talker
from triolet.adapters.scripted_model import call, turn
from triolet.kernel import Agent, Completed, Failed, MissingCapabilities, Policy, Tool, ToolContext, Toolkit, tool
from triolet.ports.authorizer import Action, Allow, CallTool, Deny, NeedsApproval, Verdict
from triolet.ports.identity import CallId, Principal
from triolet.ports.outcomes import (
    Outcome,
    ToolDefect,
    ToolFailure,
    ToolInvalidInput,
    ToolRejected,
    ToolSuccess,
    ToolUnknownOutcome,
)
from triolet.ports.records import ToolSettled
from triolet.ports.strict_json import JsonText
from triolet.ports.tool_context import CallRefused
from triolet.ports.tools import InvalidTool

SEEN: list[tuple[CallId, int]] = []


@attrs.define(kw_only=True)
class Full(Exception):
    """No room."""

    room: int


@tool(execution="readonly", failures=[Full])
async def double(n: int, context: ToolContext) -> int:
    """Twice the number."""
    SEEN.append((context.call, n))
    if n == 13:
        raise ValueError("secret text")
    if n == 99:
        raise Full(room=0)
    return 2 * n


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    SEEN.clear()


def program(
    *wanted: tuple[str, str], tools: Sequence[Tool[Any, Any]] = (double,)
) -> tuple[Tool[Any, Any], list[Outcome]]:
    """A tool that makes these calls in order, and what came of them."""
    outcomes: list[Outcome] = []

    async def play(context: ToolContext) -> int:
        """Play."""
        for name, arguments in wanted:
            outcomes.append(await context.call_tool(name, arguments))
        return len(outcomes)

    made = tool(execution="readonly")(play)
    return attrs.evolve(made, calls=Toolkit(tools)), outcomes


ENDINGS: dict[str, tuple[str, str, Outcome]] = {
    "success": ("double", '{"n": 4}', ToolSuccess(output=JsonText("8"))),
    "declared failure": ("double", '{"n": 99}', ToolFailure(type="Full", payload=JsonText('{"room":0}'))),
    "defect": ("double", '{"n": 13}', ToolDefect(reason="exception", type="ValueError", effect_possible=False)),
}


@pytest.mark.parametrize("ending", ENDINGS)
async def test_run_016_an_inner_call_ends_as_a_direct_one(world: World, ending: str) -> None:
    name, arguments, expected = ENDINGS[ending]
    outer, outcomes = program((name, arguments))
    agent = talker(outer, double)
    direct = turn(call(name, arguments))
    async with one_agent(world, agent, turn(call("play", {})), direct, turn("done")) as (kernel, _):
        await kernel.run(agent, "go")
    assert outcomes == [expected]
    assert world.outcomes() == [ToolSuccess(output=JsonText("1")), expected]


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("double", '{"n": "4"}', "schema"),
        ("double", '{"n": 4', "not-json"),
        ("double", "[4]", "not-object"),
        ("double", "", "schema"),
        ("doubel", '{"n": 4}', "unknown-tool"),
        ("play", "{}", "unknown-tool"),
    ],
)
async def test_run_003_what_cannot_be_understood_starts_nothing(
    world: World, name: str, arguments: str, reason: str
) -> None:
    outer, outcomes = program((name, arguments))
    agent = talker(outer)
    async with one_agent(world, agent, turn(call("play", {})), turn("done")) as (kernel, _):
        await kernel.run(agent, "go")
    [outcome] = outcomes
    assert isinstance(outcome, ToolInvalidInput)
    assert (outcome.reason, SEEN) == (reason, [])


async def test_run_016_identities_are_the_outer_calls_with_an_index(world: World) -> None:
    outer, _ = program(("double", '{"n": 1}'), ("double", '{"n": 2}'))
    agent = talker(outer)
    async with one_agent(world, agent, turn(call("play", {})), turn("done")) as (kernel, _):
        await kernel.run(agent, "go")
    [settled] = world.of(ToolSettled)
    assert [(f"{settled.call}/0", 1), (f"{settled.call}/1", 2)] == SEEN
    # Inner calls leave no records; their number does.
    assert settled.programmatic == 2


async def test_run_017_a_call_that_is_not_paid_for_does_not_start(world: World) -> None:
    outer, outcomes = program(*[("double", '{"n": 1}')] * 5)
    agent = talker(outer, policy=Policy(max_tool_calls=3))
    async with one_agent(world, agent, turn(call("play", {})), turn(call("play", {})), turn("done")) as (kernel, _):
        result = await kernel.run(agent, "go")
    assert len(SEEN) == 2
    assert [type(outcome) for outcome in outcomes] == [ToolSuccess, ToolSuccess] + [ToolRejected] * 3
    # Paid calls count: the next batch has nothing left.
    assert isinstance(result, Completed)
    assert result.exhausted == "tool-calls"
    assert isinstance(world.outcomes()[1], ToolRejected)


async def test_run_017_siblings_pay_out_of_one_purse(world: World) -> None:
    outer, _ = program(*[("double", '{"n": 1}')] * 5)
    agent = talker(outer, policy=Policy(max_tool_calls=6))
    async with one_agent(world, agent, turn(call("play", {}), call("play", {})), turn("done")) as (kernel, _):
        await kernel.run(agent, "go")
    assert len(SEEN) == 4
    assert sum(settled.programmatic for settled in world.of(ToolSettled)) == 4


async def test_run_016_one_at_a_time(world: World) -> None:
    gate = trio.Event()
    refused: list[CallRefused] = []

    @tool(execution="readonly")
    async def slow() -> int:
        """Wait for the gate."""
        await gate.wait()
        return 1

    async def play(context: ToolContext) -> int:
        """Play."""

        async def second() -> None:
            try:
                await context.call_tool("slow", "{}")
            except CallRefused as error:
                refused.append(error)
            gate.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(context.call_tool, "slow", "{}")
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(second)
        # The first has ended: the next may start.
        assert await context.call_tool("slow", "{}") == ToolSuccess(output=JsonText("1"))
        return 1

    outer = attrs.evolve(tool(execution="readonly")(play), calls=Toolkit([slow]))
    agent = talker(outer)
    async with one_agent(world, agent, turn(call("play", {})), turn("done")) as (kernel, _):
        await kernel.run(agent, "go")
    assert "under way" in refused[0].message
    assert world.outcomes() == [ToolSuccess(output=JsonText("1"))]


async def test_run_017_an_inner_call_has_its_own_time_and_the_outer_ones(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    @tool(execution="readonly", timeout=3)
    async def stall() -> int:
        """Never return."""
        await trio.sleep_forever()
        return 1

    outer, outcomes = program(("stall", "{}"), ("stall", "{}"), tools=[stall])
    agent = talker(attrs.evolve(outer, timeout=5))
    async with one_agent(world, agent, turn(call("play", {})), turn("done")) as (kernel, _):
        await kernel.run(agent, "go")
    assert outcomes == [ToolDefect(reason="timeout", effect_possible=False)]
    assert world.outcomes() == [ToolDefect(reason="timeout", effect_possible=False)]
    assert trio.current_time() == 5


async def test_run_008_cancelling_the_run_ends_the_inner_call(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    ended: list[str] = []

    @tool
    async def hold() -> int:
        """Hold until cancelled."""
        try:
            await trio.sleep_forever()
        finally:
            ended.append("inner")
        return 1

    async def play(context: ToolContext) -> str:
        """Play."""
        return str(await context.call_tool("hold", "{}"))

    outer = attrs.evolve(tool(play), calls=Toolkit([hold]))
    agent = talker(outer)
    with trio.move_on_after(1):
        async with one_agent(world, agent, turn(call("play", {}))) as (kernel, _):
            await kernel.run(agent, "go")
    assert ended == ["inner"]
    [settled] = world.of(ToolSettled)
    assert settled.outcome == ToolUnknownOutcome(reason="cancelled")
    # It was paid for, whatever became of it.
    assert settled.programmatic == 1


# --- authority (F-048, RUN-031) -----------------------------------------------------------------------


@attrs.define
class Gate:
    """An authorizer with one answer for inner calls."""

    answer: Verdict
    asked: list[CallTool] = attrs.field(factory=list[CallTool])

    async def authorize(self, action: Action, principal: Principal) -> Verdict:
        assert isinstance(action, CallTool)
        self.asked.append(action)
        return self.answer if "/" in action.call else Allow()


@pytest.mark.parametrize(
    "answer", [NeedsApproval(reason="policy"), Deny(reason="not here"), Deny(reason="no", recoverable=True)]
)
async def test_f_048_a_gated_inner_call_is_a_refusal_that_can_be_caught(world: World, answer: Verdict) -> None:
    gate = Gate(answer)
    world.ports.update(authorizer=gate)
    outer, outcomes = program(("double", '{"n": 1}'), ("double", '{"n": 2}'))
    agent = talker(outer)
    async with one_agent(world, agent, turn(call("play", {})), turn("done")) as (kernel, _):
        result = await kernel.run(agent, "go")
    assert isinstance(result, Completed)
    assert [type(outcome) for outcome in outcomes] == [ToolRejected, ToolRejected]
    assert SEEN == []
    assert [action.tool for action in gate.asked] == ["play", "double", "double"]
    # Not paid for either: it never came to that.
    assert world.of(ToolSettled)[0].programmatic == 0


async def test_f_048_a_tool_that_asks_is_not_run_by_a_program(office: Office) -> None:
    @tool(execution="readonly", needs_approval=lambda _: True)
    async def careful() -> int:
        """Needs a yes."""
        SEEN.append((CallId("careful"), 0))
        return 1

    outer, outcomes = program(("careful", "{}"), tools=[careful])
    agent = talker(outer)
    model = script(turn(call("play", {})), turn("done"))
    async with office.kernel(agent, model=model) as kernel:
        result = await kernel.run(agent, "go")
    assert isinstance(result, Completed)
    [outcome] = outcomes
    assert isinstance(outcome, ToolRejected)
    assert SEEN == []


# --- construction and preflight -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outer", "inner", "fine"),
    [
        ("readonly", "readonly", True),
        ("readonly", "idempotent", False),
        ("readonly", "uncertain", False),
        ("idempotent", "readonly", True),
        ("idempotent", "idempotent", True),
        ("idempotent", "uncertain", False),
        ("uncertain", "uncertain", True),
        ("uncertain", "idempotent", True),
        ("uncertain", "durable", False),
        ("durable", "uncertain", False),
    ],
)
def test_a_tool_calls_nothing_that_does_more_than_it_says(outer: Any, inner: Any, fine: bool) -> None:
    called = attrs.evolve(double, execution=inner)
    if fine:
        attrs.evolve(double, execution=outer, calls=Toolkit([called]))
    else:
        with pytest.raises(InvalidTool):
            attrs.evolve(double, execution=outer, calls=Toolkit([called]))


async def test_cap_002_what_inner_tools_need_is_named_too(world: World) -> None:
    needy = attrs.evolve(double, requires=frozenset(["approval"]), group="printers")
    outer, _ = program(tools=[needy])
    with pytest.raises(MissingCapabilities) as caught:
        async with world.kernel(talker(outer), model=object()):  # type: ignore[arg-type]  # it is not asked
            pass
    assert {port for port, _ in caught.value.missing} == {"approval", "group printers"}


async def test_a_tool_that_declares_none_calls_none(world: World) -> None:
    async def play(context: ToolContext) -> int:
        """Play."""
        await context.call_tool("double", "{}")
        return 1

    agent: Agent[str, str] = talker(tool(play), double)
    async with one_agent(world, agent, turn(call("play", {})), turn("done")) as (kernel, _):
        result = await kernel.run(agent, "go")
    assert not isinstance(result, Failed)
    assert world.outcomes() == [ToolDefect(reason="exception", type="CallRefused", effect_possible=True)]
