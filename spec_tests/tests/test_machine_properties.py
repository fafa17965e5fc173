"""The run machine under generated observations and records: it never leaves its table, and always leads on.

An honest interpreter does what plans call for, in any order and with any ending, and is stopped, lost or taken over at
any point.
"""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from tests.honest_context import HonestContext
from tests.honest_interpreter import (
    CAUSES,
    CLASSES,
    FINISHES,
    HANDLER_OUTCOMES,
    NAMES,
    REFUSALS,
    USAGES,
    open_limits,
)
from tests.machine_moves import AT, answered, decided, judged, limits, message, requested
from triolet.kernel.machine.advance import fold
from triolet.kernel.machine.guards import open_batch, open_run
from triolet.kernel.machine.observations import (
    BudgetSpent,
    CallsEnded,
    InterruptedCall,
    PermitsHeld,
    ResponseReduced,
    StepEnded,
    Stopped,
)
from triolet.kernel.machine.plan import (
    AskModel,
    JudgeAnswer,
    JudgeCalls,
    ReportBudgetSpent,
    StartCall,
    next_action,
)
from triolet.kernel.machine.shown import shown
from triolet.kernel.machine.validity import history_is_valid
from triolet.ports.identity import CallId, Epoch, InputId, Instant
from triolet.ports.messages import AssistantMessage, Text, ToolMessage
from triolet.ports.outcomes import Outcome, ToolDefect, ToolUnknownOutcome
from triolet.ports.records import (
    AttemptStarted,
    BudgetReached,
    BudgetWarned,
    CallsDecided,
    InputTaken,
    RetryRules,
    RunSettled,
    RunStarted,
    ToolPrepared,
    ToolSettled,
)
from triolet.ports.strict_json import JsonText
from triolet.ports.tools import ExecutionClass
from triolet.ports.usage import Usage


class _Honest(HonestContext):
    """An interpreter that reports truthfully whatever it was asked to do."""

    @property
    def runnable(self) -> dict[CallId, ExecutionClass]:
        """The calls of the batch whose handlers may be under way."""
        batch = open_batch(self.state)
        decided_calls = batch.runnable or {}
        return {
            call.id: decided_calls[call.id]
            for call in batch.open
            if call.id in decided_calls and (decided_calls[call.id] == "readonly" or call.id in batch.prepared)
        }

    @precondition(lambda self: self.state.phase == "idle")
    @rule(
        turns=st.integers(1, 3),
        calls=st.integers(0, 5),
        exhaustion=st.sampled_from(["final-answer", "fail"]),
        structured=st.booleans(),
        newer=st.booleans(),
        budgets=st.fixed_dictionaries(
            {
                "max_tokens": st.sampled_from([None] * 5 + [5, 20, 60]),
                "max_cost": st.sampled_from([None] * 5 + [1, 20]),
                "max_failures": st.sampled_from([None] * 4 + [1, 2, 3]),
                "max_result_bytes": st.sampled_from([None] * 4 + [1, 40]),
                "context_tokens": st.sampled_from([None] * 3 + [1, 30, 50]),
            }
        ),
        tries=st.integers(1, 3),
    )
    def request(
        self,
        turns: int,
        calls: int,
        exhaustion: str,
        structured: bool,
        newer: bool,
        budgets: dict[str, int | None],
        tries: int,
    ) -> None:
        self.runs += 1
        bounds = limits(max_turns=turns, max_tool_calls=calls, exhaustion=exhaustion, **budgets)
        epoch = Epoch(max(1, self.state.epoch + newer))
        self.observe(
            requested(
                f"r{self.runs}",
                limits=bounds,
                structured=structured,
                epoch=epoch,
                retry=RetryRules(tries=tries, first_wait=5, longest_wait=9),
                warn_at=Instant(AT + 800),
                deadline=Instant(AT + 1_000),
            )
        )

    @precondition(lambda self: self.plan(AskModel))
    @rule(names=NAMES, finish=FINISHES, usage=USAGES, agent_forbids=st.booleans())
    def respond(self, names: list[str], finish: Any, usage: Usage, agent_forbids: bool) -> None:
        [ask] = self.plan(AskModel)
        run = open_run(self.state).started.run
        said = message(*names, turn=ask.turn, run=run, text="something")
        forbidden = ask.forbid_tools or agent_forbids
        spent, usage_before = open_run(self.state).spent, open_run(self.state).usage
        records = self.observe(
            ResponseReduced(
                attempt=ask.attempt, model="m", message=said, finish=finish, usage=usage, forbidden=forbidden
            )
        )
        self.refused = {}
        if names and forbidden:
            # RUN-020: nothing of it runs, and the run fails typed in the same commit.
            assert isinstance(records[-1], RunSettled)
            assert records[-1].failure is not None
            assert records[-1].failure.code == "tools-forbidden"
        elif spent + len(names) > open_limits(self.log).max_tool_calls or (
            names and any(isinstance(record, BudgetReached) for record in records)
        ):
            # RUN-018: never recorded as pending.
            assert [type(record) for record in records].count(ToolSettled) == len(names)
            assert self.state.phase != "batch"
        if self.state.run is not None:
            assert self.state.run.usage == usage_before.plus(usage)

    @precondition(lambda self: self.plan(JudgeCalls))
    @rule(data=st.data())
    def judge(self, data: st.DataObject) -> None:
        [action] = self.plan(JudgeCalls)
        verdicts: dict[str, Any] = {
            call.id: data.draw(REFUSALS if call.defect is not None else CLASSES | REFUSALS) for call in action.calls
        }
        self.refused = {CallId(call): verdict for call, verdict in verdicts.items() if not isinstance(verdict, str)}
        self.observe(judged(verdicts))

    @precondition(lambda self: any(not s.prepared for s in self.plan(StartCall)))
    @rule(data=st.data())
    def permit(self, data: st.DataObject) -> None:
        waiting = [start.call.id for start in self.plan(StartCall) if not start.prepared]
        chosen = data.draw(st.lists(st.sampled_from(waiting), min_size=1, unique=True))
        self.observe(PermitsHeld(calls=tuple(chosen)))

    @precondition(lambda self: self.state.phase == "batch" and "durable" in self.runnable.values())
    @rule(data=st.data(), name=st.sampled_from(["one", "two"]))
    def take_a_step(self, data: st.DataObject, name: str) -> None:
        batch = open_batch(self.state)
        durable = [call for call, execution in self.runnable.items() if execution == "durable"]
        call = data.draw(st.sampled_from(durable))
        if (call, name) not in batch.steps:
            self.observe(StepEnded(call=call, name=name, value=JsonText("1")))

    @precondition(lambda self: self.state.phase == "batch" and self.runnable)
    @rule(data=st.data())
    def end_calls(self, data: st.DataObject) -> None:
        chosen = data.draw(st.lists(st.sampled_from(sorted(self.runnable)), unique=True))
        outcomes = {call: data.draw(HANDLER_OUTCOMES) for call in chosen}
        open_before = [call.id for call in open_batch(self.state).open]
        records = self.observe(CallsEnded(outcomes={**self.refused, **outcomes}))
        assert [record.call for record in records if isinstance(record, ToolSettled)] == open_before[: len(records)]

    @precondition(lambda self: self.plan(JudgeAnswer))
    @rule(fits=st.booleans())
    def judge_answer(self, fits: bool) -> None:
        self.observe(answered() if fits else answered(None, "no"))
        if fits:
            assert self.state.phase == "idle"

    @precondition(lambda self: self.plan(ReportBudgetSpent))
    @rule()
    def report_budget(self) -> None:
        self.observe(BudgetSpent())
        assert self.state.phase == "idle"

    @precondition(lambda self: self.state.run is not None and len(self.log) % 4 == 0)
    @rule(data=st.data(), cause=CAUSES)
    def stop(self, data: st.DataObject, cause: Any) -> None:
        self.observe(self.stopped(data.draw, cause))
        assert self.state.phase == "idle"

    @precondition(lambda self: self.state.run is not None)
    @rule()
    def take_over(self) -> None:
        self.write(AttemptStarted(epoch=Epoch(self.state.epoch + 1)))
        self.refused = {}

    @precondition(lambda self: self.state.phase in ("seam", "answered"))
    @rule(data=st.data())
    def input_enters(self, data: st.DataObject) -> None:
        fits = ["steering", "joined"] if self.state.phase == "seam" else ["steering", "joined", "follow-up"]
        source: Any = data.draw(st.sampled_from(fits))
        self.write(InputTaken(id=InputId("i"), source=source, author="a", offered_at=AT, parts=(Text(text="more"),)))

    def stopped(self, draw: Any, cause: Any) -> Stopped:
        asking = None
        outcomes: dict[CallId, Outcome] = {}
        started: frozenset[CallId] = frozenset()
        if self.state.phase == "batch":
            running = sorted(self.runnable)
            started = frozenset(draw(st.lists(st.sampled_from(running), unique=True)) if running else ())
            ended = [call for call in started if draw(st.booleans())]
            outcomes = {**self.refused, **{call: draw(HANDLER_OUTCOMES) for call in ended}}
        elif self.plan(AskModel) and draw(st.booleans()):
            [ask] = self.plan(AskModel)
            asking = InterruptedCall(attempt=ask.attempt, model="m", text="half", usage=Usage(at_least=True))
        return Stopped(cause=cause, started=started, outcomes=outcomes, asking=asking)

    @invariant()
    def it_leads_on_or_rests(self) -> None:
        actions = next_action(self.state, self.measured).actions
        if self.state.run is None:
            assert not actions
            assert self.state.phase in ("new", "idle")
        elif self.state.phase != "batch":
            [action] = actions
            if isinstance(action, AskModel):
                # What is asked for can be written down when it comes.
                run = open_run(self.state).started.run
                reply = ResponseReduced(
                    attempt=action.attempt,
                    model="m",
                    message=message(turn=action.turn, run=run, text="x"),
                    finish="stop",
                    usage=Usage(),
                    forbidden=False,
                )
                fold(decided(self.state, reply), self.state)
        else:
            # What keeps a batch open is a call that may run, and it is among the actions; or it is not yet judged.
            assert actions
            first = open_batch(self.state).open[0]
            assert any(
                isinstance(action, JudgeCalls) or (isinstance(action, StartCall) and action.call == first)
                for action in actions
            )

    @invariant()
    def the_history_is_valid_at_every_seam(self) -> None:
        if self.state.phase != "batch":
            assert history_is_valid(self.state.history)
            # RUN-026: no cut parts a call from its result.
            assert history_is_valid(shown(self.state.history, self.state.view))

    @invariant()
    def a_warning_comes_once_and_a_limit_is_reached_once(self) -> None:
        begun = max((i for i, record in enumerate(self.log) if isinstance(record, RunStarted)), default=0)
        warned = [record.dimension for record in self.log[begun:] if isinstance(record, BudgetWarned)]
        assert len(set(warned)) == len(warned)
        assert sum(isinstance(record, BudgetReached) for record in self.log[begun:]) <= 1

    @invariant()
    def every_state_can_be_sealed_at_once(self) -> None:
        if self.state.run is None:
            return
        for cause in ("cancelled", "lost", "crashed", "deadline"):
            records = decided(self.state, Stopped(cause=cause))
            sealed = fold(records, self.state)
            assert sealed.phase == "idle"
            assert history_is_valid(sealed.history)
            assert [type(record) for record in records].count(RunSettled) == 1

    @invariant()
    def a_lost_call_that_was_started_may_have_had_its_effect(self) -> None:
        # DUR-009: from `ToolPrepared` on nobody who was not there can say that nothing happened.
        if self.state.phase != "batch":
            return
        # Under the class that it had when it was prepared: a later attempt may have judged it otherwise.
        decided_as: dict[CallId, ExecutionClass] = {}
        executions: dict[CallId, ExecutionClass] = {}
        for seen in self.log:
            if isinstance(seen, CallsDecided):
                decided_as.update({row.call: row.execution for row in seen.runnable})
            elif isinstance(seen, ToolPrepared):
                executions.update({call: decided_as[call] for call in seen.calls})
        for record in decided(self.state, Stopped(cause="lost")):
            if isinstance(record, ToolSettled):
                execution = executions.get(record.call) if record.call in open_batch(self.state).prepared else None
                if execution == "uncertain":
                    assert record.outcome == ToolUnknownOutcome(reason="crashed")
                else:
                    assert record.outcome == ToolDefect(reason="cancelled", effect_possible=execution is not None)

    @invariant()
    def ends_and_results_are_one_each(self) -> None:
        started = [record.run for record in self.log if isinstance(record, RunStarted)]
        settled = [record.run for record in self.log if isinstance(record, RunSettled)]
        assert settled == started[: len(settled)]
        assert len(started) - len(settled) == (self.state.run is not None)
        shown = [call.id for m in self.state.history if isinstance(m, AssistantMessage) for call in m.calls]
        results = [result.call for m in self.state.history if isinstance(m, ToolMessage) for result in m.results]
        assert results == shown[: len(results)]
        assert (len(results) == len(shown)) == (self.state.phase != "batch")

    def teardown(self) -> None:
        # Folding the whole log gives the state that was kept up step by step, and so does any way of cutting it.
        assert fold(self.log) == self.state
        half = len(self.log) // 2
        assert fold(self.log[half:], fold(self.log[:half])) == self.state


TestHonestInterpreter = _Honest.TestCase
TestHonestInterpreter.settings = settings(max_examples=150, stateful_step_count=50)
