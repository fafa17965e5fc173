"""The run machine under generated observations and records: it never leaves its table, and always leads on.

Two generators. The first is an honest interpreter: it does what plans call for, in any order and with any ending, and
is
stopped, lost or taken over at any point. The second writes arbitrary records, most of them wrong.
"""

from typing import Any, cast

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.machine_moves import AT, BROKE, DONE, NO_SUCH, answered, decided, judged, limits, message, opened, requested
from triolet.kernel.machine.advance import IllegalRecord, advance, fold
from triolet.kernel.machine.compaction import (
    ClearResults,
    GiveUp,
    Measured,
    Summarize,
    request_key,
    whole_turns,
)
from triolet.kernel.machine.decide import decide
from triolet.kernel.machine.guards import open_batch, open_run
from triolet.kernel.machine.observations import (
    BudgetSpent,
    CallsEnded,
    ContextFull,
    InterruptedCall,
    ModelCallEnded,
    Observation,
    PermitsHeld,
    RequestMeasured,
    ResponseReduced,
    ResultsDue,
    StepEnded,
    Stopped,
    Summarized,
    SummaryFailed,
)
from triolet.kernel.machine.plan import (
    AskModel,
    JudgeAnswer,
    JudgeCalls,
    MeasureRequest,
    ReportBudgetSpent,
    StartCall,
    next_action,
)
from triolet.kernel.machine.shown import shown
from triolet.kernel.machine.state import NEW, ConversationState
from triolet.kernel.machine.table import legal
from triolet.kernel.machine.validity import history_is_valid
from triolet.ports.batch import Batch, decode_batch, encode_batch
from triolet.ports.identity import BatchId, CallId, Epoch, InputId, Instant, RunId
from triolet.ports.messages import AssistantMessage, Text, ToolMessage
from triolet.ports.outcomes import Outcome, ToolDefect, ToolFailure, ToolRejected, ToolUnknownOutcome
from triolet.ports.records import (
    AttemptStarted,
    BudgetReached,
    BudgetWarned,
    CallsDecided,
    InputTaken,
    ModelInterrupted,
    ModelResponded,
    Record,
    RetryRules,
    RunnableCall,
    RunSettled,
    RunStarted,
    StepSettled,
    ToolPrepared,
    ToolSettled,
)
from triolet.ports.strict_json import JsonText
from triolet.ports.tools import ExecutionClass
from triolet.ports.usage import Usage

CLASSES = st.sampled_from(["readonly", "idempotent", "durable", "uncertain"])
USAGES = st.builds(Usage, input_tokens=st.integers(0, 9), output_tokens=st.integers(0, 9), at_least=st.booleans())
HANDLER_OUTCOMES: st.SearchStrategy[Outcome] = st.sampled_from(
    [
        DONE,
        ToolFailure(type="Full", payload=JsonText("{}")),
        BROKE,
        ToolUnknownOutcome(reason="timeout"),
        ToolDefect(reason="timeout", effect_possible=False),
    ]
)
REFUSALS: st.SearchStrategy[Outcome] = st.sampled_from([NO_SUCH, ToolRejected(reason="denied", detail="no")])
CAUSES = st.sampled_from(["cancelled", "requested", "lost", "crashed", "deadline"])
NAMES = st.lists(st.sampled_from(["a", "b", "!broken"]), max_size=4)
FINISHES = st.sampled_from(["stop", "tool-calls", "length", "content-filter"])


class _Honest(RuleBasedStateMachine):
    """An interpreter that reports truthfully whatever it was asked to do."""

    state: ConversationState
    log: list[Record]
    runs: int
    refused: dict[CallId, Outcome]
    seams: int
    measured: Measured | None

    @initialize()
    def open(self) -> None:
        self.state, self.log, self.runs, self.refused, self.seams = NEW, [], 0, {}, 0
        self.measured = None
        self.observe(opened())

    def observe(self, seen: Observation) -> tuple[Record, ...]:
        records = decided(self.state, seen)
        for record in records:
            assert legal(self.state, record) is None
            self.state = advance(self.state, record)
            self.log.append(record)
        if records:
            _round_trip(records)
        return records

    def plan(self, kind: Any) -> list[Any]:
        return [action for action in next_action(self.state, self.measured).actions if isinstance(action, kind)]

    @precondition(lambda self: self.plan(MeasureRequest))
    @rule(tokens=st.integers(0, 60), cost=st.integers(0, 20) | st.none(), later=st.integers(0, 2_000))
    def measure(self, tokens: int, cost: int | None, later: int) -> None:
        [action] = self.plan(MeasureRequest)
        sizes = [tokens // max(1, len(self.state.history))] * len(self.state.history)
        self.measured = Measured(key=request_key(self.state), tokens=tokens, fixed=0, sizes=sizes)
        before = open_run(self.state)
        self.observe(
            RequestMeasured(
                tokens=tokens if action.sized else None, cost=cost if action.sized else None, at=Instant(AT + later)
            )
        )
        bounds = before.started.limits
        if bounds.max_cost is not None and action.sized and before.usage.cost + (cost or 0) > bounds.max_cost:
            # RUN-025: cost is hard, and looked at before the request.
            assert self.state.run is None or self.plan(ReportBudgetSpent)
        if self.state.run is None:
            return
        run = open_run(self.state)
        if run.exhausted is None and bounds.max_tokens is not None and action.sized:
            assert run.usage.tokens + tokens <= bounds.max_tokens

    @precondition(lambda self: self.plan(ClearResults))
    @rule()
    def clear(self) -> None:
        [action] = self.plan(ClearResults)
        before = self.state.view.count
        self.observe(ResultsDue(covers_through=action.covers_through))
        assert self.state.view.count == before + 1

    @precondition(lambda self: self.plan(Summarize))
    @rule(fails=st.booleans(), usage=USAGES)
    def summarise(self, fails: bool, usage: Usage) -> None:
        [action] = self.plan(Summarize)
        usage_before, history = open_run(self.state).usage, self.state.history
        if fails:
            self.observe(SummaryFailed(reason="empty", usage=usage))
        else:
            self.observe(Summarized(covers_through=action.covers_through, text="short", version="1", usage=usage))
            assert self.state.view.summarised == action.messages
        # RUN-026, CAP-007: metered, and the history is what it was.
        assert open_run(self.state).usage == usage_before.plus(usage)
        assert self.state.history == history

    @precondition(lambda self: self.plan(GiveUp))
    @rule()
    def give_up(self) -> None:
        [action] = self.plan(GiveUp)
        self.observe(ContextFull(tokens=action.tokens, limit=action.limit))
        assert self.state.phase == "idle"

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

    @precondition(lambda self: self.plan(AskModel))
    @rule(
        code=st.sampled_from(["model-unavailable", "model-refused", "context-too-large", "malformed-response"]),
        passing=st.booleans(),
        later=st.integers(0, 2_000),
        advice=st.floats(0, 0.001) | st.none(),
    )
    def fail_to_respond(self, code: Any, passing: bool, later: int, advice: float | None) -> None:
        [ask] = self.plan(AskModel)
        run = open_run(self.state)
        self.observe(
            ModelCallEnded(
                attempt=ask.attempt,
                model="m",
                code=code,
                detail="d",
                text="t",
                usage=Usage(at_least=True),
                at=Instant(AT + later),
                passing=passing,
                retry_after=advice,
            )
        )
        if self.state.phase == "idle":
            return
        # F-053: within the tries and the deadline. RUN-027: or once more for a history that can be made smaller.
        again = open_run(self.state)
        if again.retry_at is not None:
            assert passing
            assert ask.attempt < run.started.retry.tries
            assert AT + later <= again.retry_at < AT + 1_000
        else:
            assert code == "context-too-large"
            assert run.overflowed != ask.turn
            assert whole_turns(self.state.history) > 0
            assert not self.plan(AskModel)

    @precondition(lambda self: self.plan(AskModel))
    @rule()
    def interrupt_and_try_again(self) -> None:
        # A second try of a turn, which recovery will make.
        [ask] = self.plan(AskModel)
        self.write(
            ModelInterrupted(
                turn=ask.turn, attempt=ask.attempt, model="m", reason="cancelled", text="", usage=Usage(at_least=True)
            )
        )

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

    # Now and then only: a run that is stopped at every other step never gets far.
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

    def write(self, record: Record) -> None:
        self.state = advance(self.state, record)
        self.log.append(record)

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


def open_limits(log: list[Record]) -> Any:
    return [record for record in log if isinstance(record, RunStarted)][-1].limits


def _round_trip(records: tuple[Record, ...]) -> None:
    one = Batch(id=BatchId("b"), run=None, epoch=Epoch(1), at=AT, records=records)
    assert decode_batch(encode_batch(one)).records == records


TestHonestInterpreter = _Honest.TestCase
TestHonestInterpreter.settings = settings(max_examples=150, stateful_step_count=50)


# --- arbitrary records ----------------------------------------------------------------------------------

CALLS = st.sampled_from([CallId(f"r{run}-{turn}-{index}") for run in (1, 2) for turn in (1, 2) for index in (0, 1)])
OUTCOMES = HANDLER_OUTCOMES | REFUSALS
TURNS = st.integers(1, 3)


def _rows(calls: list[CallId], executions: list[ExecutionClass]) -> tuple[RunnableCall, ...]:
    return tuple(RunnableCall(call=c, execution=e) for c, e in zip(calls, executions, strict=False))


LIKELY: st.SearchStrategy[Record] = st.one_of(
    st.builds(AttemptStarted, epoch=st.integers(0, 4).map(Epoch)),
    st.builds(
        InputTaken,
        id=st.just(InputId("i")),
        source=st.sampled_from(["user", "steering", "follow-up", "joined", "correction"]),
        author=st.just("a"),
        offered_at=st.just(AT),
        parts=st.just((Text(text="x"),)),
    ),
    st.builds(
        ModelResponded,
        turn=TURNS,
        attempt=st.integers(1, 2),
        model=st.just("m"),
        message=st.builds(
            lambda names, turn, run: message(*names, turn=turn, run=run),
            st.lists(st.sampled_from(["a", "!b"]), max_size=2),
            TURNS,
            st.sampled_from(["r1", "r2"]),
        ),
        finish=FINISHES,
        usage=USAGES,
    ),
    st.builds(CallsDecided, turn=TURNS, runnable=st.builds(_rows, st.lists(CALLS, max_size=2), st.lists(CLASSES))),
    st.builds(ToolPrepared, calls=st.lists(CALLS, max_size=2).map(tuple)),
    st.builds(ToolSettled, call=CALLS, outcome=OUTCOMES),
    st.builds(StepSettled, call=CALLS, name=st.just("s"), value=st.just(JsonText("1"))),
)


class _Careless(RuleBasedStateMachine):
    """A writer of arbitrary records; sometimes it writes what is right, so that it gets somewhere."""

    state: ConversationState
    log: list[Record]
    runs: int

    @initialize()
    def open(self) -> None:
        self.state, self.log, self.runs = NEW, [], 0

    def write(self, record: Record) -> None:
        before = (self.state.phase, self.state.sequence, tuple(self.state.history), self.state.run)
        problem = legal(self.state, record)
        try:
            then = advance(self.state, record)
        except IllegalRecord as error:
            assert problem == error.problem
            assert (self.state.phase, self.state.sequence, tuple(self.state.history), self.state.run) == before
        else:
            assert problem is None
            assert then.sequence == self.state.sequence + 1
            self.state = then
            self.log.append(record)

    @rule(record=LIKELY)
    def write_anything(self, record: Record) -> None:
        self.write(record)

    @rule(data=st.data())
    def write_what_an_observation_gives(self, data: st.DataObject) -> None:
        # Observations that nothing vouches for: the records may be illegal, but then they are refused.
        run = RunId(f"r{self.runs + 1}")
        candidates: list[Observation] = [opened(), requested(run, epoch=Epoch(data.draw(st.integers(0, 3))))]
        candidates += [BudgetSpent(), answered(), answered(None), Stopped(cause="lost")]
        candidates.append(
            ResponseReduced(
                attempt=data.draw(st.integers(1, 2)),
                model="m",
                message=message(*data.draw(NAMES), turn=data.draw(TURNS), run=f"r{self.runs}"),
                finish="stop",
                usage=Usage(),
                forbidden=data.draw(st.booleans()),
            )
        )
        candidates.append(PermitsHeld(calls=tuple(data.draw(st.lists(CALLS, max_size=3)))))
        candidates.append(CallsEnded(outcomes=data.draw(st.dictionaries(CALLS, OUTCOMES))))
        candidates.append(judged(cast("dict[str, Any]", data.draw(st.dictionaries(CALLS, CLASSES | REFUSALS)))))
        candidates.append(StepEnded(call=data.draw(CALLS), name="s", value=JsonText("1")))
        for seen in data.draw(st.permutations(candidates)):
            try:
                decision = decide(self.state, seen)
            except IllegalRecord:
                continue
            if isinstance(decision, tuple):
                for record in decision:
                    self.runs += isinstance(record, RunStarted)
                    self.write(record)

    @invariant()
    def whatever_was_accepted_folds_to_a_valid_history(self) -> None:
        assert fold(self.log) == self.state
        if self.state.phase != "batch":
            assert history_is_valid(self.state.history)


TestCarelessWriter = _Careless.TestCase
TestCarelessWriter.settings = settings(max_examples=60, stateful_step_count=15)
