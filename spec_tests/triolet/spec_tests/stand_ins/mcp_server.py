"""An MCP server inside this process: it offers what it is told to, and says afterwards what it was asked.

Decides nothing of the client's. It speaks through memory, so it costs no process and no port, and any clock will do.
"""

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import trio

from triolet.adapters.mcp import Arrived, CustomServer, Diagnostics, McpLimits, McpTimes, WireLost
from triolet.adapters.mcp.messages import decoded, encoded
from triolet.ports.strict_json import JsonValue

_QUEUE = 64


class McpStandIn:
    """The server. `definitions` are its tools, as `tools/list` gives them; `called` is what reached it."""

    def __init__(self, name: str = "stand-in", version: str = "1") -> None:
        self.definitions: list[dict[str, Any]] = []
        self.called: list[tuple[str, JsonValue]] = []
        self.down = False
        """Whether nothing answers here."""
        self.cuts_next = False
        """Whether the line is cut when the next call has come."""
        self.holds_calls = False
        """Whether calls are left without an answer."""
        self._identity = {"name": name, "version": version}
        self._wires: list[_Line] = []

    @property
    def server(self) -> CustomServer:
        """How a client gets here."""
        return CustomServer(open=self._open, transport="memory", target="stand-in")

    async def offer(self, definitions: Iterable[dict[str, Any]]) -> None:
        """Offer these from now on, and give notice of it."""
        self.definitions = list(definitions)
        for wire in self._wires:
            await wire.say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})

    def break_lines(self) -> None:
        """Cut every line now."""
        for wire in self._wires:
            wire.cut()

    @asynccontextmanager
    async def _open(self, limits: McpLimits, times: McpTimes, diagnostics: Diagnostics) -> AsyncGenerator["_Line"]:
        await trio.lowlevel.checkpoint()
        if self.down:
            raise WireLost("refused", "nothing answers there")
        wire = _Line(self, diagnostics)
        self._wires.append(wire)
        try:
            yield wire
        finally:
            self._wires.remove(wire)

    async def heard(self, wire: "_Line", message: dict[str, Any]) -> None:
        """Do what a server does."""
        result: dict[str, Any]
        match message.get("method"):
            case "initialize":
                result = {
                    "protocolVersion": message["params"]["protocolVersion"],
                    "capabilities": {"tools": {"listChanged": True}},
                    "serverInfo": self._identity,
                }
            case "tools/list":
                result = {"tools": self.definitions}
            case "tools/call":
                name, arguments = message["params"]["name"], message["params"].get("arguments")
                self.called.append((name, arguments))
                if self.cuts_next:
                    self.cuts_next = False
                    wire.cut()
                    return
                if self.holds_calls:
                    return
                result = {"content": [{"type": "text", "text": name}], "structuredContent": {"arguments": arguments}}
            case _:
                return
        await wire.say({"jsonrpc": "2.0", "id": message["id"], "result": result})


class _Line:
    """One connection. See `Wire`."""

    def __init__(self, server: McpStandIn, diagnostics: Diagnostics) -> None:
        self._server = server
        self._diagnostics = diagnostics
        self._say, self._heard = trio.open_memory_channel[Arrived](_QUEUE)

    async def send(self, message: dict[str, Any], data: bytes) -> None:
        """See `Wire.send`."""
        await trio.lowlevel.checkpoint()
        await self._server.heard(self, message)

    async def receive(self) -> Arrived:
        """See `Wire.receive`."""
        try:
            message = await self._heard.receive()
        except trio.EndOfChannel:
            raise WireLost("lost", "the line was cut") from None
        self._diagnostics.message()
        return message

    def agree(self, version: str) -> None:
        """Nothing here depends on it."""

    async def say(self, message: dict[str, Any]) -> None:
        """Say something, by way of bytes."""
        for each in decoded(encoded(message)) or ():
            await self._say.send(each)

    def cut(self) -> None:
        """Nothing passes any more."""
        self._say.close()
