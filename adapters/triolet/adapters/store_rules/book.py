"""What the rules of a ledger work on: entries in lanes of one conversation each, and the book that holds them.

Decides what an entry is and when it is due; how a book finds and keeps entries is each adapter's. (DUR-004, DUR-005)
"""

from typing import Any, Protocol

import attrs

from triolet.ports.conversation_store import Address, Signals
from triolet.ports.identity import AgentId, CallId, Epoch, Instant, Principal, SequenceNumber, SubmissionId
from triolet.ports.ledger import Abort, Kept, Standing
from triolet.ports.outcomes import Outcome
from triolet.ports.wakeups import Topic

OUT_OF_LINE = frozenset(("admitted", "joining", "joined", "settled"))
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

    @property
    def head(self) -> Entry | None:
        """The one whose turn it is: a run that has begun, else the first in line.

        Something that was admitted earlier may be accepted late; it does not overtake a run that has begun (DUR-005).
        """
        first: Entry | None = None
        for entry in self.entries.values():
            if entry.standing.status not in OUT_OF_LINE:
                if entry.standing.epoch > 0:
                    return entry
                first = first or entry
        return first

    @property
    def active(self) -> Entry | None:
        """The head, if its run has begun: claimed, suspended, or between two attempts."""
        head = self.head
        return head if head is not None and head.standing.epoch > 0 else None

    @property
    def steered(self) -> bool:
        """Whether steering is ready to join."""
        return any(
            each.standing.status == "ready" and each.standing.submission.kind == "steering"
            for each in self.entries.values()
        )

    def signals(self, entry: Entry) -> Signals:
        """What waits for the run of an entry."""
        untaken = entry.untaken
        return Signals(
            abort_wanted=any(isinstance(each.command.act, Abort) for each in untaken),
            input_pending=bool(untaken)
            or any(
                each.standing.status == "ready" and each.standing.submission.kind != "run"
                for each in self.entries.values()
            ),
        )


class Book(Protocol):
    """All entries of one ledger, as one verb sees them: what it changes becomes true together, or not at all."""

    @property
    def now(self) -> Instant:
        """The moment of this verb, by the ledger's clock."""
        ...

    @property
    def last(self) -> SequenceNumber:
        """The place of the last admission."""
        ...

    def by_id(self, submission: SubmissionId) -> Entry | None:
        """The entry of this submission."""
        ...

    def by_key(self, principal: Principal, key: str) -> Entry | None:
        """The entry that a principal made under this key."""
        ...

    def lane(self, address: Address) -> Lane:
        """The lane of a conversation, made if it is not there."""
        ...

    def claimable(self, agents: frozenset[AgentId] | None) -> Entry | Instant | None:
        """The head that has been claimable longest for these agents, or when time alone will make one so."""
        ...

    def add(self, entry: Entry) -> None:
        """Enter a submission."""
        ...

    def keep(self, entry: Entry) -> None:
        """What is beside the entry's standing has changed."""
        ...

    def replace(self, entry: Entry, standing: Standing) -> None:
        """The entry stands otherwise from now on."""
        ...

    def raise_epoch(self, lane: Lane, epoch: Epoch) -> None:
        """The lane's highest epoch is this from now on."""
        ...

    def wake(self, topic: Topic) -> None:
        """Wake whoever watches this topic, once this verb is true."""
        ...


def move(book: Book, entry: Entry, **changes: Any) -> Standing:
    """Move an entry on. A new status begins now."""
    if changes.get("status", entry.standing.status) != entry.standing.status:
        entry.since = book.now
    standing = attrs.evolve(entry.standing, **changes)
    book.replace(entry, standing)
    return standing
