"""Requests and their answers on one wire: the SDK's `Dispatcher`, with the promises that this project needs.

Decides that a request can be asked from any task and given up from any task without waiting (F-034), that no message is
cut off in the middle because somebody who waited for it was cancelled, that the loss of the wire ends every open
request at once and says of each whether it was handed over (F-033), and what of a server's notices counts. It repeats
nothing.

The SDK's own dispatcher holds a cancelled caller for up to five seconds, writes servers' texts into telemetry, and has
one task for each notice; its session takes any other.
"""

import math
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

import anyio.abc
import attrs
import trio
from mcp.shared.dispatcher import CallOptions, DispatchContext, OnNotify, OnNotifyIntercept, OnRequest
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.shared.transport_context import TransportContext

from triolet.adapters.mcp.limits import McpLimits
from triolet.adapters.mcp.messages import Diagnostics, JsonObject, encoded
from triolet.adapters.mcp.wire import Unanswered, Wire, WireLost

if TYPE_CHECKING:
    from triolet.adapters.mcp.errors import Reason

Progressed = Callable[[float, float | None, str], None]

_METHOD_ERROR: Final = -32_603
_NOT_FOUND: Final = -32_601
_OUTBOX: Final = 1_024
"""Messages that may wait to be written. Beyond that the peer reads nothing, and the connection is given up."""


class RequestLost(Exception):
    """A request will get no answer. `fate` says why, and whether it may have had its effect."""

    def __init__(self, fate: Unanswered) -> None:
        super().__init__(fate.problem)
        self.fate = fate


@attrs.define(eq=False, weakref_slot=False)
class _Outgoing:
    message: JsonObject
    asked: "Asked | None" = None
    written: trio.Event = attrs.field(factory=trio.Event)


class Asked:
    """A request that is under way. `handed_over` says whether the server may have seen it."""

    def __init__(self, correlator: "Correlator", id_: int, progressed: Progressed | None) -> None:
        self._correlator = correlator
        self._done = trio.Event()
        self._answer: JsonObject | MCPError | RequestLost | None = None
        self.id = id_
        self.progressed = progressed
        self.handed_over = False

    async def answer(self) -> JsonObject:
        """Wait for the answer. Raises `MCPError` for the server's own error, `RequestLost`."""
        await self._done.wait()
        if isinstance(self._answer, Exception):
            raise self._answer
        if self._answer is None:
            raise AssertionError("a request ends with an answer or with an error")
        return self._answer

    def end(self, answer: JsonObject | MCPError | RequestLost) -> None:
        """It has its answer, or will never have one; the first counts."""
        if self._answer is None:
            self._answer = answer
            self._done.set()

    def give_up(self, reason: str, *, tell: bool = True) -> None:
        """Nobody waits any more: take it back if it was not handed over, else tell the server. Never waits."""
        self._correlator.forget(self, reason if tell else None)


class _Inbound:
    """What the SDK's session needs to know of a server's request."""

    def __init__(self, id_: int | str) -> None:
        self.request_id = id_


class Correlator:
    """All requests of one session. `ended` is set when the wire is gone; `lost` says why."""

    def __init__(self, wire: Wire, limits: McpLimits, diagnostics: Diagnostics, noticed: Callable[[str], None]) -> None:
        self._wire = wire
        self._limits = limits
        self._diagnostics = diagnostics
        self._noticed = noticed
        self._open: dict[int, Asked] = {}
        self._outbox: deque[_Outgoing] = deque()
        self._bell = trio.Event()
        self._next = 0
        self.ended = trio.Event()
        self.lost: WireLost | None = None

    def ask(self, method: str, params: Mapping[str, Any] | None, progressed: Progressed | None = None) -> Asked:
        """Send a request. Never waits. Raises `RequestLost` where it surely was not sent."""
        self._next += 1
        if self.lost is not None:
            raise RequestLost(self._not_sent(self._reason(), self.lost.problem))
        if len(self._open) >= self._limits.open_calls:
            raise RequestLost(self._not_sent("too-large", f"{self._limits.open_calls} requests wait for answers"))
        asked = Asked(self, self._next, progressed)
        given = dict(params or {})
        if progressed is not None:
            given["_meta"] = {**given.get("_meta", {}), "progressToken": asked.id}
        message: JsonObject = {"jsonrpc": "2.0", "id": asked.id, "method": method}
        if given:
            message["params"] = given
        self._open[asked.id] = asked
        self._put(_Outgoing(message, asked))
        return asked

    def forget(self, asked: Asked, reason: str | None) -> None:
        """See `Asked.give_up`."""
        if self._open.pop(asked.id, None) is None or self.lost is not None:
            return
        if not asked.handed_over:
            self._outbox = deque(item for item in self._outbox if item.asked is not asked)
        elif reason is not None:
            notice = {"requestId": asked.id, "reason": reason}
            self._put(_Outgoing({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": notice}))

    # The SDK's dispatcher.

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Ask, and wait for the answer. Its time is bounded by whoever calls."""
        self._heed(opts)
        asked = self.ask(method, params)
        try:
            return await asked.answer()
        finally:
            # The handshake must not be cancelled by a notice; nothing else comes this way.
            asked.give_up("", tell=False)

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        """Send a notice, and wait until it is handed over or never will be."""
        self._heed(opts)
        message: JsonObject = {"jsonrpc": "2.0", "method": method}
        if params:
            message["params"] = dict(params)
        outgoing = _Outgoing(message)
        self._put(outgoing)
        await outgoing.written.wait()

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Carry messages both ways until the wire is lost or this is cancelled; then no request stays open.

        Notices are not handed on: the session has no listener, and what counts of them is taken here.
        """
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write, nursery.cancel_scope)
                task_status.started()
                await self._read(on_request)
                nursery.cancel_scope.cancel()
        finally:
            self.lose(WireLost("closed", "the connection was closed"))

    def lose(self, lost: WireLost) -> None:
        """The wire is gone: every open request ends now. The first reason counts."""
        if self.lost is not None:
            return
        self.lost = lost
        waiting, self._open = self._open, {}
        reason = self._reason()
        for asked in waiting.values():
            happened: Any = "unknown" if asked.handed_over else "no"
            asked.end(RequestLost(Unanswered(id=asked.id, happened=happened, reason=reason, problem=lost.problem)))
        for outgoing in self._outbox:
            outgoing.written.set()
        self._outbox.clear()
        self.ended.set()

    def _heed(self, opts: CallOptions | None) -> None:
        # The session stamps what it sends once a version is agreed on; a wire may have to say it each time.
        version = (opts or {}).get("headers", {}).get(MCP_PROTOCOL_VERSION_HEADER)
        if version is not None:
            self._wire.agree(version)

    # Both directions.

    def _put(self, outgoing: _Outgoing) -> None:
        if self.lost is not None:
            outgoing.written.set()
            return
        if len(self._outbox) >= _OUTBOX:
            self.lose(WireLost("lost", "the server reads nothing any more"))
            outgoing.written.set()
            return
        self._outbox.append(outgoing)
        self._bell.set()

    async def _write(self, reading: trio.CancelScope) -> None:
        while self.lost is None:
            if not self._outbox:
                self._bell = trio.Event()
                await self._bell.wait()
                continue
            outgoing = self._outbox.popleft()
            data = encoded(outgoing.message)
            asked = outgoing.asked
            if len(data) > self._limits.message_bytes:
                outgoing.written.set()
                if asked is not None:
                    self._end(asked.id, RequestLost(self._not_sent("too-large", "the request is too large to send")))
                continue
            if asked is not None:
                asked.handed_over = True
            try:
                await self._wire.send(outgoing.message, data)
            except WireLost as lost:
                self.lose(lost)
            finally:
                outgoing.written.set()
        reading.cancel()

    async def _read(self, on_request: OnRequest) -> None:
        while self.lost is None:
            try:
                arrived = await self._wire.receive()
            except WireLost as lost:
                self.lose(lost)
                return
            if isinstance(arrived, Unanswered):
                self._end(arrived.id, RequestLost(arrived))
            elif "method" not in arrived:
                self._answered(arrived)
            elif "id" in arrived:
                await self._requested(arrived, on_request)
            else:
                self._notified(arrived)

    def _answered(self, message: JsonObject) -> None:
        id_, result, error = message.get("id"), message.get("result"), message.get("error")
        if isinstance(id_, str) and id_.isdecimal() and len(id_) < 16:
            id_ = int(id_)
        if not isinstance(id_, int) or id_ not in self._open:
            self._diagnostics.late += 1
        elif isinstance(result, dict):
            self._end(id_, cast("JsonObject", result))
        elif isinstance(error, dict):
            self._end(id_, _error(cast("JsonObject", error)))
        else:
            problem = "the answer has neither a result nor an error"
            self._end(id_, RequestLost(Unanswered(id=id_, happened="unknown", reason="protocol", problem=problem)))

    def _end(self, id_: int, answer: JsonObject | MCPError | RequestLost) -> None:
        asked = self._open.pop(id_, None)
        if asked is not None:
            asked.end(answer)

    async def _requested(self, message: JsonObject, on_request: OnRequest) -> None:
        id_, method, params = message["id"], message["method"], message.get("params")
        if not isinstance(id_, int | str) or isinstance(id_, bool) or not isinstance(method, str):
            self._diagnostics.ignored += 1
            return
        given = cast("JsonObject", params) if isinstance(params, dict) else None
        answer: JsonObject
        try:
            context = cast("DispatchContext[TransportContext]", _Inbound(id_))
            answer = {"result": await on_request(context, method, given)}
        except MCPError as error:
            answer = {"error": {"code": error.code, "message": error.message}}
        except Exception:  # noqa: BLE001 -- the SDK's own checks of what a server sent; the reason stays here
            answer = {"error": {"code": _METHOD_ERROR, "message": "the request cannot be served"}}
        if answer.get("error", {}).get("code") == _NOT_FOUND:
            self._diagnostics.ignored += 1
        self._put(_Outgoing({"jsonrpc": "2.0", "id": id_, **answer}))

    def _notified(self, message: JsonObject) -> None:
        method, params = message["method"], message.get("params")
        if method == "notifications/tools/list_changed":
            self._noticed(method)
        elif method == "notifications/progress" and isinstance(params, dict):
            self._progressed(cast("JsonObject", params))
        else:
            self._diagnostics.ignored += 1

    def _progressed(self, params: JsonObject) -> None:
        token, done, total, note = (params.get(key) for key in ("progressToken", "progress", "total", "message"))
        asked = self._open.get(token) if isinstance(token, int) and not isinstance(token, bool) else None
        share = _number(done)
        if asked is None or asked.progressed is None or share is None:
            self._diagnostics.ignored += 1
            return
        asked.progressed(share, _number(total), note if isinstance(note, str) else "")

    def _reason(self) -> "Reason":
        # Why the wire went says nothing about a request that was open on it, but that it was closed here.
        return "closed" if self.lost is not None and self.lost.reason == "closed" else "lost"

    def _not_sent(self, reason: "Reason", problem: str) -> Unanswered:
        return Unanswered(id=self._next, happened="no", reason=reason, problem=problem)


def _number(value: object) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def _error(error: JsonObject) -> MCPError:
    code, message = error.get("code"), error.get("message")
    return MCPError(
        code=code if isinstance(code, int) and not isinstance(code, bool) else _METHOD_ERROR,
        message=message if isinstance(message, str) else "",
    )
