"""What has to be allowed and known before a server is reached: authority, and the values behind secret handles.

Decides that authority is asked anew for each connection, and that values are resolved anew, live in the one connection
that they were resolved for, and are taken out of what the server says back (SEC-003, SEC-006). It keeps nothing.
"""

import os
from collections.abc import Mapping

import attrs

from triolet.adapters.mcp.echoes import Echoes
from triolet.adapters.mcp.errors import InvalidMcpServer, McpDenied
from triolet.adapters.mcp.servers import McpServer, StdioServer, given_to, secrets_of, usable_header
from triolet.ports.authorizer import Action, Allow, Authorizer, ConnectMcp, ResolveSecret
from triolet.ports.identity import ANONYMOUS, Principal
from triolet.ports.secrets import Secret, SecretHandle, SecretResolver


@attrs.frozen(kw_only=True, weakref_slot=False)
class Access:
    """Who vouches for a connection. `principal` is on whose authority the host connects."""

    source: str
    secrets: SecretResolver | None = None
    authorizer: Authorizer | None = None
    principal: Principal = ANONYMOUS

    def check(self, server: McpServer) -> None:
        """Raise `InvalidMcpServer` where handles have nobody to resolve them."""
        if self.secrets is None and next(secrets_of(server), None) is not None:
            raise InvalidMcpServer(problem="it names secrets, and no resolver of secrets is given")

    async def granted(self, server: McpServer) -> "Granted":
        """Ask, and resolve. Raises `McpDenied`, what the authorizer or the resolver raises, `InvalidMcpServer`."""
        await self._ask(ConnectMcp(server=server.target, transport=server.transport), "connect")
        resolved: dict[SecretHandle, Secret] = {}
        for handle in secrets_of(server):
            await self._ask(ResolveSecret(handle=handle.name), f"resolve the secret {handle.name!r}")
            if self.secrets is None:
                raise AssertionError("what names secrets was checked to have a resolver")
            resolved[handle] = await self.secrets.resolve(handle)
        return Granted(server, resolved)

    async def _ask(self, action: Action, what: str) -> None:
        # Nobody waits here for a person: what would need one is denied.
        if self.authorizer is not None and not isinstance(
            await self.authorizer.authorize(action, self.principal), Allow
        ):
            raise McpDenied(source=self.source, what=what)


class Granted:
    """The values for one connection."""

    def __init__(self, server: McpServer, resolved: Mapping[SecretHandle, Secret]) -> None:
        self._server = server
        self._resolved = resolved

    @property
    def echoes(self) -> Echoes:
        """Takes the values out of what comes back."""
        return Echoes(self._resolved.values())

    def values(self) -> dict[str, str]:
        """The environment of a process, or the headers of a request. Raises `InvalidMcpServer`."""
        server = self._server
        given = given_to(server)
        plain = {
            name: self._resolved[text].reveal() if not isinstance(text, str) else text for name, text in given.items()
        }
        if isinstance(server, StdioServer):
            inherited = {name: os.environ[name] for name in server.inherits if name in os.environ}
            return {**inherited, **plain}
        for name, value in plain.items():
            if not usable_header(value):
                raise InvalidMcpServer(problem=f"the secret of header {name} is not printable ASCII of 4096 at most")
        return plain
