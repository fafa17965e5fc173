"""The memory ledger's verbs: each looks for cancellation, and is synchronous after that.

Decides that a verb which raises has changed nothing and that a cancelled one never wrote. The transitions are the
rules'; what is only looked at is read here.
"""

from collections import Counter
from collections.abc import Callable
from typing import TypeVar

import trio

from triolet.adapters.memory.ledger.book import MemoryBook
from triolet.adapters.store_rules import ending, owning, telling
from triolet.ports.admission import InputKind
from triolet.ports.conversation_store import Address, check_limit
from triolet.ports.errors import InvalidValue
from triolet.ports.identity import (
    AgentId,
    CallId,
    ConversationId,
    Epoch,
    Instant,
    Principal,
    SequenceNumber,
    SubmissionId,
    TenantId,
)
from triolet.ports.ledger import (
    SCAN_LIMIT,
    Claim,
    ClaimLost,
    Command,
    Figures,
    Idle,
    Kept,
    Renewed,
    Settlement,
    Standing,
    Status,
    StillUnsettled,
    Submission,
    Wait,
)
from triolet.ports.outcomes import Outcome
from triolet.ports.records import RunSettled

T = TypeVar("T")


class ClientVerbs:
    """Admissions, Commands and Recovery."""

    def __init__(self, book: MemoryBook, waiting_limit: int) -> None:
        self.book = book
        self.fenced = 0
        self._waiting_limit = waiting_limit

    async def admit(self, submission: Submission) -> Standing:
        """See `Admissions.admit`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        telling.check_submission(submission)
        return telling.admit(self.book, submission, self._waiting_limit)

    async def mark_ready(self, tenant: TenantId, submission: SubmissionId) -> Standing:
        """See `Admissions.mark_ready`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        return telling.mark_ready(self.book, tenant, submission)

    async def lookup(self, tenant: TenantId, submission: SubmissionId) -> Standing:
        """See `Admissions.lookup`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        return telling.find(self.book, tenant, submission).standing

    async def find(self, principal: Principal, key: str) -> Standing | None:
        """See `Admissions.find`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        entry = self.book.by_key(principal, key)
        return None if entry is None else entry.standing

    async def post(self, tenant: TenantId, submission: SubmissionId, command: Command) -> Standing:
        """See `Commands.post`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        telling.check_command(command)
        return telling.post(self.book, tenant, submission, command)

    async def commands(self, tenant: TenantId, submission: SubmissionId) -> tuple[Kept, ...]:
        """See `Commands.commands`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        return tuple(telling.find(self.book, tenant, submission).kept.values())

    async def scan(
        self,
        *,
        tenant: TenantId | None = None,
        conversation: ConversationId | None = None,
        unsettled: bool = True,
        after: SequenceNumber = SequenceNumber(0),
        limit: int = 100,
    ) -> tuple[Standing, ...]:
        """See `Recovery.scan`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        check_limit(limit, SCAN_LIMIT)
        if conversation is not None and tenant is None:
            raise InvalidValue(subject="scan", violations=(("/tenant", "a conversation needs its tenant"),))
        rows: list[Standing] = []
        for entry in self.book.behind(after):
            standing, address = entry.standing, entry.standing.submission.address
            if tenant is not None and address.tenant != tenant:
                continue
            if conversation is not None and address.conversation != conversation:
                continue
            if unsettled and standing.status == "settled":
                continue
            rows.append(standing)
            if len(rows) == limit:
                break
        return tuple(rows)

    async def figures(self) -> Figures:
        """See `Recovery.figures`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        now = self.book.now
        open_ = [each for lane in self.book.lanes.values() for each in lane.entries.values()]
        by_status = Counter[Status](each.standing.status for each in open_)
        due = [head.due for lane in self.book.lanes.values() if (head := lane.head) is not None]
        waits = [{wait.kind for wait in each.standing.waits} for each in open_ if each.standing.status == "suspended"]
        return Figures(
            now=now,
            by_status=tuple(sorted(by_status.items())),
            oldest_unsettled=min((each.standing.admitted_at for each in open_), default=None),
            oldest_ready=min((at for at in due if at is not None and at <= now), default=None),
            approvals=sum("approval" in kinds for kinds in waits),
            unknown=sum("unknown" in kinds for kinds in waits),
            dead=sum("operator" in kinds for kinds in waits),
            fenced=self.fenced,
        )

    async def forget(self, address: Address) -> bool:
        """See `Recovery.forget`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        lane = self.book.lanes.get(address)
        if lane is not None and lane.entries:
            raise StillUnsettled(conversation=address.conversation, unsettled=len(lane.entries))
        return self.book.remove(address)


class WorkerVerbs(ClientVerbs):
    """Ownership, Joins and Settlements, too."""

    async def claim(self, worker: str, *, agents: frozenset[AgentId] | None, lease_seconds: float) -> Claim | Idle:
        """See `Ownership.claim`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        return owning.claim(self.book, worker, agents, lease_seconds)

    async def renew(self, claim: Claim, *, lease_seconds: float, at_least: Epoch | None = None) -> Renewed:
        """See `Ownership.renew`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        return self.counted(lambda: owning.renew(self.book, claim, lease_seconds, at_least))

    async def release(self, claim: Claim, *, not_before: Instant | None = None, failed: bool = False) -> None:
        """See `Ownership.release`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        self.counted(lambda: owning.release(self.book, claim, not_before, failed=failed))

    async def suspend(self, claim: Claim, waits: tuple[Wait, ...], *, until: Instant | None) -> None:
        """See `Ownership.suspend`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        self.counted(lambda: owning.suspend(self.book, claim, waits, until))

    async def stash(self, claim: Claim, call: CallId, outcome: Outcome) -> None:
        """See `Ownership.stash`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        self.counted(lambda: owning.stash(self.book, claim, call, outcome))

    async def take(self, claim: Claim, keys: tuple[str, ...]) -> None:
        """See `Ownership.take`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        self.counted(lambda: owning.take(self.book, claim, keys))

    async def claim_joining(self, claim: Claim, kind: InputKind, limit: int) -> tuple[Submission, ...]:
        """See `Joins.claim_joining`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        return self.counted(lambda: ending.claim_joining(self.book, claim, kind, limit))

    async def mark_joined(self, claim: Claim, submissions: tuple[SubmissionId, ...]) -> None:
        """See `Joins.mark_joined`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        self.counted(lambda: ending.mark_joined(self.book, claim, submissions))

    async def revert(self, claim: Claim) -> None:
        """See `Joins.revert`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        self.counted(lambda: ending.revert(self.book, claim))

    async def reserve(self, claim: Claim, batch: bytes) -> None:
        """See `Settlements.reserve`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        self.counted(lambda: ending.reserve(self.book, claim, batch))

    async def finalize(self, claim: Claim, settled: RunSettled) -> Settlement:
        """See `Settlements.finalize`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        return self.counted(lambda: ending.finalize(self.book, claim, settled))

    def counted(self, rule: Callable[[], T]) -> T:
        """Follow a rule; a lost claim that it refuses is one of those that `figures` tells."""
        try:
            return rule()
        except ClaimLost:
            self.fenced += 1
            raise
