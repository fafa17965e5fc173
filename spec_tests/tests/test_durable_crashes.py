"""A crash behind every durable change of every scenario: the next life reaches the same settlement.

After each change the world's bytes are kept, with what had happened outside by the *next* change: a crash between the
two leaves exactly that. A new kernel on new adapters goes on from there. (DUR-002, DUR-009, DUR-010, DUR-011, DUR-013)
"""

from collections import Counter
from collections.abc import Sequence

import pytest
import trio

from tests.durable_scenarios import SCENARIOS, DurableScenario
from tests.durable_world import DurableWorld, Moment
from tests.log_watch import LogWatch
from triolet.kernel.machine.advance import fold
from triolet.ports.identity import CallId
from triolet.ports.records import CallsDecided, ModelResponded, Record, StepSettled


def uncertain_calls(records: Sequence[Record]) -> set[CallId]:
    """The calls of tools that must not be repeated."""
    decided = [row for each in records if isinstance(each, CallsDecided) for row in each.runnable]
    return {row.call for row in decided if row.execution == "uncertain"}


async def recovered(
    scenario: DurableScenario, moment: Moment, effects: tuple[str, ...], *, shared: bool
) -> DurableWorld:
    world = DurableWorld.after(moment, shared=shared, effects=effects)
    agent, respond, client = scenario.make(world.outside)
    await world.to_the_end(agent, respond, client)
    return world


@pytest.mark.parametrize("shared", [False, True], ids=["apart", "shared"])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
async def test_a_crash_behind_every_change_leads_to_the_same_settlement(
    scenario: DurableScenario, shared: bool, autojump_clock: trio.testing.MockClock, log_watch: LogWatch
) -> None:
    log_watch.open_runs_are_fine = True
    world = DurableWorld(shared=shared)
    agent, respond, client = scenario.make(world.outside)
    await world.to_the_end(agent, respond, client)
    told, asked = await world.told(), world.outside.asked
    moments = world.moments
    print(f"{scenario.name}: {len(moments)} changes: {dict(Counter(str(each.failpoint) for each in moments))}")
    for place, moment in enumerate(moments):
        where = f"{scenario.name}: crash behind change {place}, {moment.failpoint}"
        later = moments[place + 1] if place + 1 < len(moments) else None
        effects = tuple(world.outside.effects) if later is None else later.effects
        after = await recovered(scenario, moment, effects, shared=shared)
        assert await after.told() == told, where
        records = await after.records()
        # An answer that is on record is never asked for again; one that was on its way may be.
        answered = sum(isinstance(each, ModelResponded) for each in records)
        assert after.outside.asked == asked, f"{where}: {after.outside.asked} requests for {answered} answers"
        times = Counter(after.outside.effects)
        assert all(times[call] == 1 for call in uncertain_calls(records)), where
        steps = [(each.call, each.name) for each in records if isinstance(each, StepSettled)]
        assert len(set(steps)) == len(steps), where
        assert fold(records) == await after.state(), where
