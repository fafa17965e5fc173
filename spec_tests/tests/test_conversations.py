"""Conversations that span runs: one writer, one run at a time, and what a lost owner left is settled first."""

from typing import Any

import pytest
import trio
import trio.testing

from tests.kernel_world import START, World, one_agent, script, talker
from tests.log_watch import LogWatch
from triolet.adapters.clocks import TrioClock
from triolet.adapters.scripted_model import call, turn
from triolet.kernel import (
    Aborted,
    Completed,
    ConversationBusy,
    ConversationClosed,
    InvalidConversationId,
    Policy,
    history_is_valid,
    tool,
)
from triolet.kernel.machine.advance import IllegalRecord, fold
from triolet.ports.batch import Batch
from triolet.ports.conversation_store import Address, UnknownConversation, WriterFenced
from triolet.ports.errors import BrokenText, Conflict, Corrupt, Fenced, Misuse
from triolet.ports.identity import ANONYMOUS, BatchId, CallId, ConversationId, Epoch, Principal, TenantId
from triolet.ports.messages import AssistantMessage, UserMessage
from triolet.ports.outcomes import ToolDefect, ToolSuccess, ToolUnknownOutcome
from triolet.ports.records import ConversationCreated, RunSettled, RunStarted, ToolSettled
from triolet.ports.strict_json import JsonText


@tool(execution="readonly")
async def look() -> str:
    """Look."""
    return "seen"


@tool
async def act() -> str:
    """Act."""
    return "acted"


AGENT = talker(look, act)
HERE = Address(tenant=ANONYMOUS.tenant, conversation=ConversationId("c"))


async def test_runs_of_one_conversation_share_its_history(world: World, autojump_clock: trio.testing.MockClock) -> None:
    other = talker(id="other", instructions="Be someone else.")
    model = script(turn("One.", call("look")), turn("Two."), turn("Three."))
    async with world.kernel(AGENT, other, model=model) as kernel, kernel.conversation("c") as conversation:
        assert conversation.id == "c"
        assert len(conversation.history) == 0
        first = await conversation.run(AGENT, "hello")
        before = conversation.history
        second = await conversation.run(other, "and you?")
        assert [first.run, second.run] == ["run1", "run2"]
        assert (len(before), len(conversation.history)) == (4, 6)
        assert history_is_valid(conversation.history)
    # The second run's request shows everything that was said, under its own instructions and tools.
    shown = model.requests[2]
    assert [type(m).__name__ for m in shown.messages] == [
        "UserMessage",
        "AssistantMessage",
        "ToolMessage",
        "AssistantMessage",
        "UserMessage",
    ]
    assert (shown.instructions, shown.tools) == ("Be someone else.", ())


async def test_a_conversation_goes_on_where_another_kernel_left_it(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    for number, words in enumerate(("one", "two", "three")):
        async with one_agent(world, AGENT, turn(words)) as (kernel, model), kernel.conversation("c") as conversation:
            assert len(conversation.history) == 2 * number
            await conversation.run(AGENT, f"question {number}")
            assert len(model.requests[0].messages) == 2 * number + 1
    assert [record.epoch for record in world.records("c") if record.kind == "attempt_started"] == [1, 2, 3]


async def test_an_observed_run_in_a_conversation(world: World, autojump_clock: trio.testing.MockClock) -> None:
    turns = (turn("One."), turn("Two."))
    async with one_agent(world, AGENT, *turns) as (kernel, _), kernel.conversation("c") as conversation:
        async with conversation.stream(AGENT, "hello") as handle:
            assert handle.conversation == "c"
            result = await handle.result()
        assert (await conversation.run(AGENT, "again")).output == "Two."
    assert result.output == "One."


# --- one run at a time (F-016) ------------------------------------------------------------------------


async def test_f_016_a_second_run_is_rejected_at_once(world: World, autojump_clock: trio.testing.MockClock) -> None:
    opens = trio.Event()
    async with one_agent(world, AGENT, turn("One.").gated(opens), turn("Two.")) as (kernel, model):
        async with kernel.conversation("c") as conversation, conversation.stream(AGENT, "first") as handle:
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(ConversationBusy) as caught:
                await conversation.run(AGENT, "second")
            assert isinstance(caught.value, Conflict)
            with pytest.raises(ConversationBusy):
                async with conversation.stream(AGENT, "second"):
                    raise AssertionError("busy")
            opens.set()
            assert (await handle.result()).output == "One."
    assert len(model.requests) == 1
    assert len(world.of(RunStarted, "c")) == 1


async def test_f_016_a_queued_run_sees_the_end_of_the_one_before(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    opens = trio.Event()
    model = script(turn("One.", call("look")).gated(opens), turn("One, seen."), turn("Two."), turn("Three."))
    results: dict[str, Any] = {}
    async with world.kernel(AGENT, model=model) as kernel:
        async with kernel.conversation("c", while_busy="queue") as conversation, trio.open_nursery() as nursery:

            async def ask(text: str) -> None:
                results[text] = (await conversation.run(AGENT, text)).output

            for text in ("a", "b", "c"):
                nursery.start_soon(ask, text)
                await trio.testing.wait_all_tasks_blocked()
            assert len(model.requests) == 1
            opens.set()
    assert results == {"a": "One, seen.", "b": "Two.", "c": "Three."}
    assert [len(request.messages) for request in model.requests] == [1, 3, 5, 7]


async def test_f_016_conversations_do_not_wait_for_each_other(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    opens = trio.Event()
    model = script(turn("Slow.").gated(opens), turn("Quick."))
    async with world.kernel(AGENT, model=model) as kernel:
        async with kernel.conversation("slow") as slow, slow.stream(AGENT, "x") as handle:
            await trio.testing.wait_all_tasks_blocked()
            async with kernel.conversation("quick") as quick:
                assert (await quick.run(AGENT, "y")).output == "Quick."
            opens.set()
            assert (await handle.result()).output == "Slow."


async def test_f_016_a_run_that_has_ended_is_not_in_the_way_while_its_observer_stays(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    async with one_agent(world, AGENT, *[turn("x")] * 6) as (kernel, _):
        for policy in ("reject", "queue"):
            async with kernel.conversation(policy, while_busy=policy) as conversation:
                async with conversation.stream(AGENT, "first") as handle:
                    await handle.result()
                    async with conversation.stream(AGENT, "second") as another:
                        await another.result()
                    assert (await conversation.run(AGENT, "third")).output == "x"
                assert len(conversation.history) == 6


async def test_a_rejected_or_failed_run_frees_its_place(world: World, autojump_clock: trio.testing.MockClock) -> None:
    def fail(_: str) -> str:
        raise RuntimeError("no instructions today")

    broken = talker(id="broken", instructions=fail)
    model = script(turn("Fine."))
    async with world.kernel(AGENT, broken, model=model) as kernel, kernel.conversation("c") as conversation:
        for _ in range(2):
            with pytest.raises(RuntimeError):
                await conversation.run(broken, "x")
        assert (await conversation.run(AGENT, "x")).output == "Fine."
    assert len(world.of(RunStarted, "c")) == 1


# --- the handle's scope -------------------------------------------------------------------------------


async def test_a_closed_handle_refuses(world: World, autojump_clock: trio.testing.MockClock) -> None:
    async with world.kernel(AGENT, model=script(turn("x"))) as kernel:
        async with kernel.conversation("c") as conversation:
            pass
        with pytest.raises(ConversationClosed) as caught:
            await conversation.run(AGENT, "x")
        assert isinstance(caught.value, Misuse)
        with pytest.raises(ConversationClosed):
            async with conversation.stream(AGENT, "x"):
                raise AssertionError("closed")


async def test_a_run_that_waits_for_its_turn_is_refused_once_the_handle_is_closed(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    opens = trio.Event()
    refused = trio.Event()
    async with world.kernel(AGENT, model=script(turn("One.").gated(opens))) as kernel, trio.open_nursery() as nursery:

        async def wait_for_a_turn(conversation: Any) -> None:
            with pytest.raises(ConversationClosed):
                await conversation.run(AGENT, "second")
            refused.set()

        async with kernel.conversation("c", while_busy="queue") as conversation:
            nursery.start_soon(conversation.run, AGENT, "first")
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(wait_for_a_turn, conversation)
            await trio.testing.wait_all_tasks_blocked()
        opens.set()
        await refused.wait()


async def test_a_second_handle_fences_the_first(world: World, autojump_clock: trio.testing.MockClock) -> None:
    model = script(turn("First."), turn("Second."), turn("Never."))
    async with world.kernel(AGENT, model=model) as kernel, kernel.conversation("c") as old:
        await old.run(AGENT, "x")
        async with kernel.conversation("c") as new:
            with pytest.raises(WriterFenced) as caught:
                await old.run(AGENT, "y")
            assert isinstance(caught.value, Fenced)
            assert (await new.run(AGENT, "z")).output == "Second."
        with pytest.raises(WriterFenced):
            await old.run(AGENT, "y")
    # Nothing of the fenced handle reached the log, and its model was not asked.
    assert [m.text for m in new.history if isinstance(m, AssistantMessage)] == ["First.", "Second."]
    assert len(model.requests) == 2


async def test_a_handle_that_is_fenced_while_it_runs_stops_and_its_successor_settles(
    world: World, log_watch: LogWatch, autojump_clock: trio.testing.MockClock
) -> None:
    log_watch.open_runs_are_fine = True  # the fenced writer never learns of the end that its successor wrote
    opens = trio.Event()
    model = script(turn("First.", call("act")).gated(opens), turn("Second."))
    async with world.kernel(AGENT, model=model) as kernel, kernel.conversation("c") as old:
        with pytest.raises(WriterFenced):
            async with old.stream(AGENT, "x") as handle:
                await trio.testing.wait_all_tasks_blocked()
                async with kernel.conversation("c") as new:
                    opens.set()
                    await handle.result()
        async with kernel.conversation("c") as new:
            assert (await new.run(AGENT, "y")).output == "Second."
    assert [(end.run, end.reason) for end in world.of(RunSettled, "c")] == [("run1", "lost"), ("run2", None)]


@pytest.mark.parametrize(("later", "name"), [(0, "at once"), (1, "a moment later")])
async def test_two_that_open_a_new_conversation_together_both_get_it(
    world: World, autojump_clock: trio.testing.MockClock, later: int, name: str
) -> None:
    # A store in which the creation of one falls between the other's look and its own creation.
    create = world.store.create

    async def slow_create(address: Address, first: Batch) -> Any:
        await trio.sleep(5)
        return await create(address, first)

    world.store.create = slow_create  # type: ignore[method-assign]  # one verb of a double
    opened: list[str] = []
    async with world.kernel(AGENT, model=script()) as kernel, trio.open_nursery() as nursery:

        async def own(wait: int) -> None:
            await trio.sleep(wait)
            async with kernel.conversation("c") as conversation:
                opened.append(conversation.id)

        nursery.start_soon(own, 0)
        nursery.start_soon(own, later)
    assert opened == ["c", "c"]


@pytest.mark.parametrize("bad", ["", "x" * 201])
async def test_an_id_out_of_bounds_is_refused(world: World, autojump_clock: trio.testing.MockClock, bad: str) -> None:
    async with world.kernel(AGENT, model=script()) as kernel:
        with pytest.raises(InvalidConversationId):
            async with kernel.conversation(bad):
                raise AssertionError("no conversation")
    assert not world.store.logs


async def test_an_id_that_is_no_clean_text_is_refused(world: World, autojump_clock: trio.testing.MockClock) -> None:
    async with world.kernel(AGENT, model=script()) as kernel:
        for bad in ("a\ud800", "a\0"):
            with pytest.raises(BrokenText):
                async with kernel.conversation(bad):
                    raise AssertionError("no conversation")
    assert not world.store.logs


async def test_tenants_do_not_meet(world: World, autojump_clock: trio.testing.MockClock) -> None:
    ada = Principal(name="ada", tenant=TenantId("one"))
    bob = Principal(name="bob", tenant=TenantId("two"))
    async with world.kernel(AGENT, model=script(turn("a"), turn("b"))) as kernel:
        async with kernel.conversation("c", principal=ada) as first, kernel.conversation("c", principal=bob) as second:
            await first.run(AGENT, "x")
            await second.run(AGENT, "y")
            assert (len(first.history), len(second.history)) == (2, 2)
    assert {address.tenant for address in world.store.logs} == {"one", "two"}


@pytest.mark.parametrize("name", ["a\ud800", "a\0"])
async def test_a_principal_whose_name_no_store_can_keep_leaves_no_trace(
    world: World, autojump_clock: trio.testing.MockClock, name: str
) -> None:
    async with world.kernel(AGENT, model=script(turn("x"))) as kernel:
        async with kernel.conversation("c", principal=Principal(name=name)) as conversation:
            with pytest.raises(Misuse) as caught:
                await conversation.run(AGENT, "x")
            # What is wrong is told, and not that a run could not be sealed which never began.
            assert not hasattr(caught.value, "__notes__")
    assert [record.kind for record in world.records("c")] == ["conversation_created"]


# --- one-shot conversations ---------------------------------------------------------------------------


async def test_a_one_shot_conversation_is_dropped(world: World, autojump_clock: trio.testing.MockClock) -> None:
    async with one_agent(world, AGENT, turn("x"), turn("y").hanging(trio.Event()), turn("z")) as (kernel, _):
        result = await kernel.run(AGENT, "go")
        assert isinstance(result, Completed)
        assert world.store.alive() == []
        assert world.store.deleted == [result.conversation]
        async with kernel.stream(AGENT, "go") as handle:
            assert world.store.alive() == [handle.conversation]
        assert world.store.alive() == []
        with pytest.raises(RuntimeError):
            async with kernel.stream(AGENT, "go"):
                raise RuntimeError
        assert world.store.alive() == []


async def test_bad_input_leaves_no_one_shot_conversation(world: World, autojump_clock: trio.testing.MockClock) -> None:
    async with world.kernel(AGENT, model=script()) as kernel:
        with pytest.raises(Misuse):
            await kernel.run(AGENT, "a\ud800")
    assert world.store.alive() == []


async def test_a_kept_conversation_is_kept(world: World, autojump_clock: trio.testing.MockClock) -> None:
    async with one_agent(world, AGENT, turn("x")) as (kernel, _), kernel.conversation() as conversation:
        await conversation.run(AGENT, "go")
    assert world.store.alive() == ["conversation1"]


# --- lost runs ----------------------------------------------------------------------------------------


async def _cut_after(world: World, kept: int) -> World:
    """Another store, which lost everything behind the first `kept` batches."""
    other = World(ids=world.ids, clock=TrioClock(START))
    first, *rest = world.batches("c")
    await other.store.create(HERE, first)
    writer = await other.store.open_writer(HERE)
    tail = writer.tail
    for batch in rest[: kept - 1]:
        tail = (await other.store.append(writer, batch, expected=tail)).tail
    return other


async def test_a_lost_run_is_settled_when_the_conversation_is_opened(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    turns = (turn("Let me.", call("look"), call("act"), call("look"), call("nope")), turn("Done."))
    async with one_agent(world, AGENT, *turns) as (kernel, _), kernel.conversation("c") as conversation:
        await conversation.run(AGENT, "go")
    batches = world.batches("c")
    # Every batch but the last leaves a run open that nobody will go on with.
    for kept in range(2, len(batches)):
        lost = await _cut_after(world, kept)
        before = fold(lost.records("c"))
        assert before.run is not None
        async with one_agent(lost, AGENT, turn("Hello.")) as (kernel, model):
            async with kernel.conversation("c") as conversation:
                assert history_is_valid(conversation.history)
                [settled] = lost.of(RunSettled, "c")
                assert (settled.status, settled.reason) == ("aborted", "lost")
                result = await conversation.run(AGENT, "still there?")
                assert result.output == "Hello."
            # Opening it once more settles nothing more.
            async with kernel.conversation("c"):
                assert len(lost.of(RunSettled, "c")) == 2
        assert len([m for m in model.requests[0].messages if isinstance(m, UserMessage)]) == 2
        prepared = {c for record in lost.records("c") if record.kind == "tool_prepared" for c in record.calls}
        known = {record.call for record in fold_results(lost.batches("c")[:kept])}
        for record in lost.of(ToolSettled, "c"):
            if record.call not in known:
                # Only the uncertain call that had started may have had its effect; the others surely had none.
                assert record.outcome == (
                    ToolUnknownOutcome(reason="crashed")
                    if record.call in prepared
                    else ToolDefect(reason="cancelled", effect_possible=False)
                )
        lost.check()


def fold_results(batches: list[Batch]) -> list[ToolSettled]:
    return [record for batch in batches for record in batch.records if isinstance(record, ToolSettled)]


async def test_a_log_that_cannot_be_folded_is_corrupt_and_stays_as_it_is(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    created = ConversationCreated(conversation=HERE.conversation, tenant=HERE.tenant)
    foreign = ToolSettled(call=CallId("r-1-0"), outcome=ToolSuccess(output=JsonText("1")))
    first = Batch(id=BatchId("c/0/0"), run=None, epoch=Epoch(0), at=START, records=(created,))
    await world.store.create(HERE, first)
    writer = await world.store.open_writer(HERE)
    bad = Batch(id=BatchId("x"), run=None, epoch=writer.epoch, at=START, records=(foreign,))
    await world.store.append(writer, bad, expected=writer.tail)
    tail = await world.store.inspect_tail(HERE)
    async with world.kernel(AGENT, model=script()) as kernel:
        with pytest.raises(IllegalRecord) as caught:
            async with kernel.conversation("c"):
                raise AssertionError("corrupt")
    assert isinstance(caught.value, Corrupt)
    assert caught.value.sequence == 2
    assert await world.store.inspect_tail(HERE) == tail
    del world.store.logs[HERE]


async def test_a_deleted_conversation_is_gone_for_its_handle(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    async with one_agent(world, AGENT, turn("x"), turn("y")) as (kernel, _), kernel.conversation("c") as conversation:
        await conversation.run(AGENT, "go")
        await world.store.delete(HERE)
        with pytest.raises(UnknownConversation):
            await conversation.run(AGENT, "go")


async def test_a_run_of_a_long_conversation_is_shown_all_of_it(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    agent = talker(policy=Policy(max_turns=1))
    many = 150
    async with one_agent(world, agent, *[turn("x")] * (many + 1)) as (kernel, model):
        async with kernel.conversation("c") as conversation:
            for _ in range(many):
                await conversation.run(agent, "q")
        # More records than one page holds.
        async with kernel.conversation("c") as conversation:
            assert len(conversation.history) == 2 * many
            result = await conversation.run(agent, "q")
            assert not isinstance(result, Aborted)
    assert len(model.requests[-1].messages) == 2 * many + 1
