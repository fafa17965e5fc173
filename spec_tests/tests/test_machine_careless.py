"""A writer that writes anything: what the machine accepts always folds to a valid history."""

from typing import Any, cast

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.honest_interpreter import (
    CLASSES,
    FINISHES,
    HANDLER_OUTCOMES,
    NAMES,
    REFUSALS,
    USAGES,
)
from tests.machine_moves import AT, answered, judged, message, opened, requested
from triolet.kernel.machine.advance import IllegalRecord, advance, fold
from triolet.kernel.machine.decide import decide
from triolet.kernel.machine.observations import (
    BudgetSpent,
    CallsEnded,
    Observation,
    PermitsHeld,
    ResponseReduced,
    StepEnded,
    Stopped,
)
from triolet.kernel.machine.state import NEW, ConversationState
from triolet.kernel.machine.table import legal
from triolet.kernel.machine.validity import history_is_valid
from triolet.ports.identity import CallId, Epoch, InputId, RunId
from triolet.ports.messages import Text
from triolet.ports.records import (
    AttemptStarted,
    CallsDecided,
    InputTaken,
    ModelResponded,
    Record,
    RunnableCall,
    RunStarted,
    StepSettled,
    ToolPrepared,
    ToolSettled,
)
from triolet.ports.strict_json import JsonText
from triolet.ports.tools import ExecutionClass
from triolet.ports.usage import Usage

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
