"""Measuring: about how large a run's next request is, without counting it from the beginning each time (RUN-025).

Decides how estimates add up: what every request carries once a run, each message once, and a summary or a cleared
result in the place of what it replaces. It decides no limit; without an estimator every message counts as one.
"""

from collections.abc import Sequence
from typing import Any, Final

import attrs

from triolet.kernel.agent import Agent
from triolet.kernel.catalogue import Catalogue
from triolet.kernel.machine.compaction import CLEARED_TOKENS, Measured, request_key
from triolet.kernel.machine.guards import open_run
from triolet.kernel.machine.history import History
from triolet.kernel.machine.shown import WHOLE, View
from triolet.kernel.machine.state import ConversationState
from triolet.kernel.run_status import run_status
from triolet.ports.capabilities import Capabilities
from triolet.ports.language_model import ModelIdentity
from triolet.ports.messages import Message
from triolet.ports.usage import Usage

_NO_SIZES: Final[tuple[int, ...]] = ()


class Meter:
    """The size of one run's requests."""

    __slots__ = (
        "_agent",
        "_catalogue",
        "_estimator",
        "_fixed",
        "_model",
        "_prices",
        "_saved",
        "_sizes",
        "_toolkit",
        "_view",
        "_whole",
    )

    def __init__(
        self, agent: Agent[Any, Any], capabilities: Capabilities, model: ModelIdentity, catalogue: Catalogue
    ) -> None:
        self._agent = agent
        self._catalogue = catalogue
        self._toolkit = catalogue.toolkit
        self._estimator = capabilities.estimator
        self._prices = capabilities.prices
        self._model = model
        self._sizes: list[int] = []
        self._whole = 0
        self._fixed: dict[tuple[str, bool], int] = {}
        self._view: View = WHOLE
        self._saved = 0

    def measure(self, state: ConversationState, *, sized: bool, forbid_tools: bool) -> Measured:
        """The coming request of `state`; with `sized` its tokens, otherwise only which request it is."""
        key = request_key(state)
        if not sized:
            return Measured(key=key, tokens=0, fixed=0, sizes=_NO_SIZES)
        sizes = self.sizes(state.history)
        if state.view is not self._view:
            self._view, self._saved = state.view, self._savings(state.view)
        fixed = self._fixed_size(state, forbid_tools=forbid_tools)
        return Measured(key=key, tokens=fixed + self._whole - self._saved, fixed=fixed, sizes=sizes)

    def sizes(self, history: History) -> Sequence[int]:
        """What each message takes where it is shown in full."""
        if len(self._sizes) > len(history):
            # Another branch of the future: what was measured may never have become true.
            self._sizes, self._whole, self._view = [], 0, WHOLE
        for index in range(len(self._sizes), len(history)):
            size = self.size(history[index])
            self._sizes.append(size)
            self._whole += size
        return self._sizes

    def cost(self, tokens: int) -> int | None:
        """What a request of so many tokens costs before its answer; None where nobody has a price."""
        return None if self._prices is None else self._prices.price(self._model, Usage(input_tokens=tokens))

    def priced(self, usage: Usage) -> Usage:
        """The same usage with its price, where somebody has one."""
        if self._prices is None or usage.cost is not None:
            return usage
        return attrs.evolve(usage, cost=self._prices.price(self._model, usage))

    def broken_off(self, reported: Usage | None, measured: Measured | None = None, text: str = "") -> Usage:
        """What a call that broke off has used, as far as anybody can tell: a bound from below.

        The provider may have generated more than it `reported`. Where it reported nothing, the request's size and the
        `text` that had come are estimated, if it was `measured`.
        """
        if reported is not None:
            return self.priced(attrs.evolve(reported, at_least=True))
        if self._estimator is None or measured is None:
            return self.priced(Usage(at_least=True))
        return self.priced(Usage(input_tokens=measured.tokens, output_tokens=self._estimator.text(text), at_least=True))

    def size(self, message: Message) -> int:
        """What one message takes."""
        return 1 if self._estimator is None else self._estimator.message(message)

    def _savings(self, view: View) -> int:
        replaced = sum(
            max(0, self._sizes[index] - CLEARED_TOKENS * len(message.results))
            for index, message in view.replaced.items()
        )
        summary = 0 if view.summary is None else self.size(view.summary)
        return sum(self._sizes[: view.summarised]) + replaced - summary

    def _fixed_size(self, state: ConversationState, *, forbid_tools: bool) -> int:
        estimator, agent = self._estimator, self._agent
        if estimator is None:
            return 0
        instructions = open_run(state).started.instructions
        if self._toolkit is not self._catalogue.toolkit:
            self._toolkit, self._fixed = self._catalogue.toolkit, {}
        known = self._fixed.get((instructions, forbid_tools))
        if known is None:
            known = estimator.text(instructions)
            if not forbid_tools:
                known += estimator.tools(self._toolkit.declarations)
            schema = agent.output_schema
            if schema is not None:
                known += estimator.schema(schema.schema)
            self._fixed[instructions, forbid_tools] = known
        status = estimator.text(run_status(open_run(state))) if agent.policy.run_status else 0
        return known + status
