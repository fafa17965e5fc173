"""A crash behind every commit of every scenario, on real files: the next life reaches the same settlement.

As test_durable_crashes, but what is left is a copy of the file, reopened by new adapters in a new kernel. How often a
model was asked is not compared: on a busy machine a lease may run out, and then an attempt is begun once more.
"""

from collections import Counter
from pathlib import Path

import pytest
from trio.testing import MockClock

from tests.durable_scenarios import SCENARIOS, DurableScenario
from tests.log_watch import LogWatch
from tests.sqlite_world import RATE, sqlite_world
from tests.test_durable_crashes import uncertain_calls


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
async def test_a_crash_behind_every_commit_leads_to_the_same_settlement(
    scenario: DurableScenario, tmp_path: Path, mock_clock: MockClock, log_watch: LogWatch
) -> None:
    log_watch.open_runs_are_fine = True
    mock_clock.rate = RATE
    async with sqlite_world(tmp_path, remembers=True) as world:
        await world.to_the_end(*scenario.make(world.outside))
        told, moments, last = await world.told(), world.moments, tuple(world.outside.effects)
    print(f"{scenario.name}: {len(moments)} commits")
    for place, moment in enumerate(moments):
        where = f"{scenario.name}: crash behind commit {place}, {moment.failpoint}"
        effects = moments[place + 1].effects if place + 1 < len(moments) else last
        async with sqlite_world(tmp_path, begun=moment, effects=effects) as after:
            await after.to_the_end(*scenario.make(after.outside))
            assert await after.told() == told, where
            assert after.store is not None
            assert await after.store.verify() == (), where
            times = Counter(after.outside.effects)
            assert all(times[call] == 1 for call in uncertain_calls(await after.records())), where
