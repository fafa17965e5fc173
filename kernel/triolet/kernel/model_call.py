"""Asking a model: one request, its parts as live events, its end as an observation.

Decides how a request is put together from state and definition, and which error of a model means what, and which may
pass. It decides no retry, waits for the time of one that was decided, and records nothing.
"""

from collections.abc import Sequence
from typing import Any

import attrs
import trio

from triolet.kernel.agent import Agent
from triolet.kernel.catalogue import Catalogue
from triolet.kernel.listening import listen
from triolet.kernel.machine.compaction import Measured
from triolet.kernel.machine.guards import open_run
from triolet.kernel.machine.observations import InterruptedCall, ModelCallEnded, ResponseReduced
from triolet.kernel.machine.plan import AskModel
from triolet.kernel.machine.reduction import Reduction
from triolet.kernel.machine.shown import WHOLE, shown
from triolet.kernel.machine.state import ConversationState
from triolet.kernel.machine.validity import history_problem
from triolet.kernel.measuring import Meter
from triolet.kernel.run_status import run_status
from triolet.kernel.trace import EventSource
from triolet.ports.errors import Corrupt, bounded
from triolet.ports.events import ReasoningDelta, TurnBegan
from triolet.ports.identity import MICROSECONDS, Instant, RunId
from triolet.ports.language_model import (
    ContextTooLarge,
    LanguageModel,
    MalformedResponse,
    ModelPart,
    ModelRefused,
    ModelRequest,
    ModelUnavailable,
    ReasoningChunk,
    TextChunk,
)
from triolet.ports.messages import Message, user_text
from triolet.ports.records import FailureCode
from triolet.ports.sources import Clock
from triolet.ports.text import repair
from triolet.ports.usage import Usage


@attrs.define(kw_only=True)
class InvalidHistory(Corrupt):
    """The history that a model was about to be shown breaks the pairing of calls and results (RUN-005)."""

    run: RunId
    problem: str

    @property
    def message(self) -> str:
        """What is wrong with it."""
        return f"the history of run {self.run} cannot be shown to a model: {self.problem}"


class ModelCall:
    """One run's calls to its model. `asking` describes the one under way, for whoever has to seal the run."""

    __slots__ = (
        "_agent",
        "_attempt",
        "_catalogue",
        "_checked",
        "_clock",
        "_measured",
        "_meter",
        "_model",
        "_reduction",
        "_source",
        "_view",
    )

    def __init__(
        self,
        agent: Agent[Any, Any],
        model: LanguageModel,
        source: EventSource,
        meter: Meter,
        clock: Clock,
        catalogue: Catalogue,
        *,
        checked: int,
    ) -> None:
        """`checked` messages of the history were found valid before this run, and are not looked at again."""
        self._agent = agent
        self._catalogue = catalogue
        self._meter = meter
        self._clock = clock
        self._measured: Measured | None = None
        self._view = WHOLE
        self._model = model
        self._source = source
        self._checked = checked
        self._reduction: Reduction | None = None
        self._attempt = 0

    @property
    def asking(self) -> InterruptedCall | None:
        """The call under way and what it has brought so far, or None."""
        if self._reduction is None:
            return None
        return InterruptedCall(
            attempt=self._attempt,
            model=self._model.identity.name,
            text=self._reduction.text,
            usage=self._spent(),
        )

    async def ask(
        self, state: ConversationState, action: AskModel, measured: Measured | None
    ) -> ResponseReduced | ModelCallEnded:
        """Make the request that `action` calls for, and observe how it ended. `measured` is its size, if known."""
        await self._wait_until(action.not_before)
        request = self._request(state, action)
        self._attempt = action.attempt
        self._measured = measured
        self._reduction = Reduction()
        self._source.live(TurnBegan, turn=action.turn, attempt=action.attempt)
        # A model that answers at once must not keep other tasks from running: one checkpoint a request.
        await trio.lowlevel.checkpoint()
        try:
            await self._stream(request, self._reduction)
            if not self._reduction.complete:
                return self._ended("model-unavailable", "the response was cut off in transport", passing=True)
            reduced = self._reduction.close(request.run, action.turn)
        except MalformedResponse as error:
            return self._ended("malformed-response", error.problem, passing=True)
        except ModelUnavailable as error:
            return self._ended("model-unavailable", error.message, passing=True, retry_after=error.retry_after)
        except ContextTooLarge as error:
            return self._ended("context-too-large", error.message)
        except ModelRefused as error:
            return self._ended("model-refused", error.message)
        self._reduction = None
        return ResponseReduced(
            attempt=action.attempt,
            model=self._model.identity.name,
            message=reduced.message,
            finish=reduced.finish,
            usage=self._meter.priced(reduced.usage),
            forbidden=request.tool_choice == "none",
        )

    async def _wait_until(self, at: Instant | None) -> None:
        if at is not None:
            wait = (at - self._clock.now()) / MICROSECONDS
            if wait > 0:
                await trio.sleep(wait)

    async def _stream(self, request: ModelRequest, reduction: Reduction) -> None:
        turn, attempt, source = request.turn, request.attempt, self._source

        def tell(part: ModelPart) -> None:
            if isinstance(part, TextChunk):
                source.text(turn, attempt, part.text)
            elif isinstance(part, ReasoningChunk):
                source.live(ReasoningDelta, turn=turn, attempt=attempt, text=part.text)

        await listen(self._model, request, reduction, tell if source.observed else None)

    def _request(self, state: ConversationState, action: AskModel) -> ModelRequest:
        run = open_run(state)
        messages = self._messages(state)
        agent, toolkit = self._agent, self._catalogue.toolkit
        choice = agent.choice_for(action.turn, toolkit)
        forbidden = action.forbid_tools or choice == "none" or len(toolkit) == 0
        return ModelRequest(
            run=run.started.run,
            turn=action.turn,
            attempt=action.attempt,
            instructions=run.started.instructions,
            messages=messages,
            tools=() if forbidden else toolkit.declarations,
            tool_choice="none" if forbidden else choice,
            output=agent.output_schema,
            settings=agent.settings,
            deadline=run.started.deadline,
        )

    def _messages(self, state: ConversationState) -> Sequence[Message]:
        history, run = state.history, open_run(state)
        problem = history_problem(history, self._checked)
        self._checked = len(history)
        messages = shown(history, state.view)
        if problem is None and state.view is not self._view:
            problem = history_problem(messages)
            self._view = state.view
        if problem is not None:
            raise InvalidHistory(run=run.started.run, problem=problem)
        if not self._agent.policy.run_status:
            return messages
        return (*messages, user_text(run_status(run)))

    def _ended(
        self, code: FailureCode, detail: str, *, passing: bool = False, retry_after: float | None = None
    ) -> ModelCallEnded:
        reduction = self._reduction
        ended = ModelCallEnded(
            attempt=self._attempt,
            model=self._model.identity.name,
            code=code,
            # An adapter's own sentence, but it ends up in the run's settlement: nothing in it may spoil that.
            detail=bounded(repair(detail)),
            text="" if reduction is None else reduction.text,
            usage=self._spent(),
            at=self._clock.now(),
            passing=passing,
            retry_after=retry_after,
        )
        self._reduction = None
        return ended

    def _spent(self) -> Usage:
        reduction = self._reduction
        if reduction is None:
            return self._meter.broken_off(None, self._measured)
        return self._meter.broken_off(reduction.usage, self._measured, reduction.text)
