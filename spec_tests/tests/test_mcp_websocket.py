"""The WebSocket transport against a peer that closes, falls silent or sends the wrong frames (F-033, F-035)."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio_websocket import ConnectionClosed, WebSocketConnection, WebSocketRequest, serve_websocket

from tests.mcp_peer import call, definition, texts
from triolet.adapters.mcp import (
    McpConnectionLost,
    McpLimits,
    McpSource,
    McpTimedOut,
    McpTimes,
    McpUnavailable,
    WebSocketServer,
    connect_mcp,
    open_mcp,
)

_SOON = 10.0
_QUICK = McpTimes(close=0.3, first_wait=0.01)

OnCall = Callable[[WebSocketConnection, dict[str, Any]], Awaitable[None]]


class Server:
    """A WebSocket server in the test."""

    def __init__(self) -> None:
        self.port = 0
        self.on_call: OnCall | None = None
        self.offered: list[tuple[str, ...]] = []
        self.headers: list[Any] = []
        self.heard: list[dict[str, Any]] = []
        self.greeting: str | bytes | None = None

    @property
    def at(self) -> WebSocketServer:
        return WebSocketServer(url=f"ws://127.0.0.1:{self.port}/mcp?x=1", headers={"X-Who": "me"})

    async def handle(self, request: WebSocketRequest) -> None:
        self.offered.append(tuple(request.proposed_subprotocols))
        self.headers.append(dict(request.headers))
        connection = await request.accept(subprotocol="mcp")
        try:
            if self.greeting is not None:
                await connection.send_message(self.greeting)
            while True:
                await self._act(connection, json.loads(await connection.get_message()))
        except ConnectionClosed:
            pass

    async def _act(self, connection: WebSocketConnection, message: dict[str, Any]) -> None:
        self.heard.append(message)
        match message.get("method"):
            case "initialize":
                version = message["params"]["protocolVersion"]
                info = {"name": "ws", "version": "1"}
                result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
                await say(connection, id=message["id"], result=result)
            case "tools/list":
                await say(connection, id=message["id"], result={"tools": [definition("echo")]})
            case "tools/call":
                if self.on_call is not None:
                    await self.on_call(connection, message)
                else:
                    text = str(message["params"]["arguments"])
                    await say(connection, id=message["id"], result={"content": [{"type": "text", "text": text}]})
            case _:
                pass


async def say(connection: WebSocketConnection, **message: Any) -> None:
    await connection.send_message(json.dumps({"jsonrpc": "2.0", **message}))


@asynccontextmanager
async def serving() -> AsyncGenerator[Server]:
    server = Server()
    with trio.fail_after(_SOON):
        async with trio.open_nursery() as nursery:
            started = await nursery.start(serve_websocket, server.handle, "127.0.0.1", 0, None)
            server.port = started.port
            yield server
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def raw_server(handler: Callable[[trio.SocketStream], Awaitable[None]]) -> AsyncGenerator[WebSocketServer]:
    """A server that is no WebSocket server."""
    with trio.fail_after(_SOON):
        async with trio.open_nursery() as nursery:
            listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
            port = listeners[0].socket.getsockname()[1]
            nursery.start_soon(trio.serve_listeners, handler, listeners)
            yield WebSocketServer(url=f"ws://127.0.0.1:{port}")
            nursery.cancel_scope.cancel()


async def test_calls_go_as_text_frames_under_the_subprotocol() -> None:
    async with serving() as server, open_mcp(server.at, name="w", times=_QUICK) as source:
        assert (await source.snapshot()).provenance.transport == "websocket"
        assert texts(await call(source, a="ü")) == ["{'a': 'ü'}"]
        assert server.offered == [("mcp",)]
        assert server.headers[0][b"x-who"] == b"me"


async def test_f033_a_peer_that_drops_the_socket_ends_every_open_call() -> None:
    ended: list[str] = []

    async def waits(source: McpSource) -> None:
        with pytest.raises(McpConnectionLost):
            await call(source)
        ended.append("lost")

    async with serving() as server:
        arrived = 0

        async def drops(connection: WebSocketConnection, _: dict[str, Any]) -> None:
            nonlocal arrived
            arrived += 1
            if arrived == 2:
                await connection.aclose(1011)

        server.on_call = drops
        async with open_mcp(server.at, times=_QUICK) as source:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(waits, source)
                nursery.start_soon(waits, source)
            assert ended == ["lost", "lost"]
            server.on_call = None
            assert texts(await call(source)) == ["{}"]
        assert [message["method"] for message in server.heard].count("tools/call") == 3


@pytest.mark.parametrize("when", ["at once", "after the request", "in the answer"])
async def test_f033_a_peer_that_closes_during_the_handshake_is_a_typed_error_at_once(when: str) -> None:
    async def closes(stream: trio.SocketStream) -> None:
        async with stream:
            if when != "at once":
                await stream.receive_some()
            if when == "in the answer":
                await stream.send_all(b"HTTP/1.1 101 Switching Protocols\r\nUpgr")

    async with raw_server(closes) as at:
        with trio.fail_after(3), pytest.raises(McpUnavailable) as caught:
            async with open_mcp(at, times=McpTimes(connect=60, close=0.2)):
                pytest.fail("it was opened")
        assert caught.value.reason == "refused"


async def test_f033_a_server_that_says_no_or_speaks_http_is_a_typed_error() -> None:
    async def says_no(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.receive_some()
            await stream.send_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")

    async with raw_server(says_no) as at:
        with pytest.raises(McpUnavailable, match="status 403") as caught:
            async with open_mcp(at, times=_QUICK):
                pytest.fail("it was opened")
        assert caught.value.reason == "unauthorized"


async def test_f034_a_peer_that_never_answers_the_handshake_is_given_up() -> None:
    async def mute(stream: trio.SocketStream) -> None:
        await trio.sleep_forever()

    async with raw_server(mute) as at:
        with pytest.raises(McpUnavailable) as caught:
            async with open_mcp(at, times=McpTimes(connect=0.3, close=0.2)):
                pytest.fail("it was opened")
        assert caught.value.reason == "timeout"


async def test_f033_nothing_listens_there() -> None:
    with pytest.raises(McpUnavailable, match="nothing answers there"):
        async with open_mcp(WebSocketServer(url="ws://127.0.0.1:9/"), times=_QUICK):
            pytest.fail("it was opened")


async def test_f033_a_half_open_line_is_noticed_by_its_silence() -> None:
    """The peer is there and reads nothing any more: only the missing sign of life tells."""
    async with serving() as server:

        async def falls_silent(connection: WebSocketConnection, _: dict[str, Any]) -> None:
            stream: Any = connection._stream

            async def nothing(_: object = None) -> bytes:
                await trio.sleep_forever()
                raise AssertionError

            stream.receive_some = nothing

        server.on_call = falls_silent
        times = McpTimes(call=60, close=0.2, heartbeat=0.2, first_wait=0.01)
        async with open_mcp(server.at, times=times) as source:
            with trio.fail_after(5), pytest.raises(McpConnectionLost, match="no sign of life"):
                await call(source)


@pytest.mark.parametrize("frame", [b"\x00\x01binary", "no message", "[]", '{"jsonrpc": "1.0"}', "NaN", "[" * 5_000])
async def test_frames_that_are_no_messages_are_skipped_and_counted(frame: str | bytes) -> None:
    async with serving() as server:
        server.greeting = frame
        async with open_mcp(server.at, times=_QUICK) as source:
            assert texts(await call(source)) == ["{}"]
            assert source.diagnostics.junk == 1


async def test_a_flood_of_garbage_is_an_end() -> None:
    async with serving() as server:

        async def babbles(connection: WebSocketConnection, _: dict[str, Any]) -> None:
            while True:
                await connection.send_message(b"x" * 100)

        server.on_call = babbles
        async with open_mcp(server.at, limits=McpLimits(junk=100), times=_QUICK) as source:
            with pytest.raises(McpConnectionLost, match="in a row"):
                await call(source)


async def test_a_frame_that_is_too_large_is_an_end_and_not_kept() -> None:
    async with serving() as server:

        async def huge(connection: WebSocketConnection, message: dict[str, Any]) -> None:
            await say(connection, id=message["id"], result={"content": [{"type": "text", "text": "x" * 300_000}]})

        server.on_call = huge
        async with open_mcp(server.at, limits=McpLimits(message_bytes=100_000), times=_QUICK) as source:
            with pytest.raises((McpConnectionLost, McpUnavailable)):
                await call(source)
            server.on_call = None
            assert texts(await call(source)) == ["{}"]


async def test_f034_a_mute_server_ends_calls_in_time_and_close_does_not_wait_for_it() -> None:
    async with serving() as server:

        async def mute(connection: WebSocketConnection, _: dict[str, Any]) -> None:
            await trio.sleep_forever()

        server.on_call = mute
        with trio.fail_after(3):
            async with open_mcp(server.at, times=McpTimes(call=0.2, close=0.2)) as source:
                with pytest.raises(McpTimedOut):
                    await call(source)


async def test_f035_closing_in_any_order_from_other_tasks() -> None:
    async with serving() as server, trio.open_nursery() as nursery:
        sources = [await connect_mcp(nursery, server.at, name=name, times=_QUICK) for name in "abc"]
        for place, source in enumerate(sources):
            async with trio.open_nursery() as closers:
                closers.start_soon(source.aclose)
                closers.start_soon(source.aclose)
            for other in sources[place + 1 :]:
                assert texts(await call(other)) == ["{}"]
