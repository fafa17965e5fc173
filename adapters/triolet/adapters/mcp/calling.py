"""One call of one tool: its deadlines, its progress, its end.

Decides when a call is over: an answer, the loss of the line, a patience that progress may extend, and a limit that
nothing extends (F-034). Whoever is cancelled leaves at once, and the server is told by somebody else. A call whose
server may have seen it and that gets no answer is *unknown*, and only what was surely never handed over may be asked
again, by whoever called this. (RUN-013, CAP-009)
"""

from typing import Final, cast

import trio
from mcp.shared.exceptions import MCPError
from opentelemetry.propagate import inject
from opentelemetry.trace import get_current_span

from triolet.adapters.mcp.correlator import Asked, RequestLost
from triolet.adapters.mcp.errors import (
    MAX_SERVER_TEXT,
    McpCallRefused,
    McpConnectionLost,
    McpResultUnusable,
    McpTimedOut,
    McpUnavailable,
)
from triolet.adapters.mcp.limits import McpLimits, McpTimes
from triolet.adapters.mcp.messages import JsonObject
from triolet.adapters.mcp.results import result_of
from triolet.adapters.mcp.session import Session
from triolet.ports.strict_json import JsonValue
from triolet.ports.text import repair
from triolet.ports.tool_context import ToolContext

_METHOD: Final = "tools/call"


class NeverHandedOver(Exception):
    """The call surely did not run, because the line went before; another session may serve it. `error` if none does."""

    def __init__(self, error: McpUnavailable) -> None:
        super().__init__()
        self.error = error


async def call(
    session: Session,
    source: str,
    name: str,
    arguments: JsonValue,
    context: ToolContext,
    limits: McpLimits,
    times: McpTimes,
    deadline: float,
) -> JsonValue:
    """Call a tool, and give its result. `deadline` is when all is over, on Trio's clock.

    Raises `McpToolFailed`, `McpCallRefused`, `McpResultUnusable`, `McpUnavailable`; `McpConnectionLost` and
    `McpTimedOut` where the outcome is unknown; `NeverHandedOver`.
    """
    scope = trio.CancelScope(deadline=min(trio.current_time() + times.call, deadline))

    def progressed(done: float, total: float | None, note: str) -> None:
        context.progress(session.echoes.text(repair(note)), done=done, total=total)
        if times.progress_extends:
            scope.deadline = min(trio.current_time() + times.call, deadline)

    _tell_span(session)
    try:
        asked = session.correlator.ask(_METHOD, _params(name, arguments), progressed)
    except RequestLost as lost:
        raise _never(source, lost) from lost
    try:
        with scope:
            answer = await asked.answer()
            return result_of(cast("JsonObject", session.echoes.json(answer)), limits)
    except RequestLost as lost:
        raise _lost(source, lost) from lost
    except MCPError as error:
        problem = session.echoes.text(repair(error.message))[:MAX_SERVER_TEXT]
        raise McpCallRefused(code=error.code, problem=problem) from None
    finally:
        asked.give_up("the answer is not wanted any more")
    raise _late(source, asked)


def _params(name: str, arguments: JsonValue) -> JsonObject:
    meta: dict[str, str] = {}
    inject(meta)
    params: JsonObject = {"name": name, "arguments": arguments}
    if meta:
        params["_meta"] = meta
    return params


def _tell_span(session: Session) -> None:
    provenance = session.provenance
    # What the server calls itself is its own text and stays out of here (CAP-013).
    get_current_span().set_attributes(
        {
            "mcp.method.name": _METHOD,
            "mcp.protocol.version": provenance.protocol,
            "network.transport": {"stdio": "pipe"}.get(provenance.transport, "tcp"),
        }
    )


def _lost(source: str, lost: RequestLost) -> Exception:
    fate = lost.fate
    if fate.happened == "no":
        return _never(source, lost)
    if fate.reason == "too-large":
        return McpResultUnusable(problem=fate.problem)
    return McpConnectionLost(source=source, problem=fate.problem)


def _never(source: str, lost: RequestLost) -> Exception:
    fate = lost.fate
    error = McpUnavailable(source=source, reason=fate.reason, problem=fate.problem)
    return NeverHandedOver(error) if fate.session_gone or fate.reason in ("lost", "closed") else error


def _late(source: str, asked: Asked) -> Exception:
    if asked.handed_over:
        return McpTimedOut(source=source, problem="no answer in time")
    return McpUnavailable(source=source, reason="timeout", problem="the call could not be handed over in time")
