"""Approval in the machine under generated orders of requests, answers, silence and resumes."""

from typing import Any, cast

import attrs
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests import machine_moves as m
from tests.approval_moves import BOSS, answered, arguments, asks, resumes, says
from triolet.kernel.machine.advance import fold
from triolet.kernel.machine.decide import decide
from triolet.kernel.machine.decision import Refused
from triolet.kernel.machine.observations import (
    ApprovalSilent,
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
from triolet.ports.approval import Decision, GrantTerms
from triolet.ports.identity import (
    ANONYMOUS,
    CallId,
    Epoch,
    InputId,
    Instant,
    RunId,
    SequenceNumber,
)
from triolet.ports.messages import Text
from triolet.ports.outcomes import Outcome
from triolet.ports.records import (
    ApprovalRules,
    InputTaken,
    Record,
    RunSettled,
    RunStarted,
)
from triolet.ports.strict_json import JsonText


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
