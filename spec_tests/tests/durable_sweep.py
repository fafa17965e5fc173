"""Workers stopped at every await: cancelled there, and what is durable goes on in another life to the same settlement.

A scenario is played once to count its steps, then once for each step of a sample, with its workers cancelled before
that step; `python -m tests.durable_sweep --write` takes all steps and pins at which awaits of the kernel workers were
cancelled (`durable_points.json`). `--soak SECONDS` plays random samples until the time is over.
(CONF-004, DUR-002, DUR-013)
"""

import json
import random
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import attrs
import trio

from tests.await_points import all_points
from tests.await_sweep import Watching
from tests.durable_scenarios import NAMED, SCENARIOS, DurableScenario
from tests.durable_world import DurableWorld
from tests.task_steps import play
from triolet.kernel import Failpoint

PINNED: Final = Path(__file__).with_name("durable_points.json")
COUNTING: Final = 0


@attrs.frozen
class Pass:
    """What one play came to: the points at which workers stood when they were stopped, and how many steps it took."""

    told: str
    points: frozenset[str]
    steps: int
    stopped: bool


def durable_points() -> set[str]:
    """The awaits of the kernel's durable half."""
    return {point for point in all_points() if point.startswith("durable.")}


@attrs.frozen
class Start:
    """Where a swept life begins: in an empty world, or after a crash behind the last change of a kind."""

    scenario: DurableScenario
    shared: bool
    crash: Failpoint | None = None

    @property
    def name(self) -> str:
        where = "" if self.crash is None else f", after a crash behind {self.crash}"
        return f"{self.scenario.name}, {'shared' if self.shared else 'apart'}{where}"


STARTS: Final = tuple(Start(scenario, shared) for scenario in SCENARIOS for shared in (False, True)) + tuple(
    Start(NAMED[name], shared, crash)
    for name, shared, crash in (
        ("plain", False, Failpoint.RESERVED),
        ("plain", False, Failpoint.ENDING_APPENDED),
        ("parallel", True, Failpoint.STASHED),
        ("uncertain", True, Failpoint.APPENDED),
        ("steps", False, Failpoint.APPENDED),
        ("approval", True, Failpoint.POSTED),
        ("joined", True, Failpoint.JOINING),
        ("joined", False, Failpoint.APPENDED),
        ("abort", True, Failpoint.POSTED),
        ("abort", False, Failpoint.POSTED),
    )
)
"""Every life that is swept."""


def play_to(start: Start, step: int) -> Pass:
    """Live; stop the workers before this step (none for 0); go on in another life."""
    told: list[str] = []
    watching = Watching(step)

    async def lives(at: Watching) -> None:
        world = await _begun(start)
        agent, respond, client = start.scenario.make(world.outside)
        with trio.CancelScope() as life:
            at.act = life.cancel
            at.armed = True
            await world.to_the_end(agent, respond, client)
        at.armed = False
        if life.cancelled_caught:
            world.restart()
            agent, respond, client = start.scenario.make(world.outside)
            await world.to_the_end(agent, respond, client)
        await world.settled_down()
        told.append(await world.told())

    play(lives, watching)
    return Pass(told=told[0], points=frozenset(watching.seen), steps=watching.count, stopped=watching.fired)


async def _begun(start: Start) -> DurableWorld:
    if start.crash is None:
        return DurableWorld(shared=start.shared, remembers=False, slow=True)
    first = DurableWorld(shared=start.shared)
    await first.to_the_end(*start.scenario.make(first.outside))
    place = max(place for place, moment in enumerate(first.moments) if moment.failpoint is start.crash)
    effects = first.moments[min(place + 1, len(first.moments) - 1)].effects
    world = DurableWorld.after(first.moments[place], shared=start.shared, effects=effects)
    world.remembers, world.slow = False, True
    return world


def sweep_durable(start: Start, steps: Iterable[int] | None = None) -> tuple[int, set[str]]:
    """Stop the workers before each of these steps (None: all). Returns how many there were, and the points."""
    undisturbed = play_to(start, COUNTING)
    points: set[str] = set()
    taken = tuple(range(1, undisturbed.steps + 1) if steps is None else steps)
    for step in taken:
        seen = play_to(start, step)
        assert seen.told == undisturbed.told, f"{start.name}: stopped before step {step}"
        points |= seen.points
    return len(taken), points


def write() -> None:
    """Take every step of every life, and pin the points."""
    points: set[str] = set()
    for start in STARTS:
        count, seen = sweep_durable(start)
        points |= seen
        print(f"{start.name}: {count} stops", flush=True)
    PINNED.write_text(json.dumps(sorted(points), indent=1) + "\n", encoding="utf-8")
    due = durable_points()
    print(f"{len(points & due)} of {len(due)} points of the durable half; not visited:")
    for point in sorted(due - points):
        print(f"  {point}")


def soak(seconds: float, seed: int) -> None:
    """Stop at random steps of random lives until the time is over."""
    print(f"seed {seed}", flush=True)
    chance, until, stops = random.Random(seed), time.monotonic() + seconds, 0
    lengths: dict[str, int] = {}
    while time.monotonic() < until:
        start = chance.choice(STARTS)
        most = lengths.setdefault(start.name, 0) or play_to(start, COUNTING).steps
        lengths[start.name] = most
        sweep_durable(start, [chance.randint(1, most)])
        stops += 1
    print(f"{stops} stops")


if __name__ == "__main__":
    if "--soak" in sys.argv:
        given = sys.argv[sys.argv.index("--soak") + 1 :]
        soak(float(given[0]), int(given[1]) if len(given) > 1 else random.SystemRandom().randrange(2**32))
    else:
        write()
