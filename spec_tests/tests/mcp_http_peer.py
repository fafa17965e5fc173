"""A raw HTTP server in the test, which answers each request by what a function writes on the connection.

So it can also break off, say too much, or say nothing. One request a connection, as the client asks for.
"""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import h11
import trio

from tests.mcp_peer import definition
from triolet.adapters.mcp.messages import JsonObject

ALL = 2**63


@attrs.define(eq=False)
class Exchange:
    """One request, and the way to answer it."""

    stream: trio.SocketStream
    method: str
    headers: dict[str, str]
    body: bytes

    @property
    def message(self) -> JsonObject:
        """What was posted."""
        found: JsonObject = json.loads(self.body) if self.body else {}
        return found

    async def raw(self, data: bytes) -> None:
        """Write bytes."""
        await self.stream.send_all(data)

    async def status(self, code: int, body: bytes = b"", kind: str = "application/json", **headers: str) -> None:
        """Answer with all of a body."""
        more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        head = (
            f"HTTP/1.1 {code} X\r\nContent-Type: {kind}\r\n{more}Content-Length: {len(body)}\r\nConnection: close\r\n"
        )
        await self.raw(head.encode() + b"\r\n" + body)

    async def result(self, result: JsonObject, **headers: str) -> None:
        """Answer with a result, as JSON."""
        answer = {"jsonrpc": "2.0", "id": self.message["id"], "result": result}
        await self.status(200, json.dumps(answer).encode(), **headers)

    async def stream_opens(self, **headers: str) -> None:
        """Begin an event stream."""
        more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        await self.raw(
            f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{more}Connection: close\r\n\r\n".encode()
        )

    async def event(self, message: JsonObject | None, *lines: str) -> None:
        """One event of a stream."""
        data = "" if message is None else f"data: {json.dumps(message)}\n"
        await self.raw(("".join(f"{line}\n" for line in lines) + data + "\n").encode())


Act = Callable[[Exchange], Awaitable[bool]]


@attrs.define(eq=False)
class HttpPeer:
    """The server. `act` answers what it knows and returns True; anything else is answered as usual."""

    port: int = 0
    act: Act | None = None
    sessions: list[str] = attrs.field(factory=list[str])
    known: set[str] = attrs.field(factory=set[str])
    seen: list[Exchange] = attrs.field(factory=list[Exchange])

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}/mcp"

    def methods(self) -> list[str]:
        """What it was asked, in order."""
        return [str(each.message.get("method", each.method)) for each in self.seen]

    async def serve(self, stream: trio.SocketStream) -> None:
        """One connection."""
        try:
            async with stream:
                exchange = await _read(stream)
                if exchange is None:
                    return
                self.seen.append(exchange)
                if self.act is None or not await self.act(exchange):
                    await self.usual(exchange)
        except trio.BrokenResourceError:
            pass

    async def usual(self, exchange: Exchange) -> None:
        """What a server does."""
        if exchange.method == "GET":
            await exchange.status(405)
            return
        if exchange.method == "DELETE":
            self.known.discard(exchange.headers.get("mcp-session-id", ""))
            await exchange.status(200)
            return
        message = exchange.message
        if message.get("method") == "initialize":
            session = f"session-{len(self.sessions)}"
            self.sessions.append(session)
            self.known.add(session)
            info = {"name": "http", "version": "1"}
            version = message["params"]["protocolVersion"]
            result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
            await exchange.result(result, Mcp_Session_Id=session)
        elif exchange.headers.get("mcp-session-id") not in self.known:
            await exchange.status(404)
        elif "id" not in message:
            await exchange.status(202)
        elif message["method"] == "tools/list":
            await exchange.result({"tools": [definition("echo")]})
        else:
            text = str(message["params"]["arguments"])
            await exchange.result({"content": [{"type": "text", "text": text}]})


async def _read(stream: trio.SocketStream) -> Exchange | None:
    connection = h11.Connection(h11.SERVER)
    request: Any = None
    body = b""
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            data = await stream.receive_some()
            connection.receive_data(data)
            if not data and request is None:
                return None
        elif isinstance(event, h11.Request):
            request = event
        elif isinstance(event, h11.Data):
            body += event.data
        else:
            headers = {name.decode().lower(): value.decode() for name, value in request.headers}
            return Exchange(stream=stream, method=request.method.decode(), headers=headers, body=body)


@asynccontextmanager
async def http_peer() -> AsyncGenerator[HttpPeer]:
    """A server on a port of its own."""
    peer = HttpPeer()
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        peer.port = listeners[0].socket.getsockname()[1]
        nursery.start_soon(trio.serve_listeners, peer.serve, listeners)
        yield peer
        nursery.cancel_scope.cancel()
