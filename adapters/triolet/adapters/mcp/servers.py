"""Where an MCP server is and how it is reached: as a child process, over HTTP, or over a WebSocket.

Decides what a description may say. It holds handles of secrets and never their values, and refuses a URL that has a
password in it (SEC-006). It opens nothing. WebSocket is not one of MCP's standard transports: both ends have to have
agreed on it, under the subprotocol ``mcp``.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import attrs

from triolet.adapters.mcp.errors import InvalidMcpServer
from triolet.adapters.mcp.limits import McpLimits, McpTimes
from triolet.adapters.mcp.messages import Diagnostics
from triolet.adapters.mcp.wire import Wire
from triolet.ports.secrets import SecretHandle

Text = str | SecretHandle
"""A plain value, or the handle of a secret one."""

INHERITED: Final = ("HOME", "LANG", "LOGNAME", "PATH", "TERM", "TMPDIR", "USER")
"""Variables of this process's environment that a server gets."""

_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}\Z")
_VALUE: Final = re.compile(r"[\x20-\x7e]{0,4096}\Z")
_OWN_HEADERS: Final = frozenset(
    {"accept", "connection", "content-length", "content-type", "host", "mcp-protocol-version", "mcp-session-id"}
    | {"last-event-id", "transfer-encoding", "upgrade"}
)


def _check_command(_: object, attribute: "attrs.Attribute[Any]", command: tuple[str, ...]) -> None:
    if (
        isinstance(command, str)
        or not command
        or not all(isinstance(part, str) and "\0" not in part for part in command)
    ):
        raise InvalidMcpServer(problem="a command is a tuple of texts: the program and its arguments")


def _check_environment(_: object, attribute: "attrs.Attribute[Any]", env: Mapping[str, Text]) -> None:
    for name, value in env.items():
        if not name or "=" in name or "\0" in name or (isinstance(value, str) and "\0" in value):
            raise InvalidMcpServer(problem="an environment maps names without = to texts without NUL")


def _check_headers(_: object, attribute: "attrs.Attribute[Any]", headers: Mapping[str, Text]) -> None:
    for name, value in headers.items():
        if not _HEADER.match(name) or name.lower() in _OWN_HEADERS or name.lower().startswith("sec-websocket"):
            raise InvalidMcpServer(problem=f"{name[:100]!r} is no header that a host may set")
        if isinstance(value, str) and not usable_header(value):
            raise InvalidMcpServer(problem=f"the value of header {name} is not printable ASCII of 4096 at most")


def usable_header(value: str) -> bool:
    """Whether `value` may stand in a header."""
    return _VALUE.match(value) is not None


def _check_http(_: object, attribute: "attrs.Attribute[Any]", url: str) -> None:
    _check_url(url, ("http", "https"))


def _check_websocket(_: object, attribute: "attrs.Attribute[Any]", url: str) -> None:
    _check_url(url, ("ws", "wss"))


def _check_url(url: str, schemes: tuple[str, ...]) -> None:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in schemes and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
        parts = urlsplit("")
    if not usable or re.search(r"[\s\\#\x00-\x1f]", url) or len(url) > 2_000:
        raise InvalidMcpServer(problem=f"the URL is no plain {schemes[0]} or {schemes[1]} URL without a fragment")
    if parts.username is not None or parts.password is not None:
        raise InvalidMcpServer(problem="the URL has credentials in it; put them into a header, by the secret's handle")


@attrs.frozen(kw_only=True, weakref_slot=False)
class StdioServer:
    """A program that speaks MCP on its standard input and output.

    It is started without a shell, in `cwd` (None: where this process is), in a session of its own, with the variables
    that `inherits` names and those of `env`; it never sees another of this process's.
    """

    command: tuple[str, ...] = attrs.field(validator=_check_command)
    env: Mapping[str, Text] = attrs.field(factory=dict[str, Text], validator=_check_environment)
    cwd: str | None = None
    inherits: tuple[str, ...] = INHERITED

    @property
    def transport(self) -> Literal["stdio"]:
        """How it is reached."""
        return "stdio"

    @property
    def target(self) -> str:
        """What authority is asked about: the program, without its arguments."""
        return self.command[0]

    @property
    def shown(self) -> str:
        """A short name for it."""
        return Path(self.command[0]).name


@attrs.frozen(kw_only=True, weakref_slot=False)
class HttpServer:
    """A server behind streamable HTTP. With `environment` the client may use proxies of this process's environment."""

    url: str = attrs.field(validator=_check_http)
    headers: Mapping[str, Text] = attrs.field(factory=dict[str, Text], validator=_check_headers)
    environment: bool = False

    @property
    def transport(self) -> Literal["streamable-http"]:
        """How it is reached."""
        return "streamable-http"

    @property
    def target(self) -> str:
        """What authority is asked about: the URL without its query, which may hold what nobody should see."""
        return self.url.partition("?")[0]

    @property
    def shown(self) -> str:
        """A short name for it."""
        return urlsplit(self.url).hostname or "http"


@attrs.frozen(kw_only=True, weakref_slot=False)
class WebSocketServer:
    """A server behind a WebSocket with the subprotocol ``mcp``, a JSON-RPC message in each text frame."""

    url: str = attrs.field(validator=_check_websocket)
    headers: Mapping[str, Text] = attrs.field(factory=dict[str, Text], validator=_check_headers)

    @property
    def transport(self) -> Literal["websocket"]:
        """How it is reached."""
        return "websocket"

    @property
    def target(self) -> str:
        """What authority is asked about: the URL without its query."""
        return self.url.partition("?")[0]

    @property
    def shown(self) -> str:
        """A short name for it."""
        return urlsplit(self.url).hostname or "websocket"


@attrs.frozen(kw_only=True, weakref_slot=False)
class CustomServer:
    """A server behind a transport of the host's own.

    `open` gives a scope with a fresh `Wire`; it is called anew for each session, in the task that owns it. `transport`
    and `target` are what authority is asked about and what the provenance says.
    """

    open: Callable[[McpLimits, McpTimes, Diagnostics], AbstractAsyncContextManager[Wire]]
    transport: str
    target: str

    @property
    def shown(self) -> str:
        """A short name for it."""
        return self.target


McpServer = StdioServer | HttpServer | WebSocketServer | CustomServer


def secrets_of(server: McpServer) -> Iterator[SecretHandle]:
    """The handles that have to be resolved before it can be reached, each once."""
    yield from dict.fromkeys(value for value in given_to(server).values() if isinstance(value, SecretHandle))


def given_to(server: McpServer) -> Mapping[str, Text]:
    """The variables or headers that it is given."""
    if isinstance(server, CustomServer):
        return {}
    return server.env if isinstance(server, StdioServer) else server.headers
