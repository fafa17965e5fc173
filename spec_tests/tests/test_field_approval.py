"""Field cases F-024, F-025, F-027 and F-029: approvals that wait, come back, come in parts, and are given for more."""

from typing import Any

import attrs
import pytest
from trio.testing import MockClock

from tests.approval_world import AwayDesk, Gone, Office, asker, desk_that, no, suspension, terms_for, yes
from tests.kernel_world import script, shown_outcomes
from triolet.adapters.scripted_model import Turn, call, text, turn
from triolet.kernel import Completed, Failed, Suspended, UnknownAgent, tool
from triolet.ports.approval import request_id
from triolet.ports.batch import Batch
from triolet.ports.canonical import digest
from triolet.ports.identity import CallId, RequestId
from triolet.ports.outcomes import ToolRejected
from triolet.ports.records import ApprovalDecided, ApprovalRequested, ToolPrepared

DONE = turn(text("done"))


def pay(amount: int = 10) -> Turn:
    return turn(call("pay", {"amount": amount}))


@pytest.mark.parametrize("denial", ["terminal", "recoverable"])
async def test_f024_no_stored_yes_means_no_execution(office: Office, autojump_clock: MockClock, denial: Any) -> None:
    agent = asker(office.counted(), denial=denial)
    bound = office.kernel(agent, model=script(turn(call("pay"), call("pay"))), desk=AwayDesk())
    async with bound as kernel, kernel.conversation("other") as there, kernel.conversation("c") as talk:
        elsewhere = suspension(await there.run(agent, "go", model=script(pay())))
        waiting = suspension(await talk.run(agent, "go"))
    pending = waiting.requests
    stray: list[tuple[RequestId, Any]] = [
        (RequestId("nobody's"), yes()),
        (elsewhere.requests[0].id, yes(elsewhere.requests[0])),
        (pending[0].id, yes(arguments=digest("triolet.arguments", b"others"))),
    ]
    async with office.kernel(agent, model=script(), desk=AwayDesk()) as kernel:
        waiting = suspension(await kernel.resume(waiting))
        assert waiting.requests == pending
        for request, answer in stray:
            await kernel.answer(request, answer)
            waiting = suspension(await kernel.resume(waiting))
            assert waiting.requests == pending
    assert office.ran == []
    # A policy that came later does not take the need away, nor the denial back.
    lax = asker(office.counted(ask=False), denial=denial)
    assert lax.definition == agent.definition
    all_yes = desk_that(lambda request, _: yes(request))
    model = script(DONE, DONE)
    async with office.kernel(lax, model=model, desk=all_yes) as kernel:
        await kernel.answer(pending[0].id, no(pending[0], reason="never"))
        result = await kernel.resume(waiting)
        if denial == "terminal":
            assert isinstance(result, Failed)
            assert result.error.failure.code == "denied"
            assert office.ran == []
        else:
            assert isinstance(result, Completed)
            assert shown_outcomes(model.requests[0])[0] == ToolRejected(reason="denied", detail="never")
            assert office.ran == [("pay", 1)], "the second call was approved, and ran once"
        assert isinstance(await kernel.resume(elsewhere), Completed)


async def test_f024_a_need_that_was_stored_stays(office: Office, autojump_clock: MockClock) -> None:
    office.leave_open()
    agent = asker(office.counted())
    async with office.kernel(agent, model=script(pay()), desk=AwayDesk()) as kernel:
        waiting = suspension(await kernel.run(agent, "go"))
    lax = asker(office.counted(ask=False))
    async with office.kernel(lax, model=script(), desk=AwayDesk()) as kernel:
        assert suspension(await kernel.resume(waiting)).requests == waiting.requests
    assert office.ran == []


async def test_f024_what_was_approved_is_what_runs(office: Office, autojump_clock: MockClock) -> None:
    agent = asker(office.counted())
    async with office.kernel(agent, model=script(pay()), desk=AwayDesk()) as kernel:
        waiting = suspension(await kernel.run(agent, "go"))
    lax = asker(office.counted(ask=False))
    async with office.kernel(lax, model=script(DONE), desk=AwayDesk()) as kernel:
        await kernel.answer(waiting.requests[0].id, yes(waiting.requests[0], edited='{"amount": 5}'))
        assert isinstance(await kernel.resume(waiting), Completed)
    assert office.ran == [("pay", 5)]


async def test_f025_a_pending_approval_survives_its_kernel(office: Office, autojump_clock: MockClock) -> None:
    agent = asker(office.counted())
    async with (
        office.kernel(agent, model=script(pay()), desk=AwayDesk()) as kernel,
        kernel.conversation("c") as talk,
    ):
        before = suspension(await talk.run(agent, "go"))
    renamed = attrs.evolve(agent, id="renamed")
    records = office.records("c")
    async with office.kernel(renamed, model=script(), desk=AwayDesk()) as kernel:
        async with kernel.conversation("c") as talk:
            waiting = suspension(talk.suspended)
        with pytest.raises(UnknownAgent):
            await kernel.resume(waiting)
        await kernel.answer(waiting.requests[0].id, yes(waiting.requests[0]))
        with pytest.raises(UnknownAgent):
            await kernel.resume(waiting)
    assert office.records("c") == records
    assert office.ran == []
    assert waiting.requests == before.requests
    assert [record.request for record in office.of(ApprovalRequested, "c")] == list(waiting.requests)
    [request] = waiting.requests
    assert request.preview == '{"amount":10,"note":""}'
    # Everything but the store is new, and a desk that says no cannot hide the stored yes.
    contrary = desk_that(lambda asked, _: no(asked))
    async with office.kernel(asker(office.counted()), model=script(DONE), desk=contrary) as kernel:
        assert isinstance(await kernel.resume(waiting), Completed)
    assert office.ran == [("pay", 10)]


async def test_f027_nothing_of_a_batch_runs_before_all_of_it_is_decided(
    office: Office, autojump_clock: MockClock
) -> None:
    """A, B, C once each; D falls with its process before it starts, and nobody starts it or any other again."""
    dead = False

    def starts_d(batch: Batch) -> bool:
        nonlocal dead
        prepared = [c for record in batch.records if isinstance(record, ToolPrepared) for c in record.calls]
        dead = dead or any(c.endswith("-3") for c in prepared)
        return dead

    async def quick(name: str) -> str:
        office.ran.append((name, 1))
        return name

    def auto(name: str, **options: Any) -> Any:
        async def handler() -> str:
            """Auto."""
            return await quick(name)

        return tool(name=name, execution="idempotent", **options)(handler)

    # D shares a group of one with A, so that it cannot be prepared before A has run.
    tools = [
        auto("a", group="g"),
        auto("b", needs_approval=True),
        auto("c", needs_approval=True),
        auto("d", group="g"),
    ]
    agent = asker(*tools)
    batch = turn(call("a"), call("b"), call("c"), call("d"))
    async with office.kernel(agent, model=script(batch), desk=AwayDesk(), groups={"g": 1}) as kernel:
        async with kernel.conversation("c") as talk:
            waiting = suspension(await talk.run(agent, "go"))
        b, c = waiting.requests
        await kernel.answer(b.id, yes(b))
        waiting = suspension(await kernel.resume(waiting))
        assert waiting.requests == (c,)
        assert office.ran == []
        await kernel.answer(c.id, yes(c))
    model = script(DONE)
    office.failing.fails = starts_d
    async with office.kernel(agent, model=model, desk=AwayDesk(), groups={"g": 1}) as kernel:
        with pytest.raises(Gone):
            await kernel.resume(waiting)
    office.failing.fails = lambda _: False
    assert model.requests == ()
    ran = sorted(office.ran)
    assert ran == [("a", 1), ("b", 1), ("c", 1)]
    async with (
        office.kernel(agent, model=model, desk=AwayDesk(), groups={"g": 1}) as kernel,
        kernel.conversation("c") as talk,
    ):
        assert office.settlement("c").reason == "lost"
        assert isinstance(await talk.run(agent, "what now?"), Completed)
    assert sorted(office.ran) == ran


async def test_f027_each_call_runs_once_when_all_are_decided(office: Office, autojump_clock: MockClock) -> None:
    agent = asker(office.counted("auto", ask=False), office.counted())
    batch = turn(call("auto", {"amount": 1}), call("pay", {"amount": 2}), call("pay", {"amount": 3}))
    model = script(batch, DONE)
    async with office.kernel(agent, model=model, desk=AwayDesk()) as kernel:
        result: object = await kernel.resume(suspension(await kernel.run(agent, "go")))
        while isinstance(result, Suspended):
            assert office.ran == []
            assert len(model.requests) == 1
            await kernel.answer(result.requests[0].id, yes(result.requests[0]))
            result = await kernel.resume(result)
        assert isinstance(result, Completed)
    assert sorted(office.ran) == [("auto", 1), ("pay", 2), ("pay", 3)]
    assert len(model.requests) == 2


async def test_f029_a_yes_is_for_one_call_unless_it_says_otherwise(office: Office, autojump_clock: MockClock) -> None:
    agent = asker(office.counted(), office.counted("pay2"))
    desk = desk_that(lambda request, _: yes(request))
    same = turn(call("pay", {"amount": 10, "note": "n"}))
    keys = turn(call("pay", {"note": "n", "amount": 10}))
    async with (
        office.kernel(agent, model=script(same, same, DONE), desk=desk) as kernel,
        kernel.conversation("c") as talk,
    ):
        await talk.run(agent, "go")
        assert len(desk.asked) == 2, "once means once"
        assert talk.grants == ()
    giving = desk_that(lambda request, _: yes(request, grant=terms_for("conversation")))
    turns = [
        same,
        keys,
        turn(call("pay", {"amount": 11, "note": "n"})),
        turn(call("pay2", {"amount": 10, "note": "n"})),
    ]
    async with (
        office.kernel(agent, model=script(*turns, DONE), desk=giving) as kernel,
        kernel.conversation("c") as talk,
    ):
        await talk.run(agent, "go")
        assert [request.call[-3:] for request, _ in giving.asked] == ["1-0", "3-0", "4-0"]
        assert len(talk.grants) == 3
    asking = desk_that(lambda request, _: yes(request))
    async with (
        office.kernel(agent, model=script(same, DONE), desk=asking) as kernel,
        kernel.conversation("elsewhere") as there,
    ):
        await there.run(agent, "go")
        assert len(asking.asked) == 1
    async with (
        office.kernel(agent, model=script(keys, DONE, same, DONE), desk=asking) as kernel,
        kernel.conversation("c") as talk,
    ):  # after a restart, too
        await talk.run(agent, "go")
        assert len(asking.asked) == 1
        await talk.revoke(talk.grants[0].grant, reason="enough")
        await talk.run(agent, "go")
        assert len(asking.asked) == 2
    granted = [d for d in office.of(ApprovalDecided, "c") if d.source == "grant"]
    assert len(granted) == 2
    assert all(d.grant == f"{request_id(CallId('run2-1-0'))}-grant" for d in granted)
