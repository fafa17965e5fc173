"""The memory ledger's book: every submission with what is kept beside it, in lanes of one conversation each.

Decides how entries are found: by identity, by key, in admission order, and, for claiming, by the moment from which the
head of a lane can be claimed. It checks no transition: that is what the verbs do.
"""

import heapq
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

import attrs

from triolet.ports.conversation_store import Address, Signals
from triolet.ports.identity import CallId, Epoch, Instant, Principal, SequenceNumber, SubmissionId, TenantId
from triolet.ports.ledger import Abort, Claim, ClaimLost, Kept, Standing, UnknownSubmission
from triolet.ports.outcomes import Outcome
from triolet.ports.sources import Clock

_OUT_OF_LINE = frozenset(("admitted", "joining", "joined", "settled"))
"""Who holds back nobody: not accepted yet, or part of another one's run, or done."""


@attrs.define(kw_only=True, eq=False, weakref_slot=False)
class Entry:
    """A submission, where it stands, and what is kept for its next attempt. `since` is when its status began."""

    standing: Standing
    since: Instant
    reserved: bytes | None = None
    stash: dict[CallId, Outcome] = attrs.field(factory=dict[CallId, Outcome])
    kept: dict[str, Kept] = attrs.field(factory=dict[str, Kept])

    @property
    def id(self) -> SubmissionId:
        """Whose entry it is."""
        return self.standing.submission.id

    @property
    def untaken(self) -> list[Kept]:
        """The commands that no attempt has dealt with."""
        return [each for each in self.kept.values() if not each.taken]

    @property
    def due(self) -> Instant | None:
        """From when on it can be claimed, if it is the head of its lane; None: not by time alone."""
        standing = self.standing
        match standing.status:
            case "ready":
                return self.since if standing.not_before is None else max(self.since, standing.not_before)
            case "claimed":
                return standing.lease_until
            case "suspended":
                return standing.until
            case _:
                return None


@attrs.define(kw_only=True, eq=False, weakref_slot=False)
class Lane:
    """A conversation's unsettled submissions in admission order, and the highest epoch that was claimed."""

    address: Address
    epoch: Epoch = Epoch(0)
    entries: dict[SubmissionId, Entry] = attrs.field(factory=dict[SubmissionId, Entry])
    version: int = 0

    @property
    def head(self) -> Entry | None:
        """The one whose turn it is."""
        return next((each for each in self.entries.values() if each.standing.status not in _OUT_OF_LINE), None)

    @property
    def active(self) -> Entry | None:
        """The head, if its run has begun: claimed, suspended, or between two attempts."""
        head = self.head
        return head if head is not None and head.standing.epoch > 0 else None


class Book:
    """All entries of one ledger."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.lanes: dict[Address, Lane] = {}
        self.entries: dict[SubmissionId, Entry] = {}
        self.keys: dict[tuple[Principal, str], Entry] = {}
        self.last = 0
        self.fenced = 0
        self.next_at: Instant | None = None
        self._sequences: list[int] = []
        self._in_order: dict[int, Entry] = {}
        self._due: list[tuple[Instant, int, SubmissionId, int]] = []

    def lane(self, address: Address) -> Lane:
        """The lane of a conversation, made if it is not there."""
        found = self.lanes.get(address)
        if found is None:
            found = self.lanes[address] = Lane(address=address)
        return found

    def add(self, entry: Entry) -> None:
        """Enter a submission."""
        standing = entry.standing
        self.last = max(self.last, standing.sequence)
        self.entries[entry.id] = entry
        self.keys[standing.submission.principal, standing.submission.key] = entry
        self._sequences.append(standing.sequence)
        self._in_order[standing.sequence] = entry
        lane = self.lane(standing.submission.address)
        if standing.status != "settled":
            lane.entries[entry.id] = entry
        self.moved(lane)

    def change(self, entry: Entry, **changes: Any) -> Standing:
        """Move an entry on. A new status begins now."""
        if changes.get("status", entry.standing.status) != entry.standing.status:
            entry.since = self.clock.now()
        entry.standing = attrs.evolve(entry.standing, **changes)
        lane = self.lane(entry.standing.submission.address)
        if entry.standing.status == "settled":
            lane.entries.pop(entry.id, None)
        self.moved(lane)
        return entry.standing

    def moved(self, lane: Lane) -> None:
        """Something about the lane's head may have changed: note anew from when it can be claimed."""
        lane.version += 1
        head = lane.head
        due = None if head is None else head.due
        if head is not None and due is not None:
            heapq.heappush(self._due, (due, head.standing.sequence, head.id, lane.version))

    def claimable(self) -> Iterator[Entry]:
        """The heads that can be claimed now, longest first. Whoever takes one moves it on; the others stay noted.

        Once all were seen, `next_at` tells when time alone will make another one claimable.
        """
        now, passed = self.clock.now(), list[tuple[Instant, int, SubmissionId, int]]()
        try:
            while self._due and self._due[0][0] <= now:
                note = heapq.heappop(self._due)
                if not self._stands(note):
                    continue
                passed.append(note)
                yield self.entries[note[2]]
            self._drop_stale()
            self.next_at = self._due[0][0] if self._due else None
        finally:
            for note in passed:
                if self._stands(note):
                    heapq.heappush(self._due, note)

    def _drop_stale(self) -> None:
        while self._due and not self._stands(self._due[0]):
            heapq.heappop(self._due)

    def find(self, tenant: TenantId, submission: SubmissionId) -> Entry:
        """A tenant's entry. Raises `UnknownSubmission`."""
        entry = self.entries.get(submission)
        if entry is None or entry.standing.submission.address.tenant != tenant:
            raise UnknownSubmission(submission=submission)
        return entry

    def owned(self, claim: Claim) -> Entry:
        """The entry that a claim owns. Raises `ClaimLost`."""
        entry = self.entries.get(claim.submission.id)
        if entry is None or entry.standing.status != "claimed" or entry.standing.epoch != claim.epoch:
            self.fenced += 1
            raise ClaimLost(submission=claim.submission.id, epoch=claim.epoch)
        return entry

    def behind(self, after: SequenceNumber) -> Iterator[Entry]:
        """All entries behind a place, in admission order."""
        for sequence in self._sequences[bisect_right(self._sequences, after) :]:
            yield self._in_order[sequence]

    def remove(self, address: Address) -> bool:
        """Forget everything about a conversation."""
        gone = [each for each in self.entries.values() if each.standing.submission.address == address]
        for entry in gone:
            del self.entries[entry.id]
            del self.keys[entry.standing.submission.principal, entry.standing.submission.key]
            del self._in_order[entry.standing.sequence]
            self._sequences.remove(entry.standing.sequence)
        return self.lanes.pop(address, None) is not None or bool(gone)

    def signals(self, entry: Entry) -> Signals:
        """What waits for the run of a claimed entry."""
        untaken, lane = entry.untaken, self.lane(entry.standing.submission.address)
        return Signals(
            abort_wanted=any(isinstance(each.command.act, Abort) for each in untaken),
            input_pending=bool(untaken)
            or any(
                each.standing.status == "ready" and each.standing.submission.kind != "run"
                for each in lane.entries.values()
            ),
        )

    def signals_of(self, address: Address) -> Signals:
        """What waits for whoever owns a conversation."""
        lane = self.lanes.get(address)
        active = None if lane is None else lane.active
        return Signals() if active is None else self.signals(active)

    def _stands(self, note: tuple[Instant, int, SubmissionId, int]) -> bool:
        entry = self.entries.get(note[2])
        if entry is None:
            return False
        lane = self.lanes.get(entry.standing.submission.address)
        return lane is not None and lane.version == note[3]
