"""Who and what: the identifiers, order numbers and instants that every other module speaks in.

Decides how derived identifiers are spelt: inside a run nothing is drawn at random, so the same log always
yields the same call and batch identities (TOOL-001, STORE-004). It never draws a fresh identifier and never
reads a clock; those are the ports in `triolet.ports.sources`.
"""

from typing import NewType

import attrs

TenantId = NewType("TenantId", str)
ConversationId = NewType("ConversationId", str)
RunId = NewType("RunId", str)
CallId = NewType("CallId", str)
"""A tool call: run, turn and index in its response. Never what a provider sent (TOOL-001)."""
BatchId = NewType("BatchId", str)
"""A batch of records: run, epoch and ordinal. Appending the same one twice writes once (STORE-004)."""
AgentId = NewType("AgentId", str)
InputId = NewType("InputId", str)
RequestId = NewType("RequestId", str)
"""An approval request: derived from the call that it is about."""
GrantId = NewType("GrantId", str)
SubmissionId = NewType("SubmissionId", str)

Epoch = NewType("Epoch", int)
"""An ownership period of a conversation. Higher fences lower (DUR-006)."""
SequenceNumber = NewType("SequenceNumber", int)
"""A record's position in its conversation's log, from 1. Zero means before the first record."""
Instant = NewType("Instant", int)
"""Microseconds since the Unix epoch, UTC. Fits a double exactly until the year 2255."""

DEFAULT_TENANT = TenantId("default")

MICROSECONDS = 1_000_000


@attrs.frozen(kw_only=True, weakref_slot=False)
class Principal:
    """On whose authority a run acts. An *author* only labels input; a principal is who is answerable (SEC-002)."""

    name: str
    tenant: TenantId = DEFAULT_TENANT


ANONYMOUS = Principal(name="anonymous")


def call_id(run: RunId, turn: int, index: int) -> CallId:
    """Spell the identity of the `index`-th call (from 0) of the response to `turn` (from 1)."""
    return CallId(f"{run}-{turn}-{index}")


def run_of_call(call: CallId) -> RunId:
    """The run of a call: what `call_id` was given. Anything else gives an id that belongs to no run."""
    return RunId(call.rsplit("-", 2)[0])


def batch_id(run: RunId, epoch: Epoch, ordinal: int) -> BatchId:
    """Spell the identity of the `ordinal`-th batch (from 1) that the owner of `epoch` writes for `run`."""
    return BatchId(f"{run}/{epoch}/{ordinal}")


def after(start: Instant, seconds: float) -> Instant:
    """The instant `seconds` later; fractions below a microsecond are dropped."""
    return Instant(start + int(seconds * MICROSECONDS))
