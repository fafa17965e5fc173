"""The held desk: a test says when and what, and the desk keeps the port's promises on Trio's clock."""

from contextlib import nullcontext

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.desk_samples import ANN, REQUEST, arguments, request
from triolet.adapters.approval_desks import HeldDesk, board
from triolet.adapters.approval_desks.held_desk import TESTER
from triolet.ports.approval import (
    PENDING,
    AlreadyAnswered,
    Approval,
    ApprovalRequest,
    ApprovalUnavailable,
    Decision,
    GrantTerms,
    Pending,
)
from triolet.ports.strict_json import JsonText

YES = Decision(verdict="approved", by=ANN, arguments=REQUEST.arguments)


class Asking:
    """A caller in the background, and when it heard what."""

    def __init__(self) -> None:
        self.heard: list[tuple[float, Decision | Pending]] = []
        self.refused = 0

    async def ask(self, desk: Approval, asked: ApprovalRequest, patience: float) -> None:
        try:
            answer = await desk.request(asked, patience=patience)
        except ApprovalUnavailable:
            self.refused += 1
        else:
            self.heard.append((trio.current_time(), answer))


def test_it_is_an_approval_desk() -> None:
    desk: Approval = HeldDesk()
    assert desk is not None


async def test_an_answer_wakes_whoever_waits_and_is_given_again(nursery: trio.Nursery) -> None:
    desk, asking = HeldDesk(), Asking()
    nursery.start_soon(asking.ask, desk, REQUEST, float("inf"))
    await desk.arrived(1)
    assert list(desk.open) == [REQUEST]
    assert asking.heard == []
    desk.answer(REQUEST.id, YES)
    await wait_all_tasks_blocked()
    assert [answer for _, answer in asking.heard] == [YES]
    assert not desk.open
    assert await desk.request(REQUEST, patience=0) == YES
    assert await desk.request(REQUEST, patience=9) == YES
    assert (len(desk.requests), desk.asked) == (1, 3)


async def test_patience_runs_on_trios_clock(autojump_clock: MockClock) -> None:
    desk, asking = HeldDesk(), Asking()
    began = trio.current_time()
    assert await desk.request(REQUEST, patience=0) == PENDING
    assert trio.current_time() == began
    async with trio.open_nursery() as nursery:
        nursery.start_soon(asking.ask, desk, REQUEST, 7.5)
        nursery.start_soon(asking.ask, desk, REQUEST, 20)
        await trio.sleep(10)
        desk.answer(REQUEST.id, YES)
    assert asking.heard == [(began + 7.5, PENDING), (began + 10, YES)]
    assert autojump_clock.current_time() == began + 10


async def test_answers_come_in_any_order(nursery: trio.Nursery) -> None:
    desk, first, second = HeldDesk(), Asking(), Asking()
    nursery.start_soon(first.ask, desk, request(1), float("inf"))
    await desk.arrived(1)
    nursery.start_soon(second.ask, desk, request(2), float("inf"))
    await desk.arrived(2)
    assert desk.open == (request(1), request(2))
    desk.deny(request(2), reason="no")
    await wait_all_tasks_blocked()
    assert first.heard == []
    [(_, denied)] = second.heard
    assert denied == Decision(
        verdict="denied",
        by=TESTER,
        reason="no",
        arguments=request(2).arguments,
    )
    grant = GrantTerms(scope="run")
    desk.approve(request(1), by=ANN, edited=JsonText("{}"), grant=grant)
    await wait_all_tasks_blocked()
    assert [answer for _, answer in first.heard] == [attrs.evolve(YES, edited=JsonText("{}"), grant=grant)]


async def test_an_answer_may_come_before_its_request() -> None:
    desk = HeldDesk()
    desk.answer(REQUEST.id, YES)
    desk.answer(REQUEST.id, YES)
    with pytest.raises(AlreadyAnswered):
        desk.answer(REQUEST.id, attrs.evolve(YES, verdict="denied"))
    assert desk.requests == []
    assert await desk.request(REQUEST, patience=0) == YES
    assert await desk.request(REQUEST, patience=0) == YES


async def test_the_first_answer_stands() -> None:
    desk = HeldDesk()
    await desk.request(REQUEST, patience=0)
    desk.answer(REQUEST.id, YES)
    desk.answer(REQUEST.id, YES)
    with pytest.raises(AlreadyAnswered):
        desk.deny(REQUEST)
    assert await desk.request(REQUEST, patience=0) == YES


async def test_other_arguments_are_another_request() -> None:
    desk = HeldDesk()
    await desk.request(REQUEST, patience=0)
    desk.answer(REQUEST.id, YES)
    changed = attrs.evolve(REQUEST, arguments=arguments("b"))
    assert await desk.request(changed, patience=0) == PENDING
    assert list(desk.open) == [changed]
    assert desk.requests == [REQUEST, changed]


async def test_whoever_waits_for_replaced_arguments_hears_pending(nursery: trio.Nursery) -> None:
    desk, asking = HeldDesk(), Asking()
    nursery.start_soon(asking.ask, desk, REQUEST, float("inf"))
    await desk.arrived(1)
    await desk.request(attrs.evolve(REQUEST, arguments=arguments("b")), patience=0)
    await wait_all_tasks_blocked()
    assert [answer for _, answer in asking.heard] == [PENDING]


async def test_withdrawing_takes_it_off_and_wakes_whoever_waits(nursery: trio.Nursery) -> None:
    desk, asking = HeldDesk(), Asking()
    nursery.start_soon(asking.ask, desk, REQUEST, float("inf"))
    await desk.arrived(1)
    for _ in range(2):
        await desk.withdraw(REQUEST.id)
    await wait_all_tasks_blocked()
    assert [answer for _, answer in asking.heard] == [PENDING]
    assert not desk.open
    assert desk.withdrawn == [REQUEST.id, REQUEST.id]
    assert await desk.request(REQUEST, patience=0) == PENDING
    assert list(desk.open) == [REQUEST]
    desk.answer(REQUEST.id, YES)
    await desk.withdraw(REQUEST.id)
    assert await desk.request(REQUEST, patience=0) == PENDING


async def test_a_cancelled_caller_leaves_its_request() -> None:
    desk = HeldDesk()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(Asking().ask, desk, REQUEST, float("inf"))
            await desk.arrived(1)
            scope.cancel()
    assert list(desk.open) == [REQUEST]
    desk.answer(REQUEST.id, YES)
    assert await desk.request(REQUEST, patience=0) == YES
    with trio.CancelScope() as scope:
        scope.cancel()
        await desk.request(request(2), patience=0)
    assert scope.cancelled_caught
    assert not desk.open
    assert desk.asked == 2
    with trio.CancelScope() as scope:
        scope.cancel()
        await desk.withdraw(REQUEST.id)
    assert (scope.cancelled_caught, desk.withdrawn) == (True, [])


@pytest.mark.parametrize("patience", [0, 5.0, float("inf")])
async def test_a_desk_that_fails_is_unavailable_until_it_recovers(nursery: trio.Nursery, patience: float) -> None:
    desk, waiting = HeldDesk(), Asking()
    await desk.request(request(2), patience=0)
    desk.answer(request(2).id, YES)
    nursery.start_soon(waiting.ask, desk, REQUEST, float("inf"))
    await desk.arrived(2)
    desk.fail("on fire")
    await wait_all_tasks_blocked()
    assert (waiting.refused, waiting.heard) == (1, [])
    for asked in (REQUEST, request(3)):
        with pytest.raises(ApprovalUnavailable, match="approval desk held is unavailable: on fire"):
            await desk.request(asked, patience=patience)
    # What is known is known.
    assert await desk.request(request(2), patience=patience) == YES
    desk.recover()
    assert list(desk.open) == [REQUEST]
    nursery.start_soon(waiting.ask, desk, REQUEST, float("inf"))
    await wait_all_tasks_blocked()
    desk.answer(REQUEST.id, YES)
    await wait_all_tasks_blocked()
    assert [answer for _, answer in waiting.heard] == [YES]


async def test_a_failure_that_was_over_at_once_is_waited_out(nursery: trio.Nursery) -> None:
    desk, asking = HeldDesk(), Asking()
    nursery.start_soon(asking.ask, desk, REQUEST, float("inf"))
    await desk.arrived(1)
    await wait_all_tasks_blocked()
    desk.fail("on fire")
    desk.recover()
    await wait_all_tasks_blocked()
    assert (asking.heard, asking.refused) == ([], 0)
    desk.answer(REQUEST.id, YES)
    await wait_all_tasks_blocked()
    assert [answer for _, answer in asking.heard] == [YES]


async def test_the_bounds_of_a_board(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board, "OPEN_REQUESTS", 2)
    monkeypatch.setattr(board, "KNOWN_ANSWERS", 1)
    desk = HeldDesk()
    for number in (1, 2, 3):
        full = pytest.raises(ApprovalUnavailable, match="2 requests wait") if number == 3 else nullcontext()
        with full:
            assert await desk.request(request(number), patience=0) == PENDING
    for number in (1, 2):
        desk.answer(request(number).id, YES)
    assert await desk.request(request(2), patience=0) == YES
    assert await desk.request(request(1), patience=0) == PENDING
