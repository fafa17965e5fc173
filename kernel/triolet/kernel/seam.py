"""The seam before a response: measuring the request, making it smaller, and asking the model.

Decides nothing about limits or cuts; it is how the plan's actions at a seam are carried out. It remembers the last
measurement, which the plan is made with, and records nothing.
"""

from typing import Any

from triolet.kernel.agent import Agent
from triolet.kernel.machine.compaction import Measured, Summarize
from triolet.kernel.machine.guards import open_run
from triolet.kernel.machine.observations import (
    InterruptedCall,
    ModelCallEnded,
    RequestMeasured,
    ResponseReduced,
    Summarized,
    SummaryFailed,
)
from triolet.kernel.machine.plan import AskModel, MeasureRequest
from triolet.kernel.machine.state import ConversationState
from triolet.kernel.measuring import Meter
from triolet.kernel.model_call import ModelCall
from triolet.kernel.runtime import Runtime
from triolet.kernel.summary import Summarizer
from triolet.kernel.trace import EventSource
from triolet.ports.conversation_store import Address
from triolet.ports.language_model import LanguageModel


class Seam:
    """One run's dealings with its model."""

    def __init__(
        self,
        runtime: Runtime,
        agent: Agent[Any, Any],
        model: LanguageModel,
        source: EventSource,
        address: Address,
        *,
        checked: int,
    ) -> None:
        """`checked` messages of the history were found valid before this run, and are not looked at again."""
        self._clock = runtime.clock
        self._meter = Meter(agent, runtime.capabilities, model.identity)
        self._model_call = ModelCall(agent, model, source, self._meter, runtime.clock, checked=checked)
        self._summarizer = Summarizer(agent, model, runtime.capabilities.compactor, self._meter, address)
        self._sized = False
        self.measured: Measured | None = None
        """What was last measured: the plan is made with it."""

    @property
    def asking(self) -> InterruptedCall | None:
        """The model call under way and what it has brought so far, or None."""
        return self._model_call.asking or self._summarizer.asking

    def measure(self, state: ConversationState, action: MeasureRequest) -> RequestMeasured:
        """Look at the clock, and at the coming request as far as limits depend on its size."""
        self._sized = action.sized
        self.measured = measured = self._meter.measure(state, sized=action.sized, forbid_tools=action.forbid_tools)
        at = self._clock.now()
        if not action.sized:
            return RequestMeasured(tokens=None, cost=None, at=at)
        return RequestMeasured(tokens=measured.tokens, cost=self._meter.cost(measured.tokens), at=at)

    async def work(
        self, state: ConversationState, action: AskModel | Summarize
    ) -> ResponseReduced | ModelCallEnded | Summarized | SummaryFailed:
        """Make the request that `action` calls for, and observe how it ended."""
        measured = self.measured
        if isinstance(action, Summarize):
            return await self._summarizer.make(state, action, open_run(state).started.run, state.view)
        return await self._model_call.ask(state, action, measured if self._sized else None)
