"""The gate: what passes between a program and its host, and within which bounds.

Decides everything that a program could try to decide for itself: how many calls there may be, how large each argument,
result and value is, and that each is strict JSON. It knows no engine, and trusts nothing that comes from one.
(CAP-015, SEC-013, SEC-014)
"""

from collections.abc import Callable
from typing import Any, Final

import attrs

from triolet.adapters.code_pass.text import storable
from triolet.ports.code_executor import (
    CodeExecutionHost,
    CodeExecutionRequest,
    CodeExecutionResult,
    FailureEnvelope,
    HostCall,
    HostFailure,
    HostResult,
    LimitExceeded,
    LimitName,
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


@attrs.define(kw_only=True, eq=False)
class Gate:
    """One pass, seen from the host's side. `clock` gives seconds; `cpu` and `logs` ask whatever runs the program."""

    request: CodeExecutionRequest
    host: CodeExecutionHost
    implementation: str
    clock: Callable[[], float]
    cpu: Callable[[], float]
    logs: Callable[[], tuple[str, int]]
    calls: int = 0
    began: float = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.began = self.clock()

    @property
    def spent(self) -> Spent:
        """What was used so far."""
        wall = max(0.0, self.clock() - self.began)
        return Spent(calls=self.calls, cpu_seconds=max(0.0, self.cpu()), wall_seconds=wall)

    async def call(self, namespace: str, name: str, argument: str) -> tuple[bool, str]:
        """Make one call: whether it succeeded, and the JSON that the program gets. Raises `LimitExceeded`."""
        limits = self.request.limits
        if self.calls >= limits.calls:
            raise self.stopped("calls")
        self.calls += 1
        text = storable(argument)
        refusal = self._refusal(text)
        if refusal is not None:
            return False, _ENVELOPE.encode_text(refusal)
        reply = await self.host.call(HostCall(namespace=namespace, name=name, arguments=JsonText(text)))
        if isinstance(reply, HostResult):
            if len(reply.value.encode()) <= limits.call_result_bytes:
                return True, reply.value
            reply = HostFailure(envelope=_refused("result-too-large", limits.call_result_bytes))
        envelope = _ENVELOPE.encode_text(reply.envelope)
        if len(envelope.encode()) > limits.call_result_bytes:
            # The payload is what can be large; that the call failed, and how, is told in any case.
            envelope = _ENVELOPE.encode_text(attrs.evolve(reply.envelope, payload=None))
        return False, envelope

    def returned(self, text: str) -> CodeExecutionResult:
        """The result of a program that returned this JSON. Raises `LimitExceeded`, `ResultUnusable`."""
        limit = self.request.limits.result_bytes
        text = storable(text)
        if len(text.encode()) > limit:
            raise self.stopped("result-bytes")
        try:
            parse(text, JsonLimits(max_bytes=limit))
        except InvalidJson as error:
            raise self.unusable(error.message) from None
        return self._ended(Returned(value=JsonText(text)))

    def threw(self, text: str) -> CodeExecutionResult:
        """The result of a program that threw."""
        data = repair(text).encode()[: self.request.limits.result_bytes]
        return self._ended(Threw(text=data.decode(errors="ignore")))

    def stopped(self, limit: LimitName) -> LimitExceeded:
        """The error of a pass that met a limit."""
        return LimitExceeded(limit=limit, spent=self.spent, **self._logged())

    def unsettled(self) -> ProgramUnsettled:
        """The error of a pass that nothing can settle."""
        return ProgramUnsettled(spent=self.spent, **self._logged())

    def unusable(self, detail: str) -> ResultUnusable:
        """The error of a pass whose value has no JSON."""
        return ResultUnusable(detail=repair(detail)[:_DETAIL], spent=self.spent, **self._logged())

    def _refusal(self, text: str) -> FailureEnvelope | None:
        limit = self.request.limits.argument_bytes
        if len(text.encode()) > limit:
            return _refused("argument-too-large", limit)
        try:
            parse(text, JsonLimits(max_bytes=limit))
        except InvalidJson as error:
            return FailureEnvelope(tag="refused", reason="not-json", message=error.message)
        return None

    def _ended(self, ending: Returned | Threw) -> CodeExecutionResult:
        return CodeExecutionResult(
            ending=ending, spent=self.spent, implementation=self.implementation, **self._logged()
        )

    def _logged(self) -> dict[str, Any]:
        logs, dropped = self.logs()
        return {"logs": repair(logs), "dropped": dropped}


def _refused(reason: str, limit: int) -> FailureEnvelope:
    told: JsonValue = {"bytes": limit}
    return FailureEnvelope(tag="refused", reason=reason, message=f"{reason}: at most {limit} bytes", payload=told)
