"""What the cases of the Ledger share: the subject, work to submit, and how it ends.

Decides what is submitted, never what is right.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Final

import attrs

from triolet.ports.conversation_store import Address
from triolet.ports.errors import Fenced, TrioletError
from triolet.ports.identity import (
    AgentId,
    CallId,
    ConversationId,
    Instant,
    Principal,
    RunId,
    SubmissionId,
    TenantId,
)
from triolet.ports.ledger import (
    Act,
    Claim,
    Command,
    Idle,
    Ledger,
    OperatorWait,
    Standing,
    Submission,
    SubmissionKind,
    UnknownWait,
)
from triolet.ports.messages import Text
from triolet.ports.outcomes import UnknownCall
from triolet.ports.records import RunSettled
from triolet.ports.usage import UsageTotals
from triolet.spec_tests.claims import ensure, ensure_equal, ensure_raises, lever
from triolet.spec_tests.subject import Subject


@attrs.frozen(kw_only=True, eq=False, weakref_slot=False)
class LedgerSubject(Subject[Ledger]):
    """A ledger under test. `advance` moves the clock that its leases are measured on."""

    async def let_pass(self, seconds: float) -> None:
        """Move the ledger's clock on, or not exercised."""
        await lever(self.advance, "advance")(seconds)

    def reopened(self) -> AbstractAsyncContextManager[Ledger]:
        """The same data, opened again, or not exercised."""
        return lever(self.reopen, "reopen")()


TENANT: Final = TenantId("acme")
CLERK: Final = Principal(name="clerk", tenant=TENANT)
BOSS: Final = Principal(name="boss", tenant=TENANT)
AGENT: Final = AgentId("agent")
LEASE: Final = 30.0
CALL: Final = CallId("one-1-0")
UNKNOWN: Final = UnknownWait(unknown=UnknownCall(call=CALL, tool="pay", reason="crashed"))
TROUBLE: Final = OperatorWait(trouble="retries-exhausted", detail="8 attempts")


def at(conversation: str = "here", tenant: TenantId = TENANT) -> Address:
    """An address."""
    return Address(tenant=tenant, conversation=ConversationId(conversation))


def work(
    name: str,
    *,
    where: Address | None = None,
    kind: SubmissionKind = "run",
    key: str | None = None,
    principal: Principal = CLERK,
    text: str = "go",
    agent: AgentId = AGENT,
) -> Submission:
    """Work of this identity."""
    return Submission(
        id=SubmissionId(name),
        address=at() if where is None else where,
        kind=kind,
        key=name if key is None else key,
        principal=principal,
        author=principal.name,
        offered_at=Instant(1),
        agent=agent,
        parts=(Text(text=text),),
    )


async def accepted(ledger: Ledger, submission: Submission) -> Standing:
    """Admit and accept."""
    await ledger.admit(submission)
    return await ledger.mark_ready(submission.address.tenant, submission.id)


async def claimed(ledger: Ledger, due: str, why: str) -> Claim:
    """Claim, and it has to be this one."""
    claim = await ledger.claim("worker", agents=None, lease_seconds=LEASE)
    if isinstance(claim, Idle):
        ensure(False, f"{why}: nothing can be claimed, where {due!r} is due")
        raise AssertionError
    ensure_equal(claim.submission.id, due, why)
    return claim


async def ensure_idle(ledger: Ledger, why: str) -> Idle:
    """Nothing can be claimed."""
    claim = await ledger.claim("worker", agents=None, lease_seconds=LEASE)
    ensure(isinstance(claim, Idle), why)
    return claim if isinstance(claim, Idle) else Idle(next_at=None)


async def ensure_refused(
    kind: type[TrioletError], verb: Callable[..., Awaitable[object]], *arguments: object, **named: object
) -> None:
    """The verb raises an error of this family."""
    with ensure_raises(kind, f"{verb.__name__} of what is not to be"):
        await verb(*arguments, **named)


async def ensure_standing(ledger: Ledger, name: str, status: str, why: str) -> Standing:
    """A submission stands like this."""
    standing = await ledger.lookup(TENANT, SubmissionId(name))
    ensure_equal(standing.status, status, why)
    return standing


def ending(run: str, turns: int = 1) -> RunSettled:
    """The end of a run."""
    return RunSettled(run=RunId(run), status="aborted", usage=UsageTotals(), turns=turns, reason="requested")


def told(key: str, act: Act, reason: str = "because") -> Command:
    """A command."""
    return Command(key=key, act=act, by=BOSS, reason=reason, at=Instant(5))


LOST: Final = Fenced
"""What every verb under a claim that is over raises."""
