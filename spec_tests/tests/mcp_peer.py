"""An MCP server inside the test: what it hears is listed, what it says is scripted, and it never touches a network.

It stands where a transport's wire does, so everything above the wire is the adapter's own, on a mock clock.
"""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio

from triolet.adapters.mcp import HttpServer, McpSource, session
from triolet.adapters.mcp.messages import JsonObject, decoded
from triolet.adapters.mcp.wire import Arrived, Unanswered, WireLost
from triolet.ports.tools import Tool

SERVER = HttpServer(url="http://test.invalid/mcp")
"""Where the peer pretends to be."""


def definition(name: str, **fields: Any) -> JsonObject:
    """A tool as a server lists it."""
    return {"name": name, "description": f"Do {name}.", "inputSchema": {"type": "object"}, **fields}


class PeerWire:
    """One connection to the peer: see `Wire`."""

    def __init__(self, peer: "Peer") -> None:
        self._peer = peer
        self.to_client, self._inbox = trio.open_memory_channel[Arrived | WireLost](100)
        self.heard: list[JsonObject] = []
        self.version: str | None = None
        self.blocked: trio.Event | None = None
        """While set, nothing that is sent gets through."""

    async def send(self, message: JsonObject, data: bytes) -> None:
        await trio.lowlevel.checkpoint()
        if self.blocked is not None:
            await self.blocked.wait()
        self.heard.append(message)
        self._peer.heard.append(message)
        await self._peer.act(self, message)

    async def receive(self) -> Arrived:
        arrived = await self._inbox.receive()
        if isinstance(arrived, WireLost):
            raise arrived
        self._peer.diagnostics_message()
        return arrived

    def agree(self, version: str) -> None:
        self.version = version

    async def say(self, message: Arrived) -> None:
        """Say something to the client, by way of bytes as a transport would."""
        if isinstance(message, dict):
            for each in decoded(json.dumps(message).encode()) or ():
                await self.to_client.send(each)
        else:
            await self.to_client.send(message)

    async def answer(self, request: JsonObject, **result: Any) -> None:
        """Answer a request."""
        await self.say({"jsonrpc": "2.0", "id": request["id"], "result": result})

    async def refuse(self, request: JsonObject, code: int, message: str) -> None:
        """Answer a request with an error of the protocol."""
        await self.say({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": message}})

    async def notice(self, method: str, **params: Any) -> None:
        """Say something unasked."""
        await self.say({"jsonrpc": "2.0", "method": method, "params": params})

    async def unanswered(self, request: JsonObject, happened: Any, **fields: Any) -> None:
        """Tell, as HTTP can, that this request alone gets no answer."""
        given: dict[str, Any] = {"reason": "lost", "problem": "gone", **fields}
        await self.say(Unanswered(id=request["id"], happened=happened, **given))

    async def break_off(self, problem: str = "the line was cut") -> None:
        """The line is gone."""
        await self.to_client.send(WireLost("lost", problem))


Calls = Callable[[PeerWire, JsonObject], Awaitable[None]]


@attrs.define(eq=False)
class Peer:
    """The server. `calls` is what it does with a call; without one it says what it was called with."""

    tools: list[Any] = attrs.field(factory=lambda: [definition("echo")])
    calls: Calls | None = None
    name: str = "Peer"
    version: str = "9"
    capabilities: JsonObject = attrs.field(factory=lambda: {"tools": {"listChanged": True}})
    protocol: str = "2025-11-25"
    heard: list[JsonObject] = attrs.field(factory=list[JsonObject])
    wires: list[PeerWire] = attrs.field(factory=list[PeerWire])
    open: int = 0
    refuses: bool = False
    """Whether nothing answers there."""
    mute: bool = False
    """Whether it accepts a connection and says nothing at all."""
    never_lists: bool = False
    """Whether it leaves the question for its tools open."""
    listings: int = 0
    pages: Callable[[str | None], JsonObject] | None = None
    headers: list[dict[str, str]] = attrs.field(factory=list[dict[str, str]])
    _diagnostics: Any = None

    @property
    def wire(self) -> PeerWire:
        """The newest connection."""
        return self.wires[-1]

    def methods(self) -> list[str]:
        """What it was asked and told, in order, without answers."""
        return [message["method"] for message in self.heard if "method" in message]

    def called(self) -> list[Any]:
        """The calls that reached it, by name."""
        return [message["params"]["name"] for message in self.heard if message.get("method") == "tools/call"]

    def diagnostics_message(self) -> None:
        if self._diagnostics is not None:
            self._diagnostics.message()

    async def act(self, wire: PeerWire, message: JsonObject) -> None:
        """Do what a server does with a message."""
        if self.mute:
            return
        match message.get("method"):
            case "initialize":
                info = {"name": self.name, "version": self.version}
                await wire.answer(
                    message, protocolVersion=self.protocol, capabilities=self.capabilities, serverInfo=info
                )
            case "tools/list" if not self.never_lists:
                self.listings += 1
                cursor = message.get("params", {}).get("cursor")
                page = {"tools": self.tools} if self.pages is None else self.pages(cursor)
                await wire.answer(message, **page)
            case "tools/call":
                if self.calls is None:
                    text = f"{message['params']['name']} {message['params']['arguments']}"
                    await wire.answer(message, content=[{"type": "text", "text": text}])
                else:
                    await self.calls(wire, message)
            case _:
                pass

    @asynccontextmanager
    async def connect(self, terms: Any, granted: Any) -> AsyncGenerator[PeerWire]:
        """In the place of opening a transport."""
        self.headers.append(granted.values())
        await trio.lowlevel.checkpoint()
        if self.refuses:
            raise WireLost("refused", "nothing answers there")
        self._diagnostics = terms.diagnostics
        wire = PeerWire(self)
        self.wires.append(wire)
        self.open += 1
        try:
            yield wire
        finally:
            self.open -= 1


def peer_in_place(monkeypatch: pytest.MonkeyPatch) -> Peer:
    """A server that every connection of the test leads to. Its fixture is the test module's: the SDK loads slowly."""
    made = Peer()
    monkeypatch.setattr(session, "_wire", made.connect)
    return made


@attrs.define(eq=False)
class Handle:
    """A handler's context, as far as these tools use it."""

    notes: list[tuple[str, float | None, float | None]] = attrs.field(
        factory=list[tuple[str, float | None, float | None]]
    )

    def progress(self, note: str, *, done: float | None = None, total: float | None = None) -> None:
        """Note it."""
        self.notes.append((note, done, total))


async def tool_named(source: McpSource, name: str) -> Tool[Any, Any]:
    """The tool that the server calls so."""
    snapshot = await source.snapshot()
    [found] = [tool for tool in snapshot.tools if tool.origin is not None and tool.origin.name == name]
    return found


async def call(source: McpSource, name: str = "echo", handle: Handle | None = None, /, **arguments: Any) -> Any:
    """Call a tool as its handler is called: decoded input in, what it returns out."""
    tool = await tool_named(source, name)
    handler: Any = tool.handler
    return await handler(tool.input.decode(arguments), handle or Handle())


def texts(result: Any) -> list[str]:
    """The texts in a result."""
    return [block["text"] for block in result["content"] if block["type"] == "text"]


def public_names(tools: Iterable[Tool[Any, Any]]) -> list[str]:
    """Their names."""
    return [tool.name for tool in tools]
