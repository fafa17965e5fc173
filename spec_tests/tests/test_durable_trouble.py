"""Accepted work that meets trouble: what is tried again, what becomes an operator's business, and what is proven."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.durable_scenarios import DONE, effect, in_turns, one, policy
from tests.durable_world import BOSS, TALK, WORKERS, DurableWorld
from tests.kernel_world import talker
from tests.log_watch import LogWatch
from triolet.adapters.memory import MemoryConversations
from triolet.adapters.scripted_model import call, text, turn
from triolet.kernel import Aborted, Completed, WorkerPolicy
from triolet.ports.batch import Batch
from triolet.ports.conversation_store import Appended, Tail, Writer
from triolet.ports.errors import Unavailable
from triolet.ports.ledger import OperatorWait, Receipt, Standing, UnknownWait
from triolet.ports.outcomes import ToolSuccess
from triolet.ports.reconciler import CANNOT_TELL, CompletedWith, NeverStarted, Proof, SafeToRepeat, UncertainCall
from triolet.ports.records import AttemptStarted, RunSettled, ToolResolved, ToolSettled, ToolUnknown
from triolet.ports.strict_json import JsonText


@pytest.fixture(params=[False, True], ids=["apart", "shared"])
def world(request: pytest.FixtureRequest, log_watch: LogWatch) -> DurableWorld:
    log_watch.open_runs_are_fine = True
    return DurableWorld(shared=request.param)


AGENT = talker(policy=policy(max_seconds=None))


async def until_it_waits(world: DurableWorld, kernel: Any, receipt: Receipt) -> Standing:
    """Work until the submission is suspended."""
    with trio.fail_after(20_000):
        async with kernel.workers(policy=WORKERS):
            while (await kernel.standing(receipt)).status != "suspended":  # noqa: ASYNC110 -- nothing announces it
                await trio.sleep(7)
    standing: Standing = await kernel.standing(receipt)
    assert standing.worker is None
    return standing


@attrs.define(kw_only=True)
class Gone(Unavailable):
    """The store cannot be reached."""


class Failing(MemoryConversations):
    """A store whose appends fail when a test says so: before they write, or after."""

    def __init__(self) -> None:
        super().__init__()
        self.appends = 0
        self.fails: Callable[[int], str | None] = lambda _: None

    async def append(self, writer: Writer, batch: Batch, *, expected: Tail) -> Appended:
        self.appends += 1
        how = self.fails(self.appends)
        if how == "before":
            raise Gone
        appended = await super().append(writer, batch, expected=expected)
        if how == "after":
            raise Gone
        return appended


@pytest.mark.parametrize("how", ["before", "after"])
@pytest.mark.parametrize("nth", range(1, 7))
async def test_f_015_no_append_that_fails_repeats_a_tool_or_loses_its_result(
    nth: int, how: str, autojump_clock: MockClock, log_watch: LogWatch
) -> None:
    log_watch.open_runs_are_fine = True
    told: list[str] = []
    for failing in (0, nth):
        world = DurableWorld(shared=False)
        world.conversations = store = Failing()
        store.fails = lambda count, failing=failing: how if count == failing else None  # type: ignore[misc]
        agent = talker(effect(world.outside, "put", execution="idempotent"), policy=policy())
        await world.to_the_end(agent, in_turns(turn(call("put")), turn(call("put")), DONE), one)
        told.append(await world.told())
        results = [record.call for record in await world.records() if isinstance(record, ToolSettled)]
        assert len(results) == len(set(results)) == 2
    assert told[0] == told[1]


async def test_f_010_what_a_tool_did_outlasts_a_model_that_fails(
    world: DurableWorld, autojump_clock: MockClock
) -> None:
    agent = talker(effect(world.outside, "pay"), policy=policy())
    failures = iter([True, True])

    def respond(request: Any) -> Any:
        if request.turn == 1:
            return turn(call("pay"))
        if next(failures, False):
            raise ValueError("a defect of the model's adapter")
        return DONE

    [result] = await world.to_the_end(agent, respond, one)
    assert isinstance(result, Completed)
    assert len(world.outside.effects) == 1


async def test_dur_014_work_that_gets_nowhere_is_shown_to_an_operator(
    world: DurableWorld, autojump_clock: MockClock
) -> None:
    broken = [True]

    def respond(_: Any) -> Any:
        if broken:
            raise ValueError("still broken")
        return DONE

    async with world.life(AGENT, respond) as kernel:
        [receipt] = await one(kernel, AGENT)
        standing = await until_it_waits(world, kernel, receipt)
        [wait] = standing.waits
        assert wait == OperatorWait(trouble="retries-exhausted", detail=f"{WORKERS.attempts} attempts made no progress")
        figures = await world.ledger.figures()
        assert (figures.dead, figures.oldest_unsettled) == (1, standing.admitted_at)
        broken.clear()
        await kernel.retry(receipt, by=BOSS, reason="mended", key="first")
        async with kernel.workers(policy=WORKERS):
            assert isinstance(await kernel.settlement(receipt), Completed)
        # The same again is not another retry.
        await kernel.retry(receipt, by=BOSS, reason="mended", key="first")


async def test_retries_come_later_and_later(world: DurableWorld, autojump_clock: MockClock) -> None:
    times: list[float] = []

    def respond(_: Any) -> Any:
        times.append(trio.current_time())
        raise ValueError("broken")

    async with world.life(AGENT, respond) as kernel:
        [receipt] = await one(kernel, AGENT)
        await until_it_waits(world, kernel, receipt)
    waits = [later - earlier for earlier, later in pairwise(times)]
    assert len(times) == WORKERS.attempts
    assert all(2**n / 2 <= wait <= 2**n + 1 for n, wait in enumerate(waits[:8]))
    assert max(waits) <= WORKERS.most_retry_seconds + 1


async def test_what_is_given_up_on_can_still_be_aborted(world: DurableWorld, autojump_clock: MockClock) -> None:
    def respond(_: Any) -> Any:
        raise ValueError("broken")

    async with world.life(AGENT, respond) as kernel:
        [receipt] = await one(kernel, AGENT)
        await until_it_waits(world, kernel, receipt)
        await kernel.abort(receipt, by=BOSS, reason="no use")
        async with kernel.workers(policy=WORKERS):
            assert isinstance(await kernel.settlement(receipt), Aborted)


async def test_a_run_goes_on_only_under_its_own_definition(world: DurableWorld, autojump_clock: MockClock) -> None:
    agent = talker(effect(world.outside, "pay", needs_approval=True), policy=policy(max_seconds=None))
    respond = in_turns(turn(call("pay")), DONE)
    async with world.life(agent, respond) as kernel:
        [receipt] = await one(kernel, agent)
        asked = await until_it_waits(world, kernel, receipt)
    world.restart()
    changed = attrs.evolve(agent, instructions="be somebody else")
    async with world.life(changed, respond) as kernel:
        await world.answer_all(kernel)
        standing = await until_it_waits(world, kernel, receipt)
        assert [wait.trouble for wait in standing.waits if isinstance(wait, OperatorWait)] == ["definition-changed"]
        assert world.outside.effects == []
    world.restart()
    async with world.life(agent, respond) as kernel:
        await kernel.retry(receipt, by=BOSS, reason="deployed again", key="r")
        # The answer was not lost with the wait.
        result = await world.with_people(kernel, receipt)
    assert isinstance(result, Completed)
    assert len(world.outside.effects) == len(asked.waits) == 1


async def test_input_that_an_agent_does_not_take_any_more_begins_nothing(
    world: DurableWorld, autojump_clock: MockClock
) -> None:
    def instructions(value: str) -> Any:
        return 7 if value == "go" else "fine"

    agent = talker(policy=policy(), instructions=instructions)
    async with world.life(agent, in_turns(DONE)) as kernel:
        [receipt] = await one(kernel, agent)
        standing = await until_it_waits(world, kernel, receipt)
        assert [wait.trouble for wait in standing.waits if isinstance(wait, OperatorWait)] == ["invalid-input"]
        await kernel.abort(receipt, by=BOSS, reason="wrong input")
        async with kernel.workers(policy=WORKERS):
            assert isinstance(await kernel.settlement(receipt), Aborted)


async def test_a_log_that_is_gone_is_an_operators_business(world: DurableWorld, autojump_clock: MockClock) -> None:
    async with world.life(AGENT, in_turns(DONE)) as kernel:
        [receipt] = await one(kernel, AGENT)
        await world.conversations.delete(TALK)
        standing = await until_it_waits(world, kernel, receipt)
        assert [wait.trouble for wait in standing.waits if isinstance(wait, OperatorWait)] == ["corrupt-log"]


async def test_a_run_that_an_owner_without_a_claim_left_open_is_settled_as_lost(
    world: DurableWorld, autojump_clock: MockClock
) -> None:
    async with world.life(AGENT, in_turns(turn(text("mine")))) as kernel:
        [receipt] = await one(kernel, AGENT)
        async with kernel.workers(policy=WORKERS):
            await kernel.settlement(receipt)
    hanging = talker(effect(world.outside, "wait", seconds=10_000, execution="readonly"), policy=policy())
    async with world.life(hanging, in_turns(turn(call("wait")))) as kernel, trio.open_nursery() as nursery:
        talk = await nursery.start(_hold, kernel, hanging)
        await trio.sleep(5)
        before = world.conversations.save()
        nursery.cancel_scope.cancel()
        assert talk
    world.conversations = MemoryConversations.load(before)
    world.restart()
    async with world.life(AGENT, in_turns(DONE)) as kernel, kernel.workers(policy=WORKERS):
        later = await kernel.submit(AGENT, "later", conversation="talk")
        assert isinstance(await kernel.settlement(later), Completed)
    ends = [record.reason for record in await world.records() if isinstance(record, RunSettled)]
    assert ends == [None, "lost", None]


async def _hold(kernel: Any, agent: Any, task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
    async with kernel.conversation("talk") as talk:
        task_status.started(True)
        await talk.run(agent, "go")


# --- leases ---------------------------------------------------------------------------------------------


async def test_dur_006_a_worker_that_went_silent_is_replaced_and_writes_nothing_more(
    world: DurableWorld, autojump_clock: MockClock
) -> None:
    agent = talker(effect(world.outside, "wait", seconds=40, execution="readonly"), policy=policy())
    respond = in_turns(turn(call("wait")), DONE)
    silent = [False]
    ledger_renew = world.ledger.renew

    async def renew(claim: Any, **options: Any) -> Any:
        if silent[0] and claim.worker == "first":
            raise Gone
        return await ledger_renew(claim, **options)

    world.ledger.renew = renew  # type: ignore[method-assign]
    async with world.life(agent, respond) as kernel, trio.open_nursery() as nursery:
        [receipt] = await one(kernel, agent)
        async with kernel.workers(name="first", policy=WorkerPolicy(concurrency=1, lease_seconds=20)):
            await trio.sleep(5)
            silent[0] = True
            async with kernel.workers(name="second", policy=WORKERS):
                result = await kernel.settlement(receipt)
        nursery.cancel_scope.cancel()
    assert isinstance(result, Completed)
    workers = [record.worker for record in await world.records() if isinstance(record, AttemptStarted)]
    assert workers[-1] == "second"
    assert len([record for record in await world.records() if isinstance(record, RunSettled)]) == 1


async def test_long_attempts_keep_their_lease(world: DurableWorld, autojump_clock: MockClock) -> None:
    agent = talker(effect(world.outside, "wait", seconds=500, timeout=600), policy=policy())
    async with world.life(agent, in_turns(turn(call("wait")), DONE)) as kernel:
        [receipt] = await one(kernel, agent)
        async with (
            kernel.workers(name="a", policy=WORKERS),
            kernel.workers(name="b", policy=WORKERS),
        ):
            assert isinstance(await kernel.settlement(receipt), Completed)
    assert len(world.outside.effects) == 1
    assert len([record for record in await world.records() if isinstance(record, AttemptStarted)]) == 1


# --- unknown outcomes -----------------------------------------------------------------------------------


@attrs.define
class Told:
    """A reconciler that says what the test wants, and remembers what it was asked."""

    proof: Proof | Exception
    asked: list[UncertainCall] = attrs.field(factory=list[UncertainCall])

    async def reconcile(self, call: UncertainCall) -> Proof:
        self.asked.append(call)
        if isinstance(self.proof, Exception):
            raise self.proof
        return self.proof


async def crashed_in_a_call(world: DurableWorld) -> tuple[Any, Any]:
    """A run whose worker went while an uncertain call was under way."""
    agent = talker(effect(world.outside, "pay", seconds=1), policy=policy(max_seconds=None))
    respond = in_turns(turn(call("pay")), DONE)
    async with world.life(agent, respond) as kernel:
        await one(kernel, agent)
        with trio.move_on_after(0.5):
            async with kernel.workers(policy=WORKERS):
                await trio.sleep_forever()
    world.restart()
    return agent, respond


@pytest.mark.parametrize(
    ("proof", "effects"),
    [
        (CompletedWith(outcome=ToolSuccess(output=JsonText('"done"')), how="the bank says so"), 1),
        (NeverStarted(how="the bank knows of nothing"), 2),
        (SafeToRepeat(how="the bank ignores it"), 2),
    ],
)
async def test_proof_resolves_an_unknown_outcome_without_anybody(
    world: DurableWorld, autojump_clock: MockClock, proof: Proof, effects: int
) -> None:
    world.ports["reconciler"] = told = Told(proof)
    agent, respond = await crashed_in_a_call(world)
    [result] = await world.to_the_end(agent, respond, one)
    assert isinstance(result, Completed)
    assert len(world.outside.effects) == effects
    [asked] = told.asked
    assert (asked.tool, asked.operation_key, asked.address) == ("pay", asked.call, TALK)
    [resolved] = [record for record in await world.records() if isinstance(record, ToolResolved)]
    assert (resolved.by.name, resolved.reason) == ("reconciler", getattr(proof, "how", ""))


@pytest.mark.parametrize("proof", [CANNOT_TELL, ValueError("broken")])
async def test_dur_017_without_proof_a_person_has_to_say(
    world: DurableWorld, autojump_clock: MockClock, proof: Any
) -> None:
    world.ports["reconciler"] = told = Told(proof)
    agent, respond = await crashed_in_a_call(world)
    async with world.life(agent, respond) as kernel:
        [receipt] = await one(kernel, agent)
        standing = await until_it_waits(world, kernel, receipt)
        [wait] = standing.waits
        assert isinstance(wait, UnknownWait)
        assert (wait.unknown.tool, wait.unknown.reason) == ("pay", "crashed")
        assert (await world.ledger.figures()).unknown == 1
        # Nobody asks for ever: one look by the attempt that found it.
        await trio.sleep(10_000)
        assert len(told.asked) == 1
        # Word about something else changes nothing, and is no reason to try.
        await kernel.resolve(wait.unknown.call, None, by=BOSS, reason="it never got there")
        async with kernel.workers(policy=WORKERS):
            assert isinstance(await kernel.settlement(receipt), Completed)
    assert len(world.outside.effects) == 2
    families = [type(record) for record in await world.records()]
    assert families.count(ToolUnknown) == families.count(ToolResolved) == 1


async def test_an_outcome_that_a_live_call_left_unknown_is_reconciled_too(
    world: DurableWorld, autojump_clock: MockClock
) -> None:
    world.ports["reconciler"] = told = Told(CompletedWith(outcome=ToolSuccess(output=JsonText('"done"')), how="seen"))
    agent = talker(effect(world.outside, "pay", seconds=100, timeout=3), policy=policy())
    [result] = await world.to_the_end(agent, in_turns(turn(call("pay")), DONE), one)
    assert isinstance(result, Completed)
    assert len(told.asked) == len(world.outside.effects) == 1
