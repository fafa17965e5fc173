"""A substitute for a code executor: programs are Python functions, chosen by their source text.

Decides nothing that depends on time or chance, so that tests of what stands around a program say the same each time. It
is unisolated and says so: it refuses everything untrusted (SEC-010). Processor time and memory are what a function
says it uses, and within that it keeps the same limits as every executor.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import attrs
import trio

from triolet.adapters.code_pass.gate import Gate
from triolet.adapters.code_pass.starting import refuse_unfit
from triolet.ports.canonical import encode_text
from triolet.ports.code_executor import (
    CodeExecutionHost,
    CodeExecutionRequest,
    CodeExecutionResult,
    CodeLimits,
    ProgramInvalid,
)
from triolet.ports.errors import InvalidJson
from triolet.ports.isolation import UNISOLATED, Implementation
from triolet.ports.strict_json import JsonText, JsonValue, check, parse

NAME: Final = "substitute"
_ITSELF: Final = Implementation(name=NAME, version="1", posture=UNISOLATED)


class Thrown(Exception):
    """What a substitute program throws."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class Rejected(Exception):
    """A call that failed, as a substitute program may catch it. `envelope` is JSON."""

    def __init__(self, envelope: JsonText) -> None:
        super().__init__(envelope)
        self.envelope = envelope


class Running:
    """One pass, seen from a substitute program."""

    def __init__(self, limits: CodeLimits) -> None:
        self._limits = limits
        self._output = bytearray()
        self._dropped = 0
        self.cpu = 0.0
        self.gate: Gate | None = None

    async def call(self, namespace: str, name: str, argument: JsonValue) -> JsonValue:
        """Make a call. Raises `Rejected` if it fails."""
        good, text = await self._gate.call(namespace, name, encode_text(argument))
        if not good:
            raise Rejected(JsonText(text))
        return parse(text)

    def log(self, text: str) -> None:
        """Say something."""
        data = f"{text}\n".encode("utf-8", "replace")
        room = self._limits.output_bytes - len(self._output)
        kept = data[:room].decode(errors="ignore").encode()
        self._output += kept
        self._dropped += len(data[len(kept) :].decode(errors="ignore"))

    def use(self, *, cpu_seconds: float = 0.0, memory_bytes: int = 0) -> None:
        """Have used so much more time, and hold so much at once."""
        self.cpu += cpu_seconds
        if self.cpu >= self._limits.cpu_seconds:
            raise self._gate.stopped("cpu-seconds")
        if memory_bytes > self._limits.memory_bytes:
            raise self._gate.stopped("memory-bytes")

    def logs(self) -> tuple[str, int]:
        """What was said, and how many characters did not fit."""
        return self._output.decode(), self._dropped

    @property
    def _gate(self) -> Gate:
        if self.gate is None:
            raise AssertionError("a pass has its gate before it runs")
        return self.gate


SubstituteProgram = Callable[[Running], Awaitable[JsonValue]]


@attrs.frozen(eq=False, weakref_slot=False)
class SubstituteExecutor:
    """Runs the function that stands under a request's source; any other source is a syntax error."""

    programs: Mapping[str, SubstituteProgram]
    implementation: Implementation = attrs.field(default=_ITSELF)

    def check(self, limits: CodeLimits, *, untrusted: bool) -> tuple[str, ...]:
        """Everything of this that could not be kept."""
        return ("untrusted programs: it is unisolated",) if untrusted else ()

    async def execute(self, request: CodeExecutionRequest, host: CodeExecutionHost) -> CodeExecutionResult:
        """Run one function as a pass of its own."""
        refuse_unfit(self, request)
        program = self.programs.get(request.source)
        if program is None:
            raise ProgramInvalid(problem="syntax", detail="no program stands under this source")
        running = Running(request.limits)
        gate = running.gate = Gate(
            request=request,
            host=host,
            implementation=NAME,
            clock=trio.current_time,
            cpu=lambda: running.cpu,
            logs=running.logs,
        )
        with trio.move_on_after(request.limits.wall_seconds):
            try:
                value = await program(running)
                check(value)
            except (Thrown, Rejected) as thrown:
                return gate.threw(str(thrown))
            except InvalidJson as error:
                raise gate.unusable(error.message) from error
            return gate.returned(encode_text(value))
        raise gate.stopped("wall-seconds")
