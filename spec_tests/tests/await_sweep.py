"""The await-point sweep: a scenario is played once to see what it passes, then once for each step, cancelled there.

Decides what must hold after every pass: a whole log and a valid history, work that goes on, no task, no descriptor, no
limiter's token but an abandoned thread's, and nothing that a `LEFT_BEHIND` check finds. `python -m tests.await_sweep`
prints how many points and steps there are; `--write` pins them in `await_points.json`. (CONF-004, RUN-005, RUN-008)
"""

import gc
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import attrs
import trio

from tests.await_plays import Stage
from tests.await_points import all_points, points_where_parked
from tests.await_scenarios import SCENARIOS, Scenario
from tests.kernel_world import Paced, talker
from tests.slow_office import SlowOffice
from tests.task_steps import TRIOS_OWN, AtStep, play
from triolet.adapters.scripted_model import turn
from triolet.kernel import history_is_valid
from triolet.kernel.machine.advance import fold
from triolet.kernel.machine.plan import next_action

PINNED: Final = Path(__file__).with_name("await_points.json")
MOST_STEPS: Final = 2_000

LEFT_BEHIND: Final[list[Callable[[], list[str]]]] = []
"""Further checks after each pass: each names what is left that should not be, such as a span that is still open."""


@attrs.define(eq=False)
class Watching(AtStep):
    """Notes at which points tasks stand: at every step with `step` 0, which never comes, else when it acts."""

    seen: set[str] = attrs.field(factory=set[str])

    @property
    def seed(self) -> int:
        """The same order of tasks in each pass, so that step k is the k-th of the undisturbed one."""
        return 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if self.armed and task.name != TRIOS_OWN and (self.step == 0 or self.count + 1 == self.step):
            self.seen |= points_where_parked()
        super().before_task_step(task)


@attrs.frozen(kw_only=True, eq=False)
class Swept:
    """What came of a scenario: the points it passes by itself, those it was cancelled at, and the number of cancels."""

    passed: frozenset[str]
    cancelled: frozenset[str]
    steps: int


def sweep_points(scenario: Scenario) -> Swept:
    """Play `scenario` undisturbed, then cancelled at each step in turn. Raises where anything is left or broken."""
    passed = _pass(scenario, 0).seen
    cancelled: set[str] = set()
    for step in range(1, MOST_STEPS):
        at = _pass(scenario, step)
        if not at.fired:
            return Swept(passed=frozenset(passed), cancelled=frozenset(cancelled), steps=step - 1)
        cancelled |= at.seen
    raise AssertionError(f"{scenario.name} takes more than {MOST_STEPS} steps")


def _pass(scenario: Scenario, step: int) -> Watching:
    async def played(at: Watching) -> None:
        await _play(scenario, at)

    at = Watching(step)
    before = _descriptors()
    play(played, at, autojump=not scenario.threaded)
    if _descriptors() - before:
        gc.collect()  # what only waits for the collector is not left behind
    left = _descriptors() - before
    assert not left, f"{scenario.name}, cancelled at step {step}, left descriptors {left}"
    for check in LEFT_BEHIND:
        assert not check(), f"{scenario.name}, cancelled at step {step}, left {check()}"
    return at


def _descriptors() -> set[tuple[str, str]]:
    found: set[tuple[str, str]] = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            found.add((descriptor.name, str(descriptor.readlink())))
        except OSError:  # the one that lists the folder
            continue
    return found


async def _play(scenario: Scenario, at: Watching) -> None:
    stage = Stage(SlowOffice(), turns=scenario.turns)
    office = stage.office
    stage.agent = scenario.agent(stage)
    again = talker(id="again")
    options = {"groups": {"disk": 1}, "max_threads": 1}
    async with office.kernel(stage.agent, again, model=scenario.model(*scenario.turns), **options) as stage.kernel:
        await scenario.prepare(stage)
        with trio.CancelScope() as scope:
            at.act = scope.cancel
            at.armed = True
            await scenario.play(stage)
        at.armed = False
        runtime = stage.kernel._runtime
        assert runtime.threads.limiter.borrowed_tokens == len(stage.kernel.abandoned)
        assert [group.borrowed_tokens for group in runtime.groups.values()] == [0]
        async with stage.kernel.conversation("c") as talk:
            if talk.suspended is None:
                await talk.run(again, "still there?", model=Paced(turn("Yes."), turn("Yes."), turn("Yes.")))
                assert history_is_valid(talk.history)
    # A run that waits for an answer is whole, and in nobody's way but its conversation's; any other must have ended.
    for batches in office.store.logs.values():
        state = fold(record for batch in batches for record in batch.records)
        if next_action(state).waits:
            office.open_runs_are_fine = True
        else:
            assert state.run is None
    office.check()


def main(arguments: list[str]) -> int:
    """Sweep all scenarios, and say how many points and steps there are."""
    pinned: dict[str, list[str]] = {}
    steps = 0
    for scenario in SCENARIOS:
        swept = sweep_points(scenario)
        steps += swept.steps
        pinned[scenario.name] = sorted(swept.passed | swept.cancelled)
        print(f"{scenario.name}: cancelled {swept.steps} times, at {len(swept.cancelled)} await points")
    visited = {point for points in pinned.values() for point in points}
    points = all_points()
    print(f"{len(visited)} of {len(points)} await points visited, {steps} cancellations")
    for point in sorted(points - visited):
        print(f"  unvisited: {point}")
    if "--write" in arguments:
        PINNED.write_text(json.dumps(pinned, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
