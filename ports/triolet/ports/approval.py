"""The Approval port: who says yes before a call runs.

Decides what an approver is shown (APPR-001) and what an answer is. It decides no call: only an answer that is on
record lets one run (APPR-002), and the machine says what an answer means.
"""

from typing import Literal, Protocol

import attrs

from triolet.ports.canonical import Digest
from triolet.ports.errors import Conflict, Unavailable
from triolet.ports.identity import (
    AgentId,
    CallId,
    ConversationId,
    GrantId,
    Instant,
    Principal,
    RequestId,
    RunId,
)
from triolet.ports.strict_json import JsonText
from triolet.ports.tools import Risk

Denial = Literal["terminal", "recoverable"]
"""What a denial does: fail the run, or become the call's visible result."""


@attrs.frozen(kw_only=True, weakref_slot=False)
class ApprovalRequest:
    """One call that waits for a yes.

    `id` is derived from the call, so asking again is the same request. `summary` is one line for a person; `targets`
    are what the call touches, normalized and sorted; `preview` is the redacted input, cut at 2,000 characters.
    `arguments` binds an answer to exactly this input. `expires_at` is the earlier of the request's own time and
    the run's deadline; None where neither ends.
    """

    id: RequestId
    run: RunId
    conversation: ConversationId
    agent: AgentId
    call: CallId
    tool: str
    principal: Principal
    summary: str
    targets: tuple[str, ...]
    risk: Risk
    preview: str
    arguments: Digest
    expires_at: Instant | None
    denial: Denial


@attrs.frozen(kw_only=True, weakref_slot=False)
class GrantTerms:
    """Allow this again: which later calls of the same tool need not ask, and for how long (F-029).

    They match by exactly equal arguments (key order aside) or, with `by_targets`, by equal targets that are not
    empty; never by the tool's name alone. `seconds` ends the grant earlier than its scope does.
    """

    scope: Literal["run", "conversation"]
    by_targets: bool = False
    seconds: float | None = None


@attrs.frozen(kw_only=True, weakref_slot=False)
class Decision:
    """An answer: who, why, and what exactly was seen.

    `arguments` is the digest that the approver was shown; an answer about other arguments is void. `edited` is the
    JSON object to run instead: it is decoded and authorized again, never asked about again. A grant goes with a yes.
    """

    verdict: Literal["approved", "denied"]
    by: Principal
    reason: str = ""
    arguments: Digest | None = None
    edited: JsonText | None = None
    grant: GrantTerms | None = None


@attrs.frozen(kw_only=True, weakref_slot=False)
class Pending:
    """Nobody has answered within the caller's patience. The request stays open at the desk."""


PENDING = Pending()


@attrs.define(kw_only=True)
class ApprovalUnavailable(Unavailable):
    """The desk cannot be reached. Whether the request reached it is unknown; asking again is safe."""

    desk: str
    problem: str

    @property
    def message(self) -> str:
        """Which desk, and what is wrong."""
        return f"approval desk {self.desk} is unavailable: {self.problem}"


@attrs.define(kw_only=True)
class AlreadyAnswered(Conflict):
    """This request has another answer. The first one stands."""

    request: RequestId

    @property
    def message(self) -> str:
        """Which request."""
        return f"request {self.request} already has another answer"


class Approval(Protocol):
    """A desk: interactive, by policy, remote, or controlled by a test.

    Lifetime: opened and closed by the host; one value serves many runs. Emits: nothing by itself; the kernel records
    every request and every decision (CAP-006). (CAP-001)
    """

    async def request(self, request: ApprovalRequest, *, patience: float) -> Decision | Pending:
        """Does: put the request on the desk, and wait up to `patience` seconds (0 or more) for its answer.

        Patience 0 asks what is known at once, which a policy always knows. Atomicity: the request is on the desk or
        not. Idempotency: by the request's id; an answered request gives its answer again. Ordering: none.
        Cancellation: the request stays on the desk; `withdraw` takes it off.
        Raises: `ApprovalUnavailable`; the kernel then does what the agent's approval policy says (APPR-002).
        """
        ...

    async def withdraw(self, request: RequestId) -> None:
        """Does: take a request off the desk because its run has ended or it was answered elsewhere.

        Atomicity, Idempotency: gone afterwards, and again harmless, also for an unknown one. Ordering: none.
        Cancellation: it may still be there; withdrawing again is safe. Raises: `ApprovalUnavailable`.
        """
        ...


def request_id(call: CallId) -> RequestId:
    """The one request that a call can have."""
    return RequestId(f"{call}-approval")


def call_of(request: RequestId) -> CallId:
    """The call that a request is about: what `request_id` was given."""
    return CallId(request.removesuffix("-approval"))


def grant_id(request: RequestId) -> GrantId:
    """The one grant that a request's answer can give."""
    return GrantId(f"{request}-grant")
