"""What a host does in the scenarios of the await-point sweep on budgets, context, and calls from within tools.

Decides nothing of where it is interrupted. Each play starts on a stage whose kernel is open and whose ports are slow.
"""

from collections.abc import AsyncIterable
from typing import Any

import attrs
import trio

from tests.await_plays import DONE, Stage
from tests.kernel_world import talker
from triolet.adapters.estimators import ByteEstimator
from triolet.adapters.memory import MemoryArtifacts, MemoryBudgets
from triolet.adapters.scripted_model import Turn, call, turn
from triolet.adapters.substitute_executor import Running, SubstituteExecutor
from triolet.kernel import Agent, Policy, RetryPolicy, ToolContext, Toolkit, code_mode, tool
from triolet.ports.artifact_store import ArtifactHandle
from triolet.ports.budget import Amounts, BudgetRefusal, Chain, NodeWarning, Reserved
from triolet.ports.compactor import CompactionArtifact, CompactionRange
from triolet.ports.identity import TenantId
from triolet.ports.language_model import ModelRequest, ModelUnavailable
from triolet.ports.strict_json import JsonValue

LONG = "x" * 3_000
"""About a thousand tokens."""


@tool(execution="readonly")
async def read(n: int) -> str:
    """Read something long."""
    await trio.lowlevel.checkpoint()
    return f"{n}:{LONG}"


def programmer(_: Stage) -> Agent[Any, Any]:
    """An agent whose tool calls another one."""

    @tool(execution="readonly")
    async def play(context: ToolContext) -> int:
        """Play."""
        await context.call_tool("read", '{"n": 1}')
        return 1

    return talker(attrs.evolve(play, calls=Toolkit([read])))


class SlowBudgets(MemoryBudgets):
    """Budgets that let other tasks run before each answer, as another process does."""

    async def reserve(self, key: str, chain: Chain, amounts: Amounts) -> Reserved | BudgetRefusal:
        await trio.lowlevel.checkpoint()
        answer = await super().reserve(key, chain, amounts)
        await trio.lowlevel.checkpoint()
        return answer

    async def settle(self, key: str, amounts: Amounts) -> tuple[NodeWarning, ...]:
        await trio.lowlevel.checkpoint()
        return await super().settle(key, amounts)

    async def release(self, key: str) -> None:
        await trio.lowlevel.checkpoint()
        await super().release(key)


class SlowArtifacts(MemoryArtifacts):
    """An artifact store that lets other tasks run before it answers."""

    async def put(
        self, payload: bytes | AsyncIterable[bytes], *, tenant: TenantId, content_type: str
    ) -> ArtifactHandle:
        await trio.lowlevel.checkpoint()
        return await super().put(payload, tenant=tenant, content_type=content_type)


@attrs.define(kw_only=True)
class Overflown(Exception):
    """A failure that is too long to be shown."""

    note: str


def budgeted(stage: Stage) -> Agent[Any, Any]:
    """An agent that pays for everything, and whose results are too long."""
    stage.office.ports.update(budgets=SlowBudgets({}), artifacts=SlowArtifacts(), estimator=ByteEstimator())

    @tool(execution="readonly", failures=[Overflown])
    async def overflow() -> str:
        """Fail at length."""
        raise Overflown(note=LONG)

    @tool(execution="readonly")
    async def play(context: ToolContext) -> int:
        """Play."""
        await context.call_tool("read", '{"n": 1}')
        return 1

    return talker(read, overflow, attrs.evolve(play, calls=Toolkit([read])), policy=Policy(result_bytes=512))


def scripting(stage: Stage) -> Agent[Any, Any]:
    """An agent that writes programs over a tool."""

    async def play(running: Running) -> JsonValue:
        await trio.lowlevel.checkpoint()
        return await running.call("things", "read", {"n": 1})

    stage.office.ports["code"] = SubstituteExecutor({"p": play})
    return talker(code_mode("run_program", {"things": [read]}, trusted_programs=True))


def retrying(_: Stage) -> Agent[Any, Any]:
    """An agent that asks a model again."""
    return talker(policy=Policy(retry=RetryPolicy(tries=2, seconds=1)))


DOWN = turn("x").failing(ModelUnavailable(model="m", reason="overloaded", retry_after=None), after=0)


def crowded(stage: Stage) -> Agent[Any, Any]:
    """An agent whose context is soon full."""
    stage.office.ports["estimator"] = ByteEstimator()
    return talker(read, policy=Policy(context_tokens=1_600, max_turns=40, retry=RetryPolicy(tries=1)))


def hosted(stage: Stage) -> Agent[Any, Any]:
    """An agent whose context is summed up by the host."""
    stage.office.ports["compactor"] = Notes()
    return talker(policy=Policy(summarise="host"))


def reads_on(request: ModelRequest) -> Turn:
    """Read five times; write a summary when asked for one."""
    if request.purpose == "summary":
        return turn("SUMMARY")
    return DONE if request.turn > 5 else turn(call("read", {"n": request.turn}))


class Notes:
    """The host's own compactor."""

    version = "notes/1"

    async def compact(self, source: CompactionRange) -> CompactionArtifact:
        """Make an artifact."""
        return CompactionArtifact(
            covers_through=source.covers_through,
            summary="SUMMARY",
            token_estimate=2,
            source_digest=source.digest,
            compactor_version=self.version,
        )


async def two_runs(stage: Stage) -> None:
    """Something to sum up."""
    async with stage.kernel.conversation("c") as talk:
        for _ in range(2):
            await talk.run(stage.agent, "go")


async def compact(stage: Stage) -> None:
    """Compact between runs."""
    async with stage.kernel.conversation("c") as talk:
        await talk.compact(stage.agent)


async def compact_in_line(stage: Stage) -> None:
    """Compact once a run has ended."""
    async with stage.kernel.conversation("c", while_busy="queue") as talk, trio.open_nursery() as nursery:
        nursery.start_soon(talk.run, stage.agent, "one")
        await trio.lowlevel.checkpoint()
        await talk.compact(stage.agent)
