"""What a resumed run keeps, and how it ends."""

import pytest
import trio
from trio.testing import MockClock

from tests.approval_world import AwayDesk, FunctionDesk, Office, asker, desk_that, no, suspension, yes
from tests.kernel_world import START, script, talker
from tests.suspensions import DONE, PAY, TWO, suspended
from triolet.adapters.scripted_model import call, turn
from triolet.kernel import (
    Completed,
    ConversationBusy,
    Failed,
    InputRefused,
    MissingCapabilities,
    NotSuspended,
)
from triolet.ports.admission import Admitted
from triolet.ports.approval import PENDING, ApprovalRequest
from triolet.ports.identity import MICROSECONDS, RequestId
from triolet.ports.records import RunSettled


async def test_a_resumed_run_keeps_its_deadline(office: Office, autojump_clock: MockClock) -> None:
    agent, waiting = await suspended(office, silence="wait")
    assert waiting.requests[0].expires_at == START + 300 * MICROSECONDS

    async def hang(_: ApprovalRequest, patience: float) -> object:
        if patience:
            await trio.sleep_forever()
        return PENDING

    await trio.sleep(500)
    async with office.kernel(agent, model=script(DONE), desk=FunctionDesk(hang)) as kernel:
        again = suspension(await kernel.resume(waiting))
        assert trio.current_time() == pytest.approx(500, abs=0.1)
        await trio.sleep(101)
        await kernel.answer(again.requests[0].id, yes())
        result = await kernel.resume(again)
    assert isinstance(result, Failed)
    assert result.error.failure.dimension == "duration"
    assert office.ran == []


async def test_a_deadline_strikes_in_a_resumed_run(office: Office, autojump_clock: MockClock) -> None:
    agent = talker(office.counted())
    async with office.kernel(agent, model=script(PAY), desk=AwayDesk()) as kernel:
        waiting = suspension(await kernel.run(agent, "go"))
    await trio.sleep(400)
    began = trio.Event()
    async with office.kernel(agent, model=script(DONE.hanging(began)), desk=AwayDesk()) as kernel:
        await kernel.answer(waiting.requests[0].id, yes())
        result = await kernel.resume(waiting)
    assert isinstance(result, Failed)
    assert trio.current_time() == pytest.approx(600, abs=0.1)


async def test_suspended_twice(office: Office, autojump_clock: MockClock) -> None:
    agent = asker(office.counted())
    model = script(PAY, turn(call("pay", {"amount": 20})), DONE)
    async with office.kernel(agent, model=model, desk=AwayDesk()) as kernel:
        waiting = suspension(await kernel.run(agent, "go"))
        await kernel.answer(waiting.requests[0].id, yes())
        again = suspension(await kernel.resume(waiting))
        assert again.turns == 2
        assert again.requests[0].id != waiting.requests[0].id
        assert office.ran == [("pay", 10)]
        await kernel.answer(again.requests[0].id, yes())
        result = await kernel.resume(again)
    assert isinstance(result, Completed)
    assert (result.turns, result.usage.calls) == (3, 3)
    assert office.ran == [("pay", 10), ("pay", 20)]


async def test_a_run_of_its_own_is_dropped_only_when_it_has_settled(office: Office, autojump_clock: MockClock) -> None:
    agent = asker(office.counted())
    async with office.kernel(agent, model=script(TWO, DONE), desk=AwayDesk()) as kernel:
        waiting = suspension(await kernel.run(agent, "go"))
        assert waiting.one_shot
        await kernel.answer(waiting.requests[0].id, yes())
        waiting = suspension(await kernel.resume(waiting))
        assert office.store.deleted == []
        await kernel.answer(waiting.requests[0].id, yes())
        await kernel.resume(waiting)
        assert office.store.deleted == [waiting.conversation]
        with pytest.raises(NotSuspended):
            await kernel.resume(waiting)


async def test_a_streamed_run_of_its_own_is_kept_while_it_waits(office: Office, autojump_clock: MockClock) -> None:
    agent = asker(office.counted())
    async with office.kernel(agent, model=script(PAY, DONE), desk=AwayDesk()) as kernel:
        async with kernel.stream(agent, "go") as run:
            waiting = suspension(await run.result())
        assert office.store.alive() == [waiting.conversation]
        await kernel.answer(waiting.requests[0].id, yes())
        assert isinstance(await kernel.resume(waiting), Completed)
    assert office.store.alive() == []


async def test_the_handle_on_a_suspended_run(office: Office, autojump_clock: MockClock) -> None:
    agent, first = await suspended(office)
    async with office.kernel(agent, model=script(DONE, DONE, DONE), desk=AwayDesk()) as kernel:
        async with kernel.conversation("c") as talk:
            waiting = suspension(talk.suspended)
            assert waiting.requests == first.requests
            assert waiting.run == first.run
            with pytest.raises(ConversationBusy) as caught:
                await talk.run(agent, "more")
            assert caught.value.suspended
            with pytest.raises(ConversationBusy):
                async with talk.stream(agent, "more"):
                    pass
            assert isinstance(await talk.steer("S"), Admitted)
            assert isinstance(await talk.follow_up("F"), Admitted)
        assert isinstance(await talk.steer("S"), InputRefused)
        await kernel.answer(waiting.requests[0].id, yes())
        assert isinstance(await kernel.resume(waiting), Completed)
        async with kernel.conversation("c") as talk:
            assert talk.suspended is None
            assert isinstance(await talk.run(agent, "more"), Completed)
    [taken] = [r for r in office.records("c") if getattr(r, "source", "") == "steering"]
    assert taken.kind == "input_taken"


async def test_opening_a_conversation_does_not_lose_a_run_that_waits(office: Office, autojump_clock: MockClock) -> None:
    office.leave_open()
    agent, _ = await suspended(office)
    for _ in range(2):
        async with office.kernel(agent, model=script(), desk=AwayDesk()) as kernel, kernel.conversation("c") as talk:
            assert talk.suspended is not None
    assert office.of(RunSettled, "c") == []


async def test_a_desk_that_knows_now_answers_on_resume(office: Office, autojump_clock: MockClock) -> None:
    agent, waiting = await suspended(office)
    desk = desk_that(lambda request, _: yes(request))
    async with office.kernel(agent, model=script(DONE), desk=desk) as kernel:
        assert isinstance(await kernel.resume(waiting), Completed)
    assert [request for request, _ in desk.asked] == list(waiting.requests)


async def test_a_stored_answer_is_not_asked_for_again(office: Office, autojump_clock: MockClock) -> None:
    agent, waiting = await suspended(office)
    desk = desk_that(lambda request, _: no(request))
    async with office.kernel(agent, model=script(DONE), desk=desk) as kernel:
        await kernel.answer(waiting.requests[0].id, yes())
        assert isinstance(await kernel.resume(waiting), Completed)
    assert desk.asked == []


async def test_a_terminal_denial_among_stored_answers(office: Office, autojump_clock: MockClock) -> None:
    agent, waiting = await suspended(office, TWO)
    async with office.kernel(agent, model=script(), desk=AwayDesk()) as kernel:
        await kernel.answer(waiting.requests[0].id, no())
        await kernel.answer(waiting.requests[1].id, yes())
        assert isinstance(await kernel.resume(waiting), Failed)
    assert office.ran == []
    assert office.inbox._answers == {}


async def test_an_abort_of_a_resumed_run_settles_it(office: Office, autojump_clock: MockClock) -> None:
    agent, waiting = await suspended(office)
    model = script(DONE.failing(ZeroDivisionError("host")))
    async with office.kernel(agent, model=model, desk=AwayDesk()) as kernel:
        await kernel.answer(waiting.requests[0].id, yes())
        with pytest.raises(ZeroDivisionError):
            await kernel.resume(waiting)
    assert office.settlement("c").reason == "crashed"
    assert office.inbox._answers == {}


async def test_without_an_inbox_nothing_is_answered(office: Office, autojump_clock: MockClock) -> None:
    agent = asker(office.counted(ask=False))
    async with office.kernel(agent, model=script(DONE), inbox=None) as kernel:
        with pytest.raises(MissingCapabilities):
            await kernel.answer(RequestId("r"), yes())


async def test_preflight_names_what_asking_needs(office: Office, autojump_clock: MockClock) -> None:
    agent = asker(office.counted())
    with pytest.raises(MissingCapabilities) as caught:
        async with office.kernel(agent, model=script(), inbox=None, desk=None):
            pass
    assert caught.value.missing == (("approval", "tool pay"), ("inbox", "tool pay"))
