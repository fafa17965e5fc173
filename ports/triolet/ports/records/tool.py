"""Records of tool calls: decided, asked about, prepared, settled, unknown, resolved; steps and grants.

Decides which moments of a call outlive a crash. A call is *decided* once per attempt, *prepared* just before
a handler that may have an effect starts, and *settled* once (TOOL-004, DUR-009).
"""

from typing import Annotated, ClassVar, Literal

import attrs

from triolet.ports.approval import ApprovalRequest
from triolet.ports.canonical import Digest
from triolet.ports.identity import AgentId, CallId, GrantId, Instant, Principal, RequestId, RunId
from triolet.ports.outcomes import Outcome, UnknownReason
from triolet.ports.schema import Ge
from triolet.ports.strict_json import JsonText
from triolet.ports.tools import ExecutionClass


@attrs.frozen(kw_only=True, weakref_slot=False)
class RunnableCall:
    """A call that may start, and what its tool said about repeating it."""

    call: CallId
    execution: ExecutionClass


@attrs.frozen(kw_only=True, weakref_slot=False)
class CallsDecided:
    """Every call of the turn's batch is decided: these may run, all others have settled (TOOL-004).

    It holds for one attempt: an authorizer is asked again on resume (RUN-031).
    """

    kind: ClassVar[str] = "calls_decided"
    version: ClassVar[int] = 1
    turn: int
    runnable: tuple[RunnableCall, ...]


@attrs.frozen(kw_only=True, weakref_slot=False)
class ApprovalRequested:
    """Somebody must say yes before this call runs (APPR-001): the boundary of a suspension (APPR-004)."""

    kind: ClassVar[str] = "approval_requested"
    version: ClassVar[int] = 1
    request: ApprovalRequest


@attrs.frozen(kw_only=True, weakref_slot=False)
class ApprovalDecided:
    """The answer: who, when, why; `edited` is what to run instead (CAP-006).

    `expired` is a denial by silence. `source` says whose answer it is: an approver's, an earlier grant's, the
    agent's own policy about silence (APPR-002), or newer input that took the call's place.
    """

    kind: ClassVar[str] = "approval_decided"
    version: ClassVar[int] = 1
    request: RequestId
    call: CallId
    verdict: Literal["approved", "denied", "expired"]
    source: Literal["approver", "grant", "policy", "steering"]
    by: Principal
    decided_at: Instant
    reason: str
    edited: JsonText | None = None
    grant: GrantId | None = None


@attrs.frozen(kw_only=True, weakref_slot=False)
class ToolPrepared:
    """These calls, none of them readonly, start now. From here on a crash leaves their effect possible."""

    kind: ClassVar[str] = "tool_prepared"
    version: ClassVar[int] = 1
    calls: tuple[CallId, ...]


@attrs.frozen(kw_only=True, weakref_slot=False)
class ToolSettled:
    """A call has its one result. Records of a batch come in declaration order (RUN-006).

    `programmatic` counts the calls of other tools that its handler made: they leave no records of their own, and are
    paid for here (RUN-017).
    """

    kind: ClassVar[str] = "tool_settled"
    version: ClassVar[int] = 1
    call: CallId
    outcome: Outcome
    programmatic: Annotated[int, Ge(0)] = 0


@attrs.frozen(kw_only=True, weakref_slot=False)
class ToolUnknown:
    """A prepared call's outcome is unknown and waits for its resolution. A record, but no result (RUN-005)."""

    kind: ClassVar[str] = "tool_unknown"
    version: ClassVar[int] = 1
    call: CallId
    reason: UnknownReason


@attrs.frozen(kw_only=True, weakref_slot=False)
class ToolResolved:
    """It became known what a prepared call came to: by proof, from what was kept aside, or from an operator (DUR-017).

    `outcome` becomes the call's one result, in its turn. None says that the call surely never started: it may start.
    """

    kind: ClassVar[str] = "tool_resolved"
    version: ClassVar[int] = 1
    call: CallId
    outcome: Outcome | None
    by: Principal
    reason: str


@attrs.frozen(kw_only=True, weakref_slot=False)
class StepSettled:
    """A durable step of a call succeeded with this value (DUR-010). A step that failed leaves no record."""

    kind: ClassVar[str] = "step_settled"
    version: ClassVar[int] = 1
    call: CallId
    name: str
    value: JsonText


@attrs.frozen(kw_only=True, weakref_slot=False)
class GrantGiven:
    """Calls of this tool that match need not ask again, within the scope, until the grant ends (F-029).

    Exactly one of `arguments` and `targets` is what they match by. `run` is set where the scope is the run. `agent` and
    `principal` are whose calls they are: another agent's tool of the same name is another tool. `by` is who gave it.
    """

    kind: ClassVar[str] = "grant_given"
    version: ClassVar[int] = 1
    grant: GrantId
    agent: AgentId
    tool: str
    scope: Literal["run", "conversation"]
    run: RunId | None
    principal: Principal
    arguments: Digest | None
    targets: tuple[str, ...] | None
    by: Principal
    expires_at: Instant | None


@attrs.frozen(kw_only=True, weakref_slot=False)
class GrantRevoked:
    """A grant no longer counts."""

    kind: ClassVar[str] = "grant_revoked"
    version: ClassVar[int] = 1
    grant: GrantId
    by: Principal
    reason: str
