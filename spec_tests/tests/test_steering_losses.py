"""Waiting input when something is lost: the queue's ear, the store's answer, or the run's end (DUR-016)."""

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.approval_world import AwayDesk, Deaf, Gone, Office, asker, inputs_on_record, shown, suspension
from tests.kernel_world import script, talker
from triolet.adapters.memory import MemoryInputs
from triolet.adapters.scripted_model import call, text, turn
from triolet.kernel import Completed, Tool, tool
from triolet.kernel.joining import TELL_SECONDS
from triolet.kernel.machine.advance import advance
from triolet.kernel.machine.state import KNOWN_TAKEN, NEW
from triolet.ports.admission import Admitted
from triolet.ports.batch import Batch
from triolet.ports.conversation_store import Address
from triolet.ports.identity import InputId, Instant
from triolet.ports.messages import Text
from triolet.ports.records import InputTaken

LOOK = turn(call("look"))
DONE = turn(text("done"))


def looking(say: Any) -> Tool[Any, Any]:
    left = [say]

    @tool(execution="readonly")
    async def look() -> str:
        """Look."""
        if left:
            await left.pop()()
        return "seen"

    return look


@pytest.mark.parametrize("hangs", [True, False])
@pytest.mark.parametrize("times", [1, 2, 3])
async def test_a_queue_that_does_not_hear_changes_nothing_of_a_run_that_goes_on(
    office: Office, autojump_clock: MockClock, times: int, hangs: bool
) -> None:
    office.inputs = queue = Deaf(times, hangs=hangs)

    async def say() -> None:
        await talk.steer("S1")

    agent = talker(looking(say))
    model = script(LOOK, DONE)
    async with office.kernel(agent, model=model) as kernel, kernel.conversation("c") as talk:
        before = trio.current_time()
        if times == 1 or hangs:
            assert isinstance(await talk.run(agent, "go"), Completed)
        else:
            # At the last seam the queue is asked, and what it answers must be known.
            with pytest.raises(Gone):
                await talk.run(agent, "go")
        # Once for each time that it was told; what it has not heard, it gave back in time.
        assert trio.current_time() - before == (times * TELL_SECONDS if hangs else 0)
        again = script(DONE, DONE)
        assert isinstance(await talk.run(agent, "again", model=again), Completed)
    assert [record.parts for record in inputs_on_record(office.batches("c"))].count((Text(text="S1"),)) == 1
    assert shown(again.requests[0]).count("S1") == 1
    assert len(again.requests) == 1
    assert queue._queues[next(iter(queue._queues))].waiting == {}


async def test_new_input_enters_behind_what_the_queue_has_not_heard_of(
    office: Office, autojump_clock: MockClock
) -> None:
    office.inputs = Deaf(2, hangs=False)

    async def say() -> None:
        await talk.steer("S1")

    agent = talker(looking(say))
    async with office.kernel(agent, model=script(LOOK, DONE)) as kernel, kernel.conversation("c") as talk:
        with pytest.raises(Gone):
            await talk.run(agent, "go")

        async def say_more() -> None:
            for word in ("S2", "S3"):
                assert isinstance(await second.steer(word), Admitted)

        more = talker(looking(say_more), id="more")
        async with office.kernel(more, model=script(LOOK, DONE, DONE)) as other:
            async with other.conversation("c") as second:
                assert isinstance(await second.run(more, "again"), Completed)
    said = [
        part.text for record in inputs_on_record(office.batches("c")) for part in record.parts if isinstance(part, Text)
    ]
    assert said == ["go", "S1", "again", "S2", "S3"]


async def test_a_run_that_cannot_be_sealed_lets_go_of_what_it_claimed_and_asked(
    office: Office, autojump_clock: MockClock
) -> None:
    desk = AwayDesk()
    told: list[str] = []

    def fails(batch: Batch) -> bool:
        return any(isinstance(record, InputTaken) and record.source == "steering" for record in batch.records)

    async def say() -> None:
        await talk.steer("S1")

    class Noting(MemoryInputs):
        async def revert(self, address: Address) -> None:
            told.append("reverted")
            await super().revert(address)

    office.inputs = Noting()
    office.failing.fails = fails
    agent = talker(looking(say))
    async with office.kernel(agent, model=script(LOOK, DONE), desk=desk) as kernel:
        async with kernel.conversation("c") as talk:
            with pytest.raises(Gone):
                await talk.run(agent, "go")
        assert told == ["reverted"]
        office.failing.fails = lambda _: False
        again = script(DONE, DONE)
        async with kernel.conversation("c") as talk:
            await talk.run(agent, "again", model=again)
    assert shown(again.requests[0])[-1] == "S1"


async def test_a_request_is_withdrawn_although_the_log_stays_open(office: Office, autojump_clock: MockClock) -> None:
    office.leave_open()
    desk = AwayDesk()
    agent = asker(office.counted())
    pay = turn(call("pay"))
    async with office.kernel(agent, model=script(pay), desk=desk) as kernel, kernel.conversation("c") as talk:
        # The commit that would suspend the run fails, and so does sealing it; the desk was asked before.
        waiting: list[bool] = []

        def fails(batch: Batch) -> bool:
            waiting.append(bool(desk.asked))
            return bool(desk.asked)

        office.failing.fails = fails
        with pytest.raises(Gone):
            await talk.run(agent, "go")
        assert any(waiting)
    assert desk.withdrawn == [request.id for request, _ in desk.asked[:1]]
    office.failing.fails = lambda _: False
    async with office.kernel(agent, model=script(pay), desk=desk) as kernel, kernel.conversation("c") as talk:
        suspension(await talk.run(agent, "once more"))


async def test_a_state_remembers_so_many_inputs_and_no_more(office: Office, autojump_clock: MockClock) -> None:
    async def say() -> None:
        await talk.steer("S1")

    agent = talker(looking(say))
    async with office.kernel(agent, model=script(LOOK, DONE)) as kernel, kernel.conversation("c") as talk:
        await talk.run(agent, "go")
    opened = state = NEW
    for record in office.records("c"):
        state = advance(state, record)
        if isinstance(record, InputTaken) and record.source == "user":
            opened = state
    [(name, _)] = state.taken
    state = opened
    for place in range(KNOWN_TAKEN + 3):
        taken = InputTaken(
            id=InputId(f"{name}-{place}"),
            source="steering",
            author="a",
            offered_at=Instant(place),
            parts=(Text(text="x"),),
        )
        state = advance(state, taken)
    assert len(state.taken) == KNOWN_TAKEN
    assert state.taken[-1] == (f"{name}-{KNOWN_TAKEN + 2}", KNOWN_TAKEN + 2)
