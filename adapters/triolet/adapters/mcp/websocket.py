"""The WebSocket transport: a JSON-RPC message in each text frame, under the subprotocol ``mcp``.

Decides when a peer is gone: it closes, also in the middle of the handshake, or gives no sign of life. A binary frame or
one that is no message is counted and skipped; one that is too large ends the connection, as the library has it. The
socket is this module's own, so that an end which hangs can be cut short. WebSocket is not one of MCP's standard
transports. (F-033)
"""

import ssl
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Final, cast
from urllib.parse import urlsplit

import trio
from trio_websocket import ConnectionClosed, ConnectionRejected, HandshakeError, WebSocketConnection, wrap_client_stream

from triolet.adapters.mcp.limits import McpLimits, McpTimes
from triolet.adapters.mcp.messages import Diagnostics, JsonObject, decoded
from triolet.adapters.mcp.servers import WebSocketServer
from triolet.adapters.mcp.wire import Arrived, WireLost

SUBPROTOCOL: Final = "mcp"
_QUEUE: Final = 4
"""Frames that may wait to be read; the peer's flow is held up beyond that."""


class _Stream(trio.abc.HalfCloseableStream):
    """The bytes under a WebSocket, noticing when the peer stops: the library's handshake does not."""

    def __init__(self, under: trio.SocketStream | trio.SSLStream[trio.SocketStream]) -> None:
        self._under = under
        self.ended = trio.Event()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._under.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._under.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        try:
            data = await self._under.receive_some(max_bytes)
        except trio.BrokenResourceError:
            self.ended.set()
            raise
        if not data:
            self.ended.set()
        return data

    async def send_eof(self) -> None:
        if isinstance(self._under, trio.SocketStream):
            await self._under.send_eof()

    async def aclose(self) -> None:
        await self._under.aclose()


class _WebSocketWire:
    """See `Wire`."""

    def __init__(self, connection: WebSocketConnection, limits: McpLimits, diagnostics: Diagnostics) -> None:
        self._connection = connection
        self._limits = limits
        self._diagnostics = diagnostics
        self._waiting: deque[Arrived] = deque()
        self._silent = False
        self._reading: trio.CancelScope | None = None

    async def send(self, message: JsonObject, data: bytes) -> None:
        """See `Wire.send`."""
        try:
            await self._connection.send_message(data.decode())
        except (ConnectionClosed, trio.BrokenResourceError, trio.ClosedResourceError):
            raise WireLost("lost", "the WebSocket is closed") from None

    async def receive(self) -> Arrived:
        """See `Wire.receive`."""
        while not self._waiting:
            frame: str | bytes | None = None
            with trio.CancelScope() as self._reading:
                if self._silent:
                    self._reading.cancel()
                try:
                    frame = await self._connection.get_message()
                except ConnectionClosed as closed:
                    code = None if closed.reason is None else closed.reason.code
                    if code == 1009:
                        raise WireLost("too-large", f"a frame is larger than {self._limits.message_bytes}") from None
                    raise WireLost("lost", f"the WebSocket is closed (code {code})") from None
            if frame is None:
                raise WireLost("lost", "the peer gives no sign of life")
            self._take(frame)
        return self._waiting.popleft()

    def agree(self, version: str) -> None:
        """Frames are the same in every version."""

    async def watch(self, seconds: float) -> None:
        """Ask for a sign of life every so many seconds; without one within that time, nothing more is read."""
        while True:
            await trio.sleep(seconds)
            with trio.move_on_after(seconds) as patience:
                try:
                    await self._connection.ping()
                except ConnectionClosed:
                    return
            if patience.cancelled_caught:
                self._silent = True
                if self._reading is not None:
                    self._reading.cancel()
                return

    def _take(self, frame: str | bytes) -> None:
        messages = None if isinstance(frame, bytes) else decoded(frame.encode("utf-8", "replace"))
        if messages is not None:
            self._diagnostics.message()
            self._waiting.extend(messages)
            return
        sample = frame if isinstance(frame, bytes) else frame[:1_000].encode("utf-8", "replace")
        if self._diagnostics.junk_came(sample) > self._limits.junk:
            raise WireLost("protocol", f"more than {self._limits.junk} frames in a row are no messages")


@asynccontextmanager
async def open_websocket(
    server: WebSocketServer, headers: Mapping[str, str], limits: McpLimits, times: McpTimes, diagnostics: Diagnostics
) -> AsyncGenerator[_WebSocketWire]:
    """Connect. Raises `WireLost` where nobody answers, or not as a WebSocket."""
    stream = await _connected(server, times.connect)
    try:
        async with trio.open_nursery() as nursery:
            connection = await _shaken_hands(nursery, stream, server, headers, limits, times)
            wire = _WebSocketWire(connection, limits, diagnostics)
            nursery.start_soon(wire.watch, times.heartbeat)
            try:
                yield wire
            finally:
                with trio.move_on_after(times.close, shield=True):
                    await connection.aclose()
                nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        # The library says no from within its own task.
        rejected = _rejection(group)
        if rejected is None:
            raise
        raise WireLost(
            "unauthorized" if rejected.status_code in (401, 403) else "refused",
            f"the handshake is answered with status {rejected.status_code}",
        ) from None
    finally:
        await trio.aclose_forcefully(stream)


def _rejection(error: BaseException) -> ConnectionRejected | None:
    if isinstance(error, BaseExceptionGroup):
        inner = cast("BaseExceptionGroup[BaseException]", error).exceptions
        return next(filter(None, map(_rejection, inner)), None)
    return error if isinstance(error, ConnectionRejected) else None


async def _connected(server: WebSocketServer, seconds: float) -> _Stream:
    parts = urlsplit(server.url)
    secure = parts.scheme == "wss"
    host, port = parts.hostname or "", parts.port or (443 if secure else 80)
    with trio.move_on_after(seconds):
        try:
            socket = await trio.open_tcp_stream(host, port)
        except OSError:
            raise WireLost("refused", "nothing answers there") from None
        return _Stream(await _encrypted(socket, host) if secure else socket)
    raise WireLost("timeout", "the connection was not made in time")


async def _encrypted(socket: trio.SocketStream, host: str) -> trio.SSLStream[trio.SocketStream]:
    stream = trio.SSLStream(socket, ssl.create_default_context(), server_hostname=host, https_compatible=True)
    try:
        await stream.do_handshake()
    except (trio.BrokenResourceError, ssl.SSLError):
        await trio.aclose_forcefully(socket)
        raise WireLost("refused", "there is no trusted TLS there") from None
    except BaseException:
        await trio.aclose_forcefully(socket)
        raise
    return stream


async def _shaken_hands(
    nursery: trio.Nursery,
    stream: _Stream,
    server: WebSocketServer,
    headers: Mapping[str, str],
    limits: McpLimits,
    times: McpTimes,
) -> WebSocketConnection:
    parts = urlsplit(server.url)
    resource = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    made: WebSocketConnection | None = None
    with trio.move_on_after(times.connect) as patience:
        async with trio.open_nursery() as waiting:

            async def give_up_when_it_ends() -> None:
                await stream.ended.wait()
                waiting.cancel_scope.cancel()

            waiting.start_soon(give_up_when_it_ends)
            try:
                made = await wrap_client_stream(
                    nursery,
                    cast("trio.SocketStream", stream),
                    parts.netloc,
                    resource,
                    subprotocols=[SUBPROTOCOL],
                    extra_headers=[(name.encode(), value.encode()) for name, value in headers.items()],
                    message_queue_size=_QUEUE,
                    max_message_size=limits.message_bytes,
                )
            except (HandshakeError, ConnectionClosed, trio.BrokenResourceError):
                made = None
            waiting.cancel_scope.cancel()
    if made is not None:
        return made
    if patience.cancelled_caught:
        raise WireLost("timeout", "the handshake did not end in time")
    raise WireLost("refused", "the handshake failed")
