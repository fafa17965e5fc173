"""The rules of a generated run that are about measuring, making smaller, and trying again."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.honest_interpreter import USAGES, HonestInterpreter
from tests.machine_moves import AT
from triolet.kernel.machine.compaction import (
    ClearResults,
    GiveUp,
    Measured,
    Summarize,
    request_key,
    whole_turns,
)
from triolet.kernel.machine.guards import open_run
from triolet.kernel.machine.observations import (
    ContextFull,
    ModelCallEnded,
    RequestMeasured,
    ResultsDue,
    Summarized,
    SummaryFailed,
)
from triolet.kernel.machine.plan import (
    AskModel,
    MeasureRequest,
    ReportBudgetSpent,
)
from triolet.ports.identity import Instant
from triolet.ports.records import (
    ModelInterrupted,
)
from triolet.ports.usage import Usage


class HonestContext(HonestInterpreter):
    """What an honest interpreter does before a response."""

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
