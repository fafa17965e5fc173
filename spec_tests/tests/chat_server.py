"""A raw HTTP server on the loopback interface, for tests of the OpenAI-compatible adapter.

Each connection is handed to a handler that writes whatever bytes it likes, whenever it likes. What was asked is kept.
"""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import pytest
import trio

from tests.chat_samples import asking
from triolet.adapters.openai_compatible import (
    open_openai_compatible,
)
from triolet.ports.errors import TrioletError
from triolet.ports.language_model import (
    Finished,
    LanguageModel,
    ModelPart,
    ModelRequest,
    TextChunk,
    UsageReport,
)
from triolet.ports.usage import Usage

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
CHUNKED_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
DONE = b"data: [DONE]\n\n"


@attrs.frozen(kw_only=True)
class Asked:
    """One request as it came over the wire."""

    line: str
    headers: dict[str, str]
    body: dict[str, Any]


@attrs.define(kw_only=True)
class ChatServer:
    url: str
    asked: list[Asked] = attrs.field(factory=list[Asked])
    closed: trio.Event = attrs.field(factory=trio.Event)
    """The client has closed a connection whose answer a handler was still giving (see `hang`)."""

    async def hang(self, stream: trio.SocketStream) -> None:
        """Say nothing more until the client closes the connection."""
        try:
            while await stream.receive_some(1024):
                pass
        except trio.BrokenResourceError:
            pass
        self.closed.set()


Handler = Callable[[Asked, trio.SocketStream, ChatServer], Awaitable[None]]


@asynccontextmanager
async def chat_server(handler: Handler) -> AsyncGenerator[ChatServer]:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    server = ChatServer(url=f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}/v1")

    async def serve(stream: trio.SocketStream) -> None:
        asked = await read_request(stream)
        if asked is None:
            server.closed.set()
            return
        server.asked.append(asked)
        await handler(asked, stream, server)

    async with trio.open_nursery() as nursery:
        await nursery.start(partial(trio.serve_listeners, serve, listeners))
        yield server
        nursery.cancel_scope.cancel()


async def read_request(stream: trio.SocketStream) -> Asked | None:
    data = b""
    while b"\r\n\r\n" not in data:
        more = await stream.receive_some(65536)
        if not more:
            return None
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    line, *rows = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (row.partition(": ") for row in rows)}
    while len(body) < int(headers["content-length"]):
        body += await stream.receive_some(65536)
    return Asked(line=line, headers=headers, body=json.loads(body))


def saying(*pieces: bytes) -> Handler:
    """Write `pieces` and close."""

    async def handler(_: Asked, stream: trio.SocketStream, server: ChatServer) -> None:
        for piece in pieces:
            await stream.send_all(piece)

    return handler


def answering(status: str, headers: dict[str, str], body: bytes) -> Handler:
    """A whole answer with a length."""
    rows = {**headers, "Content-Length": str(len(body))}
    head = "".join(f"{name}: {value}\r\n" for name, value in rows.items())
    return saying(f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body)


def event(value: object) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def delta(values: dict[str, Any] | None = None, finish: str | None = None) -> bytes:
    """One chunk with one choice."""
    return event({"choices": [{"index": 0, "delta": values or {}, "finish_reason": finish}]})


def usage(prompt: int, completion: int, **more: Any) -> bytes:
    return event({"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": completion, **more}})


def text_answer(pieces: Iterable[str], finish: str = "stop") -> bytes:
    """A whole stream that says `pieces`."""
    said = b"".join(delta({"content": piece}) for piece in pieces)
    return said + delta(finish=finish) + usage(10, 5) + DONE


SAID = [TextChunk(text="he"), TextChunk(text="llo")]
REPORT = UsageReport(usage=Usage(input_tokens=10, output_tokens=5))
STOP = Finished(reason="stop")


@asynccontextmanager
async def asked_model(handler: Handler, **options: Any) -> AsyncGenerator[tuple[LanguageModel, ChatServer]]:
    async with (
        chat_server(handler) as server,
        open_openai_compatible(base_url=server.url, model="m", use_environment=False, **options) as model,
    ):
        yield model, server


async def answer(model: LanguageModel, request: ModelRequest | None = None) -> list[ModelPart]:
    async with model.stream(request or asking()) as parts:
        return [part async for part in parts]


async def collect(model: LanguageModel, seen: list[ModelPart]) -> None:
    """Keep each part, so that those before an error are there to be looked at."""
    async with model.stream(asking()) as parts:
        async for part in parts:
            seen += [part]


async def failure(handler: Handler, **options: Any) -> tuple[list[ModelPart], TrioletError]:
    """The parts before the error, and the error."""
    seen: list[ModelPart] = []
    async with asked_model(handler, **options) as (model, _):
        with pytest.raises(TrioletError) as raised:
            await collect(model, seen)
    return seen, raised.value
