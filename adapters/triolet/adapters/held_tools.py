"""A tool source inside this process, whose catalogue whoever holds it changes.

Decides that a change is seen by nobody until a run asks, and that the tools are whatever it was given. It serves hosts
that switch tools on and off while runs are under way, and tests. (CAP-009, F-014)
"""

from collections.abc import Iterable
from typing import Any

import attrs
import trio

from triolet.ports.tool_names import public_name
from triolet.ports.tool_source import Provenance, SetAside, ToolSnapshot, ToolSourceUnavailable, snapshot_of
from triolet.ports.tools import Tool, ToolOrigin


class HeldTools:
    """Tools that its holder replaces at any time.

    `problem` may be set: while it is, the source cannot be asked. Lifetime: a plain value. Emits: nothing by itself.
    """

    def __init__(
        self,
        name: str,
        tools: Iterable[Tool[Any, Any]] = (),
        *,
        version: str = "1",
        set_aside: Iterable[SetAside] = (),
        requires: frozenset[str] = frozenset(),
    ) -> None:
        """`tools` get public names of this source. Raises `InvalidSourceName`, `InvalidSnapshot`."""
        self._provenance = Provenance(source=name, server=name, version=version, transport="memory")
        self.requires = requires
        self.problem: str | None = None
        self._snapshot = self._made(tools, set_aside)

    @property
    def name(self) -> str:
        """See `ToolSource.name`."""
        return self._provenance.source

    def hold(self, tools: Iterable[Tool[Any, Any]], set_aside: Iterable[SetAside] = ()) -> None:
        """Offer these from the next `snapshot` on. Raises `InvalidSnapshot`, and what was held still is."""
        self._snapshot = self._made(tools, set_aside)

    def changed(self, since: ToolSnapshot) -> bool:
        """See `ToolSource.changed`."""
        return self._snapshot is not since

    async def snapshot(self) -> ToolSnapshot:
        """See `ToolSource.snapshot`. Never waits."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if self.problem is not None:
            raise ToolSourceUnavailable(source=self.name, problem=self.problem)
        return self._snapshot

    def _made(self, tools: Iterable[Tool[Any, Any]], set_aside: Iterable[SetAside]) -> ToolSnapshot:
        named = (
            attrs.evolve(
                tool,
                name=public_name(self.name, tool.name),
                origin=ToolOrigin(source=self.name, name=tool.name),
            )
            for tool in tools
        )
        return snapshot_of(self._provenance, named, set_aside)
