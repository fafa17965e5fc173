"""One session with a server, from the first byte to the last, in one task.

Decides how long getting a session may take, who the server says it is, and that whatever goes wrong in it comes out as
one `WireLost`: nested groups of the SDK's, of Trio's and of libraries, and never another task's trouble (F-033, F-035).
It decides no reconnection and no call.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import cast

import attrs
import mcp_types
import trio
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError

from triolet.adapters.mcp.access import Access, Granted
from triolet.adapters.mcp.correlator import Correlator, RequestLost
from triolet.adapters.mcp.echoes import Echoes
from triolet.adapters.mcp.http import open_http
from triolet.adapters.mcp.limits import McpLimits, McpTimes
from triolet.adapters.mcp.messages import Diagnostics
from triolet.adapters.mcp.servers import CustomServer, HttpServer, McpServer, StdioServer
from triolet.adapters.mcp.stdio import open_stdio
from triolet.adapters.mcp.websocket import open_websocket
from triolet.adapters.mcp.wire import Wire, WireLost
from triolet.ports.tool_source import Provenance

CLIENT: mcp_types.Implementation = mcp_types.Implementation(name="triolet", version="0.1.0")


@attrs.frozen(kw_only=True, eq=False, weakref_slot=False)
class Session:
    """An open session. `leave` is set by whoever wants it to end."""

    correlator: Correlator
    provenance: Provenance
    has_tools: bool
    echoes: Echoes
    instructions: str
    leave: trio.Event = attrs.field(factory=trio.Event)


@attrs.frozen(kw_only=True, eq=False, weakref_slot=False)
class Terms:
    """Everything that is the same for each session with a server."""

    source: str
    server: McpServer
    access: Access
    limits: McpLimits
    times: McpTimes
    diagnostics: Diagnostics


async def hold_session(terms: Terms, noticed: Callable[[str], None], opened: Callable[[Session], None]) -> WireLost:
    """Open a session, hand it over, and stay until it is lost or left. Returns why it ended.

    Raises what authority or a resolver of secrets raise; `trio.Cancelled` alone is nobody's loss.
    """
    granted = await terms.access.granted(terms.server)
    terms.diagnostics.clean = granted.echoes.text
    lost: WireLost | None = None
    begun: list[Correlator] = []
    with trio.CancelScope(deadline=trio.current_time() + terms.times.connect) as scope:
        try:
            lost = await _held(terms, granted, noticed, opened, scope, begun)
        except Exception as error:  # noqa: BLE001 -- the boundary to the SDK and the transports' libraries
            lost = _as_lost(error, begun)
        except BaseExceptionGroup as group:
            if not all(isinstance(leaf, Exception) for leaf in _leaves(group)):
                raise
            lost = _as_lost(group, begun)
    if scope.cancelled_caught or lost is None:
        return WireLost("timeout", f"there was no session within {terms.times.connect:g} s")
    return lost


async def _held(
    terms: Terms,
    granted: Granted,
    noticed: Callable[[str], None],
    opened: Callable[[Session], None],
    scope: trio.CancelScope,
    begun: list[Correlator],
) -> WireLost:
    async with _wire(terms, granted) as wire:
        correlator = Correlator(wire, terms.limits, terms.diagnostics, noticed)
        begun.append(correlator)
        async with ClientSession(dispatcher=correlator, client_info=CLIENT) as sdk:
            agreed = await sdk.initialize()
            session = _session(terms, correlator, agreed, granted)
            terms.diagnostics.sessions += 1
            scope.deadline = math.inf
            opened(session)
            async with trio.open_nursery() as nursery:

                async def end_with_the_wire() -> None:
                    await correlator.ended.wait()
                    session.leave.set()

                nursery.start_soon(end_with_the_wire)
                await session.leave.wait()
                nursery.cancel_scope.cancel()
            correlator.lose(WireLost("closed", "the connection was closed"))
            return correlator.lost or WireLost("closed", "the connection was closed")


def _wire(terms: Terms, granted: Granted) -> AbstractAsyncContextManager[Wire]:
    server, values = terms.server, granted.values()
    if isinstance(server, CustomServer):
        return server.open(terms.limits, terms.times, terms.diagnostics)
    if isinstance(server, StdioServer):
        return open_stdio(server, values, terms.limits, terms.times, terms.diagnostics)
    if isinstance(server, HttpServer):
        return open_http(server, values, terms.limits, terms.times, terms.diagnostics)
    return open_websocket(server, values, terms.limits, terms.times, terms.diagnostics)


def _session(terms: Terms, correlator: Correlator, agreed: mcp_types.InitializeResult, granted: Granted) -> Session:
    capabilities = agreed.capabilities.model_dump(exclude_none=True, by_alias=True)
    provenance = Provenance(
        source=terms.source,
        server=agreed.server_info.name,
        version=agreed.server_info.version,
        protocol=agreed.protocol_version,
        transport=terms.server.transport,
        capabilities=tuple(capabilities),
    )
    return Session(
        correlator=correlator,
        provenance=provenance,
        has_tools=agreed.capabilities.tools is not None,
        echoes=granted.echoes,
        instructions=agreed.instructions or "",
    )


def _as_lost(error: BaseException, begun: list[Correlator]) -> WireLost:
    leaves = list(_leaves(error))
    for leaf in leaves:
        if isinstance(leaf, WireLost):
            return leaf
    for leaf in leaves:
        if isinstance(leaf, RequestLost):
            return WireLost(leaf.fate.reason, leaf.fate.problem)
        if isinstance(leaf, MCPError):
            return WireLost("refused", f"the server answers the handshake with error {leaf.code}")
    if isinstance(leaves[0], trio.BusyResourceError) and begun and begun[0].lost is not None:
        # Leaving closed the pipe under a write; why it was left, the correlator knows.
        return begun[0].lost
    # What the SDK finds wrong in an answer; its words may hold the server's.
    return WireLost("protocol", f"the handshake is not by the protocol ({type(leaves[0]).__name__})")


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from _leaves(inner)
    else:
        yield error
