"""Asking a model: one request, its parts as live events, its end as an observation.

Decides how a request is put together from state and definition, and which error of a model means what. It
retries nothing and records nothing.
"""

from typing import Any

import attrs
import trio

from triolet.kernel.agent import Agent
from triolet.kernel.machine.observations import InterruptedCall, ModelCallEnded, ResponseReduced
from triolet.kernel.machine.plan import AskModel
from triolet.kernel.machine.reduction import Reduction
from triolet.kernel.machine.state import ConversationState
from triolet.kernel.machine.validity import history_problem
from triolet.kernel.scopes import unwrapped
from triolet.kernel.trace import EventSource
from triolet.ports.errors import Corrupt, bounded
from triolet.ports.events import ReasoningDelta, TextDelta, TurnBegan
from triolet.ports.identity import RunId
from triolet.ports.language_model import (
    ContextTooLarge,
    LanguageModel,
    MalformedResponse,
    ModelRefused,
    ModelRequest,
    ModelUnavailable,
    ReasoningChunk,
    TextChunk,
)
from triolet.ports.records import FailureCode
from triolet.ports.text import repair
from triolet.ports.usage import Usage

PARTS_BETWEEN_YIELDS = 64
"""After so many parts in a row other tasks get their turn, however fast the model is."""


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

    __slots__ = ("_agent", "_attempt", "_checked", "_model", "_reduction", "_source")

    def __init__(self, agent: Agent[Any, Any], model: LanguageModel, source: EventSource, *, checked: int) -> None:
        """`checked` messages of the history were found valid before this run, and are not looked at again."""
        self._agent = agent
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

    async def ask(self, state: ConversationState, action: AskModel) -> ResponseReduced | ModelCallEnded:
        """Make the request that `action` calls for, and observe how it ended."""
        request = self._request(state, action)
        self._attempt = action.attempt
        self._reduction = Reduction()
        self._source.live(TurnBegan, turn=action.turn, attempt=action.attempt)
        # A model that answers at once must not keep other tasks from running: one checkpoint a request.
        await trio.lowlevel.checkpoint()
        try:
            # A model that keeps tasks of its own has a nursery, which wraps what passes through it.
            with unwrapped():
                await self._stream(request, self._reduction)
            if not self._reduction.complete:
                return self._ended("model-unavailable", "the response was cut off in transport")
            reduced = self._reduction.close(request.run, action.turn)
        except MalformedResponse as error:
            return self._ended("malformed-response", error.problem)
        except ModelUnavailable as error:
            return self._ended("model-unavailable", error.message)
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
            usage=reduced.usage,
            forbidden=request.tool_choice == "none",
        )

    async def _stream(self, request: ModelRequest, reduction: Reduction) -> None:
        source = self._source
        count = 0
        async with self._model.stream(request) as parts:
            async for part in parts:
                reduction.feed(part)
                if isinstance(part, TextChunk):
                    source.live(TextDelta, turn=request.turn, attempt=request.attempt, text=part.text)
                elif isinstance(part, ReasoningChunk):
                    source.live(ReasoningDelta, turn=request.turn, attempt=request.attempt, text=part.text)
                count += 1
                if count % PARTS_BETWEEN_YIELDS == 0:
                    await trio.lowlevel.checkpoint()

    def _request(self, state: ConversationState, action: AskModel) -> ModelRequest:
        run = state.run
        if run is None:
            raise AssertionError("only an open run asks a model")
        problem = history_problem(state.history, self._checked)
        if problem is not None:
            raise InvalidHistory(run=run.started.run, problem=problem)
        self._checked = len(state.history)
        agent = self._agent
        choice = agent.choice_for(action.turn)
        forbidden = action.forbid_tools or choice == "none" or len(agent.toolkit) == 0
        return ModelRequest(
            run=run.started.run,
            turn=action.turn,
            attempt=action.attempt,
            instructions=run.started.instructions,
            messages=state.history,
            tools=() if forbidden else agent.toolkit.declarations,
            tool_choice="none" if forbidden else choice,
            output=agent.output_schema,
            settings=agent.settings,
        )

    def _ended(self, code: FailureCode, detail: str) -> ModelCallEnded:
        reduction = self._reduction
        ended = ModelCallEnded(
            attempt=self._attempt,
            model=self._model.identity.name,
            code=code,
            # An adapter's own sentence, but it ends up in the run's settlement: nothing in it may spoil that.
            detail=bounded(repair(detail)),
            text="" if reduction is None else reduction.text,
            usage=self._spent(),
        )
        self._reduction = None
        return ended

    def _spent(self) -> Usage:
        # What was reported before the end is a bound from below: the provider may have generated more.
        reported = None if self._reduction is None else self._reduction.usage
        return Usage(at_least=True) if reported is None else attrs.evolve(reported, at_least=True)
