"""Grants: earlier answers that let later calls run without asking again (F-029).

Decides which grants stand after a record, and which one, if any, covers a request at an instant. A grant covers calls
of its tool with exactly equal arguments, or with equal targets if it says so; a tool's name alone never does.
"""

from triolet.ports.approval import ApprovalRequest
from triolet.ports.identity import Instant
from triolet.ports.records import GrantGiven, GrantRevoked, Record, RunSettled


def grants_after(grants: tuple[GrantGiven, ...], record: Record) -> tuple[GrantGiven, ...]:
    """The grants that stand after `record`: a run's own end with it."""
    match record:
        case GrantGiven():
            return (*grants, record)
        case GrantRevoked(grant=revoked):
            return tuple(grant for grant in grants if grant.grant != revoked)
        case RunSettled(run=run) if grants:
            return tuple(grant for grant in grants if grant.run != run)
        case _:
            return grants


def covering(grants: tuple[GrantGiven, ...], request: ApprovalRequest, at: Instant) -> GrantGiven | None:
    """The first grant that covers `request` at this instant."""
    for grant in grants:
        if (grant.agent, grant.tool) != (request.agent, request.tool) or (
            grant.expires_at is not None and grant.expires_at <= at
        ):
            continue
        if grant.principal != request.principal or (grant.run is not None and grant.run != request.run):
            continue
        by_arguments = grant.arguments is not None and grant.arguments == request.arguments
        by_targets = bool(grant.targets) and grant.targets == request.targets
        if by_arguments or by_targets:
            return grant
    return None
