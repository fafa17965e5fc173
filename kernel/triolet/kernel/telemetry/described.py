"""What may be said of the values that cross a port: identities, sizes and verdicts, by type or by parameter.

Decides the closed list of attributes that arguments and results give. A type that is not in it gives none, so a new
port says nothing about its values until somebody has thought about it here. Texts of users, models and tools are in
the second list, which counts only where the host wants content (CAP-013). A tenant is told wherever one is known
(SEC-002); of a secret its handle's name, which is made for that (SEC-006).
"""

from collections.abc import Callable, Mapping, Sized
from typing import Any, Final, cast

from triolet.kernel.telemetry.otel import Attributes, Value
from triolet.ports.admission import Admitted, Offer
from triolet.ports.approval import ApprovalRequest, Decision, Pending
from triolet.ports.artifact_store import ArtifactHandle
from triolet.ports.authorizer import (
    Allow,
    CallTool,
    ConnectMcp,
    Delegate,
    Deny,
    LoadSkill,
    NeedsApproval,
    OpenSandbox,
    Operate,
    ResolveSecret,
)
from triolet.ports.batch import Batch
from triolet.ports.budget import BudgetRefusal, Reserved
from triolet.ports.compactor import CompactionArtifact, CompactionRange
from triolet.ports.conversation_store import Address, Appended, Checkpoint, Page, Tail, Writer
from triolet.ports.identity import Principal
from triolet.ports.secrets import Secret, SecretHandle
from triolet.ports.text import repair
from triolet.ports.tool_source import ToolSnapshot

MAX_ATTRIBUTE: Final = 256
"""Characters of an identity or a name. A longer one is cut."""

TENANT: Final = "triolet.tenant"
CONVERSATION: Final = "gen_ai.conversation.id"
RUN: Final = "triolet.run.id"
AGENT: Final = "gen_ai.agent.id"
TOOL: Final = "gen_ai.tool.name"
CALL: Final = "gen_ai.tool.call.id"
RESOURCE: Final = "triolet.resource.id"
ACTION: Final = "triolet.authorization.action"
VERDICT: Final = "triolet.authorization.verdict"

Teller = Callable[[Any], Mapping[str, Value]]


def name(text: str) -> str:
    """An identity or a name as an attribute: clean and bounded."""
    return repair(text[:MAX_ATTRIBUTE])


def _address(value: Address) -> Attributes:
    return {TENANT: value.tenant, CONVERSATION: value.conversation}


def _call_tool(value: CallTool) -> Attributes:
    return {
        ACTION: value.kind,
        RUN: value.run,
        CONVERSATION: value.conversation,
        AGENT: value.agent,
        TOOL: value.tool,
        CALL: value.call,
    }


def _request(value: ApprovalRequest) -> Attributes:
    return {
        RESOURCE: value.id,
        RUN: value.run,
        CONVERSATION: value.conversation,
        AGENT: value.agent,
        TOOL: value.tool,
        CALL: value.call,
        TENANT: value.principal.tenant,
    }


_TELLERS: Final[Mapping[type[Any], Teller]] = {
    Address: _address,
    Writer: lambda value: {**_address(value.address), "triolet.epoch": value.epoch},
    Principal: lambda value: {TENANT: value.tenant},
    Batch: lambda value: {RESOURCE: value.id, "triolet.records": len(value.records)},
    Checkpoint: lambda value: {"triolet.sequence": value.tail.sequence, "triolet.size": len(value.body)},
    Tail: lambda value: {"triolet.sequence": value.sequence},
    Appended: lambda value: {"triolet.sequence": value.tail.sequence, "triolet.replayed": value.replayed},
    Page: lambda value: {"triolet.batches": len(value.batches)},
    ApprovalRequest: _request,
    Decision: lambda value: {"triolet.approval.verdict": value.verdict},
    Pending: lambda _: {"triolet.approval.verdict": "pending"},
    CallTool: _call_tool,
    LoadSkill: lambda value: {ACTION: value.kind, RESOURCE: value.skill},
    ConnectMcp: lambda value: {ACTION: value.kind, RESOURCE: value.server},
    ResolveSecret: lambda value: {ACTION: value.kind, RESOURCE: value.handle},
    OpenSandbox: lambda value: {ACTION: value.kind, RESOURCE: value.image},
    Delegate: lambda value: {ACTION: value.kind, RESOURCE: value.agent},
    Operate: lambda value: {ACTION: value.kind},
    Allow: lambda _: {VERDICT: "allow"},
    Deny: lambda _: {VERDICT: "deny"},
    NeedsApproval: lambda _: {VERDICT: "needs-approval"},
    Offer: lambda value: {"triolet.input.kind": value.kind, TENANT: value.principal.tenant},
    Admitted: lambda value: {"triolet.sequence": value.sequence},
    Reserved: lambda _: {"triolet.budget.verdict": "reserved"},
    BudgetRefusal: lambda value: {"triolet.budget.verdict": "refused", "triolet.budget.dimension": value.dimension},
    CompactionRange: lambda value: {
        TENANT: value.tenant,
        CONVERSATION: value.conversation,
        RESOURCE: value.digest,
        "triolet.messages": len(value.messages),
    },
    CompactionArtifact: lambda value: {"triolet.compactor.version": value.compactor_version},
    SecretHandle: lambda value: {RESOURCE: value.name},
    Secret: lambda value: {RESOURCE: value.handle.name},
    ToolSnapshot: lambda value: {
        RESOURCE: value.provenance.source,
        "triolet.tools": len(value.tools),
        "triolet.tools.set_aside": len(value.set_aside),
    },
    ArtifactHandle: lambda value: {RESOURCE: value.digest, "triolet.size": value.size},
}
_PARAMETERS: Final[Mapping[str, Teller]] = {
    "tenant": lambda value: {TENANT: value},
    "digest": lambda value: {RESOURCE: value},
    "epoch": lambda value: {"triolet.epoch": value},
    "payload": lambda value: {"triolet.size": len(value)} if isinstance(value, bytes) else {},
}
_CONTENT: Final[Mapping[type[Any], Teller]] = {
    ApprovalRequest: lambda value: {"triolet.approval.preview": value.preview},
    Decision: lambda value: {"triolet.approval.reason": value.reason},
    Deny: lambda value: {"triolet.authorization.reason": value.reason},
    NeedsApproval: lambda value: {"triolet.authorization.reason": value.reason},
}


def told_of_argument(parameter: str, value: object) -> Attributes:
    """What an argument says of its operation."""
    teller = _teller(type(value)) or _PARAMETERS.get(parameter)
    return {} if teller is None or value is None else _bounded(teller(value), MAX_ATTRIBUTE)


def told_of_result(value: object) -> Attributes:
    """What a result says of its operation."""
    teller = _teller(type(value))
    if teller is not None:
        return _bounded(teller(value), MAX_ATTRIBUTE)
    return {"triolet.items": len(cast("Sized", value))} if type(value) in (tuple, dict) else {}


def content_of(value: object, limit: int) -> Attributes:
    """The texts in an argument or a result, where the host wants content."""
    teller = _CONTENT.get(type(value))
    return {} if teller is None else _bounded(teller(value), limit)


def _teller(kind: type[Any]) -> Teller | None:
    return _TELLERS.get(kind)


def _bounded(attributes: Mapping[str, Value], limit: int) -> Attributes:
    # An adapter's values may be anything: what is neither text nor a number is not told.
    return {
        key: repair(value[:limit]) if isinstance(value, str) else value
        for key, value in attributes.items()
        if isinstance(value, str | int | float)
    }
