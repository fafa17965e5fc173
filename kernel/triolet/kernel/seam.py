"""The seam before a response: measuring the request, making it smaller, and asking the model.

Decides nothing about limits or cuts; it is how the plan's actions at a seam are carried out. It remembers the last
measurement, which the plan is made with, and records nothing.
"""

from typing import Any

from triolet.kernel.accounts import Accounts
from triolet.kernel.agent import Agent
from triolet.kernel.catalogue import Catalogue
from triolet.kernel.machine.compaction import Measured, Summarize
from triolet.kernel.machine.guards import open_run
from triolet.kernel.machine.observations import (
    BudgetGranted,
    BudgetRefused,
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
from triolet.ports.budget import Amounts
from triolet.ports.conversation_store import Address
from triolet.ports.language_model import LanguageModel


class Seam:
    """One run's dealings with its model."""

    __slots__ = (
        "_accounts",
        "_address",
        "_agent",
        "_catalogue",
        "_clock",
        "_meter",
        "_model_call",
        "_sized",
        "_summarizer",
        "_watch",
        "measured",
    )

    def __init__(
        self,
        runtime: Runtime,
        agent: Agent[Any, Any],
        model: LanguageModel,
        source: EventSource,
        address: Address,
        accounts: Accounts,
        catalogue: Catalogue,
        *,
        checked: int,
    ) -> None:
        """`checked` messages of the history were found valid before this run, and are not looked at again."""
        self._clock = runtime.clock
        self._watch = runtime.watch
        self._agent = agent
        self._address = address
        self._accounts = accounts
        self._catalogue = catalogue
        self._meter = Meter(agent, runtime.capabilities, model.identity, catalogue)
        self._model_call = ModelCall(agent, model, source, self._meter, runtime.clock, catalogue, checked=checked)
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
        # Budgets above the run are asked for as much as the request is likely to take.
        sized = self._sized = action.sized or self._accounts.bound
        self.measured = measured = self._meter.measure(state, sized=sized, forbid_tools=action.forbid_tools)
        at = self._clock.now()
        if not sized:
            return RequestMeasured(tokens=None, cost=None, at=at)
        return RequestMeasured(tokens=measured.tokens, cost=self._meter.cost(measured.tokens), at=at)

    def is_paid(self, action: AskModel | Summarize) -> bool:
        """Whether the budgets above the run have granted this request."""
        return self._accounts.holds(_key(action))

    async def pay(self, action: AskModel | Summarize) -> BudgetGranted | BudgetRefused:
        """Ask the budgets above the run for what this request is likely to take."""
        tokens = 0 if self.measured is None else self.measured.tokens
        turns = 1 if isinstance(action, AskModel) else 0
        amounts: Amounts = {"turns": turns, "tokens": tokens, "cost": self._meter.cost(tokens) or 0}
        return await self._accounts.reserve(_key(action), amounts)

    async def work(
        self, state: ConversationState, action: AskModel | Summarize
    ) -> ResponseReduced | ModelCallEnded | Summarized | SummaryFailed:
        """Make the request that `action` calls for, and observe how it ended. What it used is charged in any case."""
        seen: ResponseReduced | ModelCallEnded | Summarized | SummaryFailed | None = None
        try:
            if isinstance(action, Summarize):
                seen = await self._summarized(state, action)
            else:
                seen = await self._model_call.ask(state, action, self.measured if self._sized else None)
            return seen
        finally:
            asking = self.asking
            usage = seen.usage if seen is not None else None if asking is None else asking.usage
            await self._accounts.settle(usage, turns=1 if isinstance(seen, ResponseReduced) else 0)

    async def _summarized(self, state: ConversationState, action: Summarize) -> Summarized | SummaryFailed:
        run = open_run(state).started.run
        with self._watch.compaction(self._agent, self._address, run, action, lambda: self._catalogue.toolkit) as work:
            made = await self._summarizer.make(state, action, run, state.view)
            return work.settled(made, made.reason if isinstance(made, SummaryFailed) else None)


def _key(action: AskModel | Summarize) -> str:
    return f"{action.turn}/summary" if isinstance(action, Summarize) else f"{action.turn}/{action.attempt}"
