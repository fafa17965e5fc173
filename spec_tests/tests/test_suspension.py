"""Suspended runs: plain values, answered one by one, resumed once, by whoever has the same store."""

import pickle
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.approval_world import AwayDesk, Gone, Office, asker, no, suspension, yes
from tests.kernel_world import script, talker
from tests.suspensions import DONE, PAY, TWO, suspended
from triolet.adapters.memory import MemoryInbox
from triolet.adapters.scripted_model import call, turn
from triolet.kernel import (
    Completed,
    DefinitionChanged,
    Failed,
    NotSuspended,
    RunSuspendedError,
    Suspended,
    UnknownAgent,
)
from triolet.ports.approval import AlreadyAnswered, Decision
from triolet.ports.canonical import digest
from triolet.ports.errors import Conflict
from triolet.ports.events import RunSuspended
from triolet.ports.identity import Epoch, RequestId
from triolet.ports.records import ApprovalDecided, ApprovalRequested, AttemptStarted, RunSettled
from triolet.ports.strict_json import JsonText


async def test_a_suspension_is_a_plain_value(office: Office, autojump_clock: MockClock) -> None:
    office.leave_open()
    _, waiting = await suspended(office, TWO)
    asked = [record.request for record in office.of(ApprovalRequested, "c")]
    assert waiting.requests == tuple(asked)
    assert (waiting.turns, waiting.usage.calls, waiting.one_shot) == (1, 1, False)
    copy = pickle.loads(pickle.dumps(waiting))
    assert copy == waiting
    plain = (str, int, float, bool, type(None))
    for value in attrs.asdict(waiting, recurse=True).values():
        assert isinstance(value, (*plain, dict, list, tuple))
    with pytest.raises(RunSuspendedError) as caught:
        _ = waiting.output
    assert caught.value.requests == tuple(request.id for request in asked)
    assert pickle.loads(pickle.dumps(caught.value)).requests == caught.value.requests


async def test_a_suspended_run_holds_nothing(office: Office, autojump_clock: MockClock) -> None:
    office.leave_open()
    agent = asker(office.counted())
    async with office.kernel(agent, model=script(PAY), desk=AwayDesk()) as kernel:
        before = trio.lowlevel.current_statistics().tasks_living
        async with kernel.conversation("c") as talk, talk.stream(agent, "go") as run:
            events = [event async for event in run.events()]
            suspension(await run.result())
        assert trio.lowlevel.current_statistics().tasks_living == before
    assert isinstance(events[-1], RunSuspended)
    assert office.of(RunSettled, "c") == []
    assert not any("suspend" in record.kind for record in office.records("c"))


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1], [1, 2, 0]])
async def test_answers_in_any_order_one_by_one(office: Office, autojump_clock: MockClock, order: list[int]) -> None:
    three = turn(*(call("pay", {"amount": amount}) for amount in (1, 2, 3)))
    agent, waiting = await suspended(office, three, denial="recoverable")
    model = script(DONE)
    result: Any = waiting
    for position, place in enumerate(order):
        async with office.kernel(agent, model=model, desk=AwayDesk()) as kernel:
            request = waiting.requests[place]
            await kernel.answer(request.id, no(request, reason="no") if place == 1 else yes(request))
            result = await kernel.resume(result)
            if position < 2:
                left = [waiting.requests[rest] for rest in range(3) if rest not in order[: position + 1]]
                assert list(suspension(result).requests) == left
                assert office.ran == []
                assert model.requests == ()
    assert isinstance(result, Completed)
    assert sorted(office.ran) == [("pay", 1), ("pay", 3)]
    assert len(model.requests) == 1
    epochs = [record.epoch for record in office.of(AttemptStarted, "c")]
    assert epochs == sorted(set(epochs))


async def test_answers_of_several_at_once(office: Office, autojump_clock: MockClock) -> None:
    agent, waiting = await suspended(office, TWO)
    async with office.kernel(agent, model=script(DONE), desk=AwayDesk()) as kernel:
        for request in reversed(waiting.requests):
            await kernel.answer(request.id, yes(request))
        assert isinstance(await kernel.resume(waiting), Completed)
    [resumed] = [b for b in office.batches("c") if b.epoch == waiting.epoch + 1 and b.id.endswith("/1")]
    # The answers are on record before they count (APPR-005).
    assert [type(record) for record in resumed.records] == [AttemptStarted, ApprovalDecided, ApprovalDecided]
    assert all(isinstance(r, ApprovalDecided) and r.source == "approver" for r in resumed.records[1:])
    assert office.inbox._answers == {}


async def test_a_stored_answer_is_the_first_one(office: Office, autojump_clock: MockClock) -> None:
    agent, waiting = await suspended(office)
    request = waiting.requests[0]
    async with office.kernel(agent, model=script(DONE)) as kernel:
        await kernel.answer(request.id, no(request))
        await kernel.answer(request.id, no(request))
        with pytest.raises(AlreadyAnswered):
            await kernel.answer(request.id, yes(request))
        assert isinstance(await kernel.resume(waiting), Failed)
    assert office.ran == []


def _void(waiting: Suspended) -> dict[str, tuple[RequestId, Decision]]:
    [request] = waiting.requests
    other = digest("triolet.arguments", b"other")
    return {
        "none": (RequestId("unasked"), yes()),
        "other request": (RequestId(request.id.replace("-1-0-", "-1-1-")), yes(request)),
        "other run": (RequestId(f"x{request.id}"), yes(request)),
        "other arguments": (request.id, yes(arguments=other)),
        "malformed edit": (request.id, yes(request, edited='{"amount": ')),
        "edit is no object": (request.id, yes(request, edited="[10]")),
        "edited denial": (request.id, attrs.evolve(no(request), edited=JsonText('{"amount": 1}'))),
    }


@pytest.mark.parametrize(
    "what",
    [
        "none",
        "other request",
        "other run",
        "other arguments",
        "malformed edit",
        "edit is no object",
        "edited denial",
    ],
)
async def test_an_answer_to_something_else_leaves_it_pending(
    office: Office, autojump_clock: MockClock, what: str
) -> None:
    agent, waiting = await suspended(office)
    async with office.kernel(agent, model=script(DONE), desk=AwayDesk()) as kernel:
        await kernel.answer(*_void(waiting)[what])
        again = suspension(await kernel.resume(waiting))
        assert again.requests == waiting.requests
        assert office.ran == []
        assert office.of(ApprovalDecided, "c") == []
        # A void answer has been looked at, and does not stand in the way of the right one.
        await kernel.answer(again.requests[0].id, yes(again.requests[0]))
        assert isinstance(await kernel.resume(again), Completed)
    assert office.ran == [("pay", 10)]


async def test_a_second_resume_is_a_conflict(office: Office, autojump_clock: MockClock) -> None:
    agent, waiting = await suspended(office, TWO)
    async with office.kernel(agent, model=script(DONE), desk=AwayDesk()) as kernel:
        again = suspension(await kernel.resume(waiting))
        for _ in range(2):
            with pytest.raises(NotSuspended):
                await kernel.resume(waiting)
        for request in again.requests:
            await kernel.answer(request.id, yes(request))
        assert isinstance(await kernel.resume(again), Completed)
        for stale in (waiting, again, attrs.evolve(again, epoch=Epoch(again.epoch + 1))):
            with pytest.raises(NotSuspended):
                await kernel.resume(stale)
        with pytest.raises(NotSuspended):
            await kernel.resume(attrs.evolve(waiting, run=type(waiting.run)("other")))
        with pytest.raises(NotSuspended):
            await kernel.resume(attrs.evolve(waiting, conversation=type(waiting.conversation)("nowhere")))
    assert issubclass(NotSuspended, Conflict)
    assert len(office.ran) == 2


@pytest.mark.parametrize("one_shot", [False, True])
async def test_of_two_that_resume_at_once_one_gets_a_conflict(
    office: Office, autojump_clock: MockClock, one_shot: bool
) -> None:
    agent = asker(office.counted())
    async with office.kernel(agent, model=script(PAY, DONE), desk=AwayDesk()) as kernel:
        if one_shot:
            waiting = suspension(await kernel.run(agent, "go"))
        else:
            async with kernel.conversation("c") as talk:
                waiting = suspension(await talk.run(agent, "go"))
        await kernel.answer(waiting.requests[0].id, yes())
        office.store.pauses = trio.lowlevel.checkpoint
        ends: list[object] = []

        async def resume() -> None:
            try:
                ends.append(await kernel.resume(waiting))
            except Conflict as error:
                ends.append(error)

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(resume)
    assert sorted(type(end) is Completed for end in ends) == [False, False, True]
    assert office.ran == [("pay", 10)]


async def test_whoever_loses_a_resume_loses_no_answer(office: Office, autojump_clock: MockClock) -> None:
    agent, waiting = await suspended(office, TWO)
    first, second = waiting.requests
    gate = trio.Event()

    class Gated(MemoryInbox):
        async def take(self, requests: tuple[RequestId, ...]) -> dict[RequestId, Decision]:
            await gate.wait()
            return await super().take(requests)

    late = Gated()
    late._answers = office.inbox._answers
    async with (
        office.kernel(agent, model=script(DONE), desk=AwayDesk()) as kernel,
        office.kernel(agent, model=script(DONE), desk=AwayDesk(), inbox=late) as rival,
        trio.open_nursery() as nursery,
    ):
        lost: list[Conflict] = []

        async def lose() -> None:
            with pytest.raises(Conflict) as caught:
                await rival.resume(waiting)
            lost.append(caught.value)

        nursery.start_soon(lose)
        await trio.testing.wait_all_tasks_blocked()
        await kernel.answer(first.id, yes(first))
        again = suspension(await kernel.resume(waiting))
        await kernel.answer(second.id, yes(second))
        gate.set()
        await trio.testing.wait_all_tasks_blocked()
        assert lost
        assert isinstance(await kernel.resume(again), Completed)
    assert sorted(office.ran) == [("pay", 1), ("pay", 2)]


async def test_an_answer_outlives_a_resume_that_could_not_record_it(office: Office, autojump_clock: MockClock) -> None:
    agent, waiting = await suspended(office)
    office.failing.fails = lambda _: True
    async with office.kernel(agent, model=script(), desk=AwayDesk()) as kernel:
        await kernel.answer(waiting.requests[0].id, yes())
        with pytest.raises(Gone):
            await kernel.resume(waiting)
    office.failing.fails = lambda _: False
    async with office.kernel(agent, model=script(DONE), desk=AwayDesk()) as kernel:
        assert isinstance(await kernel.resume(waiting), Completed)
    assert office.ran == [("pay", 10)]
    assert office.inbox._answers == {}


async def test_a_resumed_run_that_is_cancelled_leaves_nothing(office: Office, autojump_clock: MockClock) -> None:
    agent, waiting = await suspended(office, TWO)
    async with office.kernel(agent, model=script(DONE)) as kernel:
        await kernel.answer(waiting.requests[0].id, yes())
        with trio.move_on_after(5):
            await kernel.resume(waiting)
    assert office.settlement("c").reason == "cancelled"
    assert office.inbox._answers == {}
    assert office.desk.open == ()


async def test_an_agent_that_is_not_what_it_was_leaves_everything(office: Office, autojump_clock: MockClock) -> None:
    agent, waiting = await suspended(office)
    request = waiting.requests[0]
    changed: list[tuple[Any, type[Exception]]] = [
        (asker(office.counted(), seconds=299.0), DefinitionChanged),
        (asker(office.counted(risk="high")), DefinitionChanged),
        (talker(office.counted(), version="2"), DefinitionChanged),
        (talker(office.counted(), id="other"), UnknownAgent),
    ]
    for other, error in changed:
        async with office.kernel(other, model=script(DONE), desk=AwayDesk()) as kernel:
            with pytest.raises(error):
                await kernel.resume(waiting)
    async with office.kernel(agent, model=script(DONE), desk=AwayDesk()) as kernel:
        await kernel.answer(request.id, yes(request))
    for other, error in changed:
        before = office.records("c")
        async with office.kernel(other, model=script(DONE), desk=AwayDesk()) as kernel:
            with pytest.raises(error):
                await kernel.resume(waiting)
        assert office.records("c") == before
    async with office.kernel(agent, model=script(DONE), desk=AwayDesk()) as kernel:
        assert isinstance(await kernel.resume(waiting), Completed)
    assert office.ran == [("pay", 10)]
