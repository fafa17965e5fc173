"""Doing something at the k-th step that any task takes: the one place that knows how Trio schedules.

Sweeping k from 1 until nothing is left reaches every point at which a run can be interrupted.
"""

from collections.abc import Awaitable, Callable, Iterator

import attrs
import trio
import trio.testing
from trio._core import _run as trio_scheduler


@attrs.define(eq=False)
class AtStep(trio.abc.Instrument):
    """Calls `act` before the `step`-th step (from 1) that is taken while it is armed."""

    step: int
    act: Callable[[], None] = attrs.field(default=lambda: None)
    armed: bool = False
    fired: bool = False
    count: int = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if self.armed:
            self.count += 1
            if self.count == self.step:
                self.fired = True
                self.act()


def sweep(scenario: Callable[[AtStep], Awaitable[None]], *, autojump: bool = True, most: int = 2_000) -> Iterator[int]:
    """Run `scenario` from its beginning for each step until it ends before the step comes; yields each step.

    Every pass is scheduled alike. Under an autojump clock a hang ends in `trio.TooSlowError`.
    """

    async def bounded(at: AtStep) -> None:
        with trio.fail_after(1_000_000):
            await scenario(at)
        left = trio.lowlevel.current_statistics().tasks_living
        # The main task, Trio's own init task, and the one that runs callbacks from threads.
        assert left <= 3, f"{left} tasks are alive after the scenario"

    for step in range(1, most):
        at = AtStep(step)
        trio_scheduler._r.seed(step)
        clock = trio.testing.MockClock(autojump_threshold=0 if autojump else float("inf"))
        trio.run(bounded, at, clock=clock, instruments=[at])
        if not at.fired:
            return
        yield step
    raise AssertionError(f"the scenario takes more than {most} steps")
