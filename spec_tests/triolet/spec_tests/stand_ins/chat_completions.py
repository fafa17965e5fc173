"""A server with OpenAI's streaming ``/chat/completions``, on this machine, that does as it is told.

Decides how each act looks on that wire. It understands as much HTTP/1.1 as a client needs that sends one POST a
connection or several; it checks no key and reads no model. It binds 127.0.0.1 on a free port.
"""

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Final

import trio

from triolet.ports.canonical import encode
from triolet.ports.strict_json import JsonValue
from triolet.ports.usage import Usage
from triolet.spec_tests.cases.language_model import Act, Breaks, Refuses, Says, Stalls
from triolet.spec_tests.stand_ins.acts import Acts

_MAX_REQUEST: Final = 4 * 1024 * 1024
_FINISH: Final = {"stop": "stop", "tool-calls": "tool_calls", "length": "length", "content-filter": "content_filter"}
_REFUSALS: Final = {
    "rate-limited": (429, "rate_limit_exceeded"),
    "overloaded": (503, "overloaded"),
    "authentication": (401, "invalid_api_key"),
    "not-found": (404, "model_not_found"),
    "bad-request": (400, "invalid_request_error"),
    "too-long": (400, "context_length_exceeded"),
}


class ChatCompletions:
    """See `Provider`."""

    def __init__(self) -> None:
        self._acts = Acts()
        self._received: list[str] = []
        self.answering = 0
        self.base_url = ""
        """Where it listens."""

    def will(self, *acts: Act) -> None:
        """Do these next."""
        self._acts.add(*acts)

    @property
    def received(self) -> tuple[str, ...]:
        """The bodies of the requests."""
        return tuple(self._received)

    async def serve(self, stream: trio.SocketStream) -> None:
        """Answer the requests of one connection until either side closes it."""
        buffer = bytearray()
        async with stream:
            while (body := await _next_body(stream, buffer)) is not None:
                self._received.append(body.decode())
                act = self._acts.next()
                self.answering += 1
                try:
                    going_on = await _perform(stream, act)
                except trio.BrokenResourceError:
                    return
                finally:
                    self.answering -= 1
                if not going_on:
                    return


@asynccontextmanager
async def open_chat_completions() -> AsyncGenerator[ChatCompletions]:
    """Serve until the scope is left."""
    server = ChatCompletions()
    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        server.base_url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}/v1"
        nursery.start_soon(trio.serve_listeners, server.serve, [listener])
        yield server
        nursery.cancel_scope.cancel()


async def _next_body(stream: trio.SocketStream, buffer: bytearray) -> bytes | None:
    while (end := buffer.find(b"\r\n\r\n")) < 0:
        if not await _more(stream, buffer):
            return None
    head = bytes(buffer[:end]).decode("latin-1")
    length = next((line[15:] for line in head.split("\r\n") if line.lower().startswith("content-length:")), "0")
    size = int(length)
    del buffer[: end + 4]
    while len(buffer) < size:
        if not await _more(stream, buffer):
            return None
    body = bytes(buffer[:size])
    del buffer[:size]
    return body


async def _more(stream: trio.SocketStream, buffer: bytearray) -> bool:
    try:
        data = await stream.receive_some()
    except trio.BrokenResourceError:
        return False
    buffer += data
    return bool(data) and len(buffer) <= _MAX_REQUEST


async def _perform(stream: trio.SocketStream, act: Act) -> bool:
    """Do it. Whether the connection may be used again."""
    match act:
        case Refuses():
            await stream.send_all(_refusal(act))
            return True
        case Says():
            await stream.send_all(_STREAM_HEAD)
            for event in _events(act):
                await stream.send_all(_chunk(event))
            await stream.send_all(_chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")
            return True
        case Breaks():
            await stream.send_all(_STREAM_HEAD)
            for event in _parts(Says(text=act.text, calls=act.calls)):
                await stream.send_all(_chunk(event))
            return False
        case Stalls():
            await stream.send_all(_STREAM_HEAD)
            for event in _parts(Says(text=act.text)):
                await stream.send_all(_chunk(event))
            # Nothing more is sent; what comes in can only be the end of the connection.
            await stream.receive_some()
            return False


_STREAM_HEAD: Final = b"\r\n".join(
    (b"HTTP/1.1 200 OK", b"Content-Type: text/event-stream", b"Transfer-Encoding: chunked", b"", b"")
)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _refusal(act: Refuses) -> bytes:
    status, code = _REFUSALS[act.why]
    body = encode({"error": {"message": "refused", "type": "error", "code": code}})
    advice = "" if act.retry_after is None else f"Retry-After: {act.retry_after:g}\r\n"
    head = f"HTTP/1.1 {status} Refused\r\nContent-Type: application/json\r\n{advice}"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def _events(says: Says) -> Iterator[bytes]:
    yield from _parts(says)
    yield _event({}, finish=_FINISH[says.finish])
    if says.usage is not None:
        yield _data({"choices": [], "usage": _usage(says.usage)})


def _parts(says: Says) -> Iterator[bytes]:
    yield _event({"role": "assistant", "content": ""})
    for piece in says.reasoning:
        yield _event({"reasoning_content": piece})
    for piece in says.text:
        yield _event({"content": piece})
    for index, (name, arguments) in enumerate(says.calls):
        half = len(arguments) // 2
        opened: JsonValue = {"name": name, "arguments": arguments[:half]}
        yield _event({"tool_calls": [{"index": index, "id": f"call_{index}", "type": "function", "function": opened}]})
        yield _event({"tool_calls": [{"index": index, "function": {"arguments": arguments[half:]}}]})


def _event(delta: dict[str, JsonValue], *, finish: str | None = None) -> bytes:
    choice: JsonValue = {"index": 0, "delta": delta, "finish_reason": finish}
    return _data({"id": "1", "object": "chat.completion.chunk", "model": "stand-in", "choices": [choice]})


def _data(value: JsonValue) -> bytes:
    return b"data: %b\n\n" % encode(value)


def _usage(usage: Usage) -> JsonValue:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }
