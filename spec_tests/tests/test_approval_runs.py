"""Approval inside one run: what is asked, what an answer does, and that nothing starts before all are decided."""

import json
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.approval_world import BOSS, AwayDesk, FunctionDesk, Office, asker, desk_that, no, terms_for, yes
from tests.kernel_world import START, script, shown_outcomes
from triolet.adapters.scripted_model import call, text, turn
from triolet.kernel import Completed, DeniedError, Failed, Suspended, tool
from triolet.ports.approval import PENDING, ApprovalRequest, ApprovalUnavailable, Decision
from triolet.ports.canonical import digest, encode
from triolet.ports.identity import MICROSECONDS, Principal, TenantId
from triolet.ports.outcomes import ToolInvalidInput, ToolRejected, ToolSuccess
from triolet.ports.records import ApprovalDecided, ApprovalRequested, CallsDecided, ModelResponded, ToolPrepared

PAY = turn(call("pay", {"amount": 10}))
DONE = turn(text("done"))


async def test_a_request_carries_everything_that_an_approver_needs(office: Office, autojump_clock: MockClock) -> None:
    @tool(
        needs_approval=True,
        risk="high",
        targets=lambda given: (f"iban:{given.iban}", "bank:x", "bank:x"),
        redact=lambda given: {**given, "pin": "***"} if isinstance(given, dict) else given,
    )
    async def transfer(iban: str, pin: str) -> str:
        """Transfer."""
        return "sent"

    agent = asker(transfer, seconds=60.0, denial="recoverable")
    ann = Principal(name="ann", tenant=TenantId("acme"))
    desk = desk_that(lambda request, _: yes(request))
    model = script(turn(call("transfer", {"pin": "1234", "iban": "DE1"})), DONE)
    async with office.kernel(agent, model=model, desk=desk) as kernel:
        result = await kernel.run(agent, "go", principal=ann)
    [(request, patience)] = desk.asked
    expected = ApprovalRequest(
        id=request.id,
        run=result.run,
        conversation=result.conversation,
        agent=agent.id,
        call=request.call,
        tool="transfer",
        principal=ann,
        summary="talker wants to run transfer",
        targets=("bank:x", "iban:DE1"),
        risk="high",
        preview='{"iban":"DE1","pin":"***"}',
        arguments=digest("triolet.arguments", encode({"iban": "DE1", "pin": "1234"})),
        expires_at=request.expires_at,
        denial="recoverable",
    )
    assert request == expected
    assert patience == 0
    assert request.expires_at == START + 60 * MICROSECONDS
    batches = next(iter(office.store.logs.values()))
    [asked] = [r for batch in batches for r in batch.records if isinstance(r, ApprovalRequested)]
    [prepared] = [r for batch in batches for r in batch.records if isinstance(r, ToolPrepared)]
    assert asked.request == request
    assert prepared.calls == (request.call,)  # one identity all the way (TOOL-001)


async def test_a_preview_is_cut_and_says_so(office: Office, autojump_clock: MockClock) -> None:
    agent = asker(office.counted())
    desk = desk_that(lambda request, _: yes(request))
    model = script(turn(call("pay", {"note": "x" * 5_000})), DONE)
    async with office.kernel(agent, model=model, desk=desk) as kernel:
        await kernel.run(agent, "go")
    [(request, _)] = desk.asked
    cut, _, said = request.preview.partition("… ")
    assert len(cut) == 2_000
    assert said == f"({len(json.dumps({'amount': 1, 'note': 'x' * 5_000}, separators=(',', ':')))} characters)"


@pytest.mark.parametrize(
    ("own", "run", "expected"),
    [(60.0, 600.0, 60), (600.0, 60.0, 60), (None, 90.0, 90), (45.0, None, 45), (None, None, None)],
)
async def test_a_request_expires_with_whatever_ends_first(
    office: Office, autojump_clock: MockClock, own: float | None, run: float | None, expected: int | None
) -> None:
    agent = asker(office.counted(), seconds=own, limits={"max_seconds": run})
    desk = desk_that(lambda request, _: yes(request))
    async with office.kernel(agent, model=script(PAY, DONE), desk=desk) as kernel:
        await kernel.run(agent, "go")
    [(request, _)] = desk.asked
    assert request.expires_at == (None if expected is None else START + expected * MICROSECONDS)


async def test_an_answer_that_is_there_commits_in_one_batch_with_its_request(
    office: Office, autojump_clock: MockClock
) -> None:
    agent = asker(office.counted())
    desk = desk_that(lambda request, _: yes(request))
    model = script(turn(call("pay"), call("pay", {"amount": 2})), DONE)
    async with office.kernel(agent, model=model, desk=desk) as kernel:
        await kernel.run(agent, "go")
    [asking] = [b for b in office.batches() if any(isinstance(r, ApprovalRequested) for r in b.records)]
    kinds = [type(record) for record in asking.records]
    assert kinds.count(ApprovalRequested) == 2
    assert kinds.count(ApprovalDecided) == 2
    assert len(office.of(ApprovalDecided)) == 2


async def test_a_request_is_on_record_before_anybody_is_waited_for(office: Office, autojump_clock: MockClock) -> None:
    agent = asker(office.counted())
    async with office.kernel(agent, model=script(PAY, DONE)) as kernel, trio.open_nursery() as nursery:
        nursery.start_soon(kernel.run, agent, "go")
        await trio.testing.wait_all_tasks_blocked()
        [request] = office.desk.open
        assert [asked.request for asked in office.of(ApprovalRequested)] == [request]
        assert office.of(ApprovalDecided) == []
        await trio.sleep(30)
        office.desk.approve(request, by=BOSS, reason="fine")
    [decided] = office.of(ApprovalDecided)
    assert attrs.asdict(decided, recurse=False) == {
        "request": request.id,
        "call": request.call,
        "verdict": "approved",
        "source": "approver",
        "by": BOSS,
        "decided_at": START + 30 * MICROSECONDS,
        "reason": "fine",
        "edited": None,
        "grant": None,
    }
    assert office.ran == [("pay", 10)]
    assert office.desk.open == ()


@pytest.mark.parametrize("denial", ["terminal", "recoverable"])
async def test_a_denial(office: Office, autojump_clock: MockClock, denial: Any) -> None:
    agent = asker(office.counted(), denial=denial)
    desk = desk_that(lambda request, _: no(request, reason="too much"))
    model = script(PAY, DONE)
    async with office.kernel(agent, model=model, desk=desk) as kernel:
        result = await kernel.run(agent, "go")
    assert office.ran == []
    assert office.outcomes() == [ToolRejected(reason="denied", detail="too much")]
    if denial == "recoverable":
        assert isinstance(result, Completed)
        assert shown_outcomes(model.requests[1]) == office.outcomes()
    else:
        assert isinstance(result, Failed)
        assert isinstance(result.error, DeniedError)
        assert "too much" not in str(result.error)
        assert len(model.requests) == 1


@pytest.mark.parametrize(
    ("silence", "verdict", "result"),
    [("deny", "expired", Failed), ("approve", "approved", Completed), ("wait", None, Suspended)],
)
async def test_silence_is_a_denial_unless_the_policy_says_otherwise(
    office: Office, autojump_clock: MockClock, silence: Any, verdict: str | None, result: type[object]
) -> None:
    agent = asker(office.counted(), seconds=20.0, silence=silence)
    office.leave_open()
    async with office.kernel(agent, model=script(PAY, DONE)) as kernel:
        assert isinstance(await kernel.run(agent, "go"), result)
    decided = office.of(ApprovalDecided)
    assert [(d.verdict, d.source, d.by.name) for d in decided] == ([(verdict, "policy", "policy")] if verdict else [])
    assert all(d.decided_at == START + 20 * MICROSECONDS for d in decided)
    assert len(office.ran) == (silence == "approve")
    assert trio.current_time() == pytest.approx(20.0, abs=0.01)
    if silence == "deny":
        assert office.outcomes() == [ToolRejected(reason="expired", detail="nobody answered in time")]


@pytest.mark.parametrize(
    "error", [ApprovalUnavailable(desk="d", problem="p"), RuntimeError("x"), KeyError(), OSError()]
)
@pytest.mark.parametrize(
    ("silence", "verdict", "result"),
    [("deny", "denied", Failed), ("approve", "approved", Completed), ("wait", None, Suspended)],
)
async def test_whatever_a_desk_raises_is_silence(
    office: Office, autojump_clock: MockClock, error: Exception, silence: Any, verdict: str | None, result: type[object]
) -> None:
    async def broken(_: ApprovalRequest, __: float) -> None:
        raise error

    agent = asker(office.counted(), silence=silence)
    office.leave_open()
    async with office.kernel(agent, model=script(PAY, DONE), desk=FunctionDesk(broken)) as kernel:
        assert isinstance(await kernel.run(agent, "go"), result)
    assert [(d.verdict, d.source) for d in office.of(ApprovalDecided)] == ([(verdict, "policy")] if verdict else [])
    assert len(office.ran) == (silence == "approve")


async def test_a_desk_that_cannot_be_reached_for_a_moment_is_asked_again(
    office: Office, autojump_clock: MockClock
) -> None:
    tries: list[float] = []

    def answer(request: ApprovalRequest, patience: float) -> Decision:
        tries.append(patience)
        if len(tries) == 1:
            raise OSError("again")
        return yes(request)

    desk = desk_that(answer)
    agent = asker(office.counted())
    async with office.kernel(agent, model=script(PAY, DONE), desk=desk) as kernel:
        assert isinstance(await kernel.run(agent, "go"), Completed)
    assert office.ran == [("pay", 10)]


async def test_a_desk_that_overstays_its_patience_does_not_outlast_the_request(
    office: Office, autojump_clock: MockClock
) -> None:
    async def hang(_: ApprovalRequest, __: float) -> None:
        await trio.sleep_forever()

    agent = asker(office.counted(), seconds=20.0)
    async with office.kernel(agent, model=script(PAY, DONE), desk=FunctionDesk(hang)) as kernel:
        assert isinstance(await kernel.run(agent, "go"), Failed)
    assert [d.verdict for d in office.of(ApprovalDecided)] == ["expired"]
    assert trio.current_time() == pytest.approx(20.0, abs=0.01)


async def test_expiry_at_the_runs_own_deadline_starts_nothing(office: Office, autojump_clock: MockClock) -> None:
    agent = asker(office.counted(), seconds=None, silence="approve", limits={"max_seconds": 30.0})
    async with office.kernel(agent, model=script(PAY, DONE)) as kernel:
        result = await kernel.run(agent, "go")
    assert isinstance(result, Failed)
    assert office.ran == []
    assert trio.current_time() == pytest.approx(30.0, abs=0.01)


@pytest.mark.parametrize("away", [True, False])
async def test_a_batch_is_decided_before_any_of_it_starts(
    office: Office, autojump_clock: MockClock, away: bool
) -> None:
    auto = office.counted("auto", ask=False, execution="readonly")
    maybe = office.counted("maybe", ask=lambda given: given.amount > 5)
    agent = asker(auto, maybe, office.counted(), denial="recoverable")
    model = script(
        turn(
            call("auto", {"amount": 1}),
            call("pay", {"amount": 2}),
            call("maybe", {"amount": 3}),
            call("maybe", {"amount": 6}),
            call("pay", {"amount": "seven"}),
            call("nothing"),
            call("pay", {"amount": 8}),
        ),
        DONE,
    )
    async with office.kernel(agent, model=model) as kernel, trio.open_nursery() as nursery:
        nursery.start_soon(kernel.run, agent, "go")
        await office.desk.arrived(3)
        first, second, third = office.desk.requests
        assert [request.tool for request in office.desk.requests] == ["pay", "maybe", "pay"]
        for request in [third, first] if away else [first, third]:
            office.desk.answer(request.id, no(request, reason="no") if request is first else yes(request))
            await trio.testing.wait_all_tasks_blocked()
            assert office.ran == []
            assert office.of(CallsDecided) == []
            assert office.outcomes() == []
        office.desk.approve(second)
    assert sorted(office.ran) == [("auto", 1), ("maybe", 3), ("maybe", 6), ("pay", 8)]
    good, denied, low, high, invalid, unknown, last = office.outcomes()
    assert all(isinstance(outcome, ToolSuccess) for outcome in (good, low, high, last))
    assert denied == ToolRejected(reason="denied", detail="no")
    assert isinstance(invalid, ToolInvalidInput)
    assert isinstance(unknown, ToolInvalidInput)
    assert len(model.requests) == 2


async def test_a_terminal_denial_ends_the_wait_for_all_others(office: Office, autojump_clock: MockClock) -> None:
    agent = asker(office.counted(), office.counted("auto", ask=False))
    model = script(turn(call("auto"), call("pay"), call("pay", {"amount": 2})), DONE)
    async with office.kernel(agent, model=model) as kernel, trio.open_nursery() as nursery:
        nursery.start_soon(kernel.run, agent, "go")
        await office.desk.arrived(2)
        office.desk.deny(office.desk.requests[1])
    assert office.ran == []
    assert [d.verdict for d in office.of(ApprovalDecided)] == ["denied"]
    assert office.settlement().status == "failed"
    assert sorted(office.desk.withdrawn) == sorted(request.id for request in office.desk.requests)
    assert office.desk.open == ()


async def test_edited_input_is_decoded_and_never_asked_about_again(office: Office, autojump_clock: MockClock) -> None:
    agent = asker(office.counted())
    desk = desk_that(lambda request, _: yes(request, edited='{"amount": 5}'))
    async with office.kernel(agent, model=script(PAY, DONE), desk=desk) as kernel:
        assert isinstance(await kernel.run(agent, "go"), Completed)
    assert office.ran == [("pay", 5)]
    assert len(desk.asked) == 1
    assert office.of(ApprovalDecided)[0].edited == '{"amount": 5}'
    [answer] = [record for record in office.of(ModelResponded) if record.message.calls]
    assert json.loads(answer.message.calls[0].arguments) == {"amount": 10}


@pytest.mark.parametrize("edited", ['{"amount": "five"}', '{"ammount": 5}'])
async def test_edited_input_that_does_not_decode_runs_nothing(
    office: Office, autojump_clock: MockClock, edited: str
) -> None:
    agent = asker(office.counted())
    desk = desk_that(lambda request, _: yes(request, edited=edited))
    model = script(PAY, DONE)
    async with office.kernel(agent, model=model, desk=desk) as kernel:
        assert isinstance(await kernel.run(agent, "go"), Completed)
    assert office.ran == []
    [outcome] = shown_outcomes(model.requests[1])
    assert isinstance(outcome, ToolInvalidInput)
    assert outcome.detail.startswith("the approver's edited input: ")


async def test_a_yes_with_an_edit_grants_nothing(office: Office, autojump_clock: MockClock) -> None:
    # What the approver turned down must not pass on the strength of what was run instead.
    agent = asker(office.counted())
    desk = desk_that(lambda r, _: yes(r, edited='{"amount": 5}', grant=terms_for("conversation")))
    async with office.kernel(agent, model=script(PAY, DONE), desk=desk) as kernel, kernel.conversation() as talk:
        await talk.run(agent, "go")
        assert talk.grants == ()


def _changed(value: Any, **fields: Any) -> Any:
    return attrs.evolve(value, **fields)


VOID: list[Any] = [
    None,
    "yes",
    True,
    _changed(yes(), verdict="maybe"),
    _changed(yes(), by=None),
    attrs.evolve(yes(), reason="\ud800"),
    yes(edited="{not json"),
    yes(edited='["no object"]'),
    yes(edited=""),
    yes(edited='{"amount": 1, "amount": 2}'),
    _changed(no(), edited='{"amount": 1}'),
    yes(arguments=digest("triolet.arguments", b"other")),
    attrs.evolve(yes(), grant=attrs.evolve(terms_for("run"), seconds=float("nan"))),
    attrs.evolve(yes(), grant=attrs.evolve(terms_for("run"), seconds=float("inf"))),
    attrs.evolve(yes(), grant=attrs.evolve(terms_for("run"), seconds=-1.0)),
    attrs.evolve(yes(), grant=attrs.evolve(terms_for("run"), seconds=1e300)),
    attrs.evolve(yes(), grant=_changed(terms_for("run"), scope="world")),
]


@pytest.mark.parametrize("answer", VOID, ids=range(len(VOID)))
@pytest.mark.parametrize("patient", [True, False])
async def test_an_answer_that_is_none_leaves_the_call_pending(
    office: Office, autojump_clock: MockClock, answer: Any, patient: bool
) -> None:
    office.leave_open()
    agent = asker(office.counted())
    desk = desk_that(lambda _, patience: PENDING if patient and patience == 0 else answer)
    async with office.kernel(agent, model=script(PAY, DONE), desk=desk) as kernel:
        result = await kernel.run(agent, "go")
    assert isinstance(result, Suspended)
    assert len(result.requests) == 1
    assert office.of(ApprovalDecided) == []
    assert office.ran == []


async def test_only_who_was_asked_gets_a_say_about_the_need(office: Office, autojump_clock: MockClock) -> None:
    def broken(_: object) -> bool:
        raise ZeroDivisionError

    agent = asker(office.counted(ask=broken), office.counted("fine", ask=False))
    desk = AwayDesk()
    async with office.kernel(agent, model=script(turn(call("pay"), call("fine")), DONE), desk=desk) as kernel:
        assert isinstance(await kernel.run(agent, "go"), Completed)
    assert desk.asked == []
    assert office.ran == [("fine", 1)]
