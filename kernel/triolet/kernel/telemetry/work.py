"""The spans between a run and its operations: turns, tool calls, compactions, and how each of them ended.

Decides how an outcome or a settlement is told, and which span is current where. Spans are begun and ended in plain code
of the task that does the work; a tool's task inherits its turn.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from triolet.kernel.agent import Agent
from triolet.kernel.machine.compaction import Summarize
from triolet.kernel.pipeline.runnable import Runnable
from triolet.kernel.telemetry.content import arguments_content, result_content
from triolet.kernel.telemetry.described import CALL, TOOL, name
from triolet.kernel.telemetry.endings import WELL, Ending, ending_of, failed
from triolet.kernel.telemetry.model import OPERATION, ObservedModel
from triolet.kernel.telemetry.otel import Attributes, Backend, Current, OpenSpan, note_on_current_span
from triolet.kernel.telemetry.ports import observe
from triolet.kernel.telemetry.scope import Scope, run_scope, scope_attributes
from triolet.kernel.telemetry.settled import OUTCOMES, ending_of_call, ending_of_run
from triolet.kernel.telemetry.watch import Work
from triolet.kernel.trace import EventSource
from triolet.ports.capabilities import Capabilities
from triolet.ports.conversation_store import Address
from triolet.ports.identity import CallId, Epoch, RunId
from triolet.ports.language_model import LanguageModel
from triolet.ports.outcomes import (
    Outcome,
    ToolDefect,
    ToolSuccess,
    ToolUnknownOutcome,
)
from triolet.ports.tools import Toolkit

T = TypeVar("T")

_FIRST: Final[Attributes] = {"triolet.operation.version": 1, "triolet.retry.count": 0}
"""The work itself is in its first version, and never tried again under the same identity."""


class Listened:
    """A watch that somebody listens to."""

    def __init__(self, backend: Backend, content_limit: int | None) -> None:
        self._backend = backend
        self._content_limit = content_limit

    def capabilities(self, bound: Capabilities) -> Capabilities:
        """These capabilities, observed."""
        return observe(bound, self._backend, self._content_limit)

    def model(self, model: LanguageModel) -> LanguageModel:
        """This model, observed, once."""
        if isinstance(model, ObservedModel):
            return model
        return ObservedModel(model, self._backend, self._content_limit)

    def run(
        self,
        agent: Agent[Any, Any],
        source: EventSource,
        address: Address,
        epoch: Epoch,
        tools: Callable[[], Toolkit],
    ) -> AbstractContextManager[object]:
        """An attempt at a run."""
        return _Run(self._backend, agent, source, address, epoch, tools)

    def turn(self, turn: int) -> None:
        """This turn is under way."""
        scope = run_scope()
        if scope is not None and scope.enter_turn is not None:
            scope.enter_turn(turn)

    def call(self, runnable: Runnable) -> Work:
        """A tool call."""
        return _Call(self._backend, runnable, self._content_limit)

    def refused(self, outcomes: Mapping[CallId, Outcome]) -> None:
        """Calls without a handler."""
        for call, outcome in outcomes.items():
            reason = getattr(outcome, "reason", None)
            told: Attributes = {CALL: name(call), "triolet.tool.outcome": outcome.kind}
            if isinstance(reason, str):
                told["triolet.tool.reason"] = reason
            note_on_current_span("triolet.call.refused", told)
            self._backend.failures.add(1, {OPERATION: "execute_tool", "error.type": outcome.kind})

    def compaction(
        self, agent: Agent[Any, Any], address: Address, run: RunId, action: Summarize, tools: Callable[[], Toolkit]
    ) -> Work:
        """The making of a summary."""
        scope = Scope(
            run=run,
            conversation=address.conversation,
            tenant=address.tenant,
            agent=agent.id,
            tools=tools,
        )
        return _Compaction(self._backend, scope, action)


class _Watched:
    """A span around work in one task, with the metrics of its end."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._span: OpenSpan | None = None
        self._current: Current | None = None
        self._ending: Ending = WELL
        self._labels: dict[str, str] = {}

    def _begin(self, span: OpenSpan, labels: dict[str, str]) -> None:
        self._span, self._labels = span, labels
        self._current = span.current
        self._current.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        span, current = self._span, self._current
        if span is None or current is None:
            raise AssertionError("work is begun before it ends")
        current.__exit__()
        ending = self._ending if error is None else ending_of(error)
        seconds = span.end(ending)
        labels = self._labels | ending.labels
        self._backend.model_seconds.record(seconds, labels)
        if ending.outcome == "failed":
            self._backend.failures.add(1, labels)


class _Run(_Watched):
    """An attempt at a run, and its turns one after the other."""

    def __init__(
        self,
        backend: Backend,
        agent: Agent[Any, Any],
        source: EventSource,
        address: Address,
        epoch: Epoch,
        tools: Callable[[], Toolkit],
    ) -> None:
        super().__init__(backend)
        self._agent = agent
        self._tools = tools
        self._source = source
        self._address = address
        self._epoch = epoch
        self._turn = 0
        self._turn_span: OpenSpan | None = None
        self._turn_current: Current | None = None

    def __enter__(self) -> Self:
        agent, trace = self._agent, self._source.trace
        scope = Scope(
            run=trace.run,
            conversation=trace.conversation,
            tenant=self._address.tenant,
            agent=agent.id,
            tools=self._tools,
            enter_turn=self._enter_turn,
        )
        labels = {OPERATION: "invoke_agent", "gen_ai.agent.name": name(agent.id)}
        told: Attributes = {
            **scope.attributes,
            **labels,
            **_FIRST,
            "gen_ai.agent.version": name(agent.version),
            "triolet.agent.definition": agent.definition,
            "triolet.epoch": self._epoch,
        }
        self._begin(self._backend.begin(f"invoke_agent {name(agent.id)}", "internal", told, scope), labels)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending, told = ending_of_run(self._source.terminal)
        if self._span is not None:
            self._span.tell(told | {"triolet.turns": self._turn})
        self._leave_turn(self._ending if error is None else ending_of(error))
        super().__exit__(kind, error, trace)

    def _enter_turn(self, turn: int) -> None:
        if turn == self._turn and self._turn_span is not None:
            return
        self._leave_turn(WELL)
        self._turn = turn
        self._turn_span = self._backend.begin(
            "turn", "internal", {**scope_attributes(), **_FIRST, "triolet.turn": turn}
        )
        self._turn_current = self._turn_span.current
        self._turn_current.__enter__()

    def _leave_turn(self, ending: Ending) -> None:
        if self._turn_span is not None and self._turn_current is not None:
            self._turn_current.__exit__()
            self._turn_span.end(ending)
        self._turn_span = self._turn_current = None


class _Call(_Watched):
    """A handler's run."""

    def __init__(self, backend: Backend, runnable: Runnable, content_limit: int | None) -> None:
        super().__init__(backend)
        self._runnable = runnable
        self._content_limit = content_limit

    def __enter__(self) -> Self:
        tool = self._runnable.tool
        labels = {OPERATION: "execute_tool", TOOL: tool.name}
        told: Attributes = {
            **scope_attributes(),
            **labels,
            **_FIRST,
            CALL: name(self._runnable.call.id),
            "gen_ai.tool.type": "function",
            "triolet.tool.execution": tool.execution,
        }
        span = self._backend.begin(f"execute_tool {tool.name}", "internal", told)
        if self._content_limit is not None and span.recording:
            shown = arguments_content(tool, self._runnable.input, self._content_limit)
            span.tell({"gen_ai.tool.call.arguments": shown})
        self._begin(span, labels)
        return self

    def settled(self, outcome: T, problem: str | None = None) -> T:
        """Tell the outcome."""
        span = self._span
        if span is None or not isinstance(outcome, OUTCOMES):
            return outcome
        told: Attributes = {"triolet.tool.outcome": outcome.kind}
        self._ending = ending_of_call(outcome)
        if isinstance(outcome, ToolDefect | ToolUnknownOutcome):
            told["triolet.tool.reason"] = outcome.reason
        if isinstance(outcome, ToolSuccess):
            told["triolet.size"] = len(outcome.output) if outcome.size is None else outcome.size
        if self._content_limit is not None and span.recording:
            told["gen_ai.tool.call.result"] = result_content(outcome, self._content_limit)
        span.tell(told)
        return outcome


class _Compaction(_Watched):
    """The making of a summary."""

    def __init__(self, backend: Backend, scope: Scope, action: Summarize) -> None:
        super().__init__(backend)
        self._scope = scope
        self._action = action

    def __enter__(self) -> Self:
        labels = {OPERATION: "compact"}
        told: Attributes = {
            **self._scope.attributes,
            **labels,
            **_FIRST,
            "triolet.turn": self._action.turn,
            "triolet.compaction.by": self._action.by,
        }
        self._begin(self._backend.begin("triolet.compaction", "internal", told, self._scope), labels)
        return self

    def settled(self, outcome: T, problem: str | None = None) -> T:
        """Tell what became of it."""
        if problem is not None:
            self._ending = failed("other", problem)
        return outcome
