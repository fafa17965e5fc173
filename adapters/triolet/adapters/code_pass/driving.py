"""Driving a guest through one pass: what each of its rests means, and the calls in between.

Decides nothing about a call but which tool its number names; the rest is the gate's. One call at a time, in the order
in which the program made them, and no thread is held while one runs. (CAP-015)
"""

from typing import Final, Literal, Protocol

from triolet.adapters.code_pass.gate import Gate
from triolet.adapters.quickjs_guest.steps import Settings, Step
from triolet.ports.code_executor import (
    CodeExecutionRequest,
    CodeExecutionResult,
    ExecutorUnavailable,
    LimitName,
    ProgramInvalid,
)
from triolet.ports.text import repair

_DETAIL: Final = 500
_STOPS: Final[dict[str, LimitName]] = {"cpu": "cpu-seconds", "memory": "memory-bytes", "stack": "stack"}


class Worker(Protocol):
    """A guest somewhere, driven from Trio. Its methods are called one at a time."""

    async def start(self) -> Step:
        """Evaluate the program and drive it to its first rest."""
        ...

    async def resume(self, call: int, good: bool, text: str) -> Step:
        """Settle a call and drive the program to its next rest."""
        ...

    def logs(self) -> tuple[str, int]:
        """What the program logged, and how many characters did not fit."""
        ...

    @property
    def cpu_seconds(self) -> float:
        """Processor time of the program so far."""
        ...


def settings_of(request: CodeExecutionRequest) -> Settings:
    """What the guest is made with."""
    limits = request.limits
    return Settings(
        source=request.source,
        namespaces={binding.namespace: list(binding.names) for binding in request.bindings},
        memory_bytes=limits.memory_bytes,
        output_bytes=limits.output_bytes,
        # A call's argument stands behind two numbers; of what is longer than anything allowed, only so much is read.
        message_bytes=max(limits.result_bytes, limits.argument_bytes) + 64,
    )


async def drive(worker: Worker, gate: Gate) -> CodeExecutionResult:
    """Drive the pass to its end. Raises the port's errors; what the host raises passes."""
    tools = [(binding.namespace, name) for binding in gate.request.bindings for name in binding.names]
    step = await worker.start()
    while step.kind == "call":
        if not 0 <= step.tool < len(tools):
            raise _gave_out(gate, "it forged a call")
        good, text = await gate.call(*tools[step.tool], step.text)
        step = await worker.resume(step.call, good, text)
    match step.kind:
        case "returned":
            return gate.returned(step.text)
        case "threw":
            return gate.threw(step.text)
        case "invalid":
            problem: Literal["syntax", "not-async-function"] = "syntax"
            if step.text.startswith("not an async function"):
                problem = "not-async-function"
            raise ProgramInvalid(problem=problem, detail=repair(step.text)[:_DETAIL])
        case "unsettled":
            raise gate.unsettled()
        case "unusable":
            raise gate.unusable(step.text)
        case "cpu" | "memory" | "stack":
            raise gate.stopped(_STOPS[step.kind])
        case _:
            raise _gave_out(gate, step.text)


def _gave_out(gate: Gate, how: str) -> ExecutorUnavailable:
    problem = f"the guest gave out ({how[:80]})"
    return ExecutorUnavailable(implementation=gate.implementation, problem=problem, spent=gate.spent)
