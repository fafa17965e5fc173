"""An MCP server as a tool source: one task that owns the connection, and a value that any task may use.

Decides when there is a session: at the start, after a loss within a bounded number of attempts, and again when somebody
asks for one; and that nothing which may have run is asked again (RUN-013, F-033, F-036). Open, use and close come from
any task, in any order; they only leave word for the owner (F-035). It knows no transport.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import trio

from triolet.adapters.code_pass.scopes import unwrapped
from triolet.adapters.mcp.access import Access
from triolet.adapters.mcp.calling import NeverHandedOver, call
from triolet.adapters.mcp.catalogue import tools_of
from triolet.adapters.mcp.errors import McpUnavailable
from triolet.adapters.mcp.limits import DEFAULT_LIMITS, DEFAULT_TIMES, McpLimits, McpTimes
from triolet.adapters.mcp.listing import listed
from triolet.adapters.mcp.messages import Diagnostics
from triolet.adapters.mcp.owner import Owner
from triolet.adapters.mcp.policy import DEFAULT_POLICY, McpPolicy
from triolet.adapters.mcp.servers import McpServer
from triolet.adapters.mcp.session import Session, Terms
from triolet.ports.authorizer import Authorizer
from triolet.ports.identity import ANONYMOUS, Principal
from triolet.ports.secrets import SecretResolver
from triolet.ports.strict_json import JsonValue
from triolet.ports.tool_context import ToolContext
from triolet.ports.tool_names import check_source_name
from triolet.ports.tool_source import Provenance, ToolSnapshot, snapshot_of

_REPEATS: Final = 2
"""How often a call is handed to another session, where it surely ran in none before."""


class McpSource:
    """The tools of one server. Made by `open_mcp` and `connect_mcp`. See `ToolSource`."""

    def __init__(self, terms: Terms, policy: McpPolicy) -> None:
        self._terms = terms
        self._policy = policy
        self._owner = Owner(terms)
        self._listing = trio.Lock()
        self._latest: ToolSnapshot | None = None
        self._taken = -1

    @property
    def name(self) -> str:
        """See `ToolSource.name`."""
        return self._terms.source

    @property
    def requires(self) -> frozenset[str]:
        """See `ToolSource.requires`."""
        return self._policy.requires

    @property
    def diagnostics(self) -> Diagnostics:
        """What was seen on the connection beside answers."""
        return self._terms.diagnostics

    @property
    def provenance(self) -> Provenance | None:
        """Who is at the other end now; None while nobody is."""
        session = self._owner.session
        return None if session is None else session.provenance

    @property
    def instructions(self) -> str:
        """What the server says about its use, for people. It is never shown to a model by itself."""
        session = self._owner.session
        return "" if session is None else session.instructions

    def changed(self, since: ToolSnapshot) -> bool:
        """See `ToolSource.changed`."""
        return since is not self._latest or self._owner.notices != self._taken

    async def snapshot(self) -> ToolSnapshot:
        """See `ToolSource.snapshot`. Raises `McpUnavailable`, which is a `ToolSourceUnavailable`."""
        async with self._listing:
            if self._latest is not None and self._owner.notices == self._taken:
                return self._latest
            limits, times = self._terms.limits, self._terms.times
            session = await self._session_by(trio.current_time() + times.connect)
            # Read before it is asked: a notice that comes meanwhile counts for the next time.
            notices = self._owner.notices
            definitions = await listed(session, self.name, limits, times.listing)
            tools, aside = tools_of(self.name, definitions, self._policy, limits, self._call, seconds=times.overall)
            self._latest, self._taken = snapshot_of(session.provenance, tools, aside), notices
            return self._latest

    async def aclose(self) -> None:
        """End the connection, from any task, as often as one likes. Open calls end as lost. Bounded in time."""
        await self._owner.close()

    async def run_owner(self, *, task_status: "trio.TaskStatus[None]" = trio.TASK_STATUS_IGNORED) -> None:
        """Own the connection until it is closed; to be run as one task. See `connect_mcp`."""
        await self._owner.run(task_status=task_status)

    async def first_snapshot(self) -> None:
        """Wait for the first session and list its tools. Raises what stands in the way."""
        await self._owner.first_session()
        await self.snapshot()

    async def _call(self, name: str, arguments: JsonValue, context: ToolContext) -> JsonValue:
        terms = self._terms
        deadline = trio.current_time() + terms.times.overall
        for repeat in range(_REPEATS):
            session = await self._session_by(min(deadline, trio.current_time() + terms.times.call))
            try:
                return await call(session, self.name, name, arguments, context, terms.limits, terms.times, deadline)
            except NeverHandedOver as never:
                self._owner.retire(session)
                if repeat + 1 == _REPEATS:
                    raise never.error from None
        raise AssertionError("the last repeat returns or raises")

    async def _session_by(self, deadline: float) -> Session:
        with trio.move_on_at(deadline):
            return await self._owner.get_session()
        raise McpUnavailable(source=self.name, reason="timeout", problem="there was no session in time")


async def connect_mcp(
    nursery: trio.Nursery,
    server: McpServer,
    *,
    name: str | None = None,
    policy: McpPolicy = DEFAULT_POLICY,
    limits: McpLimits = DEFAULT_LIMITS,
    times: McpTimes = DEFAULT_TIMES,
    secrets: SecretResolver | None = None,
    authorizer: Authorizer | None = None,
    principal: Principal = ANONYMOUS,
) -> McpSource:
    """Connect to a server; its owner is one task of `nursery`, which ends with `McpSource.aclose` or the nursery.

    `name` is the source's, by default the program's or the host's. Raises `InvalidMcpServer`, `McpDenied`,
    `McpUnavailable`, and what the authorizer or the resolver of secrets raise; then nothing stays open. Trouble that
    comes later never reaches the nursery.
    """
    source = check_source_name(server.shown if name is None else name)
    access = Access(source=source, secrets=secrets, authorizer=authorizer, principal=principal)
    access.check(server)
    terms = Terms(source=source, server=server, access=access, limits=limits, times=times, diagnostics=Diagnostics())
    made = McpSource(terms, policy)
    await nursery.start(made.run_owner)
    try:
        await made.first_snapshot()
    except BaseException:
        with trio.CancelScope(shield=True):
            await made.aclose()
        raise
    return made


@asynccontextmanager
async def open_mcp(
    server: McpServer,
    *,
    name: str | None = None,
    policy: McpPolicy = DEFAULT_POLICY,
    limits: McpLimits = DEFAULT_LIMITS,
    times: McpTimes = DEFAULT_TIMES,
    secrets: SecretResolver | None = None,
    authorizer: Authorizer | None = None,
    principal: Principal = ANONYMOUS,
) -> AsyncGenerator[McpSource]:
    """`connect_mcp` with a nursery of its own: leaving the scope ends the connection. Raises the same."""
    with unwrapped():
        async with trio.open_nursery() as nursery:
            source = await connect_mcp(
                nursery,
                server,
                name=name,
                policy=policy,
                limits=limits,
                times=times,
                secrets=secrets,
                authorizer=authorizer,
                principal=principal,
            )
            try:
                yield source
            finally:
                with trio.CancelScope(shield=True):
                    await source.aclose()
