"""Workers over real files, stopped at random moments again and again, until the time is over.

Each round plays a scenario on a new file. Its workers are cancelled after a random while, several times over, each life
reopening the file that the last one left; then the work must come to the settlement that an undisturbed play comes to.
`python -m tests.sqlite_soak SECONDS [SEED]`; the seed is printed. (DUR-002, DUR-013, STORE-010)
"""

import random
import sys
import tempfile
import time
from pathlib import Path

import trio
from trio.testing import MockClock

from tests.durable_scenarios import SCENARIOS, DurableScenario
from tests.sqlite_world import RATE, SqliteWorld, sqlite_world

LIVES = 4
"""How often a round's workers are stopped, at most."""


async def undisturbed(scenario: DurableScenario, folder: Path) -> tuple[str, float]:
    """What the scenario comes to, and how long it takes."""
    async with sqlite_world(folder) as world:
        began = trio.current_time()
        await world.to_the_end(*scenario.make(world.outside))
        return await world.told(), trio.current_time() - began


async def disturbed(scenario: DurableScenario, folder: Path, stops: list[float]) -> str:
    """The same with workers that are stopped after each of these whiles."""
    began: SqliteWorld | None = None
    for stop in stops:
        async with sqlite_world(folder, goes_on=began) as world:
            with trio.move_on_after(stop):
                await world.to_the_end(*scenario.make(world.outside))
            began = world
    async with sqlite_world(folder, goes_on=began) as world:
        await world.to_the_end(*scenario.make(world.outside))
        assert world.store is not None
        assert await world.store.verify() == ()
        return await world.told()


async def soak(seconds: float, seed: int) -> int:
    """Play rounds until the time is over; how many there were."""
    chance, until, rounds = random.Random(seed), time.monotonic() + seconds, 0
    expected: dict[str, tuple[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="triolet-soak-") as folder:
        while time.monotonic() < until:
            scenario = chance.choice(SCENARIOS)
            if scenario.name not in expected:
                expected[scenario.name] = await undisturbed(scenario, Path(folder))
            told, length = expected[scenario.name]
            stops = [chance.uniform(0, length * 1.2) for _ in range(chance.randint(1, LIVES))]
            assert await disturbed(scenario, Path(folder), stops) == told, f"{scenario.name} stopped after {stops}"
            rounds += 1
    return rounds


if __name__ == "__main__":
    given = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(2**32)
    print(f"seed {given}", flush=True)
    print(f"{trio.run(soak, float(sys.argv[1]), given, clock=MockClock(rate=RATE))} rounds")
