"""The memory ledger's verbs for workers: claim, renew, give back, join, settle.

Decides the transitions under a claim, each in one synchronous stretch behind the look for cancellation.
"""

from collections.abc import Callable
from math import isfinite
from types import MappingProxyType
from typing import Any

import trio

from triolet.adapters.memory.ledger.book import Book, Entry
from triolet.adapters.memory.ledger.telling import is_about
from triolet.adapters.memory.ledger.waking import WakeupBoard
from triolet.ports.admission import InputKind
from triolet.ports.conversation_store import Address
from triolet.ports.errors import InvalidValue
from triolet.ports.identity import AgentId, CallId, Epoch, Instant, SubmissionId, after
from triolet.ports.ledger import (
    ApprovalWait,
    Claim,
    Idle,
    Kept,
    OperatorWait,
    OtherEnding,
    Renewed,
    Settlement,
    Submission,
    Wait,
    run_of,
)
from triolet.ports.outcomes import Outcome
from triolet.ports.records import RunSettled
from triolet.ports.wakeups import WORK, settled_topic


class WorkerVerbs:
    """Ownership, Joins and Settlements."""

    def __init__(self, book: Book, board: WakeupBoard) -> None:
        self._book = book
        self._board = board

    async def claim(self, worker: str, *, agents: frozenset[AgentId] | None, lease_seconds: float) -> Claim | Idle:
        """See `Ownership.claim`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        return self.claim_above(worker, agents, lease_seconds, lambda _: Epoch(0))

    def claim_above(
        self,
        worker: str,
        agents: frozenset[AgentId] | None,
        lease_seconds: float,
        floor: Callable[[Address], Epoch],
    ) -> Claim | Idle:
        """Claim under an epoch that is also above the floor of the conversation."""
        _check_lease(lease_seconds)
        if not worker:
            raise InvalidValue(subject="worker", violations=(("", "is empty"),))
        for entry in self._book.claimable():
            submission = entry.standing.submission
            if agents is not None and submission.agent not in agents:
                continue
            lane = self._book.lane(submission.address)
            before = entry.standing
            lane.epoch = Epoch(max(lane.epoch, floor(submission.address)) + 1)
            self._book.change(
                entry,
                status="claimed",
                epoch=lane.epoch,
                worker=worker,
                lease_until=after(self._book.clock.now(), lease_seconds),
                attempts=before.attempts + 1,
                not_before=None,
                until=None,
                waits=(),
            )
            return self._claim_of(entry, resumed=before.epoch > 0)
        return Idle(next_at=self._book.next_at)

    async def renew(self, claim: Claim, *, lease_seconds: float, at_least: Epoch | None = None) -> Renewed:
        """See `Ownership.renew`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        _check_lease(lease_seconds)
        entry = self._book.owned(claim)
        epoch = claim.epoch if at_least is None else Epoch(max(claim.epoch, at_least))
        lane = self._book.lane(claim.submission.address)
        lane.epoch = Epoch(max(lane.epoch, epoch))
        self._book.change(entry, epoch=epoch, lease_until=after(self._book.clock.now(), lease_seconds))
        renewed = self._claim_of(entry, resumed=claim.resumed)
        return Renewed(claim=renewed, signals=renewed.signals)

    async def release(self, claim: Claim, *, not_before: Instant | None = None, failed: bool = False) -> None:
        """See `Ownership.release`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._given_back(claim, "ready"):
            return
        entry = self._book.owned(claim)
        attempts = entry.standing.attempts if failed else entry.standing.attempts - 1
        self._give_back(entry, status="ready", attempts=attempts, not_before=not_before)

    async def suspend(self, claim: Claim, waits: tuple[Wait, ...], *, until: Instant | None) -> None:
        """See `Ownership.suspend`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if not waits:
            raise InvalidValue(subject="waits", violations=(("", "is empty"),))
        if self._given_back(claim, "suspended") or self._given_back(claim, "ready"):
            return
        entry = self._book.owned(claim)
        handed_over = any(isinstance(wait, OperatorWait) for wait in waits)
        attempts = entry.standing.attempts if handed_over else 0
        if self._told_already(entry, waits):
            self._give_back(entry, status="ready", attempts=attempts)
        else:
            self._give_back(entry, status="suspended", attempts=attempts, waits=waits, until=until)

    async def stash(self, claim: Claim, call: CallId, outcome: Outcome) -> None:
        """See `Ownership.stash`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        self._book.owned(claim).stash.setdefault(call, outcome)

    async def take(self, claim: Claim, keys: tuple[str, ...]) -> None:
        """See `Ownership.take`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        entry = self._book.owned(claim)
        for key in keys:
            if key in entry.kept:
                entry.kept[key] = Kept(command=entry.kept[key].command, taken=True)

    async def claim_joining(self, claim: Claim, kind: InputKind, limit: int) -> tuple[Submission, ...]:
        """See `Joins.claim_joining`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        self._book.owned(claim)
        given: list[Submission] = []
        lane = self._book.lane(claim.submission.address)
        found = [each for each in lane.entries.values() if each.standing.submission.kind == kind]
        for entry in sorted(found, key=lambda each: each.standing.status != "joining"):
            if len(given) >= limit:
                break
            if entry.standing.status == "ready" and entry.id != claim.submission.id:
                self._book.change(entry, status="joining", host=claim.submission.id)
            if entry.standing.status == "joining":
                given.append(entry.standing.submission)
        return tuple(given)

    async def mark_joined(self, claim: Claim, submissions: tuple[SubmissionId, ...]) -> None:
        """See `Joins.mark_joined`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        self._book.owned(claim)
        lane = self._book.lane(claim.submission.address)
        for name in submissions:
            entry = lane.entries.get(name)
            if entry is not None and entry.standing.status in ("ready", "joining"):
                self._book.change(entry, status="joined", host=claim.submission.id)

    async def revert(self, claim: Claim) -> None:
        """See `Joins.revert`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        self._book.owned(claim)
        self._revert(claim.submission)

    async def reserve(self, claim: Claim, batch: bytes) -> None:
        """See `Settlements.reserve`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        entry = self._book.owned(claim)
        if entry.reserved is not None and entry.reserved != batch:
            raise OtherEnding(submission=entry.id)
        entry.reserved = batch

    async def finalize(self, claim: Claim, settled: RunSettled) -> Settlement:
        """See `Settlements.finalize`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        known = self.ended(claim, settled)
        return self.end(claim, settled) if known is None else known

    def ended(self, claim: Claim, settled: RunSettled) -> Settlement | None:
        """The settlement that is there already. Raises `OtherEnding`, or `ClaimLost` where there is none to be had."""
        entry = self._book.entries.get(claim.submission.id)
        known = None if entry is None else entry.standing.settlement
        if known is None:
            self._book.owned(claim)
        elif known.settled != settled:
            raise OtherEnding(submission=claim.submission.id)
        return known

    def end(self, claim: Claim, settled: RunSettled) -> Settlement:
        """Settle the submission and all that joined it."""
        host, now = claim.submission.id, self._book.clock.now()
        lane = self._book.lane(claim.submission.address)
        self._revert(claim.submission)
        for entry in list(lane.entries.values()):
            if entry.id == host or (entry.standing.host == host and entry.standing.status == "joined"):
                settlement = Settlement(submission=entry.id, run=run_of(host), at=now, settled=settled)
                entry.reserved = None
                entry.stash.clear()
                entry.kept = {key: kept for key, kept in entry.kept.items() if kept.taken}
                self._book.change(entry, status="settled", settlement=settlement, worker=None, lease_until=None)
                self._board.wake(settled_topic(entry.id))
        self._board.wake(WORK)
        return Settlement(submission=host, run=run_of(host), at=now, settled=settled)

    def _claim_of(self, entry: Entry, *, resumed: bool) -> Claim:
        standing = entry.standing
        if standing.worker is None or standing.lease_until is None:
            raise AssertionError("a claimed submission has its worker and its lease")
        lane = self._book.lane(standing.submission.address)
        return Claim(
            submission=standing.submission,
            epoch=standing.epoch,
            worker=standing.worker,
            lease_until=standing.lease_until,
            attempts=standing.attempts,
            resumed=resumed,
            reserved=entry.reserved,
            stash=MappingProxyType(dict(entry.stash)),
            joining=tuple(
                each.standing.submission
                for each in lane.entries.values()
                if each.standing.status == "joining" and each.standing.host == entry.id
            ),
            commands=tuple(each.command for each in entry.untaken),
            signals=self._book.signals(entry),
        )

    def _given_back(self, claim: Claim, status: str) -> bool:
        # By this very claim, with nobody having claimed since.
        entry = self._book.entries.get(claim.submission.id)
        return entry is not None and entry.standing.status == status and entry.standing.epoch == claim.epoch

    def _give_back(self, entry: Entry, **changes: Any) -> None:
        self._book.change(entry, worker=None, lease_until=None, **changes)
        self._board.wake(WORK)

    def _told_already(self, entry: Entry, waits: tuple[Wait, ...]) -> bool:
        if any(is_about(kept.command, wait) for kept in entry.untaken for wait in waits):
            return True
        steerable = any(isinstance(wait, ApprovalWait) and wait.steerable for wait in waits)
        lane = self._book.lane(entry.standing.submission.address)
        return steerable and any(
            each.standing.status == "ready" and each.standing.submission.kind == "steering" and each is not entry
            for each in lane.entries.values()
        )

    def _revert(self, host: Submission) -> None:
        for entry in self._book.lane(host.address).entries.values():
            if entry.standing.status == "joining" and entry.standing.host == host.id:
                self._book.change(entry, status="ready", host=None)


def _check_lease(seconds: float) -> None:
    if not (seconds > 0 and isfinite(seconds)):
        raise InvalidValue(subject="lease", violations=(("", "is not positive and finite"),))
