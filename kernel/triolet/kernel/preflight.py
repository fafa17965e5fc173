"""Preflight: everything that an assembly needs and does not have, named at once (CAP-002).

Decides, from agents and capabilities alone, what is missing. It runs before anything is opened, weakens nothing
and chooses no substitute.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Any

import attrs

from triolet.kernel.agent import Agent
from triolet.kernel.catalogue import bound_sources, needs_of
from triolet.ports.capabilities import Capabilities
from triolet.ports.errors import Misuse
from triolet.ports.tools import Tool, Toolkit


@attrs.define(kw_only=True)
class MissingCapabilities(Misuse):
    """An assembly lacks ports. `missing` pairs each port's name with who needs it, sorted, without repeats."""

    missing: tuple[tuple[str, str], ...]

    @property
    def message(self) -> str:
        """Every missing port, and who needs it."""
        rows = "; ".join(f"{port} (for {needed_by})" for port, needed_by in self.missing)
        return f"missing capabilities: {rows}"


@attrs.define(kw_only=True)
class DuplicateSource(Misuse):
    """Two bound tool sources share a name."""

    source: str

    @property
    def message(self) -> str:
        """Which name."""
        return f"two tool sources have the name {self.source!r}"


def check_assembly(agents: Iterable[Agent[Any, Any]], capabilities: Capabilities, groups: Collection[str]) -> None:
    """Raise `MissingCapabilities` unless these agents can run on these capabilities; `DuplicateSource`."""
    names: set[str] = set()
    for source in capabilities.tool_sources or ():
        if source.name in names:
            raise DuplicateSource(source=source.name)
        names.add(source.name)
    needs: set[tuple[str, str]] = {(name, "every run") for name in ("conversations", "clock", "ids")}
    for agent in agents:
        needs.update(_needs(agent))
        needs.update(_not_kept(agent, capabilities))
        needs.update(_needs_of_sources(agent, capabilities))
        if capabilities.ledger is not None:
            needs.update(_durable_needs(agent))
    bound = {field.name for field in attrs.fields(Capabilities) if getattr(capabilities, field.name) is not None}
    bound.update(f"group {name}" for name in groups)
    bound.update(f"tool source {source.name}" for source in capabilities.tool_sources or ())
    missing = tuple(sorted((port, by) for port, by in needs if port not in bound))
    if missing:
        raise MissingCapabilities(missing=missing)


def _needs(agent: Agent[Any, Any]) -> Iterator[tuple[str, str]]:
    if agent.model is None:
        yield "model", f"agent {agent.id}"
    policy = agent.policy
    if policy.max_tokens or policy.max_cost or policy.context_tokens:
        yield "estimator", f"limits of agent {agent.id}"
    if policy.max_cost:
        yield "prices", f"limits of agent {agent.id}"
    if policy.summarise == "host":
        yield "compactor", f"agent {agent.id}"
    for tool in _reachable(agent.toolkit):
        for port in needs_of(tool):
            yield port, f"tool {tool.name}"


def _needs_of_sources(agent: Agent[Any, Any], capabilities: Capabilities) -> Iterator[tuple[str, str]]:
    for name in agent.sources:
        yield f"tool source {name}", f"agent {agent.id}"
    for source in bound_sources(agent, capabilities):
        for port in source.requires:
            yield port, f"tool source {source.name}"


def _durable_needs(agent: Agent[Any, Any]) -> Iterator[tuple[str, str]]:
    # What has to outlive a process needs more than what ends with it.
    yield "sessions", "accepted work"
    if agent.policy.context_tokens is None and not agent.policy.bounded:
        yield "compaction (context_tokens, or bounded=True)", f"agent {agent.id}"
    for tool in _reachable(agent.toolkit):
        if tool.only_ephemeral:
            yield "an assembly without a ledger", f"tool {tool.name}"


def _not_kept(agent: Agent[Any, Any], capabilities: Capabilities) -> Iterator[tuple[str, str]]:
    for tool in _reachable(agent.toolkit):
        if tool.check_port is None:
            continue
        name, check = tool.check_port
        port = getattr(capabilities, name)
        if port is not None:
            # A bound port that cannot keep what is asked of it is as good as none.
            yield from ((f"{name} that keeps {problem}", f"tool {tool.name}") for problem in check(port))


def _reachable(toolkit: Toolkit) -> Iterator[Tool[Any, Any]]:
    for tool in toolkit:
        yield tool
        if tool.calls is not None:
            yield from _reachable(tool.calls)
