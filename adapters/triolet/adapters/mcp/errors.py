"""What can go wrong between this process and an MCP server, and what that says about a call.

Decides which errors there are and to which families they belong. Only three are outcomes of calls that a model may
read (`failures`); whoever lost the answer to a call that was sent raises an `OutcomeUnknown`, and nobody repeats it
(RUN-013, CAP-009). Texts of servers are in the three failures alone, never in another error's message (CAP-013).
"""

from typing import Final, Literal

import attrs

from triolet.ports.errors import Misuse, bounded
from triolet.ports.strict_json import JsonValue
from triolet.ports.tool_context import OutcomeUnknown
from triolet.ports.tool_source import ToolSourceUnavailable

Reason = Literal["refused", "timeout", "lost", "protocol", "too-large", "unauthorized", "closed"]
"""Nothing answers there, or it will not; too slow; the line went; it does not speak the protocol; it says too much; it
wants other credentials; the source was closed here."""


@attrs.define(kw_only=True)
class InvalidMcpServer(Misuse):
    """A description of a server that cannot be right, or that would write a secret down. Nothing was opened."""

    problem: str

    @property
    def message(self) -> str:
        """What is wrong."""
        return f"no usable MCP server: {bounded(self.problem)}"


@attrs.define(kw_only=True)
class McpDenied(Misuse):
    """Authority does not let this principal connect to this server, or resolve one of its secrets. Nothing was sent."""

    source: str
    what: str

    @property
    def message(self) -> str:
        """Which source, and what was denied."""
        return f"tool source {bounded(self.source)!r} may not {self.what}"


@attrs.define(kw_only=True)
class McpUnavailable(ToolSourceUnavailable):
    """The server cannot be used now. What was asked of it did surely not happen."""

    reason: Reason

    @property
    def message(self) -> str:
        """Which source, and why."""
        return f"MCP server {bounded(self.source)!r} ({self.reason}): {bounded(self.problem)}"


@attrs.define(kw_only=True)
class McpConnectionLost(OutcomeUnknown):
    """The line to the server went while a call was open. Whether the call had its effect is unknown (F-033)."""

    source: str
    reason: Literal["connection-lost", "timeout"] = "connection-lost"


@attrs.define(kw_only=True)
class McpTimedOut(OutcomeUnknown):
    """The server did not answer a call in time. It was told to stop; whether it had its effect is unknown (F-034)."""

    source: str
    reason: Literal["connection-lost", "timeout"] = "timeout"


@attrs.define(kw_only=True)
class McpToolFailed(Exception):
    """The tool says that it failed: an ``is_error`` result, as it came."""

    content: JsonValue
    structured: JsonValue = None


@attrs.define(kw_only=True)
class McpCallRefused(Exception):
    """The server answered the call with an error of the protocol, such as wrong arguments or an unknown tool."""

    code: int
    problem: str


@attrs.define(kw_only=True)
class McpResultUnusable(Exception):
    """The server answered the call, and the answer cannot be taken over. The call was made all the same."""

    problem: str


MAX_SERVER_TEXT: Final = 1_000
"""Characters of a server's own words in an error of the protocol."""
