"""Checkpoints: a long log is read from the last one that fits, and a checkpoint that does not fit is not used."""

from typing import Any

import attrs
import pytest
from trio.testing import MockClock

from tests.durable_scenarios import DONE, in_turns, policy
from tests.durable_world import TALK, WORKERS, DurableWorld
from tests.kernel_world import talker
from tests.log_watch import LogWatch
from triolet.adapters.memory import MemoryConversations
from triolet.kernel import Failpoint
from triolet.ports.ledger import Receipt
from triolet.ports.records import RunSettled

AGENT = talker(policy=policy(max_seconds=None))


@pytest.fixture(params=[False, True], ids=["apart", "shared"])
def world(request: pytest.FixtureRequest, log_watch: LogWatch) -> DurableWorld:
    log_watch.open_runs_are_fine = True
    return DurableWorld(shared=request.param)


async def long_talk(world: DurableWorld, runs: int) -> list[Receipt]:
    async with world.life(AGENT, in_turns(DONE)) as kernel, kernel.workers(policy=WORKERS):
        receipts = [await kernel.submit(AGENT, f"{number}", conversation="talk") for number in range(runs)]
        for receipt in receipts:
            await kernel.settlement(receipt)
    return receipts


async def reads_of_one_more_run(world: DurableWorld, monkeypatch: pytest.MonkeyPatch) -> int:
    count = [0]
    read = MemoryConversations.read

    async def counted(self: Any, address: Any, **options: Any) -> Any:
        page = await read(self, address, **options)
        count[0] += sum(len(stored.batch.records) for stored in page.batches)
        return page

    with monkeypatch.context() as patch:
        patch.setattr(MemoryConversations, "read", counted)
        async with world.life(AGENT, in_turns(DONE)) as kernel, kernel.workers(policy=WORKERS):
            receipt = await kernel.submit(AGENT, "more", conversation="talk")
            await kernel.settlement(receipt)
    return count[0]


async def test_store_007_a_long_log_is_read_from_its_checkpoint(
    world: DurableWorld, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.remembers = False
    await long_talk(world, 80)
    records = len(await world.records())
    assert records > 300
    assert await reads_of_one_more_run(world, monkeypatch) < records / 2
    whole = await world.state()
    checkpoint = await world.conversations.load_checkpoint(TALK)
    assert checkpoint is not None
    world.restart()
    assert await reads_of_one_more_run(world, monkeypatch) < records / 2
    assert len((await world.state()).history) == len(whole.history) + 2


@pytest.mark.parametrize(
    "spoil",
    [
        lambda mark: attrs.evolve(mark, machine_version=mark.machine_version - 1),
        lambda mark: attrs.evolve(mark, body=mark.body[:-1]),
        lambda mark: attrs.evolve(mark, body=b"{}"),
        lambda mark: attrs.evolve(mark, tail=attrs.evolve(mark.tail, digest="sha256:" + "0" * 64)),
        lambda mark: attrs.evolve(mark, tail=attrs.evolve(mark.tail, sequence=10**6)),
    ],
    ids=["version", "cut", "empty", "digest", "beyond"],
)
async def test_store_007_a_checkpoint_that_does_not_fit_is_not_used(
    world: DurableWorld, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, spoil: Any
) -> None:
    world.remembers = False
    await long_talk(world, 80)
    log = world.conversations._log(TALK)
    log.checkpoint = spoil(log.checkpoint)
    records = len(await world.records())
    assert await reads_of_one_more_run(world, monkeypatch) >= records
    assert isinstance((await world.state()).settled, RunSettled)


async def test_conf_004_every_failpoint_fires_somewhere(world: DurableWorld, autojump_clock: MockClock) -> None:
    apart = {Failpoint.ADMITTED, Failpoint.CREATED, Failpoint.READY, Failpoint.CLAIMED, Failpoint.WRITER_OPENED}
    apart |= {Failpoint.RESERVED, Failpoint.ENDING_APPENDED, Failpoint.FINALIZED}
    together = {Failpoint.SUBMITTED, Failpoint.CLAIMED_WITH_WRITER, Failpoint.SETTLED}
    fired: set[Failpoint] = set()
    world.reached = fired.add
    world.remembers = False
    await long_talk(world, 80)
    assert fired >= ((together if world.shared else apart) | {Failpoint.APPENDED, Failpoint.CHECKPOINTED})
    assert not fired & (apart if world.shared else together)
