"""How waiting for approval ends when the run ends another way: nothing stays at the desk, claimed, or unsealed."""

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.approval_world import (
    AwayDesk,
    FunctionDesk,
    Gone,
    Office,
    SlowInputs,
    asker,
    desk_that,
    inputs_on_record,
    no,
    shown,
    suspension,
    yes,
)
from tests.kernel_world import script
from tests.log_watch import LogWatch
from triolet.adapters.scripted_model import call, text, turn
from triolet.kernel import Completed, Failed, history_is_valid
from triolet.ports.approval import PENDING, ApprovalRequest, ApprovalUnavailable
from triolet.ports.identity import RequestId
from triolet.ports.records import ApprovalDecided

PAY = turn(call("pay", {"amount": 10}))
DONE = turn(text("done"))


@pytest.mark.parametrize("ending", ["approved", "denied", "deadline", "cancelled", "requested"])
async def test_nothing_stays_at_the_desk(office: Office, autojump_clock: MockClock, ending: str) -> None:
    agent = asker(office.counted(), seconds=None, limits={"max_seconds": 60.0})
    async with (
        office.kernel(agent, model=script(turn(call("pay"), call("pay")), DONE)) as kernel,
        trio.open_nursery() as nursery,
        kernel.conversation() as talk,
        talk.stream(agent, "go") as run,
    ):
        await office.desk.arrived(2)
        first, second = office.desk.requests
        office.desk.approve(second)
        match ending:
            case "approved":
                office.desk.approve(first)
            case "denied":
                office.desk.deny(first)
            case "requested":
                run.cancel()
            case "cancelled":
                nursery.cancel_scope.cancel()
            case _:
                await trio.sleep(61)
        await run.result()
    assert office.desk.open == ()
    assert set(office.desk.withdrawn) == {first.id, second.id}
    assert office.settlement().status == {"approved": "completed", "denied": "failed", "deadline": "failed"}.get(
        ending, "aborted"
    )
    assert len(office.ran) == (2 if ending == "approved" else 0)


async def test_a_suspended_request_stays_at_the_desk(office: Office, autojump_clock: MockClock) -> None:
    office.leave_open()
    agent, desk = asker(office.counted()), AwayDesk()
    async with office.kernel(agent, model=script(PAY, DONE), desk=desk) as kernel:
        suspension(await kernel.run(agent, "go"))
    assert desk.withdrawn == []


async def test_a_request_that_is_answered_elsewhere_leaves_the_desk(office: Office, autojump_clock: MockClock) -> None:
    agent = asker(office.counted(), seconds=5.0, silence="wait")
    async with office.kernel(agent, model=script(turn(call("pay"), call("pay")), DONE)) as kernel:
        waiting = suspension(await kernel.run(agent, "go"))
        first, second = office.desk.open
        await kernel.answer(first.id, yes(first))
        waiting = suspension(await kernel.resume(waiting))
        assert list(office.desk.open) == [second]
        await kernel.answer(second.id, yes(second))
        assert isinstance(await kernel.resume(waiting), Completed)
    assert office.desk.open == ()


@pytest.mark.parametrize("error", [ApprovalUnavailable(desk="d", problem="p"), RuntimeError("x")])
@pytest.mark.parametrize("verdict", ["approved", "denied"])
async def test_a_desk_that_cannot_forget_changes_no_run(
    office: Office, autojump_clock: MockClock, error: Exception, verdict: str
) -> None:
    class Keeping(AwayDesk):
        async def request(self, request: ApprovalRequest, *, patience: float) -> Any:
            await super().request(request, patience=patience)
            return yes(request) if verdict == "approved" else no(request)

        async def withdraw(self, request: RequestId) -> None:
            await super().withdraw(request)
            raise error

    agent, desk = asker(office.counted()), Keeping()
    async with office.kernel(agent, model=script(PAY, DONE), desk=desk) as kernel:
        result = await kernel.run(agent, "go")
    assert isinstance(result, Completed if verdict == "approved" else Failed)
    assert len(desk.withdrawn) == 1


async def test_a_desk_that_hangs_over_forgetting_is_left(office: Office, autojump_clock: MockClock) -> None:
    class Hanging(AwayDesk):
        async def request(self, request: ApprovalRequest, *, patience: float) -> Any:
            return yes(request)

        async def withdraw(self, request: RequestId) -> None:
            await trio.sleep_forever()

    agent = asker(office.counted())
    async with office.kernel(agent, model=script(PAY, DONE), desk=Hanging()) as kernel:
        assert isinstance(await kernel.run(agent, "go"), Completed)
    assert trio.current_time() < 20


async def test_a_desk_forgets_an_answer_only_once_it_is_on_record(office: Office, autojump_clock: MockClock) -> None:
    office.leave_open()
    agent = asker(office.counted())
    desk = desk_that(lambda request, patience: yes(request) if patience else PENDING)
    office.failing.fails = lambda batch: any(isinstance(record, ApprovalDecided) for record in batch.records)
    bound = office.kernel(agent, model=script(PAY, DONE), desk=desk)
    async with bound as kernel, kernel.conversation("c") as talk:
        with pytest.raises(Gone):
            await talk.run(agent, "go")
    assert desk.withdrawn == []
    assert office.ran == []


async def test_a_request_whose_time_was_up_before_a_resume_expires(office: Office, autojump_clock: MockClock) -> None:
    async def strict(_: ApprovalRequest, patience: float) -> Any:
        assert patience >= 0
        return PENDING

    agent, desk = asker(office.counted(), seconds=20.0), FunctionDesk(strict)
    async with office.kernel(agent, model=script(PAY, DONE), desk=desk) as kernel:
        waiting = suspension(await kernel.run(agent, "go"))
        await trio.sleep(30)
        assert isinstance(await kernel.resume(waiting), Failed)
    [decided] = office.of(ApprovalDecided)
    assert (decided.verdict, decided.source) == ("expired", "policy")
    assert decided.reason == "nobody answered in time"


class Stopper(trio.abc.Instrument):
    """Cancels a scope at the n-th step that any task takes."""

    def __init__(self, scope: trio.CancelScope, steps: int) -> None:
        self._scope = scope
        self._left = steps

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._left -= 1
        if self._left == 0:
            self._scope.cancel()


@pytest.mark.parametrize("steered", ["wait", "deny"])
async def test_cancelled_at_every_step(log_watch: LogWatch, autojump_clock: MockClock, steered: Any) -> None:
    stopped: list[str] = []
    for steps in range(1, 400):
        office = Office(log_watch)
        office.store.pauses = trio.lowlevel.checkpoint
        office.inputs = SlowInputs()
        scope = trio.CancelScope()
        stopper = Stopper(scope, steps)
        trio.lowlevel.add_instrument(stopper)
        agent = asker(office.counted(), office.counted("auto", ask=False), steered=steered)
        model = script(turn(call("auto"), call("pay")), DONE, DONE, DONE, DONE, DONE)
        async with office.kernel(agent, model=model) as kernel, kernel.conversation("c") as talk:
            with scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_approve_and_say, office, talk)
                    await talk.run(agent, "go")
            trio.lowlevel.remove_instrument(stopper)
            office.check()
            assert office.desk.open == ()
            assert history_is_valid(talk.history)
            assert [q.claimed for q in office.inputs._queues.values() if q.claimed] == []
            model = script(DONE, DONE, DONE, DONE)
            result = await talk.run(agent, "again", model=model)
            assert isinstance(result, Completed)
            said = [item for item in shown(model.requests[-1]) if item in ("S1", "S2", "F")]
            entered = [record.id for record in inputs_on_record(office.batches("c"))]
            assert len(entered) == len(set(entered))
            assert said == [said_ for said_ in ("S1", "S2", "F") if said_ in said]
            assert [q.waiting for q in office.inputs._queues.values() if q.waiting] == []
        stopped.append(office.of(ApprovalDecided, "c")[-1].verdict if office.of(ApprovalDecided, "c") else "before")
        if not scope.cancelled_caught:
            break
    else:
        pytest.fail("the sweep never came to an end")
    assert len(stopped) > 40
    assert {"before", "approved" if steered == "wait" else "denied"} <= set(stopped)


async def _approve_and_say(office: Office, talk: Any) -> None:
    await office.desk.arrived(1)
    await trio.sleep(1)
    await talk.follow_up("F")
    await talk.steer("S1")
    await talk.steer("S2")
    await trio.sleep(1)
    for request in office.desk.open:
        office.desk.approve(request)
