"""What a kernel has bound for its lifetime: the ports, found complete by preflight, and the shared limits.

Decides nothing; it turns optional ports into ones that are there, so that no code behind it asks again.
"""

from collections.abc import Mapping
from typing import Any

import attrs
import trio

from triolet.kernel.agent import Agent
from triolet.kernel.near_names import near_names
from triolet.kernel.preflight import check_assembly
from triolet.kernel.telemetry.watch import Watch
from triolet.kernel.threads import Threads
from triolet.ports.capabilities import Capabilities
from triolet.ports.conversation_store import ConversationStore
from triolet.ports.errors import Misuse
from triolet.ports.identity import AgentId, RunId
from triolet.ports.language_model import LanguageModel
from triolet.ports.records import Limits, RunStarted
from triolet.ports.sources import Clock, IdGenerator
from triolet.ports.usage import Usage


@attrs.define(kw_only=True)
class UnknownAgent(Misuse):
    """A run names an agent that the kernel was not opened with, or another version of one that it was."""

    agent: str
    near: tuple[str, ...]

    @property
    def message(self) -> str:
        """Which agent, and which ones are there."""
        known = f"; it has {', '.join(self.near)}" if self.near else "; it has none"
        return f"the kernel was not opened with agent {self.agent!r}{known}"


@attrs.define(kw_only=True)
class DefinitionChanged(Misuse):
    """The kernel's agent is not what it was when the run started. Nothing was recorded, and the run still waits."""

    agent: str
    run: RunId

    @property
    def message(self) -> str:
        """Which agent, and which run."""
        return f"agent {self.agent!r} is not defined as it was when run {self.run} started"


@attrs.define(kw_only=True)
class UnpricedModel(Misuse):
    """A run's cost is limited, and the price list does not have its model. Nothing was recorded or asked (RUN-025)."""

    agent: str
    model: str

    @property
    def message(self) -> str:
        """Whose limit, and which model."""
        return f"agent {self.agent!r} has a limit on cost, and model {self.model!r} has no price"


@attrs.frozen(kw_only=True, eq=False, weakref_slot=False)
class Runtime:
    """Everything that runs share."""

    agents: Mapping[AgentId, Agent[Any, Any]]
    capabilities: Capabilities
    conversations: ConversationStore
    clock: Clock
    ids: IdGenerator
    groups: Mapping[str, trio.CapacityLimiter]
    threads: Threads
    watch: Watch

    def check_known(self, agent: Agent[Any, Any]) -> None:
        """Raise `UnknownAgent` unless the kernel was opened with this very agent: preflight has seen no other."""
        if self.agents.get(agent.id) is not agent:
            raise UnknownAgent(agent=agent.id, near=near_names(agent.id, tuple(self.agents)))

    def known(self, agent: AgentId) -> Agent[Any, Any]:
        """The agent of this id. Raises `UnknownAgent`."""
        found = self.agents.get(agent)
        if found is None:
            raise UnknownAgent(agent=agent, near=near_names(agent, tuple(self.agents)))
        return found

    def agent_of(self, started: RunStarted) -> Agent[Any, Any]:
        """The agent that a run was started with, exactly as it was then. Raises `UnknownAgent`, `DefinitionChanged`."""
        agent = self.known(started.agent)
        if agent.definition != started.definition:
            raise DefinitionChanged(agent=started.agent, run=started.run)
        return agent

    def require_price(self, agent: Agent[Any, Any], model: LanguageModel, limits: Limits) -> None:
        """Raise `UnpricedModel` where a limit on cost could never be reached."""
        prices = self.capabilities.prices
        if limits.max_cost is not None and (prices is None or prices.price(model.identity, Usage()) is None):
            raise UnpricedModel(agent=agent.id, model=model.identity.name)

    def model_for(self, agent: Agent[Any, Any], override: LanguageModel | None) -> LanguageModel:
        """The run's own model, or else the agent's, or else the kernel's."""
        model = override or agent.model or self.capabilities.model
        if model is None:
            raise AssertionError("preflight names what is missing")
        return self.watch.model(model)


def assemble(
    agents: Mapping[AgentId, Agent[Any, Any]],
    capabilities: Capabilities,
    groups: Mapping[str, int],
    max_threads: int,
    watch: Watch,
) -> Runtime:
    """Bind a complete assembly. Raises `MissingCapabilities`, naming everything that is missing (CAP-002)."""
    check_assembly(agents.values(), capabilities, groups)
    capabilities = watch.capabilities(capabilities)
    conversations, clock, ids = capabilities.conversations, capabilities.clock, capabilities.ids
    if conversations is None or clock is None or ids is None:
        raise AssertionError("preflight names what is missing")
    return Runtime(
        agents=agents,
        capabilities=capabilities,
        conversations=conversations,
        clock=clock,
        ids=ids,
        groups={name: trio.CapacityLimiter(tokens) for name, tokens in groups.items()},
        threads=Threads(max_threads, clock),
        watch=watch,
    )
