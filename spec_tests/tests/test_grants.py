"""Grants: which later calls an answer covers, for how long, and how it ends."""

from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.approval_world import BOSS, AwayDesk, FunctionDesk, Office, asker, desk_that, no, suspension, terms_for, yes
from tests.kernel_world import script
from triolet.adapters.scripted_model import Turn, call, text, turn
from triolet.kernel import Completed, ConversationBusy, UnknownGrant, tool
from triolet.ports.approval import GrantTerms
from triolet.ports.identity import GrantId, Principal
from triolet.ports.records import ApprovalDecided, GrantGiven, GrantRevoked

DONE = turn(text("done"))


def pay(amount: int = 10) -> Turn:
    return turn(call("pay", {"amount": amount}))


def giving(terms: GrantTerms) -> FunctionDesk:
    """A desk that says yes to everything, and gives this with it."""
    return desk_that(lambda request, _: yes(request, grant=terms))


async def test_a_grant_is_on_record_with_its_answer(office: Office, autojump_clock: MockClock) -> None:
    agent = asker(office.counted())
    async with (
        office.kernel(agent, model=script(pay(), DONE), desk=giving(terms_for("conversation"))) as kernel,
        kernel.conversation("c") as talk,
    ):
        await talk.run(agent, "go")
        [grant] = talk.grants
    [recorded] = office.of(GrantGiven, "c")
    [decided] = office.of(ApprovalDecided, "c")
    assert recorded == grant
    assert decided.grant == grant.grant
    assert (grant.tool, grant.scope, grant.run, grant.by, grant.targets) == ("pay", "conversation", None, BOSS, None)
    assert grant.arguments is not None
    [batch] = [b for b in office.batches("c") if recorded in b.records]
    assert decided in batch.records


async def test_a_runs_grant_ends_with_the_run(office: Office, autojump_clock: MockClock) -> None:
    agent = asker(office.counted())
    desk = giving(terms_for("run"))
    async with (
        office.kernel(agent, model=script(pay(), pay(), DONE, pay(), DONE), desk=desk) as kernel,
        kernel.conversation("c") as talk,
    ):
        await talk.run(agent, "go")
        assert len(desk.asked) == 1
        assert talk.grants == ()
        await talk.run(agent, "again")
        assert len(desk.asked) == 2
    assert len(office.ran) == 3


async def test_a_runs_grant_outlives_its_suspension(office: Office, autojump_clock: MockClock) -> None:
    agent = asker(office.counted())
    other = turn(call("pay", {"amount": 10}), call("pay", {"amount": 3}))
    async with office.kernel(agent, model=script(pay(), other, DONE), desk=AwayDesk()) as kernel:
        waiting = suspension(await kernel.run(agent, "go"))
        await kernel.answer(waiting.requests[0].id, yes(grant=terms_for("run")))
        waiting = suspension(await kernel.resume(waiting))
        assert [request.preview for request in waiting.requests] == ['{"amount":3,"note":""}']
        await kernel.answer(waiting.requests[0].id, yes())
        assert isinstance(await kernel.resume(waiting), Completed)


@pytest.mark.parametrize(("after", "asked"), [(29, 1), (30, 2), (31, 2)])
async def test_a_grant_ends_with_its_time(office: Office, autojump_clock: MockClock, after: int, asked: int) -> None:
    agent = asker(office.counted())
    desk = giving(terms_for("conversation", seconds=30.0))
    async with (
        office.kernel(agent, model=script(pay(), DONE, pay(), DONE), desk=desk) as kernel,
        kernel.conversation("c") as talk,
    ):
        await talk.run(agent, "go")
        await trio.sleep(after)
        await talk.run(agent, "again")
    assert len(desk.asked) == asked


@pytest.mark.parametrize("by_targets", [False, True])
async def test_a_grant_by_targets_covers_equal_targets_only(
    office: Office, autojump_clock: MockClock, by_targets: bool
) -> None:
    agent = asker(office.counted(targets=lambda given: (given.note,) if given.note else ()))
    desk = giving(terms_for("conversation", by_targets=by_targets))

    def to(note: str, amount: int) -> Turn:
        return turn(call("pay", {"amount": amount, "note": note}))

    turns = [to("ann", 1), to("ann", 2), to("bob", 1), to("", 1), to("", 2), to("", 1)]
    async with (
        office.kernel(agent, model=script(*turns, DONE), desk=desk) as kernel,
        kernel.conversation("c") as talk,
    ):
        await talk.run(agent, "go")
    asked = [request.call.split("-")[1] for request, _ in desk.asked]
    # Without targets there is nothing to match by but the arguments: the tool's name alone never covers a call.
    assert asked == (["1", "3", "4", "5"] if by_targets else ["1", "2", "3", "4", "5"])


async def test_a_grant_is_its_principals(office: Office, autojump_clock: MockClock) -> None:
    agent = asker(office.counted())
    desk = giving(terms_for("conversation"))
    for name in ("ann", "bob", "ann"):
        async with (
            office.kernel(agent, model=script(pay(), DONE), desk=desk) as kernel,
            kernel.conversation("c", principal=Principal(name=name)) as talk,
        ):
            await talk.run(agent, "go")
    assert [request.principal.name for request, _ in desk.asked] == ["ann", "bob"]


async def test_a_denial_gives_nothing(office: Office, autojump_clock: MockClock) -> None:
    agent = asker(office.counted(), denial="recoverable")
    desk = desk_that(lambda request, _: attrs.evolve(no(request), grant=terms_for("conversation")))
    async with office.kernel(agent, model=script(pay(), DONE), desk=desk) as kernel, kernel.conversation("c") as talk:
        await talk.run(agent, "go")
        assert talk.grants == ()
    assert office.of(GrantGiven, "c") == []


async def test_silence_gives_nothing(office: Office, autojump_clock: MockClock) -> None:
    agent = asker(office.counted(), silence="approve", seconds=1.0)
    async with office.kernel(agent, model=script(pay(), pay(), DONE)) as kernel, kernel.conversation("c") as talk:
        await talk.run(agent, "go")
        assert talk.grants == ()
    assert len(office.desk.requests) == 2


async def test_equal_calls_of_one_batch_are_each_asked_about(office: Office, autojump_clock: MockClock) -> None:
    agent = asker(office.counted())
    desk = giving(terms_for("conversation"))
    twice = turn(call("pay"), call("pay"))
    async with (
        office.kernel(agent, model=script(twice, twice, DONE), desk=desk) as kernel,
        kernel.conversation("c") as talk,
    ):
        await talk.run(agent, "go")
        assert len(talk.grants) == 2
    assert len(desk.asked) == 2, "the first batch was asked about before anything was granted"
    assert len(office.ran) == 4


async def test_a_grant_covers_what_is_decoded_not_how_it_is_written(office: Office, autojump_clock: MockClock) -> None:
    agent = asker(office.counted())
    desk = giving(terms_for("conversation"))
    spelt: list[Any] = [{"note": "n"}, {"note": "n", "amount": 1}, {"amount": 1, "note": "n"}]
    turns = [turn(call("pay", arguments)) for arguments in spelt]
    async with (
        office.kernel(agent, model=script(*turns, DONE), desk=desk) as kernel,
        kernel.conversation("c") as talk,
    ):
        await talk.run(agent, "go")
    assert len(desk.asked) == 1


async def test_a_grant_covers_no_other_agents_tool(office: Office, autojump_clock: MockClock) -> None:
    """Two agents may have different tools of one name: what was granted for the one says nothing of the other."""

    @tool(name="pay", needs_approval=True)
    async def other(amount: int = 1, note: str = "") -> str:
        """Something else of the same name."""
        return "other"

    first, second = asker(office.counted()), attrs.evolve(asker(other), id="second")
    desk = giving(terms_for("conversation"))
    async with (
        office.kernel(first, second, model=script(pay(), DONE, pay(), DONE), desk=desk) as kernel,
        kernel.conversation("c") as talk,
    ):
        await talk.run(first, "go")
        await talk.run(second, "go")
    assert [request.agent for request, _ in desk.asked] == ["talker", "second"]


async def test_revoking(office: Office, autojump_clock: MockClock) -> None:
    agent = asker(office.counted())
    desk = giving(terms_for("conversation"))
    ann = Principal(name="ann")
    async with (
        office.kernel(agent, model=script(pay(), DONE), desk=desk) as kernel,
        kernel.conversation("c", principal=ann) as talk,
    ):
        with pytest.raises(UnknownGrant):
            await talk.revoke(GrantId("none"), reason="")
        await talk.run(agent, "go")
        [grant] = talk.grants
        await talk.revoke(grant.grant, reason="enough")
        assert talk.grants == ()
        with pytest.raises(UnknownGrant):
            await talk.revoke(grant.grant, reason="again")
    assert office.of(GrantRevoked, "c") == [GrantRevoked(grant=grant.grant, by=ann, reason="enough")]


async def test_revoking_during_a_run_is_refused_and_while_it_waits_is_not(
    office: Office, autojump_clock: MockClock
) -> None:
    agent = asker(office.counted())
    desk = giving(terms_for("conversation"))
    async with (
        office.kernel(agent, model=script(pay(), DONE), desk=desk) as kernel,
        kernel.conversation("c") as talk,
    ):
        await talk.run(agent, "go")
    async with (
        office.kernel(agent, model=script(pay(20))) as kernel,
        kernel.conversation("c") as talk,
        talk.stream(agent, "busy") as run,
    ):
        await office.desk.arrived(1)
        with pytest.raises(ConversationBusy):
            await talk.revoke(talk.grants[0].grant, reason="now")
        run.cancel()
        await run.result()
    async with office.kernel(agent, model=script(pay(30), pay(), DONE), desk=AwayDesk()) as kernel:
        async with kernel.conversation("c") as talk:
            waiting = suspension(await talk.run(agent, "go"))
            await talk.revoke(talk.grants[0].grant, reason="meanwhile")
            assert talk.suspended == waiting
        await kernel.answer(waiting.requests[0].id, yes())
        again = suspension(await kernel.resume(waiting))
        assert again.requests[0].preview == '{"amount":10,"note":""}'
        await kernel.answer(again.requests[0].id, yes())
        assert isinstance(await kernel.resume(again), Completed)


async def test_a_grant_that_stood_when_it_was_asked_still_needs_nothing(
    office: Office, autojump_clock: MockClock
) -> None:
    """What a grant has answered is answered: revoking it later takes nothing back that is decided."""
    agent = asker(office.counted())
    desk = giving(terms_for("conversation"))
    mixed = turn(call("pay"), call("pay", {"amount": 2}))
    async with (
        office.kernel(agent, model=script(turn(call("pay")), DONE), desk=desk) as kernel,
        kernel.conversation("c") as talk,
    ):
        await talk.run(agent, "go")
    async with office.kernel(agent, model=script(mixed, DONE), desk=AwayDesk()) as kernel:
        async with kernel.conversation("c") as talk:
            waiting = suspension(await talk.run(agent, "go"))
            assert len(waiting.requests) == 1
            await talk.revoke(talk.grants[0].grant, reason="meanwhile")
        await kernel.answer(waiting.requests[0].id, yes())
        assert isinstance(await kernel.resume(waiting), Completed)
    assert len(office.ran) == 3
