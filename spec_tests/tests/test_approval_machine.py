"""Approval in the pure machine: each guard refuses, each rule answers, and no order of events breaks a promise."""

from typing import Any, cast

import attrs
import pytest

from tests import machine_moves as m
from tests.approval_moves import BOSS, answered, arguments, asks, call, requested, resumes, says
from triolet.kernel.machine.advance import IllegalRecord, advance, fold
from triolet.kernel.machine.decide import decide
from triolet.kernel.machine.decision import Refused
from triolet.kernel.machine.observations import (
    ApprovalSilent,
    Forbidden,
    Verdict,
)
from triolet.kernel.machine.plan import JudgeCalls, next_action
from triolet.kernel.machine.state import ConversationState
from triolet.ports.approval import Decision, GrantTerms, grant_id, request_id
from triolet.ports.identity import (
    ANONYMOUS,
    AgentId,
    CallId,
    GrantId,
    InputId,
    RequestId,
    RunId,
)
from triolet.ports.messages import Text
from triolet.ports.records import (
    ApprovalDecided,
    ApprovalRequested,
    ApprovalRules,
    CallsDecided,
    GrantGiven,
    GrantRevoked,
    InputTaken,
    Record,
    RunnableCall,
    RunSettled,
    ToolSettled,
)
from triolet.ports.strict_json import JsonText


def decided(name: CallId, verdict: Any = "approved", **changes: Any) -> ApprovalDecided:
    record = ApprovalDecided(
        request=request_id(name),
        call=name,
        verdict=verdict,
        source="approver",
        by=BOSS,
        decided_at=m.AT,
        reason="",
    )
    return attrs.evolve(record, **changes)


def given(name: CallId, **changes: Any) -> GrantGiven:
    record = GrantGiven(
        grant=grant_id(request_id(name)),
        agent=AgentId("a"),
        tool="pay",
        scope="conversation",
        run=None,
        principal=ANONYMOUS,
        arguments=arguments("{}"),
        targets=None,
        by=BOSS,
        expires_at=None,
    )
    return attrs.evolve(record, **changes)


def input_(source: Any) -> InputTaken:
    return InputTaken(id=InputId("i"), source=source, author="x", offered_at=m.AT, parts=(Text(text="t"),))


TWO = m.batch("x", "y")


ASKED = requested(0, state=TWO)


NO = m.after(decided(call(0), "denied"), state=ASKED)


NAMED = m.after(decided(call(0), grant=grant_id(request_id(call(0)))), state=ASKED)


GRANTED = m.after(given(call(0)), state=NAMED)


DECIDED = m.after(m.judged({call(0): "readonly", call(1): "readonly"}), state=TWO)


RUNNABLE = CallsDecided(turn=1, runnable=(RunnableCall(call=call(0), execution="readonly"),))


ILLEGAL: list[tuple[ConversationState, Record, str]] = [
    (DECIDED, ApprovalRequested(request=asks(call(0))), "already decided"),
    (TWO, ApprovalRequested(request=asks(call(0), run=RunId("other"))), "derived identity"),
    (TWO, ApprovalRequested(request=asks(call(0), id=RequestId("own"))), "derived identity"),
    (ASKED, ApprovalRequested(request=asks(call(0))), "asked about before"),
    (NO, ApprovalRequested(request=asks(call(0))), "asked about before"),
    (TWO, ApprovalRequested(request=asks(call(2))), "not open"),
    (m.batch("!x"), ApprovalRequested(request=asks(call(0))), "defective"),
    (m.seam(), ApprovalRequested(request=asks(call(0))), "no place"),
    (TWO, decided(call(0)), "no such request"),
    (ASKED, decided(call(1)), "no such request"),
    (ASKED, decided(call(0), request=RequestId("other")), "no such request"),
    (NO, decided(call(0)), "has its answer"),
    (ASKED, decided(call(0), "expired"), "only silence expires"),
    (ASKED, decided(call(0), "expired", source="steering"), "only silence expires"),
    (ASKED, decided(call(0), "denied", edited=JsonText("{}")), "edited arguments need a yes"),
    (ASKED, RUNNABLE, "no answer yet"),
    (ASKED, CallsDecided(turn=1, runnable=()), "no answer yet"),
    (NO, RUNNABLE, "against its answer"),
    (m.after(decided(call(0), "expired", source="policy"), state=ASKED), RUNNABLE, "against its answer"),
    (NAMED, given(call(0), arguments=None), "what it matches by"),
    (NAMED, given(call(0), targets=("x",)), "what it matches by"),
    (NAMED, given(call(0), arguments=None, targets=()), "what it matches by"),
    (GRANTED, given(call(0)), "given before"),
    (ASKED, given(call(0)), "no answer gives it"),
    (NO, given(call(0)), "no answer gives it"),
    (NAMED, given(call(0), grant=GrantId("own")), "no answer gives it"),
    (
        m.after(decided(call(0), source="policy", grant=grant_id(request_id(call(0)))), state=ASKED),
        given(call(0)),
        "no answer gives it",
    ),
    (m.idle(), given(call(0)), "no place"),
    (TWO, GrantRevoked(grant=GrantId("g"), by=BOSS, reason=""), "no such grant"),
    (m.idle(), GrantRevoked(grant=GrantId("g"), by=BOSS, reason=""), "no such grant"),
    (m.seam(), GrantRevoked(grant=GrantId("g"), by=BOSS, reason=""), "no place"),
    (m.seam(), input_("follow-up"), "does not enter here"),
    (m.seam(), input_("user"), "does not enter here"),
    (m.seam(), input_("correction"), "does not enter here"),
    (m.answer(), input_("user"), "does not continue"),
    (m.opening(), input_("steering"), "no attempt owns"),
    (TWO, input_("steering"), "no place"),
    (m.idle(), input_("steering"), "no place"),
]


@pytest.mark.parametrize(("state", "record", "problem"), ILLEGAL, ids=range(len(ILLEGAL)))
def test_a_record_that_a_guard_refuses(state: ConversationState, record: Record, problem: str) -> None:
    with pytest.raises(IllegalRecord) as caught:
        advance(state, record)
    assert problem in caught.value.problem


def test_what_the_guards_allow() -> None:
    after = m.after(given(call(0)), state=NAMED)
    assert [grant.grant for grant in after.grants] == ["r-1-0-approval-grant"]
    assert m.after(RUNNABLE, state=NAMED).phase == "batch"
    assert m.after(input_("steering"), state=m.seam()).phase == "seam"
    for source in ("steering", "follow-up", "correction"):
        assert m.after(input_(source), state=m.answer()).phase == "seam"


def test_a_batch_with_open_requests_calls_for_nothing_but_answers() -> None:
    plan = next_action(requested(0, 1, state=TWO))
    assert plan.actions == ()
    assert [request.call for request in plan.waits] == [call(0), call(1)]
    [judge] = next_action(NO).actions
    assert isinstance(judge, JudgeCalls)
    assert judge.answers.keys() == {call(0)}


def test_requests_come_before_any_decision_and_once() -> None:
    verdicts: dict[str, Verdict] = {call(0): "uncertain", call(1): asks(call(1))}
    assert m.decided(TWO, m.judged(verdicts)) == (ApprovalRequested(request=asks(call(1))),)
    asked = m.after(m.judged(verdicts), state=TWO)
    assert isinstance(decide(asked, m.judged(verdicts)), Refused)


def test_verdicts_cover_the_batch() -> None:
    assert isinstance(decide(TWO, m.judged({call(0): "readonly"})), Refused)
    assert isinstance(decide(TWO, m.judged({call(0): asks(call(0))})), Refused)


@pytest.mark.parametrize(
    "void",
    [
        says(arguments=arguments("other")),
        says(edited=JsonText("{")),
        says(edited=JsonText("[]")),
        says("denied", edited=JsonText("{}")),
        says("maybe"),
        says(reason=cast("Any", None)),
        says(grant=GrantTerms(scope="run", seconds=0)),
    ],
    ids=range(7),
)
def test_an_answer_that_does_not_fit_changes_nothing(void: Decision) -> None:
    assert m.decided(ASKED, answered(call(0), void)) == ()
    resumed = m.decided(ASKED, resumes(ASKED, {request_id(call(0)): void}))
    assert [type(record).__name__ for record in resumed] == ["AttemptStarted"]


@pytest.mark.parametrize("name", [call(0), call(1), CallId("nothing")])
def test_only_an_open_request_takes_an_answer(name: CallId) -> None:
    assert m.decided(NO, answered(name, says())) == ()
    assert m.decided(NO, ApprovalSilent(call=name, why="expired", at=m.AT)) == ()


def test_a_terminal_denial_closes_everything_in_one_decision() -> None:
    asked = m.after(
        ApprovalRequested(request=asks(call(0))),
        ApprovalRequested(request=asks(call(1), denial="terminal")),
        state=TWO,
    )
    records = m.decided(asked, answered(call(1), says("denied")))
    assert [type(record) for record in records] == [ApprovalDecided, ToolSettled, ToolSettled, RunSettled]
    # Among stored answers, too, and then the others are too late.
    answers = {request_id(call(1)): says("denied"), request_id(call(0)): says()}
    records = m.decided(asked, resumes(asked, answers))
    assert fold(records, asked).phase == "idle"
    records = m.decided(TWO, m.judged({call(0): "readonly", call(1): Forbidden(reason="no")}))
    assert [type(record) for record in records] == [ToolSettled, ToolSettled, RunSettled]


@pytest.mark.parametrize("silence", ["deny", "wait", "approve"])
@pytest.mark.parametrize("why", ["expired", "unavailable"])
def test_silence(silence: Any, why: Any) -> None:
    state = m.after(
        ApprovalRequested(request=asks(call(0))), state=m.batch("x", approval=ApprovalRules(silence=silence))
    )
    records = m.decided(state, ApprovalSilent(call=call(0), why=why, at=m.AT))
    if silence == "wait":
        assert records == ()
        return
    [record] = records
    assert isinstance(record, ApprovalDecided)
    assert record.source == "policy"
    expected = "approved" if silence == "approve" else "expired" if why == "expired" else "denied"
    assert record.verdict == expected
