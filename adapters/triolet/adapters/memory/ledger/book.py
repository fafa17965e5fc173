"""The memory ledger's book: every entry, found by identity, by key, in admission order, and by when it can be claimed.

Decides how entries are found. It checks no transition: those are the rules' (`triolet.adapters.store_rules`).
"""

import heapq
from bisect import bisect_right
from collections.abc import Iterator

import attrs

from triolet.adapters.store_rules.book import Entry, Lane
from triolet.adapters.store_rules.waking import WakeupBoard
from triolet.ports.conversation_store import NO_SIGNALS, Address, Signals
from triolet.ports.identity import AgentId, Epoch, Instant, Principal, SequenceNumber, SubmissionId
from triolet.ports.ledger import Standing
from triolet.ports.sources import Clock
from triolet.ports.wakeups import Topic


@attrs.frozen(order=True)
class _Note:
    """From when on a lane's head can be claimed; void once the lane is at another version."""

    due: Instant
    sequence: int
    submission: SubmissionId = attrs.field(order=False)
    version: int = attrs.field(order=False)


class MemoryBook:
    """All entries of one ledger. See `Book`."""

    def __init__(self, clock: Clock, board: WakeupBoard) -> None:
        self._clock = clock
        self._board = board
        self.lanes: dict[Address, Lane] = {}
        self.entries: dict[SubmissionId, Entry] = {}
        self.last = SequenceNumber(0)
        self._keys: dict[tuple[Principal, str], Entry] = {}
        self._sequences: list[int] = []
        self._in_order: dict[int, Entry] = {}
        self._due: list[_Note] = []
        self._versions: dict[Address, int] = {}

    @property
    def now(self) -> Instant:
        """See `Book.now`."""
        return self._clock.now()

    def by_id(self, submission: SubmissionId) -> Entry | None:
        """See `Book.by_id`."""
        return self.entries.get(submission)

    def by_key(self, principal: Principal, key: str) -> Entry | None:
        """See `Book.by_key`."""
        return self._keys.get((principal, key))

    def lane(self, address: Address) -> Lane:
        """See `Book.lane`."""
        found = self.lanes.get(address)
        if found is None:
            found = self.lanes[address] = Lane(address=address)
        return found

    def add(self, entry: Entry) -> None:
        """See `Book.add`."""
        standing = entry.standing
        self.last = SequenceNumber(max(self.last, standing.sequence))
        self.entries[entry.id] = entry
        self._keys[standing.submission.principal, standing.submission.key] = entry
        self._sequences.append(standing.sequence)
        self._in_order[standing.sequence] = entry
        lane = self.lane(standing.submission.address)
        if standing.status != "settled":
            lane.entries[entry.id] = entry
        self._note(lane)

    def keep(self, entry: Entry) -> None:
        """See `Book.keep`: it is the entry itself that is kept."""

    def replace(self, entry: Entry, standing: Standing) -> None:
        """See `Book.replace`."""
        entry.standing = standing
        lane = self.lane(standing.submission.address)
        if standing.status == "settled":
            lane.entries.pop(entry.id, None)
        self._note(lane)

    def raise_epoch(self, lane: Lane, epoch: Epoch) -> None:
        """See `Book.raise_epoch`."""
        lane.epoch = epoch

    def wake(self, topic: Topic) -> None:
        """See `Book.wake`: nothing waits for a commit here."""
        self._board.wake(topic)

    def claimable(self, agents: frozenset[AgentId] | None) -> Entry | Instant | None:
        """See `Book.claimable`. Takes time with the heads that are due before the first of these agents' own."""
        now, passed = self.now, list[_Note]()
        try:
            while self._due:
                note = heapq.heappop(self._due)
                if not self._stands(note):
                    continue
                passed.append(note)
                entry = self.entries[note.submission]
                if agents is None or entry.standing.submission.agent in agents:
                    return entry if note.due <= now else note.due
            return None
        finally:
            for note in passed:
                heapq.heappush(self._due, note)

    def behind(self, after: SequenceNumber) -> Iterator[Entry]:
        """All entries behind a place, in admission order."""
        for sequence in self._sequences[bisect_right(self._sequences, after) :]:
            yield self._in_order[sequence]

    def remove(self, address: Address) -> bool:
        """Forget everything about a conversation."""
        gone = [each for each in self.entries.values() if each.standing.submission.address == address]
        for entry in gone:
            del self.entries[entry.id]
            del self._keys[entry.standing.submission.principal, entry.standing.submission.key]
            del self._in_order[entry.standing.sequence]
            self._sequences.remove(entry.standing.sequence)
        self._versions.pop(address, None)
        # A lane alone is nothing: looking for one makes it.
        self.lanes.pop(address, None)
        return bool(gone)

    def signals_of(self, address: Address) -> Signals:
        """What waits for whoever owns a conversation."""
        lane = self.lanes.get(address)
        active = None if lane is None else lane.active
        return NO_SIGNALS if lane is None or active is None else lane.signals(active)

    def _note(self, lane: Lane) -> None:
        # Something about the lane's head may have changed: what was noted before is void.
        version = self._versions[lane.address] = self._versions.get(lane.address, 0) + 1
        head = lane.head
        if head is not None and head.due is not None:
            note = _Note(due=head.due, sequence=head.standing.sequence, submission=head.id, version=version)
            heapq.heappush(self._due, note)

    def _stands(self, note: _Note) -> bool:
        entry = self.entries.get(note.submission)
        return entry is not None and self._versions.get(entry.standing.submission.address) == note.version
