"""What a host does in the scenarios of the await-point sweep, and the tools that its agents have.

Decides nothing of where it is interrupted. Each play starts on a stage whose kernel is open and whose ports are slow.
"""

import threading
from collections.abc import Awaitable, Callable
from typing import Any, Final

import attrs
import trio

from tests.approval_world import Gone, asker, suspension, terms_for, yes
from tests.kernel_world import Paced, talker
from tests.slow_office import SlowOffice
from triolet.adapters.held_tools import HeldTools
from triolet.adapters.memory import MemoryInputs
from triolet.adapters.scripted_model import call, text, turn
from triolet.kernel import Agent, Kernel, RunHandle, Suspended, ToolContext, tool
from triolet.ports.admission import Admitted, InputKind, Offer
from triolet.ports.approval import GrantTerms
from triolet.ports.batch import Batch
from triolet.ports.conversation_store import Address
from triolet.ports.records import RunStarted
from triolet.ports.strict_json import JsonValue
from triolet.ports.tools import Tool

DONE: Final = turn(text("Done.", chunks=2))


@attrs.define(eq=False)
class Stage:
    """One pass: the office, then its one agent and the kernel, and what the preparation left for the scenario."""

    office: SlowOffice
    kernel: Kernel = attrs.field(init=False)
    agent: Agent[Any, Any] = attrs.field(init=False)
    turns: tuple[Any, ...] = ()
    waiting: Suspended | None = None
    voice: RunHandle[Any] | None = None


Play = Callable[[Stage], Awaitable[object]]


async def nothing(_: Stage) -> None:
    return


# --- tools ----------------------------------------------------------------------------------------------


@tool(execution="readonly", group="disk")
async def look(context: ToolContext) -> str:
    """Look."""
    context.progress("looking")
    await trio.sleep(1)
    return "seen"


@tool(group="disk")
async def act() -> str:
    """Act."""
    await trio.sleep(2)
    return "acted"


@tool(execution="durable")
async def work(context: ToolContext) -> str:
    """Work in a step."""

    async def body() -> JsonValue:
        await trio.lowlevel.checkpoint()
        return 1

    await context.step("one", body)
    return "worked"


@tool
def block(context: ToolContext) -> str:
    """Run in a thread."""
    context.progress("blocking")
    return "blocked"


def talking(*tools: Tool[Any, Any]) -> Callable[[Stage], Agent[Any, Any]]:
    return lambda _: talker(*tools)


def instructed(_: Stage) -> Agent[Any, Any]:
    async def instructions(value: str) -> str:
        await trio.lowlevel.checkpoint()
        return "Be brief."

    return talker(instructions=instructions)


def asking(**approval: Any) -> Callable[[Stage], Agent[Any, Any]]:
    return lambda stage: asker(stage.office.counted(), **approval)


def speaking(kind: str) -> Callable[[Stage], Agent[Any, Any]]:
    """An agent whose tool says something, twice the same, to the run that it is part of."""

    def make(stage: Stage) -> Agent[Any, Any]:
        @tool(execution="readonly")
        async def say() -> str:
            """Say something."""
            for _ in range(2):
                await getattr(stage.voice, kind)("and now?", key="k1")
            return "said"

        return talker(say)

    return make


# --- what is done ---------------------------------------------------------------------------------------


async def run(stage: Stage) -> None:
    async with stage.kernel.conversation("c") as talk:
        await talk.run(stage.agent, "go")


async def stream(stage: Stage) -> None:
    async with stage.kernel.conversation("c") as talk, talk.stream(stage.agent, "go") as stage.voice:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stage.voice.result)
            async for _ in stage.voice:
                pass


async def one_shot(stage: Stage) -> None:
    await stage.kernel.run(stage.agent, "go")
    async with stage.kernel.stream(stage.agent, "go") as handle:
        await handle.result()


async def run_and_stream(stage: Stage) -> None:
    await stage.kernel.run(stage.agent, "go")
    async with stage.kernel.stream(stage.agent, "go") as handle:
        await handle.result()


async def in_line(stage: Stage) -> None:
    async with (
        stage.kernel.conversation("c", while_busy="queue") as talk,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(talk.run, stage.agent, "one")
        nursery.start_soon(talk.run, stage.agent, "two")


async def answered_at_the_desk(stage: Stage) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(clerk, stage.office)
        await run(stage)
        nursery.cancel_scope.cancel()


async def clerk(office: SlowOffice, grant: GrantTerms | None = None) -> None:
    await office.desk.arrived(1)
    await trio.sleep(3)
    for request in office.desk.open:
        office.desk.approve(request, grant=grant)


async def suspend(stage: Stage) -> None:
    async with stage.kernel.conversation("c") as talk:
        stage.waiting = suspension(await talk.run(stage.agent, "go"))


async def answer_and_resume(stage: Stage) -> None:
    assert stage.waiting is not None
    await stage.kernel.answer(stage.waiting.requests[0].id, yes(stage.waiting.requests[0]))
    await stage.kernel.resume(stage.waiting)


async def steer_and_resume(stage: Stage) -> None:
    assert stage.waiting is not None
    async with stage.kernel.conversation("c") as talk:
        await talk.steer("never mind")
        waiting = suspension(talk.suspended)
    await stage.kernel.resume(waiting)


async def suspend_and_resume_alone(stage: Stage) -> None:
    waiting = suspension(await stage.kernel.run(stage.agent, "go"))
    await stage.kernel.answer(waiting.requests[0].id, yes(waiting.requests[0]))
    await stage.kernel.resume(waiting)


async def steered_while_asking(stage: Stage) -> None:
    async with stage.kernel.conversation("c") as talk, talk.stream(stage.agent, "go") as handle:
        await stage.office.desk.arrived(1)
        await trio.sleep(3)
        await handle.steer("never mind")
        await handle.result()


async def get_a_grant(stage: Stage) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(clerk, stage.office, terms_for("conversation"))
        await run(stage)
        nursery.cancel_scope.cancel()


async def revoke(stage: Stage) -> None:
    async with stage.kernel.conversation("c") as talk:
        for standing in talk.grants:
            await talk.revoke(standing.grant, reason="over")


async def revoke_and_stream_in_line(stage: Stage) -> None:
    async def stream() -> None:
        async with talk.stream(stage.agent, "two") as handle:
            await handle.result()

    async def revoke() -> None:
        for standing in talk.grants:
            await talk.revoke(standing.grant, reason="over")

    async with (
        stage.kernel.conversation("c", while_busy="queue") as talk,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(talk.run, stage.agent, "one")
        await trio.lowlevel.checkpoint()
        nursery.start_soon(revoke)
        nursery.start_soon(stream)


async def stop_while_writing(stage: Stage) -> None:
    """Stop a run while what a model said is on its way to the store."""
    stops = [True]

    async def stop() -> None:
        if stage.voice is not None and stops:
            stops.clear()
            stage.voice.cancel()
        await trio.lowlevel.checkpoint()

    stage.office.store.pauses = stop
    await stream(stage)


async def denied_at_the_desk(stage: Stage) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(strict_clerk, stage.office)
        await run(stage)
        nursery.cancel_scope.cancel()


async def strict_clerk(office: SlowOffice) -> None:
    await office.desk.arrived(1)
    await trio.sleep(3)
    for request in office.desk.open:
        office.desk.deny(request)


class LongClaims(MemoryInputs):
    """A queue that takes its time to look, so that an answer comes in the midst of it."""

    async def claim_joining(self, address: Address, kind: InputKind, limit: int) -> tuple[Admitted, ...]:
        await trio.sleep(2)
        return await super().claim_joining(address, kind, limit)


async def denied_while_looking(stage: Stage) -> None:
    stage.office.inputs = LongClaims()
    usual = stage.kernel
    try:
        async with stage.office.kernel(stage.agent, model=Paced(*stage.turns)) as stage.kernel:
            await denied_at_the_desk(stage)
    finally:
        stage.kernel = usual


async def stop(stage: Stage) -> None:
    """Stop a run through its handle: what is cancelled from outside meanwhile is its sealing."""
    async with stage.kernel.conversation("c") as talk, talk.stream(stage.agent, "go") as handle:
        await trio.sleep(1)
        handle.cancel()
        await handle.result()


class StopsItself(MemoryInputs):
    """A queue in which a run is stopped as it claims, so that nobody knows what it has."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self._stage = stage

    async def claim_joining(self, address: Address, kind: InputKind, limit: int) -> tuple[Admitted, ...]:
        claimed = await super().claim_joining(address, kind, limit)
        if claimed and self._stage.voice is not None:
            self._stage.voice.cancel()
            await trio.lowlevel.checkpoint()
        return claimed


class Tardy(MemoryInputs):
    """A queue that takes its time to admit."""

    async def admit(self, address: Address, offer: Offer) -> Admitted:
        await trio.sleep(1)
        return await super().admit(address, offer)


async def say_something_late(stage: Stage) -> None:
    stage.office.inputs = Tardy()
    async with (
        stage.office.kernel(stage.agent, model=Paced(*stage.turns)) as kernel,
        kernel.conversation("c") as talk,
        talk.stream(stage.agent, "go") as handle,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(handle.follow_up, "and now?")
        await handle.result()


def through(queue: Callable[[Stage], MemoryInputs]) -> Play:
    """An observed run on another queue."""

    async def play(stage: Stage) -> None:
        stage.office.inputs = queue(stage)
        usual = stage.kernel
        try:
            async with stage.office.kernel(stage.agent, model=Paced(*stage.turns)) as stage.kernel:
                await stream(stage)
        finally:
            stage.kernel = usual

    return play


async def lose_a_run(stage: Stage) -> None:
    def fails(batch: Batch) -> bool:
        return not any(isinstance(record, RunStarted) for record in batch.records)

    async with stage.kernel.conversation("c") as talk:
        stage.office.failing.fails = fails
        try:
            await talk.run(stage.agent, "go")
        except Gone:
            stage.office.failing.fails = lambda _: False


async def open_conversations(stage: Stage) -> None:
    for name in ("c", "new"):
        async with stage.kernel.conversation(name):
            await trio.lowlevel.checkpoint()


async def open_with_a_source(stage: Stage) -> None:
    """Open a kernel whose agent has the tools of a source, which change while one of them runs."""
    source: HeldTools

    @tool(execution="readonly")
    async def swap() -> str:
        """Offer something else from now on."""
        source.hold([look_around])
        return "swapped"

    source = HeldTools("senses", [swap])
    stage.office.ports["tool_sources"] = (source,)
    agent = talker(sources=("senses",))
    async with stage.office.kernel(agent, model=Paced(turn(call("senses__swap", {})), DONE)) as kernel:
        await kernel.run(agent, "go")


@tool(execution="readonly")
async def look_around() -> str:
    """Look around."""
    return "seen"


async def leave_a_thread(stage: Stage) -> None:
    """Close a kernel over a thread that goes on for a moment."""
    began, go = trio.Event(), threading.Event()

    @tool
    def stay() -> str:
        """Outlast the run."""
        trio.from_thread.run_sync(began.set)
        go.wait(10)
        threading.Event().wait(0.005)
        return "late"

    agent = talker(stay)
    async with stage.office.kernel(agent, model=Paced(turn(call("stay")), DONE)) as kernel:
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(kernel.run, agent, "go")
                await began.wait()
                nursery.cancel_scope.cancel()
        finally:
            go.set()
