"""Where a run's tasks live, how cancelling ends them, and how many run at once. RUN-007, RUN-008, RUN-009."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import trio

from triolet.adapters.scripted_model import call, turn
from triolet.kernel import Completed, Policy, Tool, tool
from triolet.ports.language_model import ModelIdentity, ModelPart, ModelRequest
from triolet.spec_tests.cases.kernel.setting import KernelSubject, open_bench, text_agent, turns_pass
from triolet.spec_tests.claims import ensure, ensure_equal
from triolet.spec_tests.definition import case


@case("RUN-007")
async def handlers_live_under_their_caller(subject: KernelSubject) -> None:
    """The task of a handler descends from the task that asked for the run, nursery by nursery."""
    ancestors: list[list[trio.lowlevel.Task]] = []

    @tool
    async def look() -> str:
        ancestors.append(_ancestors_of(trio.lowlevel.current_task()))
        return "seen"

    agent = text_agent(look)
    script = [turn(call("look"), call("look")), turn("done")] * 2
    async with open_bench(subject, script, agent) as bench:
        caller = trio.lowlevel.current_task()
        await bench.run()
        await bench.observe()
    ensure_equal(len(ancestors), 4, "handlers that ran")
    for line in ancestors:
        ensure(caller in line, "a handler's task does not descend from the task that asked for the run")


@case("RUN-007", "RUN-008")
async def no_handler_outlives_its_run(subject: KernelSubject) -> None:
    """When a run has ended, whichever way, the clean-up of every handler that it started is over."""
    for name, seconds in (("cancelled", None), ("stopped by its time", 0.05)):
        began: list[str] = []
        ended: list[str] = []

        agent = text_agent(_lingering(began, ended), policy=Policy(max_seconds=seconds))
        async with open_bench(subject, [turn(call("linger"), call("linger"))], agent) as bench:
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(bench.run)
                    await turns_pass(partial(_holds, began, 2), "the start of two handlers")
                    if seconds is None:
                        scope.cancel()
            ensure_equal((len(began), len(ended)), (2, 2), f"handlers begun and ended when a run was {name}")


@case("RUN-008")
async def cancelling_reaches_the_model(subject: KernelSubject) -> None:
    """Cancelling a run ends the model call that is under way, and waits until the scope of its answer is left."""
    model = _PatientModel()
    async with open_bench(subject, [], model=model) as bench, trio.open_nursery() as nursery:
        nursery.start_soon(_then, bench.run, lambda: model.happened.append("run gone"))
        await turns_pass(lambda: bool(model.happened), "the request")
        nursery.cancel_scope.cancel()
    ensure_equal(model.happened, ["asked", "let go", "run gone"], "what happened to the model call")


@case("RUN-009")
async def a_run_is_as_concurrent_as_its_policy(subject: KernelSubject) -> None:
    """As many calls of a run are under way as its policy allows, and never one more."""
    for bound in (1, 2, 5):
        busy = _Busy()
        script = [turn(*[call("work")] * 6), turn("done")]
        agent = text_agent(busy.tool(), policy=Policy(concurrency=bound))
        async with open_bench(subject, script, agent) as bench, trio.open_nursery() as nursery:
            nursery.start_soon(bench.run)
            await busy.let_all_through(6)
        ensure_equal(busy.most, bound, f"calls under way at once, where {bound} are allowed")


@case("RUN-009")
async def a_group_bounds_all_runs_together(subject: KernelSubject) -> None:
    """Calls of tools in a named group run at most as many at once as the host says, over all runs."""
    busy = _Busy()
    agent = text_agent(busy.tool(group="printer"))
    order = [turn(call("work"), call("work"))] * 3 + [turn("done")] * 3
    async with open_bench(subject, order, agent, groups={"printer": 2}) as bench, trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(bench.run)
        await busy.let_all_through(6)
    ensure_equal(busy.most, 2, "calls of one group under way at once, where 2 are allowed")


@case("RUN-009")
async def permits_come_back(subject: KernelSubject) -> None:
    """A cancelled run and a failed handler give their permits back: the next run gets them."""
    began = trio.Event()

    @tool(group="printer")
    async def hang() -> str:
        began.set()
        await trio.sleep_forever()
        return ""

    @tool(group="printer")
    async def fail() -> str:
        raise RuntimeError("broken")

    @tool(group="printer")
    async def work() -> str:
        return "done"

    agent = text_agent(hang, fail, work)
    script = [turn(call("hang"), call("work")), turn(call("fail"), call("work"), call("work")), turn("done")]
    async with open_bench(subject, script, agent, groups={"printer": 1}) as bench:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(bench.run)
            await began.wait()
            nursery.cancel_scope.cancel()
        with trio.move_on_after(2):
            result = await bench.run()
            ensure_equal(type(result), Completed, "the run after a cancelled one")
            return
    ensure(condition=False, problem="a permit of the group never came back")


class _PatientModel:
    """A model that never answers, and takes a moment to let go."""

    def __init__(self) -> None:
        self.happened: list[str] = []

    @property
    def identity(self) -> ModelIdentity:
        return ModelIdentity(provider="scripted", name="patient")

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelPart]]:
        self.happened.append("asked")
        try:
            await trio.sleep_forever()
            yield _no_parts()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(0.01)
            self.happened.append("let go")


async def _no_parts() -> AsyncGenerator[ModelPart]:
    return
    yield


async def _then(work: Callable[[], Awaitable[object]], after: Callable[[], None]) -> None:
    try:
        await work()
    finally:
        after()


class _Busy:
    """A tool that counts how many of its calls are under way, and holds them until it is told."""

    def __init__(self) -> None:
        self.now = 0
        self.most = 0
        self.done = 0
        self._gate = trio.Event()

    def tool(self, group: str | None = None) -> Tool[Any, Any]:
        @tool(group=group)
        async def work() -> str:
            self.now += 1
            self.most = max(self.most, self.now)
            gate = self._gate
            await gate.wait()
            self.now -= 1
            self.done += 1
            return "done"

        return work

    def _came_to(self, done: int) -> bool:
        return self.done >= done

    async def let_all_through(self, calls: int) -> None:
        while self.done < calls:
            await turns_pass(lambda: self.now > 0, "the start of a call")
            # Whoever can start without waiting for another gets its turn before any is let go.
            for _ in range(100):
                await trio.lowlevel.checkpoint()
            gate, self._gate, held = self._gate, trio.Event(), self.done + self.now
            gate.set()
            await turns_pass(partial(self._came_to, held), "the end of the calls under way")


def _lingering(began: list[str], ended: list[str]) -> Tool[Any, Any]:
    @tool
    async def linger() -> str:
        began.append("linger")
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(0.01)
            ended.append("linger")
        return ""

    return linger


def _holds(items: list[str], count: int) -> bool:
    return len(items) == count


def _ancestors_of(task: trio.lowlevel.Task) -> list[trio.lowlevel.Task]:
    line = [task]
    while (nursery := line[-1].parent_nursery) is not None:
        line.append(nursery.parent_task)
    return line


NESTING = (
    handlers_live_under_their_caller,
    no_handler_outlives_its_run,
    cancelling_reaches_the_model,
    a_run_is_as_concurrent_as_its_policy,
    a_group_bounds_all_runs_together,
    permits_come_back,
)
