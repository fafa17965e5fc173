"""Driving one pass: what each rest of the guest means, and the calls in between.

Decides everything that a program could try to decide for itself: which tool a call may reach, how many there may be, how
large each argument and result is, and what a value has to be. One call at a time, in the order in which the program
made them. It holds no thread while a tool runs, and trusts no number that the guest gives. (CAP-015, SEC-013, SEC-014)
"""

from collections.abc import Callable
from typing import Any, Final, NoReturn, Protocol

import attrs

from triolet.adapters.quickjs_guest.steps import Settings, Step
from triolet.adapters.quickjs_wasm.text import storable
from triolet.ports.code_executor import (
    CodeExecutionHost,
    CodeExecutionRequest,
    CodeExecutionResult,
    ExecutorUnavailable,
    FailureEnvelope,
    HostCall,
    HostFailure,
    HostResult,
    LimitExceeded,
    LimitName,
    ProgramInvalid,
    ProgramUnsettled,
    ResultUnusable,
    Returned,
    Spent,
    Threw,
)
from triolet.ports.errors import InvalidJson
from triolet.ports.schema import codec_for
from triolet.ports.strict_json import JsonLimits, JsonText, JsonValue, parse
from triolet.ports.text import repair

_ENVELOPE: Final = codec_for(FailureEnvelope)
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
        # A call's argument stands behind two numbers; what is longer than anything allowed is not even copied.
        message_bytes=max(limits.result_bytes, limits.argument_bytes) + 64,
    )


def refuse_source(request: CodeExecutionRequest) -> None:
    """Raise `ProgramInvalid` for a source beyond its bound."""
    size = len(request.source.encode("utf-8", "replace"))
    if size > request.limits.source_bytes:
        raise ProgramInvalid(problem="too-long", detail=f"{size} bytes, where {request.limits.source_bytes} may be")


@attrs.define(kw_only=True)
class Drive:
    """One pass of one request. `clock` gives seconds."""

    request: CodeExecutionRequest
    host: CodeExecutionHost
    worker: Worker
    implementation: str
    clock: Callable[[], float]
    began: float = 0.0
    calls: int = 0

    def __attrs_post_init__(self) -> None:
        self.began = self.clock()
        self._tools = [(binding.namespace, name) for binding in self.request.bindings for name in binding.names]

    _tools: list[tuple[str, str]] = attrs.field(init=False, factory=list[tuple[str, str]])

    async def run(self) -> CodeExecutionResult:
        """Drive the pass to its end. Raises the port's errors; what the host raises passes."""
        step = await self.worker.start()
        while step.kind == "call":
            step = await self._call(step)
        match step.kind:
            case "returned":
                return self._returned(step.text)
            case "threw":
                return self._ended(Threw(text=self._bounded(step.text)))
            case "invalid":
                problem: Any = "not-async-function" if step.text.startswith("not an async") else "syntax"
                raise ProgramInvalid(problem=problem, detail=repair(step.text)[:_DETAIL])
            case "unsettled":
                raise ProgramUnsettled(spent=self.spent, **self._logged())
            case "unusable":
                raise self._unusable(step.text)
            case "cpu" | "memory" | "stack":
                self.stopped(_STOPS[step.kind])
            case _:
                raise ExecutorUnavailable(
                    implementation=self.implementation,
                    problem=f"the guest gave out ({step.text[:80]})",
                    spent=self.spent,
                )

    @property
    def spent(self) -> Spent:
        """What was used so far."""
        wall = max(0.0, self.clock() - self.began)
        return Spent(calls=self.calls, cpu_seconds=max(0.0, self.worker.cpu_seconds), wall_seconds=wall)

    def stopped(self, limit: LimitName) -> NoReturn:
        """Raise `LimitExceeded`."""
        raise LimitExceeded(limit=limit, spent=self.spent, **self._logged())

    async def _call(self, step: Step) -> Step:
        limits = self.request.limits
        if self.calls >= limits.calls:
            self.stopped("calls")
        if not 0 <= step.tool < len(self._tools):
            raise ExecutorUnavailable(
                implementation=self.implementation, problem="the guest forged a call", spent=self.spent
            )
        self.calls += 1
        text = storable(step.text)
        refusal = self._refusal(text)
        if refusal is not None:
            return await self.worker.resume(step.call, False, _ENVELOPE.encode_text(refusal))
        namespace, name = self._tools[step.tool]
        reply = await self.host.call(HostCall(namespace=namespace, name=name, arguments=JsonText(text)))
        if isinstance(reply, HostResult) and len(reply.value.encode()) > limits.call_result_bytes:
            reply = HostFailure(envelope=_refused("result-too-large", limits.call_result_bytes))
        if isinstance(reply, HostResult):
            return await self.worker.resume(step.call, True, reply.value)
        envelope = _ENVELOPE.encode_text(reply.envelope)
        if len(envelope.encode()) > limits.call_result_bytes:
            # The payload is what can be large; that it failed, and how, is told in any case.
            envelope = _ENVELOPE.encode_text(attrs.evolve(reply.envelope, payload=None))
        return await self.worker.resume(step.call, False, envelope)

    def _refusal(self, text: str) -> FailureEnvelope | None:
        limit = self.request.limits.argument_bytes
        if len(text.encode()) > limit:
            return _refused("argument-too-large", limit)
        try:
            parse(text, JsonLimits(max_bytes=limit))
        except InvalidJson as error:
            return FailureEnvelope(tag="refused", reason="not-json", message=error.message)
        return None

    def _returned(self, text: str) -> CodeExecutionResult:
        limit = self.request.limits.result_bytes
        text = storable(text)
        if len(text.encode()) > limit:
            self.stopped("result-bytes")
        try:
            parse(text, JsonLimits(max_bytes=limit))
        except InvalidJson as error:
            raise self._unusable(error.message) from None
        return self._ended(Returned(value=JsonText(text)))

    def _unusable(self, detail: str) -> ResultUnusable:
        return ResultUnusable(detail=repair(detail)[:_DETAIL], spent=self.spent, **self._logged())

    def _ended(self, ending: Returned | Threw) -> CodeExecutionResult:
        logged = self._logged()
        return CodeExecutionResult(
            ending=ending, spent=self.spent, implementation=self.implementation, **logged
        )

    def _logged(self) -> dict[str, Any]:
        logs, dropped = self.worker.logs()
        return {"logs": repair(logs), "dropped": dropped}

    def _bounded(self, text: str) -> str:
        data = repair(text).encode()[: self.request.limits.result_bytes]
        return data.decode(errors="ignore")


def _refused(reason: str, limit: int) -> FailureEnvelope:
    told: JsonValue = {"bytes": limit}
    return FailureEnvelope(tag="refused", reason=reason, message=f"{reason}: at most {limit} bytes", payload=told)
