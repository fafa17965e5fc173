"""Threads that nobody waits for any more: they keep their place, and closing waits for them, bounded, and says so.

F-009, RUN-009.
"""

import threading
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from tests.kernel_world import START, World, one_agent, talker
from triolet.adapters.scripted_model import call, turn
from triolet.kernel import Kernel, Tool, open_kernel, tool
from triolet.kernel.kernel import InvalidCloseSeconds
from triolet.kernel.threads import AbandonedCall
from triolet.ports.capabilities import Capabilities
from triolet.ports.identity import CallId, Instant, RunId
from triolet.ports.outcomes import ToolDefect, ToolUnknownOutcome

BLOCK = turn(call("block"))
DONE = turn("Done.")


class Held:
    """A synchronous tool whose threads stay until the test lets them go."""

    def __init__(self) -> None:
        self.began = 0
        self.ended = 0
        self.go = threading.Event()
        self.tool: Tool[Any, Any] = tool(timeout=30)(self._handler())

    def _handler(self) -> Callable[[], str]:
        def block() -> str:
            """Block."""
            self.began += 1
            assert self.go.wait(20)
            self.ended += 1
            return "late"

        return block


async def until(condition: Callable[[], object]) -> None:
    # Real threads follow no mock clock; what they signal is looked for without waiting any set time.
    while not condition():
        await trio.lowlevel.checkpoint()


async def test_f009_a_thread_keeps_its_place_until_it_ends(world: World, mock_clock: trio.testing.MockClock) -> None:
    held = Held()
    agent = talker(held.tool)
    async with one_agent(world, agent, BLOCK, BLOCK, DONE, max_threads=1) as (kernel, _):
        try:
            async with kernel.stream(agent, "go") as handle:
                await until(lambda: held.began)
                assert not kernel.abandoned
                mock_clock.jump(30)
                await until(lambda: len(world.outcomes()) == 1)
                assert kernel.abandoned == (
                    AbandonedCall(tool="block", call=CallId("run1-1-0"), run=RunId("run1"), at=_at(30)),
                )
                # The second call waits for a thread in vain: the only one is still taken.
                await trio.testing.wait_all_tasks_blocked()
                mock_clock.jump(30)
                await handle.result()
                assert kernel._runtime.threads.limiter.borrowed_tokens == 1
        finally:
            held.go.set()
        await until(lambda: kernel._runtime.threads.limiter.borrowed_tokens == 0)
        assert not kernel.abandoned
    assert (held.began, held.ended) == (1, 1)
    assert world.outcomes() == [
        ToolUnknownOutcome(reason="timeout"),
        ToolDefect(reason="timeout", effect_possible=False),
    ]


async def _abandon(world: World, held: Held, clock: trio.testing.MockClock, kernel: Kernel, agent: Any) -> None:
    async with kernel.stream(agent, "go") as handle:
        await until(lambda: held.began)
        clock.jump(30)
        await handle.result()
    assert len(kernel.abandoned) == 1


async def test_closing_waits_for_a_thread_that_ends_in_time(world: World, mock_clock: trio.testing.MockClock) -> None:
    held = Held()
    agent = talker(held.tool)
    closed = trio.Event()
    kernels: list[Kernel] = []

    async def embed() -> None:
        async with one_agent(world, agent, BLOCK, DONE) as (kernel, _):
            kernels.append(kernel)
            await _abandon(world, held, mock_clock, kernel, agent)
        closed.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(embed)
        try:
            await until(lambda: kernels and kernels[0].abandoned)
            await trio.testing.wait_all_tasks_blocked()
            assert not closed.is_set()
            assert held.ended == 0
        finally:
            held.go.set()
        # No time passes on this clock: it is the thread's end that closing has waited for.
        await until(closed.is_set)
    assert held.ended == 1
    assert kernels[0].abandoned == ()


@pytest.mark.parametrize("seconds", [0.0, 7.0])
async def test_closing_waits_no_longer_than_its_bound_and_names_what_goes_on(
    world: World, mock_clock: trio.testing.MockClock, seconds: float
) -> None:
    held = Held()
    agent = talker(held.tool)
    kernels: list[Kernel] = []
    closed = trio.Event()

    async def embed() -> None:
        async with one_agent(world, agent, BLOCK, DONE, close_seconds=seconds) as (kernel, _):
            kernels.append(kernel)
            await _abandon(world, held, mock_clock, kernel, agent)
        closed.set()

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(embed)
            await until(lambda: kernels and kernels[0].abandoned)
            await trio.testing.wait_all_tasks_blocked()
            assert closed.is_set() == (seconds == 0)
            mock_clock.jump(seconds - 0.5 if seconds else 0)
            await trio.testing.wait_all_tasks_blocked()
            assert closed.is_set() == (seconds == 0)
            mock_clock.jump(0.5 if seconds else 0)
            await closed.wait()
        assert [(each.tool, each.call) for each in kernels[0].abandoned] == [("block", "run1-1-0")]
        assert held.ended == 0
    finally:
        held.go.set()
    await until(lambda: not kernels[0].abandoned)


async def test_a_cancelled_host_waits_for_its_threads_too_and_not_for_ever(
    world: World, mock_clock: trio.testing.MockClock
) -> None:
    held = Held()
    agent = talker(held.tool)
    kernels: list[Kernel] = []
    closed = trio.Event()

    async def embed() -> None:
        try:
            async with one_agent(world, agent, BLOCK, DONE) as (kernel, _):
                kernels.append(kernel)
                await kernel.run(agent, "go")
        finally:
            closed.set()

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(embed)
            await until(lambda: held.began)
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                await until(lambda: kernels[0].abandoned)
                await trio.testing.wait_all_tasks_blocked()
                assert not closed.is_set()
                mock_clock.jump(5)
                await closed.wait()
        assert len(kernels[0].abandoned) == 1
    finally:
        held.go.set()
    await until(lambda: not kernels[0].abandoned)


async def test_what_the_body_raises_is_what_the_host_sees(world: World, mock_clock: trio.testing.MockClock) -> None:
    held = Held()
    kernels: list[Kernel] = []
    agent = talker(held.tool)
    try:
        with pytest.raises(KeyError):
            async with one_agent(world, agent, BLOCK, DONE, close_seconds=0) as (kernel, _):
                kernels.append(kernel)
                await _abandon(world, held, mock_clock, kernel, agent)
                raise KeyError
    finally:
        held.go.set()
    await until(lambda: not kernels[0].abandoned)


@pytest.mark.parametrize("seconds", [-0.1, float("inf"), float("nan")])
async def test_a_bound_that_is_none_is_refused(seconds: float) -> None:
    with pytest.raises(InvalidCloseSeconds, match="close_seconds"):
        async with open_kernel(agents=[], capabilities=Capabilities(), close_seconds=seconds):
            pass


def _at(seconds: float) -> Instant:
    return Instant(START + int(seconds * 1_000_000))
