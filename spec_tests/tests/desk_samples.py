"""Requests and actions that the tests of desks and authorizers share."""

from typing import Any

import attrs

from triolet.ports.approval import ApprovalRequest
from triolet.ports.authorizer import CallTool
from triolet.ports.canonical import Digest, digest
from triolet.ports.identity import (
    AgentId,
    CallId,
    ConversationId,
    Instant,
    Principal,
    RequestId,
    RunId,
    TenantId,
)

ACME = TenantId("acme")
ANN = Principal(name="ann", tenant=ACME)
BOB = Principal(name="bob", tenant=ACME)
START = Instant(1_700_000_000_000_000)


def arguments(text: str) -> Digest:
    return digest("test/1", text.encode())


REQUEST = ApprovalRequest(
    id=RequestId("run1-1-0-approval"),
    run=RunId("run1"),
    conversation=ConversationId("c1"),
    agent=AgentId("helper"),
    call=CallId("run1-1-0"),
    tool="write_file",
    principal=ANN,
    summary="write_file on docs/a.md",
    targets=("docs/a.md",),
    risk="medium",
    preview='{"path":"docs/a.md"}',
    arguments=arguments("a"),
    expires_at=None,
    denial="terminal",
)


def request(number: int = 1, **changes: Any) -> ApprovalRequest:
    """The request of the `number`-th run, with these changes."""
    own = {"id": RequestId(f"run{number}-1-0-approval"), "run": RunId(f"run{number}")}
    return attrs.evolve(REQUEST, **(own | changes))


def call_tool(**changes: Any) -> CallTool:
    action = CallTool(
        run=REQUEST.run,
        conversation=REQUEST.conversation,
        agent=REQUEST.agent,
        call=REQUEST.call,
        tool=REQUEST.tool,
        execution="uncertain",
        risk=REQUEST.risk,
        targets=REQUEST.targets,
        arguments=REQUEST.arguments,
    )
    return attrs.evolve(action, **changes)
