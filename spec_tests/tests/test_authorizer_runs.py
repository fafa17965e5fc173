"""An authorizer in a run: asked about each call of a batch before any starts, and again whenever it goes on."""

from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.approval_world import AwayDesk, Office, asker, desk_that, no, suspension, yes
from tests.kernel_world import script, shown_outcomes
from triolet.adapters.authorizers import RecordingAuthorizer
from triolet.adapters.scripted_model import call, text, turn
from triolet.kernel import Completed, DeniedError, Failed, Suspended
from triolet.ports.authorizer import Allow, CallTool, Deny, NeedsApproval
from triolet.ports.canonical import digest, encode
from triolet.ports.identity import Principal, TenantId
from triolet.ports.outcomes import ToolDefect, ToolInvalidInput, ToolRejected, ToolSuccess
from triolet.ports.records import ApprovalDecided, ApprovalRequested, CallsDecided

ANN = Principal(name="ann", tenant=TenantId("acme"))
DONE = turn(text("done"))
THREE = turn(*(call("pay", {"amount": amount}) for amount in (1, 2, 3)))


def by_amount(office: Office, **answers: Any) -> RecordingAuthorizer:
    """An authorizer that answers by the call's place in its batch; what is not named is allowed."""

    def answer(action: Any, _: Principal) -> Any:
        given = answers.get(f"call{action.call[-1]}", Allow())
        return given() if callable(given) else given

    office.authorizer = authority = RecordingAuthorizer(answer)
    return authority


async def test_an_action_says_all_about_a_call(office: Office, autojump_clock: MockClock) -> None:
    authority = by_amount(office)
    pay = office.counted(ask=False, risk="high", execution="idempotent", targets=lambda given: (given.note, "bank"))
    agent = asker(pay)
    model = script(turn(call("pay", {"note": "ann", "amount": 4})), DONE)
    async with office.kernel(agent, model=model) as kernel:
        result = await kernel.run(agent, "go", principal=ANN)
    [(action, principal)] = authority.asked
    assert principal == ANN
    assert isinstance(action, CallTool)
    assert action == CallTool(
        run=result.run,
        conversation=result.conversation,
        agent=agent.id,
        call=action.call,
        tool="pay",
        execution="idempotent",
        risk="high",
        targets=("ann", "bank"),
        arguments=digest("triolet.arguments", encode({"amount": 4, "note": "ann"})),
    )


async def test_a_terminal_denial_starts_nothing_and_is_not_retried(office: Office, autojump_clock: MockClock) -> None:
    authority = by_amount(office, call1=Deny(reason="not yours"))
    agent = asker(office.counted(ask=False))
    async with office.kernel(agent, model=script(THREE)) as kernel:
        result = await kernel.run(agent, "go")
    assert isinstance(result, Failed)
    assert isinstance(result.error, DeniedError)
    assert "not yours" not in str(result.error)
    assert office.ran == []
    assert len(authority.asked) == 3
    assert office.outcomes() == [
        ToolDefect(reason="cancelled", effect_possible=False),
        ToolRejected(reason="denied", detail="not yours"),
        ToolDefect(reason="cancelled", effect_possible=False),
    ]
    assert office.of(CallsDecided) == []


async def test_a_recoverable_denial_is_the_calls_visible_result(office: Office, autojump_clock: MockClock) -> None:
    by_amount(office, call1=Deny(reason="not yours", recoverable=True))
    agent = asker(office.counted(ask=False))
    model = script(THREE, DONE)
    async with office.kernel(agent, model=model) as kernel:
        assert isinstance(await kernel.run(agent, "go"), Completed)
    assert sorted(office.ran) == [("pay", 1), ("pay", 3)]
    assert shown_outcomes(model.requests[1])[1] == ToolRejected(reason="denied", detail="not yours")


async def test_a_terminal_denial_outweighs_recoverable_ones_and_requests(
    office: Office, autojump_clock: MockClock
) -> None:
    by_amount(office, call0=Deny(reason="a", recoverable=True), call1=NeedsApproval(reason="b"), call2=Deny(reason="c"))
    desk = AwayDesk()
    agent = asker(office.counted(ask=False))
    async with office.kernel(agent, model=script(THREE), desk=desk) as kernel:
        assert isinstance(await kernel.run(agent, "go"), Failed)
    assert desk.asked == []
    assert office.of(ApprovalRequested) == []


async def test_authority_may_ask_for_an_approval_that_the_tool_does_not(
    office: Office, autojump_clock: MockClock
) -> None:
    by_amount(office, call1=NeedsApproval(reason="large"))
    agent = asker(office.counted(ask=False))
    async with office.kernel(agent, model=script(THREE, DONE)) as kernel, trio.open_nursery() as nursery:
        nursery.start_soon(kernel.run, agent, "go")
        await office.desk.arrived(1)
        assert office.ran == []
        office.desk.approve(office.desk.requests[0])
    assert sorted(office.ran) == [("pay", 1), ("pay", 2), ("pay", 3)]
    assert [record.request.call[-1] for record in office.of(ApprovalRequested)] == ["1"]


async def test_authority_is_asked_about_what_is_understood_only(office: Office, autojump_clock: MockClock) -> None:
    authority = by_amount(office)
    agent = asker(office.counted(ask=False))
    batch = turn(call("pay", {"amount": "x"}), call("none"), call("pay"))
    async with office.kernel(agent, model=script(batch, DONE)) as kernel:
        assert isinstance(await kernel.run(agent, "go"), Completed)
    assert [action.call[-1] for action, _ in authority.asked if isinstance(action, CallTool)] == ["2"]
    bad, unknown, good = office.outcomes()
    assert isinstance(bad, ToolInvalidInput)
    assert isinstance(unknown, ToolInvalidInput)
    assert isinstance(good, ToolSuccess)


async def test_authority_comes_before_the_approver(office: Office, autojump_clock: MockClock) -> None:
    by_amount(office, call0=Deny(reason="never", recoverable=True))
    desk = desk_that(lambda request, _: yes(request))
    agent = asker(office.counted())
    async with office.kernel(agent, model=script(turn(call("pay")), DONE), desk=desk) as kernel:
        assert isinstance(await kernel.run(agent, "go"), Completed)
    assert desk.asked == []
    assert office.ran == []


@pytest.mark.parametrize(
    "later", [Allow(), Deny(reason="r", recoverable=True), Deny(reason="t"), NeedsApproval(reason="n")]
)
async def test_authority_is_asked_again_on_resume(office: Office, autojump_clock: MockClock, later: Any) -> None:
    authority = by_amount(office)
    agent = asker(office.counted("auto", ask=False), office.counted())
    batch = turn(call("auto"), call("pay", {"amount": 5}))
    async with office.kernel(agent, model=script(batch), desk=AwayDesk()) as kernel:
        waiting = suspension(await kernel.run(agent, "go", principal=ANN))
    first = list(authority.asked)
    authority.asked.clear()
    authority.answer = lambda action, _: later if getattr(action, "tool", "") == "pay" else Allow()
    async with office.kernel(agent, model=script(DONE), desk=AwayDesk()) as kernel:
        await kernel.answer(waiting.requests[0].id, yes(waiting.requests[0]))
        result = await kernel.resume(waiting)
    assert authority.asked == first, "the same actions, on the same authority"
    terminal = later == Deny(reason="t")
    assert isinstance(result, Failed if terminal else Completed)
    # A yes is on record, so authority's wish for one is met; a denial stands over any yes.
    runs = [] if terminal else [("auto", 1)] if isinstance(later, Deny) else [("auto", 1), ("pay", 5)]
    assert sorted(office.ran) == runs


async def test_a_call_that_needed_nobody_may_need_somebody_on_resume(office: Office, autojump_clock: MockClock) -> None:
    authority = by_amount(office)
    agent = asker(office.counted("auto", ask=False), office.counted())
    async with office.kernel(agent, model=script(turn(call("auto"), call("pay")), DONE), desk=AwayDesk()) as kernel:
        waiting = suspension(await kernel.run(agent, "go"))
        authority.answer = lambda _, __: NeedsApproval(reason="now")
        await kernel.answer(waiting.requests[0].id, yes())
        again = suspension(await kernel.resume(waiting))
        assert [request.tool for request in again.requests] == ["auto"]
        assert office.ran == []
        await kernel.answer(again.requests[0].id, yes())
        assert isinstance(await kernel.resume(again), Completed)
    assert sorted(office.ran) == [("auto", 1), ("pay", 1)]


async def test_edited_input_is_authorized_anew(office: Office, autojump_clock: MockClock) -> None:
    def answer(action: Any, _: Principal) -> Any:
        return Deny(reason="too much") if action.targets == ("100",) else Allow()

    office.authorizer = authority = RecordingAuthorizer(answer)
    agent = asker(office.counted(targets=lambda given: (str(given.amount),)))
    desk = desk_that(lambda request, _: yes(request, edited='{"amount": 100}'))
    async with office.kernel(agent, model=script(turn(call("pay")), DONE), desk=desk) as kernel:
        assert isinstance(await kernel.run(agent, "go"), Failed)
    assert office.ran == []
    one, other = (action for action, _ in authority.asked if isinstance(action, CallTool))
    assert one.call == other.call
    assert one.arguments != other.arguments


async def test_a_denied_call_is_denied_whatever_authority_says(office: Office, autojump_clock: MockClock) -> None:
    by_amount(office)
    agent = asker(office.counted(), denial="recoverable")
    desk = desk_that(lambda request, _: no(request))
    async with office.kernel(agent, model=script(turn(call("pay")), DONE), desk=desk) as kernel:
        assert isinstance(await kernel.run(agent, "go"), Completed)
    assert office.ran == []
    assert office.outcomes() == [ToolRejected(reason="denied", detail="no reason was given")]


async def test_an_authorizer_that_cannot_be_asked_fails_the_run(office: Office, autojump_clock: MockClock) -> None:
    authority = by_amount(office)
    authority.problem = "down"
    agent = asker(office.counted(ask=False))
    async with office.kernel(agent, model=script(THREE)) as kernel:
        result = await kernel.run(agent, "go")
    assert isinstance(result, Failed)
    assert result.error.failure.code == "denied"
    assert office.ran == []


def _raise() -> Any:
    raise ZeroDivisionError("secret")


@pytest.mark.parametrize("broken", [_raise, lambda: None, lambda: True, lambda: "allow", lambda: Allow])
@pytest.mark.parametrize("ask", [False, True])
async def test_an_authorizer_that_breaks_or_babbles_allows_nothing(
    office: Office, autojump_clock: MockClock, broken: Callable[[], Any], ask: bool
) -> None:
    by_amount(office, call1=broken)
    agent = asker(office.counted(ask=ask))
    desk = desk_that(lambda request, _: yes(request))
    async with office.kernel(agent, model=script(THREE, DONE), desk=desk) as kernel:
        assert isinstance(await kernel.run(agent, "go"), Completed)
    assert sorted(office.ran) == [("pay", 1), ("pay", 3)]
    [_, defect, _] = office.outcomes()
    assert isinstance(defect, ToolDefect)
    assert (defect.reason, defect.effect_possible) == ("exception", False)


@pytest.mark.parametrize("recoverable", [False, True])
async def test_a_reason_with_broken_text_breaks_no_run(
    office: Office, autojump_clock: MockClock, recoverable: bool
) -> None:
    by_amount(office, call1=Deny(reason="no\ud800 way\0", recoverable=recoverable))
    agent = asker(office.counted(ask=False))
    async with office.kernel(agent, model=script(THREE, DONE)) as kernel:
        assert isinstance(await kernel.run(agent, "go"), Completed if recoverable else Failed)
    assert ToolRejected(reason="denied", detail="no\ufffd way\ufffd") in office.outcomes()


@pytest.mark.parametrize(
    "targets",
    [
        lambda _: "text",
        lambda _: None,
        lambda _: (1,),
        lambda _: ("x" * 1_001,),
        lambda _: tuple(map(str, range(101))),
        lambda given: given.nothing,
    ],
)
async def test_targets_that_are_none_start_nothing(
    office: Office, autojump_clock: MockClock, targets: Callable[[Any], Any]
) -> None:
    authority = by_amount(office)
    desk = AwayDesk()
    agent = asker(office.counted(targets=targets), office.counted("fine", ask=False))
    async with office.kernel(agent, model=script(turn(call("pay"), call("fine")), DONE), desk=desk) as kernel:
        assert isinstance(await kernel.run(agent, "go"), Completed)
    assert [action.tool for action, _ in authority.asked if isinstance(action, CallTool)] == ["fine"]
    assert desk.asked == []
    assert office.ran == [("fine", 1)]


async def test_a_run_cancelled_while_authority_ponders_starts_nothing(
    office: Office, autojump_clock: MockClock
) -> None:
    class Slow(RecordingAuthorizer):
        async def authorize(self, action: Any, principal: Principal) -> Any:
            await super().authorize(action, principal)
            await trio.sleep_forever()

    office.authorizer = Slow()
    agent = asker(office.counted(ask=False), limits={"max_seconds": 10.0})
    async with office.kernel(agent, model=script(THREE)) as kernel, kernel.conversation("c") as talk:
        with trio.move_on_after(5):
            await talk.run(agent, "go")
        assert office.settlement("c").reason == "cancelled"
        result = await talk.run(agent, "go", model=script(THREE))
        assert isinstance(result, Failed)
        assert result.error.failure.dimension == "duration"
    assert office.ran == []


async def test_nothing_authority_said_is_remembered(office: Office, autojump_clock: MockClock) -> None:
    office.leave_open()
    authority = by_amount(office)
    agent = asker(office.counted())
    async with office.kernel(agent, model=script(turn(call("pay"))), desk=AwayDesk()) as kernel:
        waiting = suspension(await kernel.run(agent, "go"))
        # A resume without answers judges nothing: nothing could start yet.
        asked = len(authority.asked)
        assert isinstance(await kernel.resume(waiting), Suspended)
        assert len(authority.asked) == asked
    assert office.of(ApprovalDecided) == []
