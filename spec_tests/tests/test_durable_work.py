"""Accepted work from a client's side: receipts, keys, order, waiting, aborting, and what preflight wants for it."""

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.durable_scenarios import DONE, effect, in_turns, one, policy
from tests.durable_world import BOSS, WORKERS, DurableWorld
from tests.kernel_world import talker
from tests.log_watch import LogWatch
from triolet.adapters.clocks import TrioClock
from triolet.adapters.ids import SequentialIds
from triolet.adapters.memory import MemoryLedger, in_memory
from triolet.adapters.scripted_model import ScriptedModel, call, turn
from triolet.kernel import (
    Aborted,
    Allowance,
    Completed,
    Failed,
    MissingCapabilities,
    Policy,
    UnknownAgent,
    WorkerPolicy,
    code_mode,
    open_kernel,
    tool,
)
from triolet.kernel.durable.workers import InvalidWorkers
from triolet.ports.errors import BrokenText, InvalidValue
from triolet.ports.identity import Instant, Principal, TenantId
from triolet.ports.ledger import KeyReused, NoActiveRun, UnknownSubmission, run_of
from triolet.ports.records import AbortRequested, InputTaken, RunSettled, RunStarted

AGENT = talker(policy=policy())


@pytest.fixture(params=[False, True], ids=["apart", "shared"])
def world(request: pytest.FixtureRequest) -> DurableWorld:
    return DurableWorld(shared=request.param)


async def test_dur_001_a_receipt_is_for_what_is_durable_and_ready(
    world: DurableWorld, autojump_clock: MockClock
) -> None:
    async with world.life(AGENT, in_turns(DONE)) as kernel:
        receipt = await kernel.submit(AGENT, "go", conversation="talk", key="k")
        assert (await kernel.standing(receipt)).status == "ready"
    world.restart()
    async with world.life(AGENT, in_turns(DONE)) as kernel:
        assert await kernel.submit(AGENT, "go", conversation="talk", key="k") == receipt
        async with kernel.workers(policy=WORKERS):
            result = await kernel.settlement(receipt)
    assert isinstance(result, Completed)
    assert result.output == "all done"
    assert result.run == run_of(receipt.submission)


async def test_a_key_stands_for_one_piece_of_work_of_one_principal(
    world: DurableWorld, autojump_clock: MockClock
) -> None:
    other = Principal(name="somebody else")
    async with world.life(AGENT, in_turns(DONE)) as kernel:
        receipt = await kernel.submit(AGENT, "go", conversation="talk", key="k")
        with pytest.raises(KeyReused) as refused:
            await kernel.submit(AGENT, "something else", conversation="talk", key="k")
        assert refused.value.submission == receipt.submission
        again = await kernel.submit(AGENT, "go", conversation="talk", key="k", principal=other)
        assert again.submission != receipt.submission


async def test_dur_004_work_of_a_conversation_goes_first_in_first_out(
    world: DurableWorld, autojump_clock: MockClock
) -> None:
    async with world.life(AGENT, in_turns(DONE)) as kernel:
        receipts = [await kernel.submit(AGENT, str(number), conversation="talk") for number in range(5)]
        async with kernel.workers(policy=WorkerPolicy(concurrency=8)):
            for receipt in reversed(receipts):
                await kernel.settlement(receipt)
    inputs = [record for record in await world.records() if isinstance(record, InputTaken)]
    assert [record.submission for record in inputs] == [receipt.submission for receipt in receipts]
    runs = [type(record) for record in await world.records() if isinstance(record, RunStarted | RunSettled)]
    assert runs == [RunStarted, RunSettled] * 5


async def test_conversations_do_not_wait_for_each_other(world: DurableWorld, autojump_clock: MockClock) -> None:
    agent = talker(effect(world.outside, "wait", seconds=50), policy=policy())
    respond = in_turns(turn(call("wait")), DONE)
    async with world.life(agent, respond) as kernel, kernel.workers(policy=WorkerPolicy(concurrency=20)):
        receipts = [await kernel.submit(agent, "go", conversation=f"c{number}") for number in range(20)]
        before = trio.current_time()
        for receipt in receipts:
            await kernel.settlement(receipt)
    assert trio.current_time() - before < 60


async def test_who_waits_for_a_settlement_may_stop_waiting(world: DurableWorld, autojump_clock: MockClock) -> None:
    async with world.life(AGENT, in_turns(DONE)) as kernel:
        receipt = await kernel.submit(AGENT, "go")
        with trio.move_on_after(5) as patience:
            await kernel.settlement(receipt)
        assert patience.cancelled_caught
        async with kernel.workers(policy=WORKERS):
            assert isinstance(await kernel.settlement(receipt), Completed)
            assert isinstance(await kernel.settlement(receipt), Completed)


async def test_sec_002_another_tenants_receipt_is_nobodys(world: DurableWorld, autojump_clock: MockClock) -> None:
    async with world.life(AGENT, in_turns(DONE)) as kernel:
        receipt = await kernel.submit(AGENT, "go")
        stolen = type(receipt)(
            submission=receipt.submission,
            tenant=TenantId("other"),
            conversation=receipt.conversation,
            sequence=receipt.sequence,
        )
        for asks in (kernel.settlement(stolen), kernel.standing(stolen), kernel.abort(stolen, by=BOSS, reason="")):
            with pytest.raises(UnknownSubmission):
                await asks


@pytest.mark.parametrize(
    ("value", "options", "error"),
    [
        (7, {}, InvalidValue),
        ("\ud800", {}, BrokenText),
        ("go", {"key": ""}, InvalidValue),
        ("go", {"key": "k" * 201}, InvalidValue),
        ("go", {"key": "\ud800"}, BrokenText),
        ("go", {"kind": "steering", "conversation": "talk"}, NoActiveRun),
    ],
)
async def test_bad_work_is_refused_with_nothing_kept(
    world: DurableWorld, autojump_clock: MockClock, value: Any, options: dict[str, Any], error: type[Exception]
) -> None:
    async with world.life(AGENT, in_turns(DONE)) as kernel:
        with pytest.raises(error):
            await kernel.submit(AGENT, value, **options)
    assert await world.ledger.scan() == ()


async def test_only_the_kernels_own_agents_are_taken(world: DurableWorld, autojump_clock: MockClock) -> None:
    async with world.life(AGENT, in_turns(DONE)) as kernel:
        with pytest.raises(UnknownAgent):
            await kernel.submit(talker(id="other"), "go")


async def test_workers_leave_alone_what_other_agents_are_for(world: DurableWorld, autojump_clock: MockClock) -> None:
    other = talker(id="other", policy=policy())
    async with world.life(AGENT, in_turns(DONE)) as kernel:
        receipt = await kernel.submit(AGENT, "go")
    async with world.life(other, in_turns(DONE)) as kernel, kernel.workers(policy=WORKERS):
        mine = await kernel.submit(other, "go")
        assert isinstance(await kernel.settlement(mine), Completed)
        assert (await kernel.standing(receipt)).status == "ready"
        with trio.move_on_after(100):
            await kernel.settlement(receipt)
        assert (await kernel.standing(receipt)).epoch == 0


async def test_run_021_an_allowance_is_kept_with_the_work(world: DurableWorld, autojump_clock: MockClock) -> None:
    agent = talker(effect(world.outside, "put", execution="idempotent"), policy=policy(max_turns=5))
    respond = in_turns(turn(call("put")), DONE)
    async with world.life(agent, respond) as kernel:
        receipt = await kernel.submit(agent, "go", allowance=Allowance(max_turns=1))
        async with kernel.workers(policy=WORKERS):
            result = await kernel.settlement(receipt)
    assert (result.turns, getattr(result, "exhausted", None)) == (2, "turns")


async def test_dur_012_work_that_has_not_begun_can_be_aborted(world: DurableWorld, autojump_clock: MockClock) -> None:
    def no_instructions(_: str) -> str:
        raise AssertionError("a run that is aborted before it began needs no instructions")

    agent = talker(policy=policy(), instructions=no_instructions)
    async with world.life(agent, in_turns(DONE)) as kernel:
        receipt = await kernel.submit(agent, "go", conversation="talk")
        for _ in range(2):
            await kernel.abort(receipt, by=BOSS, reason="not needed any more")
        async with kernel.workers(policy=WORKERS):
            result = await kernel.settlement(receipt)
            # Too late: the outcome stands.
            await kernel.abort(receipt, by=BOSS, reason="again", key="later")
            assert await kernel.settlement(receipt) == result
    assert isinstance(result, Aborted)
    assert result.reason == "requested"
    [asked] = [record for record in await world.records() if isinstance(record, AbortRequested)]
    assert (asked.by, asked.reason) == (BOSS, "not needed any more")
    assert world.outside.asked == 0


async def test_run_030_the_clock_of_a_run_goes_on_while_nobody_works(
    world: DurableWorld, autojump_clock: MockClock, log_watch: LogWatch
) -> None:
    log_watch.open_runs_are_fine = True
    agent = talker(effect(world.outside, "wait", seconds=100, execution="readonly"), policy=policy(max_seconds=300))
    respond = in_turns(turn(call("wait")), DONE)
    async with world.life(agent, respond) as kernel:
        [receipt] = await one(kernel, agent)
        with trio.move_on_after(50):
            async with kernel.workers(policy=WORKERS):
                await kernel.settlement(receipt)
    world.restart()
    await trio.sleep(500)
    async with world.life(agent, respond) as kernel, kernel.workers(policy=WORKERS):
        result = await kernel.settlement(receipt)
    assert isinstance(result, Failed)
    assert (result.error.failure.code, result.error.failure.dimension) == ("budget-exhausted", "duration")


async def test_draining_finishes_what_is_under_way(world: DurableWorld, autojump_clock: MockClock) -> None:
    agent = talker(effect(world.outside, "wait", seconds=20), policy=policy())
    async with world.life(agent, in_turns(turn(call("wait")), DONE)) as kernel:
        receipt, later = [await kernel.submit(agent, "go", conversation=name) for name in ("a", "b")]
        async with kernel.workers(policy=WorkerPolicy(concurrency=1, drain_seconds=30)) as workers:
            await trio.sleep(5)
            assert workers.active == {receipt.submission}
        assert (await kernel.standing(receipt)).status == "settled"
        assert (await kernel.standing(later)).epoch == 0


async def test_what_does_not_end_while_draining_is_given_back(
    world: DurableWorld, autojump_clock: MockClock, log_watch: LogWatch
) -> None:
    log_watch.open_runs_are_fine = True
    agent = talker(effect(world.outside, "wait", seconds=200, execution="readonly"), policy=policy())
    async with world.life(agent, in_turns(turn(call("wait")), DONE)) as kernel:
        receipt = await kernel.submit(agent, "go")
        async with kernel.workers(policy=WorkerPolicy(drain_seconds=10)):
            await trio.sleep(5)
        standing = await kernel.standing(receipt)
        assert (standing.status, standing.attempts, standing.worker) == ("ready", 0, None)
        async with kernel.workers(policy=WORKERS):
            assert isinstance(await kernel.settlement(receipt), Completed)


async def test_events_of_attempts_can_be_observed(world: DurableWorld, autojump_clock: MockClock) -> None:
    kinds: list[str] = []

    async def observe(events: Any) -> None:
        kinds.extend([event.kind async for event in events])

    async def broken(_: Any) -> None:
        raise ValueError("an observer decides no run")

    async with world.life(AGENT, in_turns(DONE)) as kernel:
        for watching in (observe, broken):
            receipt = await kernel.submit(AGENT, "go")
            async with kernel.workers(policy=WORKERS, observe=watching):
                assert isinstance(await kernel.settlement(receipt), Completed)
    assert kinds[0] == "run-began"
    assert kinds[-1] == "run-completed"


# --- assembly -----------------------------------------------------------------------------------------


async def act() -> str:
    """Do something that somebody has to allow."""
    return "done"


@tool(execution="readonly")
async def look() -> str:
    """Look."""
    return "seen"


def bound(**overrides: Any) -> Any:
    clock = TrioClock(Instant(0))
    ports: dict[str, Any] = {
        "model": ScriptedModel([]),
        "clock": clock,
        "ids": SequentialIds(),
        "ledger": MemoryLedger(clock),
        **overrides,
    }
    return in_memory(**ports)


async def test_cap_002_a_durable_assembly_says_all_that_it_lacks_at_once() -> None:
    agents = [
        talker(id="unbounded", policy=Policy()),
        talker(tool(needs_approval=True)(act), id="asks", policy=policy()),
        talker(code_mode("program", {"things": [look]}), id="programs", policy=Policy(context_tokens=1_000)),
    ]
    with pytest.raises(MissingCapabilities) as missing:
        async with open_kernel(agents=agents, capabilities=bound()):
            pass
    assert missing.value.missing == (
        ("an assembly without a ledger", "tool program"),
        ("approval", "tool act"),
        ("code", "tool program"),
        ("compaction (context_tokens, or bounded=True)", "agent unbounded"),
        ("sessions", "accepted work"),
    )


async def test_accepting_work_needs_a_ledger() -> None:
    async with open_kernel(agents=[], capabilities=bound(ledger=None)) as kernel:
        with pytest.raises(MissingCapabilities) as missing:
            async with kernel.workers():
                pass
    assert missing.value.missing == (("ledger", "accepted work"),)


@pytest.mark.parametrize(
    "fields",
    [
        {"concurrency": 0},
        {"lease_seconds": 0.5},
        {"attempts": 0},
        {"retry_seconds": 2, "most_retry_seconds": 1},
        {"drain_seconds": float("inf")},
    ],
)
def test_workers_with_numbers_that_make_no_sense_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidWorkers):
        WorkerPolicy(**fields)
