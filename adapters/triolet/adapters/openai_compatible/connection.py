"""One chat-completion request over HTTP, and the parts of its streamed answer.

Decides when a server is too slow, when an answer is complete, and that a connection is closed the moment its answer is
no longer wanted. It asks once: no retry, no redirect (F-053). So each request gets a connection of its own, too: a kept
one may be closed by the server at the very moment that it is used, and nobody can tell whether that request was
answered. It knows no tool protocol; whoever asks brings the body.

No cancel scope is held across a yield: each read waits in a scope of its own, in a plain coroutine.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Final

import httpx2
import trio

from triolet.adapters.openai_compatible.bounds import Limits, Timeouts
from triolet.adapters.openai_compatible.chunks import ChunkReader
from triolet.adapters.openai_compatible.errors import answer_error, stream_error, transport_error
from triolet.adapters.openai_compatible.provider_json import as_object, load
from triolet.adapters.openai_compatible.sse import Event, EventParser
from triolet.ports.language_model import MalformedResponse, ModelPart, ModelUnavailable

_CLOSING_SECONDS: Final = 5.0
_DONE: Final = "[DONE]"


class Chat:
    """Asks one endpoint. `model` is named in errors."""

    __slots__ = ("_client", "_limits", "_model", "_timeouts", "_url")

    def __init__(self, *, client: httpx2.AsyncClient, url: str, model: str, timeouts: Timeouts, limits: Limits) -> None:
        self._client = client
        self._url = url
        self._model = model
        self._timeouts = timeouts
        self._limits = limits

    @property
    def model(self) -> str:
        """The model's name, for errors."""
        return self._model

    @asynccontextmanager
    async def ask(self, body: bytes) -> AsyncGenerator[AsyncGenerator[ModelPart, None], None]:
        """Post `body`, and yield the answer's parts. Leaving the scope closes the connection of an unfinished answer.

        Raises `ModelUnavailable`, `ModelRefused` or `ContextTooLarge` on entering or between parts, and
        `MalformedResponse` between parts.
        """
        started = trio.current_time()
        response = await self._send(body, started)
        try:
            if response.status_code != 200:
                beginning = await self._read_error(response)
                raise answer_error(self._model, response.status_code, response.headers, beginning)
            _require_stream(response)
            async with aclosing(self._parts(response, started)) as parts:
                yield parts
        finally:
            with trio.move_on_after(_CLOSING_SECONDS, shield=True):
                await response.aclose()

    async def _send(self, body: bytes, started: float) -> httpx2.Response:
        request = self._client.build_request("POST", self._url, content=body)
        with trio.CancelScope(deadline=started + self._timeouts.first) as patience:
            try:
                return await self._client.send(request, stream=True)
            except httpx2.HTTPError as fault:
                raise transport_error(self._model, fault) from fault
        assert patience.cancelled_caught
        raise ModelUnavailable(model=self._model, reason="timeout")

    async def _read_error(self, response: httpx2.Response) -> bytes:
        """The beginning of an error's body, or as much of it as comes in time: the status alone says enough."""
        found = bytearray()
        with trio.move_on_after(self._timeouts.linger):
            try:
                async with _body(response) as chunks:
                    async for chunk in chunks:
                        found += chunk
                        if len(found) >= self._limits.error_bytes:
                            break
            except httpx2.HTTPError:
                pass
        return bytes(found[: self._limits.error_bytes])

    async def _parts(self, response: httpx2.Response, started: float) -> AsyncGenerator[ModelPart, None]:
        reader = ChunkReader(self._model, self._limits)
        async with aclosing(self._events(response, reader, started)) as events:
            async for event in events:
                if event.name == "error":
                    raise stream_error(self._model, _reported(event.data))
                for part in reader.read(event.data):
                    yield part
        for part in reader.finish():
            yield part

    async def _events(
        self, response: httpx2.Response, reader: ChunkReader, started: float
    ) -> AsyncGenerator[Event, None]:
        parser = EventParser(self._limits)
        deadline = started + self._timeouts.first
        lines = 0
        async with _body(response) as chunks:
            while True:
                chunk = await self._next(chunks, deadline, complete=reader.complete)
                if chunk is None:
                    return
                for event in parser.feed(chunk):
                    if event.data == _DONE:
                        return
                    yield event
                if parser.lines > lines:
                    lines = parser.lines
                    patience = self._timeouts.linger if reader.complete else self._timeouts.idle
                    deadline = trio.current_time() + patience

    async def _next(self, chunks: AsyncGenerator[bytes, None], deadline: float, *, complete: bool) -> bytes | None:
        """The next bytes of the body, or None at its end. With `complete`, time-out and fault are an end too."""
        with trio.CancelScope(deadline=deadline):
            try:
                return await anext(chunks, None)
            except httpx2.HTTPError as fault:
                if complete:
                    return None
                raise transport_error(self._model, fault) from fault
        if complete:
            return None
        raise ModelUnavailable(model=self._model, reason="timeout")


@asynccontextmanager
async def _body(response: httpx2.Response) -> AsyncGenerator[AsyncGenerator[bytes, None], None]:
    """The bytes of the body. Leaving early ends the client's reading for good.

    The client nests generators, and closing the outermost leaves the others to the garbage collector, which Trio warns
    about. A read that is cancelled ends them all, from the inside out.
    """
    chunks = response.aiter_raw()
    try:
        yield chunks
    finally:
        with trio.CancelScope() as scope, suppress(httpx2.HTTPError):
            scope.cancel()
            while await anext(chunks, None) is not None:
                pass


def _require_stream(response: httpx2.Response) -> None:
    kind = response.headers.get("content-type", "text/event-stream")
    if kind.partition(";")[0].strip().lower() != "text/event-stream":
        raise MalformedResponse(problem="the answer is no event stream, though one was asked for")
    if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise MalformedResponse(problem="the answer is compressed, though that was not asked for")


def _reported(data: str) -> object:
    try:
        found = load(data)
    except ValueError:
        return data
    return (as_object(found) or {}).get("error", found)
