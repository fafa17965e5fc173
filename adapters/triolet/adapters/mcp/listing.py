"""Listing a server's tools: page by page, within bounds.

Decides when a catalogue is too long to be read: too many pages, too many bytes, a cursor that comes again. It judges no
tool; `catalogue` does. (SEC-013)
"""

from typing import Any, cast

import trio
from mcp.shared.exceptions import MCPError

from triolet.adapters.mcp.correlator import RequestLost
from triolet.adapters.mcp.errors import McpUnavailable
from triolet.adapters.mcp.limits import McpLimits
from triolet.adapters.mcp.messages import size_of
from triolet.adapters.mcp.session import Session

_METHOD_NOT_FOUND = -32_601


async def listed(session: Session, source: str, limits: McpLimits, seconds: float) -> list[object]:
    """All definitions that the server lists, as it sent them. Raises `McpUnavailable`."""
    if not session.has_tools:
        return []
    with trio.move_on_after(seconds):
        return await _pages(session, source, limits)
    raise McpUnavailable(source=source, reason="timeout", problem=f"its tools were not listed within {seconds:g} s")


async def _pages(session: Session, source: str, limits: McpLimits) -> list[object]:
    found: list[object] = []
    cursor: str | None = None
    cursors: set[str] = set()
    size = 0
    for _ in range(limits.pages):
        page = await _page(session, source, cursor)
        definitions = page.get("tools")
        if not isinstance(definitions, list):
            raise McpUnavailable(source=source, reason="protocol", problem="a page of its tools is no list")
        # What nests too deep is set aside later, by itself.
        size += sum(size_of(each) or 0 for each in cast("list[object]", definitions))
        if size > limits.catalogue_bytes:
            problem = f"its tools take more than {limits.catalogue_bytes} bytes"
            raise McpUnavailable(source=source, reason="too-large", problem=problem)
        found.extend(cast("list[object]", definitions))
        following = page.get("nextCursor")
        if not isinstance(following, str) or not following:
            return found
        if following in cursors:
            raise McpUnavailable(source=source, reason="protocol", problem="its pages go round in a circle")
        cursors.add(following)
        cursor = following
    raise McpUnavailable(source=source, reason="too-large", problem=f"its tools are on more than {limits.pages} pages")


async def _page(session: Session, source: str, cursor: str | None) -> dict[str, Any]:
    try:
        asked = session.correlator.ask("tools/list", None if cursor is None else {"cursor": cursor})
        try:
            return await asked.answer()
        finally:
            asked.give_up("not wanted any more")
    except RequestLost as lost:
        raise McpUnavailable(source=source, reason=lost.fate.reason, problem=lost.fate.problem) from lost
    except MCPError as error:
        if error.code == _METHOD_NOT_FOUND:
            return {"tools": []}
        problem = f"it answers the listing of its tools with error {error.code}"
        raise McpUnavailable(source=source, reason="refused", problem=problem) from None
