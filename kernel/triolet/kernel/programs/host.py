"""What a program's call becomes: one call through the broker, and its outcome as an envelope.

Decides how an outcome is told inside a program: by the same kinds and reasons that every call ends in, encoded, and
never as an exception, a traceback or a service. It runs no handler; the broker does, as for a direct call. (CAP-003,
RUN-016)
"""

from collections.abc import Mapping
from typing import Any

import attrs

from triolet.ports.code_executor import FailureEnvelope, HostCall, HostFailure, HostReply, HostResult
from triolet.ports.outcomes import (
    Outcome,
    ToolDefect,
    ToolFailure,
    ToolInvalidInput,
    ToolRejected,
    ToolSuccess,
    ToolUnknownOutcome,
    outcome_text,
)
from triolet.ports.strict_json import parse
from triolet.ports.tool_context import ToolContext
from triolet.ports.tools import Tool


@attrs.define(kw_only=True)
class BrokerHost:
    """The live host of one pass. `made` lists its calls with their outcomes."""

    context: ToolContext
    tools: Mapping[tuple[str, str], Tool[Any, Any]]
    made: list[str] = attrs.field(factory=list[str])

    async def call(self, call: HostCall) -> HostReply:
        """Make the call and say what became of it."""
        place = f"{call.namespace}.{call.name}"
        tool = self.tools[call.namespace, call.name]
        # Noted before it runs: a call that is cut short is told as well.
        self.made.append(f"{place}: stopped")
        outcome = await self.context.call_tool(tool.name, call.arguments)
        self.made[-1] = f"{place}: {outcome.kind}"
        if isinstance(outcome, ToolSuccess):
            return HostResult(value=outcome.output)
        return HostFailure(envelope=envelope_of(outcome))


def envelope_of(outcome: Outcome) -> FailureEnvelope:
    """The outcome of a call that did not succeed, as a program gets it."""
    said = outcome_text(outcome)[:2_000]
    match outcome:
        case ToolFailure(type=type_, payload=payload):
            return FailureEnvelope(
                tag="failure", reason="declared", message=said, type=type_[:200], payload=parse(payload)
            )
        case ToolDefect(reason=reason, type=type_):
            return FailureEnvelope(
                tag="defect", reason=reason, message=said, type=None if type_ is None else type_[:200]
            )
        case ToolRejected(reason=reason):
            return FailureEnvelope(tag="rejected", reason=reason, message=said)
        case ToolInvalidInput(reason=reason):
            return FailureEnvelope(tag="invalid-input", reason=reason, message=said)
        case ToolUnknownOutcome(reason=reason):
            return FailureEnvelope(tag="unknown", reason=reason, message=said)
        case ToolSuccess():
            raise AssertionError("a success is no failure")
