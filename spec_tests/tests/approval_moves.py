"""Records and states that the tests of approval in the machine share."""

from collections.abc import Mapping
from typing import Any

import attrs

from tests import machine_moves as m
from triolet.kernel.machine.observations import (
    ApprovalAnswered,
    AttemptResumed,
)
from triolet.kernel.machine.state import ConversationState
from triolet.ports.approval import ApprovalRequest, Decision, request_id
from triolet.ports.canonical import Digest, digest
from triolet.ports.identity import (
    ANONYMOUS,
    AgentId,
    CallId,
    ConversationId,
    Epoch,
    Principal,
    RequestId,
    RunId,
)
from triolet.ports.records import (
    ApprovalRequested,
)

BOSS = Principal(name="boss")


def call(index: int, turn: int = 1, run: str = m.RUN) -> CallId:
    return CallId(f"{run}-{turn}-{index}")


def asks(name: CallId, **changes: Any) -> ApprovalRequest:
    """A request about a call."""
    request = ApprovalRequest(
        id=request_id(name),
        run=RunId(name.rsplit("-", 2)[0]),
        conversation=ConversationId("c"),
        agent=AgentId("a"),
        call=name,
        tool="pay",
        principal=ANONYMOUS,
        summary="s",
        targets=(),
        risk="low",
        preview="{}",
        arguments=arguments("{}"),
        expires_at=None,
        denial="recoverable",
    )
    return attrs.evolve(request, **changes)


def arguments(text: str) -> Digest:
    return digest("triolet.arguments", text.encode())


def says(verdict: Any = "approved", **fields: Any) -> Decision:
    return Decision(verdict=verdict, by=BOSS, **fields)


def answered(name: CallId, decision: Decision) -> ApprovalAnswered:
    return ApprovalAnswered(call=name, decision=decision, at=m.AT)


def requested(*indices: int, state: ConversationState) -> ConversationState:
    return m.after(*(ApprovalRequested(request=asks(call(index))) for index in indices), state=state)


def resumes(state: ConversationState, answers: Mapping[RequestId, Decision]) -> AttemptResumed:
    return AttemptResumed(epoch=Epoch(state.epoch + 1), worker="w", answers=answers, at=m.AT)
