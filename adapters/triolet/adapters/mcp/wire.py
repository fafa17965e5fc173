"""The wire: what the three transports have in common for whoever correlates messages on them.

Decides nothing by itself. A wire carries messages both ways, says of a single request that it can get no answer any
more (only HTTP can tell them apart), and ends with one `WireLost`.
"""

from typing import Literal, Protocol

import attrs

from triolet.adapters.mcp.errors import Reason
from triolet.adapters.mcp.messages import JsonObject

Happened = Literal["no", "unknown"]
"""Whether a request that gets no answer may have had its effect: surely not, or nobody knows."""


class WireLost(Exception):
    """No message will pass this wire any more. `problem` is this project's own sentence."""

    def __init__(self, reason: Reason, problem: str) -> None:
        super().__init__(problem)
        self.reason: Reason = reason
        self.problem = problem


@attrs.frozen(kw_only=True, weakref_slot=False)
class Unanswered:
    """This request will get no answer, though the wire as such may go on. `session_gone`: a new session would help."""

    id: int
    happened: Happened
    reason: Reason
    problem: str
    session_gone: bool = False


Arrived = JsonObject | Unanswered


class Wire(Protocol):
    """One connection. Used by one task for each direction; closed by whoever opened it."""

    async def send(self, message: JsonObject, data: bytes) -> None:
        """Hand over one message, of which `data` are the bytes. Raises `WireLost`."""
        ...

    async def receive(self) -> Arrived:
        """The next message, or news of a request. Raises `WireLost`; junk is counted and skipped before that."""
        ...

    def agree(self, version: str) -> None:
        """From here on this protocol version is spoken."""
        ...
