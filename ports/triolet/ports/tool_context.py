"""What a running handler may ask for: the ToolContext.

Decides the whole surface between a handler and the kernel: its identity, its time, its progress, and the
ports that its tool declared. It gives no access to history, to other calls, or to anything undeclared.
"""

from collections.abc import Awaitable, Callable
from typing import Literal, Protocol

import attrs

from triolet.ports.errors import Misuse, Unavailable, bounded
from triolet.ports.identity import CallId, ConversationId, Instant, Principal, RunId
from triolet.ports.outcomes import Outcome
from triolet.ports.strict_json import JsonValue


@attrs.define(kw_only=True)
class UndeclaredPort(Misuse):
    """A handler asked for a port that its tool does not declare in `requires`."""

    tool: str
    port: str

    @property
    def message(self) -> str:
        """Which tool asked for what."""
        return f"tool {self.tool!r} asked for port {self.port!r} without declaring it in requires"


@attrs.define(kw_only=True)
class StepRefused(Misuse):
    """A durable step that cannot be: the tool is not durable, or the name was already used in this call."""

    tool: str
    step: str
    problem: str

    @property
    def message(self) -> str:
        """Which step of which tool, and why."""
        return f"step {self.step!r} of tool {self.tool!r}: {self.problem}"


@attrs.define(kw_only=True)
class CallRefused(Misuse):
    """A handler's call of another tool that cannot be: none are declared, one is under way, or its own call has ended.

    Nothing was started, and nothing was paid (RUN-016).
    """

    tool: str
    problem: str

    @property
    def message(self) -> str:
        """Whose handler asked, and why not."""
        return f"tool {self.tool!r} cannot call another tool: {self.problem}"


@attrs.define(kw_only=True)
class OutcomeUnknown(Unavailable):
    """A handler has sent its request, and its answer will never come: the effect may or may not have happened.

    Raised *by* a handler. For an `uncertain` tool the outcome is unknown, for any other it is a defect; nobody repeats
    the call (RUN-013). `reason` says whether the line was lost or the time was up.
    """

    reason: Literal["connection-lost", "timeout"]
    problem: str

    @property
    def message(self) -> str:
        """What happened."""
        return f"outcome unknown ({self.reason}): {bounded(self.problem)}"


class ToolContext(Protocol):
    """One call, seen from inside its handler. Valid until the handler returns."""

    @property
    def call(self) -> CallId:
        """The kernel's identity of this call (TOOL-001)."""
        ...

    @property
    def run(self) -> RunId:
        """The run that this call belongs to."""
        ...

    @property
    def conversation(self) -> ConversationId:
        """The conversation that the run belongs to."""
        ...

    @property
    def principal(self) -> Principal:
        """On whose authority the run acts."""
        ...

    @property
    def operation_key(self) -> str:
        """The same for every attempt at this call, and for no other: what an idempotent service deduplicates by."""
        ...

    @property
    def attempt(self) -> int:
        """Which attempt at this call this is, from 1."""
        ...

    @property
    def deadline(self) -> Instant | None:
        """When the call will be stopped, or None."""
        ...

    def progress(self, note: str, *, done: float | None = None, total: float | None = None) -> None:
        """Tell observers how far this call is. Never waits, is never recorded; `note` is cut at 1,000 characters."""
        ...

    def port(self, name: str) -> object:
        """The bound capability of this name. Raises `UndeclaredPort` unless the tool lists it in `requires`."""
        ...

    async def step(self, name: str, body: Callable[[], Awaitable[JsonValue]]) -> JsonValue:
        """Run `body` once and record what it returns; with the result recorded, return that instead (DUR-010).

        Only a tool of class ``durable`` has steps, and a name may be used once a call. A failure of `body`
        is not recorded and propagates. Raises `StepRefused`; `InvalidJson` if the result is not strict JSON.
        """
        ...

    async def call_tool(self, name: str, arguments: str) -> Outcome:
        """Call another tool that this one declares in `calls`, with the text of its JSON arguments (RUN-016, RUN-017).

        It takes the way of every call: decoded, authorized, paid for, run within its own time and this call's, encoded,
        redacted and bounded. It runs under this call's permit, one at a time, and leaves no record of its own. What
        would have to be asked about is rejected: a program cannot wait for a person. Whatever becomes of it is an
        outcome; cancelling the caller cancels it. Raises `CallRefused`.
        """
        ...
