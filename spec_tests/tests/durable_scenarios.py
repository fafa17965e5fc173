"""Scenarios of accepted work: an agent, what its model answers, and what a client asks for; each under stable keys.

Each plays the same from wherever it goes on: models answer by the turn, clients submit again what they may have
submitted before, and what a handler does outside is noted under its operation key.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import attrs
import trio

from tests.compaction_world import LONG
from tests.durable_world import BOSS, TALK, Client, Outside, Respond
from tests.kernel_world import talker
from triolet.adapters.scripted_model import Turn, call, text, turn
from triolet.kernel import Agent, ApprovalPolicy, Disposition, Kernel, Policy, RetryPolicy, Tool, ToolContext, tool
from triolet.ports.language_model import ContextTooLarge, ModelRequest
from triolet.ports.ledger import Receipt

Made = tuple[Agent[Any, Any], Respond, Client]
GO: Final = "go"


@attrs.frozen
class DurableScenario:
    """`make` builds the scenario over what is outside."""

    name: str
    make: Callable[[Outside], Made]


async def one(kernel: Kernel, agent: Agent[Any, Any]) -> list[Receipt]:
    return [await kernel.submit(agent, GO, conversation=TALK.conversation, key="one")]


async def two(kernel: Kernel, agent: Agent[Any, Any]) -> list[Receipt]:
    return [
        *await one(kernel, agent),
        await kernel.submit(agent, "and then", conversation=TALK.conversation, key="two", kind="follow-up"),
    ]


def policy(**fields: Any) -> Policy:
    return Policy(bounded=True, retry=RetryPolicy(tries=1), **fields)


def effect(outside: Outside, name: str, *, seconds: float = 0, **fields: Any) -> Tool[Any, Any]:
    """A tool that does something outside, right after it has started, and then takes its time."""

    @tool(name=name, **fields)
    async def act(context: ToolContext) -> str:
        """Do something outside."""
        outside.effects.append(context.operation_key)
        await trio.sleep(seconds)
        return "done"

    return act


def in_turns(*turns: Turn) -> Respond:
    return lambda request: turns[min(request.turn, len(turns)) - 1]


DONE: Final = turn(text("all done"))


def plain(_: Outside) -> Made:
    return talker(policy=policy()), in_turns(DONE), one


def parallel(outside: Outside) -> Made:
    tools = [
        effect(outside, "slow", seconds=5, execution="readonly"),
        effect(outside, "quick", execution="idempotent"),
        effect(outside, "quicker", execution="uncertain"),
    ]
    calls = turn(call("slow"), call("quick"), call("quicker"))
    return talker(*tools, policy=policy()), in_turns(calls, DONE), one


def uncertain(outside: Outside) -> Made:
    agent = talker(effect(outside, "pay", seconds=1), policy=policy())
    return agent, in_turns(turn(call("pay")), turn(call("pay")), DONE), one


def uncertain_that_times_out(outside: Outside) -> Made:
    agent = talker(effect(outside, "pay", seconds=100, timeout=3), effect(outside, "look", seconds=5), policy=policy())
    return agent, in_turns(turn(call("pay"), call("look")), DONE), one


def idempotent(outside: Outside) -> Made:
    agent = talker(effect(outside, "put", seconds=1, execution="idempotent"), policy=policy())
    return agent, in_turns(turn(call("put"), call("put")), DONE), one


def steps(outside: Outside) -> Made:
    @tool(execution="durable")
    async def travel(context: ToolContext) -> str:
        """Book in steps."""

        def body(name: str) -> Callable[[], Awaitable[str]]:
            async def book() -> str:
                outside.bodies.append(f"{context.operation_key} {name}")
                await trio.sleep(1)
                return f"{name} booked"

            return book

        first = await context.step("flight", body("flight"))
        second = await context.step("hotel", body("hotel"))
        return f"{first}, {second}"

    return talker(travel, policy=policy()), in_turns(turn(call("travel")), DONE), one


def approval(outside: Outside) -> Made:
    agent = talker(
        effect(outside, "look", execution="readonly"),
        effect(outside, "pay", needs_approval=True),
        policy=policy(max_seconds=None, approval=ApprovalPolicy(seconds=None)),
    )
    return agent, in_turns(turn(call("look"), call("pay")), DONE), one


def joined(outside: Outside) -> Made:
    return talker(policy=policy()), in_turns(turn(text("first")), DONE), two


def steering(outside: Outside) -> Made:
    @tool(execution="idempotent")
    async def wait(context: ToolContext) -> str:
        """Be steered meanwhile."""
        if outside.kernel is None:
            raise AssertionError("a handler lives in somebody's life")
        await outside.kernel.submit(
            agent, "more", conversation=TALK.conversation, key="steer", kind="steering", principal=BOSS
        )
        return "waited"

    agent = talker(wait, policy=policy())

    async def client(kernel: Kernel, _: Agent[Any, Any]) -> list[Receipt]:
        return await one(kernel, agent)

    return agent, in_turns(turn(call("wait")), turn(call("wait")), DONE), client


def abort(outside: Outside) -> Made:
    receipts: list[Receipt] = []

    @tool(execution="readonly")
    async def hang() -> str:
        """Never come back."""
        if outside.kernel is None:
            raise AssertionError("a handler lives in somebody's life")
        await outside.kernel.abort(receipts[0], by=BOSS, reason="enough")
        await trio.sleep_forever()

    agent = talker(hang, policy=policy())

    async def client(kernel: Kernel, _: Agent[Any, Any]) -> list[Receipt]:
        receipts[:] = await one(kernel, agent)
        return receipts

    return agent, in_turns(turn(call("hang")), DONE), client


def compaction(_: Outside) -> Made:
    @tool(execution="readonly")
    async def read(n: int) -> str:
        """Read something long."""
        return f"{n}:{LONG}"

    def respond(request: ModelRequest) -> Turn:
        if request.purpose == "summary":
            return turn(text("SUMMARY of it all"))
        return DONE if request.turn > 5 else turn(call("read", {"n": request.turn}))

    agent = talker(read, policy=Policy(context_tokens=2_600, max_turns=20, retry=RetryPolicy(tries=1)))
    return agent, respond, one


def exhaustion(outside: Outside) -> Made:
    agent = talker(effect(outside, "put", execution="idempotent"), policy=policy(max_turns=1))
    return agent, in_turns(turn(call("put")), DONE), one


def disposition(_: Outside) -> Made:
    agent = talker(policy=policy(), disposition=Disposition(type=str, select=lambda output: f"filed {output}"))
    return agent, in_turns(DONE), one


def overflow(outside: Outside) -> Made:
    @tool(execution="readonly")
    async def read(n: int) -> str:
        """Read something long."""
        return f"{n}:{LONG}"

    def respond(request: ModelRequest) -> Turn:
        if request.turn <= 3:
            return turn(call("read", {"n": request.turn}))
        whole = sum(LONG in str(message) for message in request.messages) == 3
        return turn("x").failing(ContextTooLarge(model="m"), after=0) if whole else DONE

    agent = talker(read, policy=Policy(context_tokens=50_000, max_turns=20, retry=RetryPolicy(tries=1)))
    return agent, respond, one


SCENARIOS: Final = tuple(
    DurableScenario(name=make.__name__.replace("_", " "), make=make)
    for make in (
        plain,
        parallel,
        uncertain,
        uncertain_that_times_out,
        idempotent,
        steps,
        approval,
        joined,
        steering,
        abort,
        compaction,
        exhaustion,
        disposition,
        overflow,
    )
)

NAMED: Final = {scenario.name: scenario for scenario in SCENARIOS}
