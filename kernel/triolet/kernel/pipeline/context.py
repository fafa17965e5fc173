"""The kernel's ToolContext: what one handler may ask for, bound to its call.

Decides how a handler's requests reach the interpreter: progress as a live event, a step as an observation that
it waits for. It gives out no port that the tool did not declare.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol

import trio

from triolet.ports.canonical import encode_text
from triolet.ports.capabilities import Capabilities
from triolet.ports.identity import CallId, ConversationId, Instant, Principal, RunId
from triolet.ports.outcomes import Outcome
from triolet.ports.strict_json import JsonText, JsonValue, check, parse
from triolet.ports.text import repair
from triolet.ports.tool_context import CallRefused, StepRefused, UndeclaredPort
from triolet.ports.tools import Tool

MAX_NOTE = 1_000
"""Characters of a progress note."""
MAX_STEP_NAME = 200
"""Characters of a step's name."""


class CallHost(Protocol):
    """What a context needs of whoever interprets the run."""

    def progressed(self, call: CallId, note: str, done: float | None, total: float | None) -> None:
        """Tell observers."""
        ...

    async def record_step(self, call: CallId, name: str, value: JsonText) -> None:
        """Return once the step is on record."""
        ...


class Calls(Protocol):
    """Who calls other tools for a handler."""

    async def call(self, name: str, arguments: str) -> Outcome:
        """Call one."""
        ...

    def close(self) -> None:
        """Refuse further calls."""
        ...


class CallContext:
    """One call, seen from inside its handler."""

    __slots__ = (
        "_broker",
        "_capabilities",
        "_host",
        "_names",
        "_over",
        "_steps",
        "_token",
        "_tool",
        "attempt",
        "call",
        "conversation",
        "deadline",
        "principal",
        "run",
    )

    def __init__(
        self,
        *,
        tool: Tool[Any, Any],
        call: CallId,
        run: RunId,
        conversation: ConversationId,
        principal: Principal,
        deadline: Instant | None,
        capabilities: Capabilities,
        steps: Mapping[tuple[CallId, str], JsonText],
        host: CallHost,
        broker: Calls | None,
        attempt: int = 1,
    ) -> None:
        self.call = call
        self.run = run
        self.conversation = conversation
        self.principal = principal
        self.deadline = deadline
        self.attempt = attempt
        self._tool = tool
        self._capabilities = capabilities
        self._steps = steps
        self._host = host
        self._broker = broker
        self._names: set[str] = set()
        self._over = False
        self._token = trio.lowlevel.current_trio_token()

    @property
    def operation_key(self) -> str:
        """The call's identity: it is derived, so every attempt at the call has the same."""
        return self.call

    def progress(self, note: str, *, done: float | None = None, total: float | None = None) -> None:
        """Tell observers how far this call is."""
        told = (repair(note[:MAX_NOTE]), done, total)
        if trio.lowlevel.in_trio_run():
            self._tell(*told)
            return
        # A plain function's thread. What it returns takes the same way back, and so comes after this.
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._tell, *told)

    def _tell(self, note: str, done: float | None, total: float | None) -> None:
        if not self._over:
            self._host.progressed(self.call, note, done, total)

    def close(self) -> None:
        """The handler has ended: whoever still holds this context is heard no more."""
        self._over = True
        if self._broker is not None:
            self._broker.close()

    def port(self, name: str) -> object:
        """The bound capability of this name."""
        if name not in self._tool.requires:
            raise UndeclaredPort(tool=self._tool.name, port=name[:80])
        return getattr(self._capabilities, name)

    async def step(self, name: str, body: Callable[[], Awaitable[JsonValue]]) -> JsonValue:
        """Run `body` once and record what it returns."""
        if self._tool.execution != "durable":
            raise self._refused(name, "the tool is not durable")
        if not isinstance(name, str) or not 0 < len(name) <= MAX_STEP_NAME or repair(name) != name:
            raise self._refused(name, f"a name is clean text of 1 to {MAX_STEP_NAME} characters")
        if name in self._names:
            raise self._refused(name, "the name was used in this call")
        self._names.add(name)
        recorded = self._steps.get((self.call, name))
        if recorded is not None:
            return parse(recorded)
        value = await body()
        check(value)
        text = encode_text(value)
        # Read back before it is on record: what nobody can read must not get there.
        result = parse(text)
        if self._over:
            raise self._refused(name, "the call has ended")
        await self._host.record_step(self.call, name, text)
        return result

    async def call_tool(self, name: str, arguments: str) -> Outcome:
        """Call another tool that this one declares."""
        if self._broker is None:
            raise CallRefused(tool=self._tool.name, problem="it declares none")
        return await self._broker.call(name, arguments)

    def _refused(self, name: str, problem: str) -> StepRefused:
        return StepRefused(tool=self._tool.name, step=repair(str(name)[:80]), problem=problem)
