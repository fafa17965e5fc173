"""One record of every family, with every field filled where it can be.

Decides nothing; a store has to give each of them back as it was. They make no sensible log together: a store knows
nothing of what records mean.
"""

from typing import Final

from triolet.ports import records as r
from triolet.ports.approval import ApprovalRequest
from triolet.ports.canonical import GENESIS
from triolet.ports.identity import (
    AgentId,
    CallId,
    ConversationId,
    Epoch,
    GrantId,
    InputId,
    Instant,
    Principal,
    RequestId,
    RunId,
    SequenceNumber,
    SubmissionId,
    TenantId,
)
from triolet.ports.messages import AssistantMessage, CallDefect, Media, Text, ToolCall
from triolet.ports.outcomes import ToolFailure, ToolSuccess
from triolet.ports.strict_json import JsonText
from triolet.ports.usage import Usage, UsageTotals

AT: Final = Instant(1_700_000_000_000_000)
RUN: Final = RunId("run1")
CALL: Final = CallId("run1-1-0")
ANN: Final = Principal(name="ann", tenant=TenantId("acme"))

AWKWARD_TEXT: Final = 'tab\t quote" back\\slash é 中文 😀 \u2028 \u200d \x7f end'
"""Clean text that a careless encoder would change."""

_USAGE: Final = Usage(
    input_tokens=100, output_tokens=20, cache_read_tokens=60, cache_write_tokens=30, reasoning_tokens=5
)
_TOTALS: Final = UsageTotals().plus(_USAGE)
_OUTCOME: Final = ToolSuccess(output=JsonText('{"n":1}'), size=70_000)
_FAILURE: Final = ToolFailure(type="Closed", payload=JsonText('{"why":"night"}'))

SAMPLES: Final[tuple[r.Record, ...]] = (
    r.ConversationCreated(
        conversation=ConversationId("c1"),
        tenant=TenantId("acme"),
        parent=r.Lineage(conversation=ConversationId("c0"), run=RUN, call=CALL),
    ),
    r.RunStarted(
        run=RUN,
        agent=AgentId("agent"),
        agent_version="1",
        definition=GENESIS,
        principal=ANN,
        limits=r.Limits(max_turns=3, max_tool_calls=0, exhaustion="final-answer"),
        deadline=AT,
        unknown="wait",
        structured=True,
        instructions=AWKWARD_TEXT,
        skills=(r.SkillReference(id="s", version="1.0.0", digest=GENESIS),),
    ),
    r.AttemptStarted(epoch=Epoch(2), worker="w", recovery="open-batch"),
    r.InputTaken(
        id=InputId("i1"),
        source="joined",
        author="bob",
        offered_at=AT,
        parts=(Text(text=AWKWARD_TEXT), Media(media_type="image/png", base64="AA==")),
        submission=SubmissionId("s1"),
    ),
    r.ModelResponded(
        turn=1,
        attempt=2,
        model="m",
        message=AssistantMessage(
            text="",
            reasoning=AWKWARD_TEXT,
            calls=(
                ToolCall(id=CALL, name="look", arguments=JsonText('{ "a": 1.50 }')),
                ToolCall(
                    id=CallId("run1-1-1"),
                    name="look",
                    arguments=JsonText("{}"),
                    defect=CallDefect(reason="not-json", raw='{"a'),
                ),
            ),
            opaque=JsonText('["kept as it is",1e2]'),
        ),
        finish="tool-calls",
        usage=_USAGE,
    ),
    r.ModelInterrupted(turn=1, attempt=1, model="m", reason="deadline", text="half", usage=Usage(at_least=True)),
    r.OverflowRetried(turn=2),
    r.CompactionCreated(
        turn=2,
        form="summarize",
        covers_through=SequenceNumber(7),
        summary="short",
        summary_version="1",
        retained_facts=("a", "b"),
        token_estimate=9,
        source_digest=GENESIS,
        compactor_version="3",
    ),
    r.CompactionFailed(run=RUN, turn=2, reason="empty", usage=_USAGE),
    r.BudgetWarned(dimension="tokens", used=80, limit=100),
    r.BudgetReached(dimension="tokens", used=101, limit=100, node="tenant t1"),
    r.CallsDecided(turn=1, runnable=(r.RunnableCall(call=CALL, execution="durable"),)),
    r.ApprovalRequested(
        request=ApprovalRequest(
            id=RequestId("q1"),
            run=RUN,
            conversation=ConversationId("c1"),
            agent=AgentId("a1"),
            call=CALL,
            tool="look",
            principal=ANN,
            summary="look at it",
            targets=("/a", "/b"),
            risk="high",
            preview="{}",
            arguments=GENESIS,
            expires_at=AT,
            denial="recoverable",
        )
    ),
    r.ApprovalDecided(
        request=RequestId("q1"),
        call=CALL,
        verdict="approved",
        source="approver",
        by=ANN,
        decided_at=AT,
        reason="fine",
        edited=JsonText('{"a":2}'),
        grant=GrantId("g1"),
    ),
    r.ToolPrepared(calls=(CALL,)),
    r.ToolSettled(call=CALL, outcome=_FAILURE),
    r.ToolUnknown(call=CALL, reason="connection-lost"),
    r.ToolResolved(call=CALL, outcome=_OUTCOME, by=ANN, reason="seen"),
    r.StepSettled(call=CALL, name="send", value=JsonText("null")),
    r.GrantGiven(
        grant=GrantId("g1"),
        agent=AgentId("a1"),
        tool="look",
        scope="conversation",
        run=None,
        principal=ANN,
        arguments=GENESIS,
        targets=None,
        by=ANN,
        expires_at=AT,
    ),
    r.GrantRevoked(grant=GrantId("g1"), by=ANN, reason="over"),
    r.SkillActivated(skill=r.SkillReference(id="s", version="1.0.0", digest=GENESIS), trust="local"),
    r.ToolCatalogueChanged(
        source="server",
        source_version="2",
        digest=GENESIS,
        tools=("a", "b"),
        server="A server",
        protocol="2025-11-25",
        transport="stdio",
        capabilities=("tools",),
        set_aside=1,
    ),
    r.StateWritten(namespace="n", key="k", write_class="transactional", revision=3, digest=GENESIS),
    r.SubagentRequested(call=CALL, agent=AgentId("child"), definition=GENESIS, child=ConversationId("c2")),
    r.SubagentStarted(call=CALL, child=ConversationId("c2"), run=RunId("run2"), submission=SubmissionId("s2")),
    r.SubagentJoined(call=CALL, child=ConversationId("c2"), settlement=GENESIS, outcome=_OUTCOME, usage=_TOTALS),
    r.AbortRequested(run=RUN, by=ANN, reason="enough"),
    r.OperatorActed(action="resolve", key="k", by=ANN, reason="seen", before="unknown", after="done"),
    r.RunSettled(
        run=RUN,
        status="failed",
        usage=_TOTALS,
        turns=2**53 - 1,
        failure=r.RunFailure(code="budget-exhausted", detail="all used up", dimension="turns"),
    ),
)
