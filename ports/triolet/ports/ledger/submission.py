"""What the ledger keeps about accepted work: submissions, where each stands, and how it was settled.

Decides which facts a submission has and which of them make two offers the same. It decides no transition: those are
the verbs of `admissions`, `ownership`, `joins` and `settlements`. (DUR-001, DUR-002)
"""

from typing import Annotated, Final, Literal

import attrs

from triolet.ports.admission import InputKind
from triolet.ports.approval import ApprovalRequest
from triolet.ports.conversation_store import Address
from triolet.ports.identity import (
    AgentId,
    ConversationId,
    Epoch,
    Instant,
    Principal,
    RunId,
    SequenceNumber,
    SubmissionId,
    TenantId,
)
from triolet.ports.messages import Part
from triolet.ports.outcomes import UnknownCall
from triolet.ports.records import RunSettled
from triolet.ports.schema import Ge, MaxLength, MinLength
from triolet.ports.strict_json import JsonText

SubmissionKind = Literal["run"] | InputKind
"""A run of its own, or input that joins the run under way (and becomes a run of its own where that ends first)."""

NO_ALLOWANCE: Final = JsonText("{}")


@attrs.frozen(kw_only=True, weakref_slot=False)
class Submission:
    """Work that somebody asks for. Nothing of it changes after admission.

    `key` is the caller's idempotency key, 1 to 200 characters, scoped by tenant and principal. `allowance` is what the
    caller takes off the agent's policy, as a JSON object. `author` labels the input and authorizes nothing.
    """

    id: SubmissionId
    address: Address
    kind: SubmissionKind
    key: Annotated[str, MinLength(1), MaxLength(200)]
    principal: Principal
    author: str
    offered_at: Instant
    agent: AgentId
    parts: tuple[Part, ...]
    allowance: JsonText = NO_ALLOWANCE


@attrs.frozen(kw_only=True, weakref_slot=False)
class ApprovalWait:
    """The run waits for the answer to this request (APPR-004). `steerable`: newer steering counts as one (F-023)."""

    kind: Literal["approval"] = "approval"
    request: ApprovalRequest
    steerable: bool = False


@attrs.frozen(kw_only=True, weakref_slot=False)
class UnknownWait:
    """A call's effect may have happened or not; somebody who knows has to say (DUR-017)."""

    kind: Literal["unknown"] = "unknown"
    unknown: UnknownCall


Trouble = Literal["retries-exhausted", "definition-changed", "unknown-agent", "invalid-input", "corrupt-log"]


@attrs.frozen(kw_only=True, weakref_slot=False)
class OperatorWait:
    """Nothing can go on by itself: a person looks at it and says `retry` or `abort` (DUR-014).

    `detail` is bounded and holds nobody's text.
    """

    kind: Literal["operator"] = "operator"
    trouble: Trouble
    detail: str


Wait = ApprovalWait | UnknownWait | OperatorWait
"""What a suspended submission waits for."""

Status = Literal["admitted", "ready", "claimed", "suspended", "joining", "joined", "settled"]
"""Where a submission stands.

`admitted` is kept and not yet accepted; `ready` may be claimed; `claimed` is owned by a worker; `suspended` is owned by
nobody and waits; `joining` is given to the run under way, `joined` is on that run's record; `settled` has its end.
"""


@attrs.frozen(kw_only=True, weakref_slot=False)
class Settlement:
    """The one end of a submission. `run` is the run that took it in: its own, or the one that it joined (DUR-002)."""

    submission: SubmissionId
    run: RunId
    at: Instant
    settled: RunSettled


@attrs.frozen(kw_only=True, weakref_slot=False)
class Standing:
    """A submission and where it stands.

    `sequence` is its place among all admissions of the ledger, and so among those of its conversation. `attempts`
    counts claims since it last got on; `epoch` is that of the last claim, 0 before the first. `not_before` and `until`
    are instants by the ledger's clock: a ready one is not claimed before, a suspended one is claimable after. `worker`
    and `lease_until` stand while it is claimed, `waits` while it is suspended, `host` once it is joining or joined.
    """

    submission: Submission
    sequence: SequenceNumber
    status: Status
    admitted_at: Instant
    epoch: Epoch = Epoch(0)
    attempts: Annotated[int, Ge(0)] = 0
    not_before: Instant | None = None
    until: Instant | None = None
    waits: tuple[Wait, ...] = ()
    worker: str | None = None
    lease_until: Instant | None = None
    host: SubmissionId | None = None
    settlement: Settlement | None = None


@attrs.frozen(kw_only=True, weakref_slot=False)
class Receipt:
    """What a caller gets for accepted work, and all it needs to ask after it later, from any process (DUR-001)."""

    submission: SubmissionId
    tenant: TenantId
    conversation: ConversationId
    sequence: SequenceNumber


def same_work(first: Submission, again: Submission) -> bool:
    """Whether two submissions under one key ask for the same: in all but their identity and the time of asking."""
    return attrs.evolve(again, id=first.id, offered_at=first.offered_at) == first


def run_of(submission: SubmissionId) -> RunId:
    """The identity of the run that a submission becomes: its own, so that no attempt draws another."""
    return RunId(submission)
