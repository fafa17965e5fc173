"""Doing something at the k-th step that any task takes: the one place that knows how Trio schedules.

Sweeping k from 1 until nothing is left reaches every point at which a run can be interrupted.
"""

from collections.abc import Awaitable, Callable, Iterator
from typing import Final, TypeVar

import attrs
import trio
import trio.testing
from trio._core import _run as trio_scheduler

TRIOS_OWN: Final = "<TrioToken.run_sync_soon task>"


@attrs.define(eq=False)
class AtStep(trio.abc.Instrument):
    """Calls `act` before the `step`-th step (from 1) that is taken while it is armed."""

    step: int
    act: Callable[[], None] = attrs.field(default=lambda: None)
    armed: bool = False
    fired: bool = False
    count: int = 0

    @property
    def seed(self) -> int:
        """What rules the order of tasks: another one for each step, so that many orders are met."""
        return self.step

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        # Trio's own task comes when it likes, and is nobody's to interrupt.
        if self.armed and task.name != TRIOS_OWN:
            self.count += 1
            if self.count == self.step:
                self.fired = True
                self.act()


At = TypeVar("At", bound=AtStep)


def sweep(scenario: Callable[[AtStep], Awaitable[None]], *, autojump: bool = True, most: int = 2_000) -> Iterator[int]:
    """Run `scenario` from its beginning for each step until it ends before the step comes; yields each step."""
    for step in range(1, most):
        at = AtStep(step)
        play(scenario, at, autojump=autojump)
        if not at.fired:
            return
        yield step
    raise AssertionError(f"the scenario takes more than {most} steps")


def play(scenario: Callable[[At], Awaitable[None]], at: At, *, autojump: bool = True) -> None:
    """Run `scenario` once. Every pass of a step is scheduled alike.

    Under an autojump clock a hang ends in `trio.TooSlowError`.
    """

    async def bounded() -> None:
        with trio.fail_after(1_000_000):
            await scenario(at)
        left = trio.lowlevel.current_statistics().tasks_living
        # The main task, Trio's own init task, and the one that runs callbacks from threads.
        assert left <= 3, f"{left} tasks are alive after the scenario"

    trio_scheduler._r.seed(at.seed)
    clock = trio.testing.MockClock(autojump_threshold=0 if autojump else float("inf"))
    trio.run(bounded, clock=clock, instruments=[at])
