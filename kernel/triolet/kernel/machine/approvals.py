"""What becomes of approval: asked, answered, silent, steered past, forbidden.

Decides which answer counts, what a denial does to its run, and what an answer gives beyond its call. Fails closed: an
answer that is absent, about other arguments, or late changes nothing, and the call stays unrun (APPR-002, F-024).
"""

from typing import Final, Literal

from triolet.kernel.machine import settle
from triolet.kernel.machine.advance import fold
from triolet.kernel.machine.decision import Decision, Refused
from triolet.kernel.machine.grants import covering
from triolet.kernel.machine.guards import open_batch, open_run
from triolet.kernel.machine.observations import ApprovalAnswered, ApprovalSilent, Forbidden, SteeredWhileWaiting
from triolet.kernel.machine.outcome_table import denied, stopped
from triolet.kernel.machine.state import ConversationState
from triolet.ports.approval import ApprovalRequest, grant_id
from triolet.ports.approval import Decision as Answer
from triolet.ports.errors import InvalidJson, InvalidValue
from triolet.ports.identity import CallId, Instant, Principal, after
from triolet.ports.records import (
    ApprovalDecided,
    ApprovalRequested,
    GrantGiven,
    Record,
    ToolSettled,
)
from triolet.ports.schema import codec_for
from triolet.ports.strict_json import parse

POLICY = Principal(name="policy")
"""Who decides where nobody did: the agent's own rules."""
MAX_GRANT_SECONDS: Final = 100 * 365 * 86_400
"""The longest time that a grant may name; one without a time ends with its scope."""


def asked(state: ConversationState, requests: tuple[ApprovalRequest, ...], at: Instant) -> Decision:
    """Put requests on record, each with the grant that covers it, if one does."""
    known = open_batch(state).requests
    records: list[Record] = []
    for request in requests:
        if request.call in known:
            continue
        records.append(ApprovalRequested(request=request))
        grant = covering(state.grants, request, at)
        if grant is not None:
            records.append(
                ApprovalDecided(
                    request=request.id,
                    call=request.call,
                    verdict="approved",
                    source="grant",
                    by=grant.by,
                    decided_at=at,
                    reason="granted before",
                    grant=grant.grant,
                )
            )
    return tuple(records) if records else Refused(problem="every request is on record")


def answered(state: ConversationState, seen: ApprovalAnswered) -> Decision:
    """An approver's answer, if it fits its request; what a yes grants, and what a no does to the run."""
    request = _open_request(state, seen.call)
    answer = seen.decision
    if request is None or (answer.arguments is not None and answer.arguments != request.arguments):
        return ()
    if not _well_formed(answer):
        return ()
    grant = _grant(request, answer, seen.at)
    decided = ApprovalDecided(
        request=request.id,
        call=request.call,
        verdict=answer.verdict,
        source="approver",
        by=answer.by,
        decided_at=seen.at,
        reason=answer.reason,
        edited=answer.edited,
        grant=None if grant is None else grant.grant,
    )
    if answer.verdict == "approved":
        return (decided,) if grant is None else (decided, grant)
    return _denied(state, request, decided)


def silent(state: ConversationState, seen: ApprovalSilent) -> Decision:
    """Silence is a denial, unless the policy on record says otherwise (APPR-002)."""
    request = _open_request(state, seen.call)
    rule = open_run(state).started.approval.silence
    if request is None or rule == "wait":
        return ()
    silence: Literal["denied", "expired"] = "expired" if seen.why == "expired" else "denied"
    decided = ApprovalDecided(
        request=request.id,
        call=request.call,
        verdict="approved" if rule == "approve" else silence,
        source="policy",
        by=POLICY,
        decided_at=seen.at,
        reason="nobody answered in time" if seen.why == "expired" else "the approval desk is unavailable",
    )
    return (decided,) if rule == "approve" else _denied(state, request, decided)


def steered(state: ConversationState, seen: SteeredWhileWaiting) -> Decision:
    """Newer input takes the place of what waits, where the policy on record says so (F-023). Never terminal."""
    if open_run(state).started.approval.steered == "wait":
        return ()
    return tuple(
        ApprovalDecided(
            request=request.id,
            call=request.call,
            verdict="denied",
            source="steering",
            by=POLICY,
            decided_at=seen.at,
            reason="newer input came in before an answer",
        )
        for request in open_batch(state).waiting
    )


def forbidden(state: ConversationState, call: CallId, verdict: Forbidden) -> Decision:
    """An authorizer's terminal denial: nothing of the batch starts, and the run fails, typed (RUN-031)."""
    return _fail(state, call, ToolSettled(call=call, outcome=denied("denied", verdict.reason)), ())


def _open_request(state: ConversationState, call: CallId) -> ApprovalRequest | None:
    batch = open_batch(state)
    return None if call in batch.answers else batch.requests.get(call)


def _denied(state: ConversationState, request: ApprovalRequest, decided: ApprovalDecided) -> Decision:
    if request.denial == "recoverable":
        return (decided,)
    why: Literal["denied", "expired"] = "expired" if decided.verdict == "expired" else "denied"
    refused = ToolSettled(call=request.call, outcome=denied(why, decided.reason))
    return _fail(state, request.call, refused, (decided,))


def _fail(
    state: ConversationState, call: CallId, refused: ToolSettled, before: tuple[Record, ...]
) -> tuple[Record, ...]:
    batch = open_batch(state)
    runnable = batch.runnable or {}
    sealed = tuple(
        refused
        if open_call.id == call
        else ToolSettled(call=open_call.id, outcome=stopped("cancelled", runnable.get(open_call.id), started=False))
        for open_call in batch.open
    )
    records = (*before, *sealed)
    return (*records, settle.denied(open_run(fold(records, state))))


def _well_formed(answer: Answer) -> bool:
    # What could not be put on record is no answer; nor is an edit that is no JSON object, or that comes with a no.
    try:
        codec_for(Answer).encode(answer)
        edited = None if answer.edited is None else parse(answer.edited)
    except (InvalidJson, InvalidValue):
        return False
    if answer.edited is not None and (answer.verdict == "denied" or not isinstance(edited, dict)):
        return False
    seconds = None if answer.grant is None else answer.grant.seconds
    return seconds is None or 0 < seconds <= MAX_GRANT_SECONDS


def _grant(request: ApprovalRequest, answer: Answer, at: Instant) -> GrantGiven | None:
    terms = answer.grant
    # Terms speak of what was asked. Where something else was approved instead, that was turned down.
    if terms is None or answer.verdict != "approved" or answer.edited is not None:
        return None
    by_targets = terms.by_targets and bool(request.targets)
    return GrantGiven(
        grant=grant_id(request.id),
        agent=request.agent,
        tool=request.tool,
        scope=terms.scope,
        run=request.run if terms.scope == "run" else None,
        principal=request.principal,
        arguments=None if by_targets else request.arguments,
        targets=request.targets if by_targets else None,
        by=answer.by,
        expires_at=None if terms.seconds is None else after(at, terms.seconds),
    )
