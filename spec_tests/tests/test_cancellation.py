"""Cancellation at every point: whatever was going on, the log is whole, the run has its one end, and work goes on.

Each scenario is run once for each step that any of its tasks takes, and is interrupted there: by cancelling the caller,
through the run's handle, or by using up its time. (F-001, RUN-005, RUN-007, RUN-008)
"""

from collections.abc import Awaitable, Callable
from typing import Any, Literal

import pytest
import trio
import trio.testing

from tests.kernel_world import Paced, World, talker
from tests.task_steps import AtStep, sweep
from triolet.adapters.clocks import TrioClock
from triolet.adapters.scripted_model import call, text, turn
from triolet.kernel import (
    Aborted,
    Agent,
    BudgetExhaustedError,
    Completed,
    Conversation,
    Failed,
    Kernel,
    Policy,
    RunHandle,
    ToolContext,
    Toolkit,
    history_is_valid,
    tool,
)
from triolet.kernel.runtime import Runtime
from triolet.ports.events import RunCompleted, RunFailed, RunInterrupted, TerminalEvent
from triolet.ports.identity import AgentId, CallId
from triolet.ports.outcomes import ToolDefect, ToolInvalidInput, ToolUnknownOutcome
from triolet.ports.records import CallsDecided, RunSettled, RunStarted, ToolPrepared, ToolSettled
from triolet.ports.strict_json import JsonValue

How = Literal["outside", "handle", "deadline"]
SECONDS = 1_000.0


class Scene:
    """One pass over a scenario: a world with tools that count how often they ran."""

    def __init__(self, at: AtStep, how: How) -> None:
        self.world = World(clock=TrioClock(1_000_000))  # type: ignore[arg-type]  # any instant will do
        # A store can be cancelled before it writes and after it did, when nobody tells its caller which.
        self.world.store.pauses = self.world.store.pauses_after = trio.lowlevel.checkpoint
        self.at = at
        self.how: How = how
        self.ran: list[tuple[str, CallId]] = []
        self.ended: list[CallId] = []
        self.scope = trio.CancelScope()
        self.handle: RunHandle[Any] | None = None
        self.results: list[Any] = []
        self.events: list[Any] = []
        at.act = self.interrupt
        policy = Policy(max_seconds=SECONDS if how == "deadline" else None, tool_seconds=10 * SECONDS)
        self.agent = talker(*self._tools(), policy=policy)
        self.structured: Agent[str, list[int]] = Agent(
            id=AgentId("structured"),
            input=str,
            output=list[int],
            toolkit=Toolkit(self._tools()),
            policy=policy,
        )

    def interrupt(self) -> None:
        """What happens at the step."""
        if self.how == "outside":
            self.scope.cancel()
        elif self.how == "handle":
            if self.handle is not None:
                self.handle.cancel()
        else:
            clock = trio.lowlevel.current_clock()
            assert isinstance(clock, trio.testing.MockClock)
            clock.jump(SECONDS + 1)

    def _began(self, name: str, context: ToolContext) -> None:
        assert context.call not in {ran for _, ran in self.ran}, "a handler ran twice"
        self.ran.append((name, context.call))

    def _tools(self) -> list[Any]:
        @tool(execution="readonly", group="disk")
        async def look(context: ToolContext) -> str:
            """Look."""
            self._began("look", context)
            context.progress("looking")
            await trio.sleep(1)
            self.ended.append(context.call)
            return "seen"

        @tool(group="disk")
        async def act(context: ToolContext) -> str:
            """Act."""
            self._began("act", context)
            await trio.sleep(2)
            self.ended.append(context.call)
            return "acted"

        @tool(execution="durable")
        async def work(context: ToolContext) -> str:
            """Work in steps."""
            self._began("work", context)

            async def body() -> JsonValue:
                await trio.lowlevel.checkpoint()
                return 1

            async with trio.open_nursery() as nursery:
                nursery.start_soon(context.step, "one", body)
                nursery.start_soon(context.step, "two", body)
            await context.step("three", body)
            self.ended.append(context.call)
            return "worked"

        @tool
        def block(context: ToolContext) -> str:
            """Run in a thread."""
            self._began("block", context)
            context.progress("blocking")
            self.ended.append(context.call)
            return "blocked"

        return [look, act, work, block]

    async def run(self, conversation: Conversation, agent: Agent[Any, Any], value: str = "go") -> None:
        """Run or stream, whichever the way of interrupting needs."""
        if self.how != "handle":
            self.results.append(await conversation.run(agent, value))
            return
        async with conversation.stream(agent, value) as self.handle:
            self.events = [event async for event in self.handle]
            self.results.append(await self.handle.result())

    # What must hold afterwards.

    def check(self, conversation: str) -> None:
        world = self.world
        world.check()
        ends = world.of(RunSettled, conversation)
        for end in ends:
            fine = {
                "outside": ("completed", None, None),
                "handle": ("completed", None, None),
                "deadline": ("completed", None, None),
            }
            stopped = {
                "outside": ("aborted", "cancelled", None),
                "handle": ("aborted", "requested", None),
                "deadline": ("failed", None, "duration"),
            }
            dimension = end.failure.dimension if end.failure is not None else None
            assert (end.status, end.reason, dimension) in (fine[self.how], stopped[self.how])
        self.check_outcomes(conversation)
        for result in self.results:
            if self.how == "handle":
                assert isinstance(result, Completed | Aborted)
            elif self.how == "deadline":
                assert isinstance(result, Completed | Failed)
                assert isinstance(result, Completed) or isinstance(result.error, BudgetExhaustedError)
            else:
                assert isinstance(result, Completed)
        if self.events:
            assert [isinstance(event, TerminalEvent) for event in self.events].count(True) == 1
            assert isinstance(self.events[-1], RunCompleted | RunFailed | RunInterrupted)
            assert self.events[-1].settlement == ends[-1]

    def check_outcomes(self, conversation: str) -> None:
        """A call that began and whose end was not seen is told by its class; one that never began had no effect."""
        world = self.world
        classes = {row.call: row.execution for d in world.of(CallsDecided, conversation) for row in d.runnable}
        prepared = {c for record in world.of(ToolPrepared, conversation) for c in record.calls}
        began = {ran for _, ran in self.ran}
        for record in world.of(ToolSettled, conversation):
            outcome, execution = record.outcome, classes.get(record.call)
            assert record.call not in began or record.call in prepared or execution == "readonly"
            if isinstance(outcome, ToolInvalidInput):
                assert record.call not in classes
            elif record.call not in began:
                assert isinstance(outcome, ToolDefect)
                assert not outcome.effect_possible
            elif isinstance(outcome, ToolDefect):
                assert execution != "uncertain"
                assert outcome.effect_possible == (execution != "readonly")
            elif isinstance(outcome, ToolUnknownOutcome):
                assert execution == "uncertain"
            else:
                assert record.call in self.ended


def limiters(kernel: Kernel) -> list[trio.CapacityLimiter]:
    runtime: Runtime = kernel._runtime
    return [runtime.threads.limiter, *runtime.groups.values()]


CALLS = turn("Let me.", call("look"), call("act"), call("work"), call("nope"), call("look"), call("work"))
Turns = tuple[Any, ...]
Body = Callable[[Scene, Conversation], Awaitable[None]]


async def one_run(scene: Scene, conversation: Conversation) -> None:
    await scene.run(conversation, scene.agent)


async def one_structured_run(scene: Scene, conversation: Conversation) -> None:
    await scene.run(conversation, scene.structured)


async def two_runs(scene: Scene, conversation: Conversation) -> None:
    await scene.run(conversation, scene.agent)
    await scene.run(conversation, scene.agent, "and again")


SCENARIOS: dict[str, tuple[Body, Turns]] = {
    "an answer": (one_run, (turn(text("Here it is.", chunks=3)),)),
    "parallel tools": (one_run, (CALLS, turn("Done."))),
    "two batches of tools": (one_run, (turn(call("act")), turn(call("act"), call("look")), turn("Done."))),
    "a corrected answer": (one_structured_run, (turn("one"), turn(call("look")), turn("[1]"))),
    "two runs": (two_runs, (turn(call("act")), turn("One."), turn(call("work")), turn("Two."))),
}


@pytest.mark.parametrize("how", ["outside", "handle", "deadline"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_f_001_a_run_can_be_interrupted_anywhere(name: str, how: How) -> None:
    body, turns = SCENARIOS[name]
    stopped = 0

    async def scenario(at: AtStep) -> None:
        nonlocal stopped
        scene = Scene(at, how)
        model = Paced(*turns, turn("Hello again."))
        agents = (scene.agent, scene.structured)
        async with scene.world.kernel(*agents, model=model, groups={"disk": 1}) as kernel:
            async with kernel.conversation("c") as conversation:
                with scene.scope:
                    at.armed = True
                    await body(scene, conversation)
                at.armed = False
                scene.check("c")
                stopped += scene.world.of(RunSettled, "c") != [] and (
                    scene.world.of(RunSettled, "c")[-1].status != "completed"
                )
                assert [limiter.borrowed_tokens for limiter in limiters(kernel)] == [0, 0]
                assert history_is_valid(conversation.history)
                # The conversation goes on, in this handle and in another one; every request shows paired calls.
                again = talker(id="again", model=Paced(turn("Hello again.")))
                async with scene.world.kernel(again) as other, other.conversation("c") as successor:
                    assert (await successor.run(again, "still there?")).output == "Hello again."
        assert len(scene.world.of(RunStarted, "c")) == len(scene.world.of(RunSettled, "c"))

    steps = list(sweep(scenario))
    # It did interrupt something, and not only the beginning.
    assert len(steps) > 7
    assert stopped > 5


@pytest.mark.parametrize("how", ["outside", "handle", "deadline"])
def test_the_same_handle_goes_on_after_an_interrupted_run(how: How) -> None:
    async def scenario(at: AtStep) -> None:
        scene = Scene(at, how)
        last = turn("Hello again.")
        model = Paced(CALLS, turn("Done."))
        async with scene.world.kernel(scene.agent, model=model, groups={"disk": 1}) as kernel:
            async with kernel.conversation("c") as conversation:
                with scene.scope:
                    at.armed = True
                    await scene.run(conversation, scene.agent)
                at.armed = False
                result = await conversation.run(scene.agent, "still there?", model=Paced(last))
                assert isinstance(result, Completed)
                assert history_is_valid(conversation.history)
        scene.world.check()

    assert len(list(sweep(scenario))) > 20


@pytest.mark.parametrize("observed", [False, True])
def test_a_one_shot_run_that_is_cancelled_anywhere_leaves_no_conversation(observed: bool) -> None:
    async def scenario(at: AtStep) -> None:
        scene = Scene(at, "outside")
        async with scene.world.kernel(scene.agent, model=Paced(CALLS, turn("Done.")), groups={"disk": 1}) as kernel:
            with scene.scope:
                at.armed = True
                if observed:
                    async with kernel.stream(scene.agent, "go") as handle:
                        async for _ in handle:
                            pass
                else:
                    await kernel.run(scene.agent, "go")
            at.armed = False
            assert scene.world.store.alive() == []
            assert [limiter.borrowed_tokens for limiter in limiters(kernel)] == [0, 0]
        scene.world.check()

    assert len(list(sweep(scenario))) > 30


def test_opening_a_conversation_can_be_cancelled_anywhere() -> None:
    async def scenario(at: AtStep) -> None:
        scene = Scene(at, "outside")
        model = Paced(turn("One."), turn("Two."), turn("Three."))
        scene.world.store.opens_slowly = True
        async with scene.world.kernel(scene.agent, model=model, groups={"disk": 1}) as kernel:
            async with kernel.conversation("c") as conversation:
                await conversation.run(scene.agent, "go")
            for name in ("c", "new"):
                at.armed = True
                with trio.CancelScope() as scene.scope:
                    async with kernel.conversation(name):
                        await trio.lowlevel.checkpoint()
                at.armed = False
                async with kernel.conversation(name) as conversation:
                    await conversation.run(scene.agent, "go")
        scene.world.check()

    assert len(list(sweep(scenario))) > 3


@pytest.mark.parametrize("how", ["outside", "handle"])
def test_a_run_with_a_thread_can_be_interrupted_anywhere(how: How) -> None:
    async def scenario(at: AtStep) -> None:
        scene = Scene(at, how)
        turns = (turn(call("block"), call("block")), turn("Done."))
        async with scene.world.kernel(scene.agent, model=Paced(*turns), groups={"disk": 1}, max_threads=1) as kernel:
            async with kernel.conversation("c") as conversation:
                with scene.scope:
                    at.armed = True
                    await scene.run(conversation, scene.agent)
                at.armed = False
                # A thread that was abandoned keeps its place until it ends, which these do by themselves.
                while any(limiter.borrowed_tokens for limiter in limiters(kernel)):
                    await trio.lowlevel.checkpoint()
                scene.world.check()
                last = Paced(turn("Hello again."))
                assert (await conversation.run(scene.agent, "there?", model=last)).output == "Hello again."

    assert len(list(sweep(scenario, autojump=False))) > 15


def test_a_run_that_waits_for_its_turn_can_be_cancelled_anywhere() -> None:
    async def scenario(at: AtStep) -> None:
        scene = Scene(at, "outside")
        turns = (turn(call("act")), turn("One."), turn("Two."), turn("Three."))
        async with scene.world.kernel(scene.agent, model=Paced(*turns), groups={"disk": 1}) as kernel:
            async with kernel.conversation("c", while_busy="queue") as conversation, trio.open_nursery() as nursery:

                async def wait_in_line() -> None:
                    with scene.scope:
                        await conversation.run(scene.agent, "second")

                nursery.start_soon(conversation.run, scene.agent, "first")
                nursery.start_soon(wait_in_line)
                at.armed = True
            at.armed = False
            async with kernel.conversation("c") as conversation:
                await conversation.run(scene.agent, "third")
        scene.world.check()
        assert scene.world.of(RunSettled, "c")[-1].status == "completed"

    assert len(list(sweep(scenario))) > 20
