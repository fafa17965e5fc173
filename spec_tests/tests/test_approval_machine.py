"""Approval in the pure machine: each guard refuses, each rule answers, and no order of events breaks a promise."""

from collections.abc import Mapping
from typing import Any, cast

import attrs
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests import machine_moves as m
from triolet.kernel.machine.advance import IllegalRecord, advance, fold
from triolet.kernel.machine.decide import decide
from triolet.kernel.machine.decision import Refused
from triolet.kernel.machine.observations import (
    ApprovalAnswered,
    ApprovalSilent,
    AttemptResumed,
    Forbidden,
    GrantEnded,
    InputsOffered,
    SteeredWhileWaiting,
    Stopped,
    Verdict,
)
from triolet.kernel.machine.plan import JudgeCalls, StartCall, next_action
from triolet.kernel.machine.state import NEW, ConversationState
from triolet.kernel.machine.validity import history_problem
from triolet.ports.admission import Admitted, Offer
from triolet.ports.approval import ApprovalRequest, Decision, GrantTerms, grant_id, request_id
from triolet.ports.canonical import Digest, digest
from triolet.ports.identity import (
    ANONYMOUS,
    AgentId,
    CallId,
    ConversationId,
    Epoch,
    GrantId,
    InputId,
    Instant,
    Principal,
    RequestId,
    RunId,
    SequenceNumber,
)
from triolet.ports.messages import Text
from triolet.ports.outcomes import Outcome
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
    RunStarted,
    ToolSettled,
)
from triolet.ports.strict_json import JsonText

BOSS = Principal(name="boss")


def call(index: int, turn: int = 1, run: str = m.RUN) -> CallId:
    return CallId(f"{run}-{turn}-{index}")


def asks(name: CallId, **changes: Any) -> ApprovalRequest:
    """A request about a call."""
    request = ApprovalRequest(
        id=request_id(name),
        run=RunId(name.rsplit("-", 2)[0]),
        conversation=ConversationId("c"),
        agent=AgentId("a"),
        call=name,
        tool="pay",
        principal=ANONYMOUS,
        summary="s",
        targets=(),
        risk="low",
        preview="{}",
        arguments=arguments("{}"),
        expires_at=None,
        denial="recoverable",
    )
    return attrs.evolve(request, **changes)


def arguments(text: str) -> Digest:
    return digest("triolet.arguments", text.encode())


def says(verdict: Any = "approved", **fields: Any) -> Decision:
    return Decision(verdict=verdict, by=BOSS, **fields)


def answered(name: CallId, decision: Decision) -> ApprovalAnswered:
    return ApprovalAnswered(call=name, decision=decision, at=m.AT)


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


def requested(*indices: int, state: ConversationState) -> ConversationState:
    return m.after(*(ApprovalRequested(request=asks(call(index))) for index in indices), state=state)


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


def resumes(state: ConversationState, answers: Mapping[RequestId, Decision]) -> AttemptResumed:
    return AttemptResumed(epoch=Epoch(state.epoch + 1), worker="w", answers=answers, at=m.AT)


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


class Interleavings(RuleBasedStateMachine):
    """Any order of judging, answers, silence, steering, stops, resumes and calls; the machine keeps its promises."""

    def __init__(self) -> None:
        super().__init__()
        self.state = m.idle()
        self.log: list[Record] = []
        self.runs = 0
        self.offered = 0
        self.waiting: dict[str, list[Admitted]] = {"steering": [], "follow-up": []}
        self.started: list[RunId] = []
        self.settled: list[RunId] = []
        self.taken: list[InputId] = []
        self.outcomes: dict[str, Outcome] = {}
        """What is known of the batch's calls, on record or not."""

    def see(self, seen: Any) -> None:
        decision = decide(self.state, seen)
        assert not isinstance(decision, Refused), decision.problem
        self.state = fold(decision, self.state)
        self.log.extend(decision)
        for record in decision:
            match record:
                case RunStarted(run=run):
                    self.started.append(run)
                case RunSettled(run=run):
                    self.settled.append(run)
                case InputTaken(source="steering" | "follow-up", id=name):
                    self.taken.append(name)
                case _:
                    pass

    @property
    def run(self) -> str:
        return f"r{self.runs}"

    @precondition(lambda self: self.state.phase == "idle")
    @rule(
        silence=st.sampled_from(["deny", "wait", "approve"]),
        steered=st.sampled_from(["wait", "deny"]),
        exhaustion=st.sampled_from(["final-answer", "fail"]),
    )
    def start(self, silence: Any, steered: Any, exhaustion: Any) -> None:
        self.runs += 1
        rules = ApprovalRules(silence=silence, steered=steered)
        limits = m.limits(max_turns=6, exhaustion=exhaustion)
        epoch = Epoch(self.state.epoch + 1)
        self.see(m.requested(self.run, approval=rules, limits=limits, epoch=epoch))

    @precondition(lambda self: self.state.phase == "seam")
    @rule(names=st.lists(st.sampled_from(["a", "b", "!c"]), max_size=4))
    def respond(self, names: list[str]) -> None:
        run = self.state.run
        assert run is not None
        if run.limit_reached is not None and run.started.limits.exhaustion == "fail":
            self.see(Stopped(cause="requested"))
            return
        forbidden = run.limit_reached is not None
        self.see(m.responded(*([] if forbidden else names), turn=run.turn + 1, run=self.run))

    @precondition(lambda self: any(isinstance(a, JudgeCalls) for a in next_action(self.state).actions))
    @rule(data=st.data())
    def judge(self, data: st.DataObject) -> None:
        [action] = next_action(self.state).actions
        assert isinstance(action, JudgeCalls)
        verdicts: dict[str, Verdict] = {}
        for open_call in action.calls:
            answer = action.answers.get(open_call.id)
            if open_call.defect is not None:
                verdicts[open_call.id] = m.NO_SUCH
            elif answer is not None:
                verdicts[open_call.id] = "uncertain" if answer.verdict == "approved" else m.NO_SUCH
            else:
                request = asks(
                    open_call.id,
                    denial=data.draw(st.sampled_from(["recoverable", "terminal"])),
                    arguments=arguments(data.draw(st.sampled_from("pq"))),
                )
                choices: list[Verdict] = ["readonly", "uncertain", request, request, m.NO_SUCH, Forbidden(reason="f")]
                verdicts[open_call.id] = data.draw(st.sampled_from(choices))
        self.outcomes = {name: m.NO_SUCH for name, verdict in verdicts.items() if verdict == m.NO_SUCH}
        self.see(m.judged(verdicts))

    @precondition(lambda self: bool(next_action(self.state).waits))
    @rule(
        data=st.data(),
        decision=st.builds(
            says,
            st.sampled_from(["approved", "denied"]),
            arguments=st.sampled_from([None, arguments("p"), arguments("q")]),
            edited=st.sampled_from([None, JsonText('{"a":1}'), JsonText("{")]),
            grant=st.sampled_from([None, GrantTerms(scope="run"), GrantTerms(scope="conversation", seconds=5)]),
        ),
    )
    def answer(self, data: st.DataObject, decision: Decision) -> None:
        request = data.draw(st.sampled_from(next_action(self.state).waits))
        self.see(answered(request.call, decision))

    @precondition(lambda self: bool(next_action(self.state).waits))
    @rule(data=st.data(), why=st.sampled_from(["expired", "unavailable"]))
    def silent(self, data: st.DataObject, why: Any) -> None:
        request = data.draw(st.sampled_from(next_action(self.state).waits))
        self.see(ApprovalSilent(call=request.call, why=why, at=m.AT))

    @precondition(lambda self: bool(next_action(self.state).waits))
    @rule()
    def steered(self) -> None:
        self.see(SteeredWhileWaiting(at=m.AT))

    @precondition(lambda self: bool(next_action(self.state).waits))
    @rule(answers=st.dictionaries(st.integers(0, 3), st.sampled_from([says(), says("denied")]), max_size=3))
    def resume(self, answers: dict[int, Decision]) -> None:
        waits = next_action(self.state).waits
        found = {waits[place].id: decision for place, decision in answers.items() if place < len(waits)}
        self.see(resumes(self.state, found))

    @property
    def starts(self) -> list[CallId]:
        found = [a.call.id for a in next_action(self.state).actions if isinstance(a, StartCall)]
        return [name for name in found if name not in self.outcomes]

    @precondition(lambda self: bool(self.starts))
    @rule(data=st.data())
    def work(self, data: st.DataObject) -> None:
        batch = _open_batch(self.state)
        for name in self.starts:
            answer = batch.answers.get(name)
            approved = answer is not None and answer.verdict == "approved"
            assert name not in batch.requests or approved, "a handler before its yes"
        self.see(m.permitted(*self.starts))
        for name in data.draw(st.lists(st.sampled_from(self.starts), unique=True)):
            self.outcomes[name] = m.DONE
        self.see(m.ended(self.outcomes))

    @precondition(lambda self: self.state.run is not None)
    @rule(kind=st.sampled_from(["steering", "follow-up"]))
    def offer(self, kind: Any) -> None:
        self.offered += 1
        offer = Offer(
            id=InputId(f"i{self.offered}"),
            kind=kind,
            principal=ANONYMOUS,
            author="x",
            offered_at=Instant(1),
            parts=(Text(text="t"),),
        )
        self.waiting[kind].append(Admitted(offer=offer, sequence=SequenceNumber(self.offered)))

    @precondition(lambda self: self.state.phase == "seam" and bool(self.waiting["steering"]))
    @rule()
    def seam_drains(self) -> None:
        inputs, self.waiting["steering"] = tuple(self.waiting["steering"]), []
        self.see(InputsOffered(inputs=inputs))

    @precondition(lambda self: self.state.phase == "answered")
    @rule(valid=st.booleans())
    def judge_answer(self, valid: bool) -> None:
        [action] = next_action(self.state).actions
        inputs: tuple[Admitted, ...] = ()
        for intake in cast("Any", action).intake if valid else ():
            if self.waiting[intake.kind] and not inputs:
                inputs, self.waiting[intake.kind] = (self.waiting[intake.kind][0],), self.waiting[intake.kind][1:]
        if valid:
            self.see(attrs.evolve(m.answered(), inputs=inputs))
        else:
            self.see(m.answered(None, "bad"))

    @precondition(lambda self: self.state.run is not None)
    @rule(cause=st.sampled_from(["cancelled", "requested", "deadline", "lost"]))
    def stop(self, cause: Any) -> None:
        self.see(Stopped(cause=cause))

    @precondition(lambda self: bool(self.state.grants) and self.state.phase in ("idle", "batch"))
    @rule(data=st.data())
    def revoke(self, data: st.DataObject) -> None:
        grant = data.draw(st.sampled_from(self.state.grants))
        self.see(GrantEnded(grant=grant.grant, by=BOSS, reason=""))

    def teardown(self) -> None:
        assert fold(self.log, m.idle()) == self.state

    @invariant()
    def history_can_be_shown(self) -> None:
        if self.state.phase != "batch":
            assert history_problem(self.state.history) is None

    @invariant()
    def one_settlement_each(self) -> None:
        assert self.settled == (self.started if self.state.run is None else self.started[:-1])

    @invariant()
    def nothing_is_lost_or_said_twice(self) -> None:
        left = [admitted.offer.id for queue in self.waiting.values() for admitted in queue]
        assert sorted(self.taken + left) == sorted(f"i{number + 1}" for number in range(self.offered))

    @invariant()
    def the_plan_never_waits_and_works_at_once(self) -> None:
        plan = next_action(self.state)
        assert not (plan.waits and plan.actions)
        assert plan.waits or plan.actions or self.state.run is None

    @invariant()
    def a_grant_says_what_it_matches_by(self) -> None:
        for grant in self.state.grants:
            assert (grant.arguments is None) != (grant.targets is None)
            assert grant.run is None or (self.state.run is not None and grant.run == self.state.run.started.run)


def _open_batch(state: ConversationState) -> Any:
    assert state.run is not None
    assert state.run.batch is not None
    return state.run.batch


Interleavings.TestCase.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
TestInterleavings = Interleavings.TestCase


def test_the_machine_starts_with_nothing_granted() -> None:
    assert NEW.grants == ()
