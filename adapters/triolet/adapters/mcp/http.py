"""The streamable HTTP transport: a POST for each message of ours, answers as JSON or as an event stream.

Decides what the end of a single request means: refused before it can have run (nothing answers, the session is gone, a
status of 4xx), or lost with the outcome unknown. Every body is bounded while it is read. A stream that breaks is taken
up again where the server gave it an id, which never sends the request anew (RUN-013). What the server says outside of
requests comes over a GET stream, if it offers one. It decides no reconnection: a session that is gone ends the wire.
(F-033, F-036, SEC-013)

Requests run in tasks of the wire's own nursery. No client of the SDK stands here: it logs whole messages, reads JSON
bodies without a bound, and leaves generators to the garbage collector.
"""

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final, Literal, cast

import httpx2
import orjson
import trio

from triolet.adapters.mcp.bodies import BodyTooLong, beginning, chunks_of, whole
from triolet.adapters.mcp.events import Events, EventTooLong
from triolet.adapters.mcp.limits import McpLimits, McpTimes
from triolet.adapters.mcp.messages import Diagnostics, JsonObject, decoded
from triolet.adapters.mcp.servers import HttpServer
from triolet.adapters.mcp.wire import Arrived, Happened, Unanswered, WireLost

_SESSION: Final = "mcp-session-id"
_VERSION: Final = "mcp-protocol-version"
_LAST_EVENT: Final = "last-event-id"
_SESSION_ID: Final = re.compile(r"[\x21-\x7e]{1,1024}\Z")
_RESUMPTIONS: Final = 3
"""How often in a row a stream is taken up again without anything new having come."""
_RETRY_SECONDS: Final = 1.0
_NOTICE_SECONDS: Final = 10.0
"""How long handing over a message that has no answer may take."""
_DRAIN_SECONDS: Final = 5.0
_GONE: Final = "the server does not know this session any more"
_SHORTEST_WAIT: Final = 0.1
_BEGINNING: Final = 4_096


class _HttpWire:
    """See `Wire`."""

    def __init__(
        self,
        client: httpx2.AsyncClient,
        server: HttpServer,
        limits: McpLimits,
        times: McpTimes,
        diagnostics: Diagnostics,
        nursery: trio.Nursery,
    ) -> None:
        self._client = client
        self._url = server.url
        self._limits = limits
        self._times = times
        self._diagnostics = diagnostics
        self._nursery = nursery
        self._session: str | None = None
        self._version: str | None = None
        self._gone = False
        self._asking = 0
        self._idle = trio.Event()
        # Nothing is read off the network while what was read before still waits here.
        self._arrive, self._arrived = trio.open_memory_channel[Arrived | WireLost](0)

    async def send(self, message: JsonObject, data: bytes) -> None:
        """See `Wire.send`."""
        request = message.get("id") if "method" in message else None
        if isinstance(request, int):
            self._nursery.start_soon(self._ask, request, data, message["method"] == "initialize")
        elif message.get("method") == "notifications/initialized":
            # The order counts here and nowhere else: what follows may rely on it.
            await self._tell(data)
            self._nursery.start_soon(self._listen)
        else:
            self._nursery.start_soon(self._tell, data)

    async def receive(self) -> Arrived:
        """See `Wire.receive`."""
        arrived = await self._arrived.receive()
        if isinstance(arrived, WireLost):
            raise arrived
        return arrived

    def agree(self, version: str) -> None:
        """From here on every request says so."""
        self._version = version

    async def end(self) -> None:
        """Tell the server that the session is over, if there is one; within a bound, whatever it says."""
        if self._session is None:
            return
        with trio.move_on_after(self._times.close, shield=True), suppress(httpx2.HTTPError):
            await self._client.request("DELETE", self._url, headers=self._headers())

    def _headers(self, **more: str) -> dict[str, str]:
        headers = {name.replace("_", "-"): value for name, value in more.items()}
        if self._session is not None:
            headers[_SESSION] = self._session
        if self._version is not None:
            headers[_VERSION] = self._version
        return headers

    # One request, and its answer.

    async def _ask(self, request: int, data: bytes, is_first: bool) -> None:
        self._asking += 1
        try:
            if self._gone:
                await self._session_gone(request)
            else:
                await self._ask_for(request, data, is_first=is_first)
        finally:
            self._asking -= 1
            if self._asking == 0:
                self._idle.set()

    async def _ask_for(self, request: int, data: bytes, *, is_first: bool) -> None:
        try:
            response = await self._posted(data)
        except httpx2.TransportError as error:
            never = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
            await self._unanswered(
                request, "no" if never else "unknown", "nothing answers there" if never else "the connection broke"
            )
            return
        try:
            await self._read_answer(request, response, is_first=is_first)
        finally:
            await _close(response)

    async def _posted(self, data: bytes) -> httpx2.Response:
        headers = self._headers(content_type="application/json", accept="application/json, text/event-stream")
        request = self._client.build_request("POST", self._url, content=data, headers=headers)
        return await self._client.send(request, stream=True)

    async def _read_answer(self, request: int, response: httpx2.Response, *, is_first: bool) -> None:
        if response.status_code >= 300:
            await self._refused(request, response)
            return
        if is_first:
            self._take_session(response)
        if _is_stream(response):
            await self._read_stream(request, response)
        elif _kind(response) == "application/json":
            await self._read_json(request, response)
        else:
            await self._unanswered(request, "unknown", "the answer is neither JSON nor an event stream")

    def _take_session(self, response: httpx2.Response) -> None:
        given = response.headers.get(_SESSION)
        self._session = given if given is not None and _SESSION_ID.match(given) else None

    async def _read_json(self, request: int, response: httpx2.Response) -> None:
        try:
            body = await whole(response, self._limits.message_bytes)
        except BodyTooLong:
            await self._too_large(request)
            return
        except httpx2.TransportError:
            await self._unanswered(request, "unknown", "the connection broke in the answer")
            return
        messages = decoded(body)
        if messages is None:
            self._junk(body)
            await self._unanswered(request, "unknown", "the answer is no message")
            return
        await self._deliver(messages)
        if not any(_answers(message, request) for message in messages):
            await self._unanswered(request, "unknown", "the answer is to something else")

    async def _read_stream(self, request: int, response: httpx2.Response) -> None:
        """Read the stream to the answer; where it breaks and had an id, take it up again by a GET."""
        events, quiet = Events(self._limits.message_bytes), 0
        stream: httpx2.Response | None = response
        while True:
            before = events.last_id
            try:
                if stream is not None and await self._answered_on(request, stream, events):
                    return
            except EventTooLong:
                await self._too_large(request)
                return
            finally:
                if stream is not None:
                    await _close(stream)
            quiet = 0 if events.last_id != before else quiet + 1
            events = Events.after(events)
            if events.last_id is None or quiet > _RESUMPTIONS:
                break
            await trio.sleep(_RETRY_SECONDS if events.retry is None else events.retry)
            stream = await self._opened_stream(events.last_id)
            if stream is not None and not _is_stream(stream):
                await _close(stream)
                break
        await self._unanswered(request, "unknown", "the answer's stream ended without the answer")

    async def _answered_on(self, request: int | None, response: httpx2.Response, events: Events) -> bool:
        with suppress(httpx2.TransportError):
            async with chunks_of(response) as chunks:
                async for chunk in chunks:
                    for event in events.feed(chunk):
                        if await self._take(event.data, request):
                            return True
        return False

    async def _opened_stream(self, last_id: str | None) -> httpx2.Response | None:
        more = {} if last_id is None else {"last_event_id": last_id}
        headers = self._headers(accept="text/event-stream", **more)
        try:
            return await self._client.send(self._client.build_request("GET", self._url, headers=headers), stream=True)
        except httpx2.TransportError:
            return None

    # What has no answer, and what comes unasked.

    async def _tell(self, data: bytes) -> None:
        with trio.move_on_after(_NOTICE_SECONDS), suppress(httpx2.TransportError):
            response = await self._posted(data)
            await response.aclose()

    async def _listen(self) -> None:
        """Read what the server says unasked, for as long as it offers a stream for that."""
        events, quiet = Events(self._limits.message_bytes), 0
        while quiet <= _RESUMPTIONS:
            before = self._diagnostics.messages
            stream = await self._opened_stream(events.last_id)
            if stream is not None:
                try:
                    if not _is_stream(stream):
                        return
                    await self._answered_on(None, stream, events)
                except EventTooLong:
                    self._diagnostics.junk_came(b"", oversize=True)
                finally:
                    await _close(stream)
            quiet = 0 if self._diagnostics.messages > before else quiet + 1
            events = Events.after(events)
            await trio.sleep(_RETRY_SECONDS if events.retry is None else max(events.retry, _SHORTEST_WAIT))

    async def _take(self, data: bytes, request: int | None) -> bool:
        messages = decoded(data)
        if messages is None:
            self._junk(data)
            return False
        await self._deliver(messages)
        return request is not None and any(_answers(message, request) for message in messages)

    async def _deliver(self, messages: list[JsonObject]) -> None:
        self._diagnostics.message()
        for message in messages:
            await self._arrive.send(message)

    def _junk(self, data: bytes) -> None:
        if self._diagnostics.junk_came(data[:1_000]) > self._limits.junk:
            lost = WireLost("protocol", f"more than {self._limits.junk} events in a row are no messages")
            self._nursery.start_soon(self._arrive.send, lost)

    # How a request ends without an answer.

    async def _refused(self, request: int, response: httpx2.Response) -> None:
        status = response.status_code
        body = await beginning(response, _BEGINNING)
        if self._session is not None and (status == 404 or (status == 400 and _is_about_sessions(body))):
            if not self._gone:
                self._gone = True
                self._nursery.start_soon(self._leave, WireLost("lost", _GONE))
            await self._session_gone(request)
            return
        answer = decoded(body)
        if answer is not None and any(_answers(message, request) for message in answer):
            await self._deliver(answer)
            return
        reason: Literal["unauthorized", "refused"] = "unauthorized" if status in (401, 403) else "refused"
        happened: Happened = "no" if status < 500 else "unknown"
        problem = f"the server answers with status {status}"
        await self._arrive.send(Unanswered(id=request, happened=happened, reason=reason, problem=problem))

    async def _unanswered(self, request: int, happened: Happened, problem: str) -> None:
        reason: Literal["refused", "lost"] = "refused" if happened == "no" else "lost"
        await self._arrive.send(Unanswered(id=request, happened=happened, reason=reason, problem=problem))

    async def _too_large(self, request: int) -> None:
        problem = f"the answer is larger than {self._limits.message_bytes} bytes"
        self._diagnostics.junk_came(b"", oversize=True)
        await self._arrive.send(Unanswered(id=request, happened="unknown", reason="too-large", problem=problem))

    async def _session_gone(self, request: int) -> None:
        await self._arrive.send(Unanswered(id=request, happened="no", reason="lost", problem=_GONE, session_gone=True))

    async def _leave(self, lost: WireLost) -> None:
        # What else is under way still hears for itself whether it was refused or lost.
        with trio.move_on_after(_DRAIN_SECONDS):
            while self._asking:
                self._idle = trio.Event()
                await self._idle.wait()
        await self._arrive.send(lost)


@asynccontextmanager
async def open_http(
    server: HttpServer, headers: Mapping[str, str], limits: McpLimits, times: McpTimes, diagnostics: Diagnostics
) -> AsyncGenerator[_HttpWire]:
    """A wire to this server. Nothing is sent before the first message is."""
    patience = httpx2.Timeout(connect=times.connect, pool=times.connect, write=times.connect, read=None)
    # Kept connections may be closed by the server at the moment of use, and nobody could tell whether a call ran.
    places = httpx2.Limits(max_connections=limits.open_calls + 8, max_keepalive_connections=0)
    async with (
        httpx2.AsyncClient(
            headers={**headers, "Accept-Encoding": "identity"},
            timeout=patience,
            limits=places,
            trust_env=server.environment,
            follow_redirects=False,
        ) as client,
        trio.open_nursery() as nursery,
    ):
        wire = _HttpWire(client, server, limits, times, diagnostics, nursery)
        try:
            yield wire
        finally:
            await wire.end()
            nursery.cancel_scope.cancel()


async def _close(response: httpx2.Response) -> None:
    with trio.move_on_after(1, shield=True), suppress(httpx2.TransportError):
        await response.aclose()


def _kind(response: httpx2.Response) -> str:
    return str(response.headers.get("content-type", "")).partition(";")[0].strip().lower()


def _is_stream(response: httpx2.Response) -> bool:
    return response.status_code == 200 and _kind(response) == "text/event-stream"


def _answers(message: JsonObject, request: int) -> bool:
    return message.get("id") == request and "method" not in message


def _is_about_sessions(body: bytes) -> bool:
    # What the reference servers say to a session id that they do not know, where the specification wants a 404. It has
    # no id, so it is no message.
    with suppress(orjson.JSONDecodeError):
        found: object = orjson.loads(body)
        error = cast("JsonObject", found).get("error") if isinstance(found, dict) else None
        return isinstance(error, dict) and "session" in str(cast("JsonObject", error).get("message", "")).lower()
    return False
