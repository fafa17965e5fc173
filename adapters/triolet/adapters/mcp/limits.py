"""Bounds on what an MCP server may send, and on how long anything may take (SEC-013, F-034).

Decides the figures and that they are figures; those who read, wait and count enforce them.
"""

from math import isfinite
from typing import Any, Final

import attrs

from triolet.adapters.mcp.errors import InvalidMcpServer


def _positive(instance: object, attribute: "attrs.Attribute[Any]", value: float) -> None:
    if isinstance(value, bool) or not isfinite(value) or value <= 0:
        raise InvalidMcpServer(problem=f"{attribute.name} is a positive, finite number, not {value!r}")


def _not_negative(instance: object, attribute: "attrs.Attribute[Any]", value: float) -> None:
    if isinstance(value, bool) or not isfinite(value) or value < 0:
        raise InvalidMcpServer(problem=f"{attribute.name} is a finite number of 0 or more, not {value!r}")


@attrs.frozen(kw_only=True, weakref_slot=False)
class McpLimits:
    """How much a server may say. Sizes are in bytes.

    `message_bytes` bounds one message in either direction, `result_bytes` what one call may bring (content and
    structured data together), `schema_bytes` one tool's two schemas. A catalogue has at most `tools` tools on `pages`
    pages of `catalogue_bytes` in all. `junk` messages in a row that are none of the protocol's end the connection.
    `open_calls` bounds the requests that wait for an answer.
    """

    message_bytes: int = attrs.field(default=4 * 1024 * 1024, validator=_positive)
    result_bytes: int = attrs.field(default=4 * 1024 * 1024, validator=_positive)
    schema_bytes: int = attrs.field(default=128 * 1024, validator=_positive)
    description_characters: int = attrs.field(default=8_000, validator=_positive)
    tools: int = attrs.field(default=1_000, validator=_positive)
    pages: int = attrs.field(default=100, validator=_positive)
    catalogue_bytes: int = attrs.field(default=8 * 1024 * 1024, validator=_positive)
    junk: int = attrs.field(default=1_000, validator=_positive)
    open_calls: int = attrs.field(default=256, validator=_positive)


@attrs.frozen(kw_only=True, weakref_slot=False)
class McpTimes:
    """How long things may take, in seconds.

    `connect` bounds one attempt to get a session, from the first byte to the end of the handshake; `listing` one look
    at the catalogue. A call ends after `call` seconds without an answer. With `progress_extends` each notice of
    progress starts that time anew, but never past `overall`, which holds whatever bytes arrive. `close` bounds a
    polite end. After a loss there are `tries` attempts at a new session: the first at once, then `first_wait` seconds
    apart at first and twice as long each time, up to `longest_wait`; after them, another round when a call asks for a
    session. A WebSocket is asked for a sign of life every `heartbeat` seconds.
    """

    connect: float = attrs.field(default=30.0, validator=_positive)
    listing: float = attrs.field(default=30.0, validator=_positive)
    call: float = attrs.field(default=60.0, validator=_positive)
    overall: float = attrs.field(default=600.0, validator=_positive)
    progress_extends: bool = False
    close: float = attrs.field(default=3.0, validator=_positive)
    tries: int = attrs.field(default=3, validator=_not_negative)
    first_wait: float = attrs.field(default=0.5, validator=_not_negative)
    longest_wait: float = attrs.field(default=10.0, validator=_not_negative)
    heartbeat: float = attrs.field(default=20.0, validator=_positive)


DEFAULT_LIMITS: Final = McpLimits()
DEFAULT_TIMES: Final = McpTimes()
