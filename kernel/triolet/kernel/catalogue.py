"""The catalogue of one run: its agent's own tools, and those of the sources that the agent names.

Decides which tools a model is offered and a call may name, as of the last seam at which this was looked at: never more
often than once a turn, however many notices a source gives (F-014, SEC-013). A tool of a source that cannot stand
beside the others is left out and counted; where that is so from the start, the assembly is wrong and is refused
(F-038). It runs no tool, and records nothing: what it took up is an observation.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

import attrs

from triolet.kernel.agent import Agent
from triolet.kernel.machine.observations import CataloguesSeen, SourceCatalogue
from triolet.ports.capabilities import Capabilities
from triolet.ports.errors import Misuse
from triolet.ports.tool_source import ToolSnapshot, ToolSource, ToolSourceUnavailable
from triolet.ports.tools import Tool, Toolkit


@attrs.define(kw_only=True)
class ToolNameClash(Misuse):
    """Two owners offer tools under one name to one agent. Nothing was run."""

    agent: str
    tool: str
    owners: tuple[str, str]

    @property
    def message(self) -> str:
        """Which agent, which name, and who offers it."""
        one, other = self.owners
        return f"agent {self.agent!r} would have two tools named {self.tool!r}: of {one} and of {other}"


_NOTHING: Final[frozenset[str]] = frozenset()


class Catalogue:
    """One run's tools. `toolkit` is what stands now; each change of it is another object."""

    __slots__ = ("_agent", "_snapshots", "_sources", "_turn", "_usable", "toolkit")

    def __init__(self, agent: Agent[Any, Any], capabilities: Capabilities, groups: Collection[str] = ()) -> None:
        self._agent = agent
        self._sources = bound_sources(agent, capabilities)
        self._usable = _bound(capabilities, groups) if self._sources else _NOTHING
        self._snapshots: dict[str, ToolSnapshot] = {}
        self._turn: int | None = None
        self.toolkit: Toolkit = agent.toolkit

    @property
    def dynamic(self) -> bool:
        """Whether there is any source: without one nothing here ever changes."""
        return bool(self._sources)

    def due_at_seam(self, turn: int) -> bool:
        """Whether this seam has not been looked at yet and a source may have something new. Never waits."""
        if not self._sources or self._turn == turn:
            return False
        return any(self._is_news(source) for source in self._sources)

    @property
    def due_for_calls(self) -> bool:
        """Whether calls are to be judged by an attempt that has not looked at its sources yet."""
        return len(self._snapshots) < len(self._sources)

    async def take_up(self, turn: int) -> CataloguesSeen:
        """Look at every source that may have something new, and offer what is there from now on.

        A source that cannot be asked keeps what it last gave. Raises `ToolSourceUnavailable` where it has not given
        anything yet.
        """
        self._turn = turn
        for source in self._sources:
            if not self._is_news(source):
                continue
            try:
                self._snapshots[source.name] = await source.snapshot()
            except ToolSourceUnavailable:
                if source.name not in self._snapshots:
                    raise
        return self._composed()

    def _is_news(self, source: ToolSource) -> bool:
        known = self._snapshots.get(source.name)
        return known is None or source.changed(known)

    def _composed(self) -> CataloguesSeen:
        tools: dict[str, Tool[Any, Any]] = {tool.name: tool for tool in self._agent.toolkit}
        seen: list[SourceCatalogue] = []
        for name, snapshot in sorted(self._snapshots.items()):
            offered = [tool for tool in snapshot.tools if tool.name not in tools and self._can_run(tool)]
            tools.update((tool.name, tool) for tool in offered)
            seen.append(
                SourceCatalogue(
                    source=name,
                    server=snapshot.provenance.server,
                    version=snapshot.provenance.version,
                    protocol=snapshot.provenance.protocol,
                    transport=snapshot.provenance.transport,
                    capabilities=snapshot.provenance.capabilities,
                    digest=snapshot.digest,
                    tools=tuple(tool.name for tool in offered),
                    set_aside=len(snapshot.set_aside) + len(snapshot.tools) - len(offered),
                )
            )
        if tuple(tools) != self.toolkit.names or any(
            self.toolkit.find(name) is not tool for name, tool in tools.items()
        ):
            self.toolkit = Toolkit(tools.values())
        return CataloguesSeen(catalogues=tuple(seen))

    def _can_run(self, tool: Tool[Any, Any]) -> bool:
        return all(need in self._usable for need in needs_of(tool))


def bound_sources(agent: Agent[Any, Any], capabilities: Capabilities) -> tuple[ToolSource, ...]:
    """The sources that the agent names and that are bound, in the order of their names."""
    if not agent.sources:
        return ()
    wanted = frozenset(agent.sources)
    sources = (source for source in capabilities.tool_sources or () if source.name in wanted)
    return tuple(sorted(sources, key=lambda source: source.name))


def needs_of(tool: Tool[Any, Any]) -> Iterator[str]:
    """The capabilities and groups without which this tool cannot run."""
    yield from tool.requires
    if tool.needs_approval is not False:
        yield "approval"
        yield "inbox"
    if tool.group is not None:
        yield f"group {tool.group}"


async def check_catalogues(agents: Iterable[Agent[Any, Any]], capabilities: Capabilities) -> None:
    """Look at the sources that agents name, once, before anything runs.

    Raises `ToolNameClash`; `ToolSourceUnavailable` for a source that cannot say what it has.
    """
    known: dict[str, ToolSnapshot] = {}
    for agent in agents:
        owners: dict[str, str] = dict.fromkeys(agent.toolkit.names, _OWN)
        for source in bound_sources(agent, capabilities):
            if source.name not in known:
                known[source.name] = await source.snapshot()
            _check_distinct(agent, owners, known[source.name])


_OWN: Final = "the agent's toolkit"


def _check_distinct(agent: Agent[Any, Any], owners: dict[str, str], snapshot: ToolSnapshot) -> None:
    owner = f"tool source {snapshot.provenance.source}"
    for tool in snapshot.tools:
        if tool.name in owners:
            raise ToolNameClash(agent=agent.id, tool=tool.name, owners=(owners[tool.name], owner))
        owners[tool.name] = owner


def _bound(capabilities: Capabilities, groups: Collection[str]) -> frozenset[str]:
    bound = {field.name for field in attrs.fields(Capabilities) if getattr(capabilities, field.name) is not None}
    return frozenset(bound | {f"group {name}" for name in groups})
