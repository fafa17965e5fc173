"""What the cases of the ToolSource share: the subject, and a handler's context.

Decides what the other end of a source is made to do, never what is right.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import attrs

from triolet.ports.strict_json import JsonValue
from triolet.ports.tool_context import ToolContext
from triolet.ports.tool_source import ToolSource
from triolet.ports.tools import Tool
from triolet.spec_tests.subject import Subject


def _any_object() -> JsonValue:
    return {"type": "object"}


@attrs.frozen(kw_only=True, weakref_slot=False)
class Definition:
    """A tool at the other end: its own name there, what it says of itself, and the JSON Schema of its input."""

    name: str
    description: str = ""
    input: JsonValue = attrs.field(factory=_any_object)


Offer = Callable[[Sequence[Definition]], Awaitable[None]]


@attrs.frozen(kw_only=True, eq=False, weakref_slot=False)
class ToolSourceSubject(Subject[ToolSource]):
    """A source under test. It offers at least one tool from the start, whose input may be an empty object.

    `offer` makes the other end have these tools and no others, and give whatever notice it gives. Each of them succeeds
    with anything. `called` are the own names of what reached the other end since the subject was opened, in order.
    `lose_next` cuts the line once the next call has reached the other end, and before its answer. `hold` leaves calls
    that reach the other end without an answer. `down` makes the other end unreachable, for whoever asks it anew.
    """

    offer: Offer | None = None
    called: Callable[[], Sequence[str]] | None = None
    lose_next: Callable[[], Awaitable[None]] | None = None
    hold: Callable[[], Awaitable[None]] | None = None
    down: Callable[[], Awaitable[None]] | None = None


class _Context:
    """As much of a call's context as a source's handler may rely on here."""

    call = run = conversation = "kit"
    operation_key = "kit"
    attempt = 1
    deadline = None

    def progress(self, note: str, *, done: float | None = None, total: float | None = None) -> None:
        """Nobody watches."""


async def run_tool(tool: Tool[Any, Any], arguments: JsonValue = None) -> JsonValue:
    """Call it as a kernel does: decoded input, its handler, and what it gives by its schema."""
    handler: Any = tool.handler
    given = tool.input.decode({} if arguments is None else arguments)
    output: Any = await handler(given, cast("ToolContext", _Context()))
    encoded: JsonValue = tool.output.encode(output)
    return encoded


async def tools_of(source: ToolSource) -> dict[str, Tool[Any, Any]]:
    """The tools of a fresh snapshot, by their own names."""
    snapshot = await source.snapshot()
    return {tool.origin.name: tool for tool in snapshot.tools if tool.origin is not None}
