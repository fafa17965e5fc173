"""The ledger's book over the rows of a database, for the length of one transaction.

Decides what is read for a verb (a submission, its lane) and what is written after it: the entries that moved, and what
is derived from their lanes. It checks no transition: that is the rules' part. (DUR-005, STORE-002)
"""

from collections.abc import Iterator
from typing import Final

from triolet.adapters.sqlite.ledger_values import read_entry, written_state, written_submission
from triolet.adapters.sqlite.transaction import Row, Transaction
from triolet.adapters.store_rules.book import Entry, Lane
from triolet.ports.conversation_store import NO_SIGNALS, Address
from triolet.ports.identity import (
    AgentId,
    ConversationId,
    Epoch,
    Instant,
    Principal,
    SequenceNumber,
    SubmissionId,
    TenantId,
)
from triolet.ports.ledger import CorruptLedger, Standing
from triolet.ports.wakeups import Topic

COLUMNS: Final = "sequence, body, state, reserved"


class SqliteBook:
    """One verb's view of the ledger. See `Book`. What it changed is in the database once `write` was called."""

    def __init__(self, rows: Transaction, now: Instant) -> None:
        self._rows = rows
        self._entries: dict[SubmissionId, Entry] = {}
        self._lanes: dict[Address, Lane] = {}
        self._new: dict[SubmissionId, Entry] = {}
        self._changed: dict[SubmissionId, Entry] = {}
        self._moved: dict[Address, Lane] = {}
        self.now = now
        """See `Book.now`."""

    @property
    def last(self) -> SequenceNumber:
        """See `Book.last`. Counted, so that what was forgotten leaves its place empty."""
        found = self._rows.one("SELECT value FROM counters WHERE counter = 'sequence'")
        return SequenceNumber(0 if found is None else found[0])

    def by_id(self, submission: SubmissionId) -> Entry | None:
        """See `Book.by_id`."""
        return self._entries.get(submission) or self._found(
            self._rows.one(f"SELECT {COLUMNS} FROM submissions WHERE submission = ?", submission)
        )

    def by_key(self, principal: Principal, key: str) -> Entry | None:
        """See `Book.by_key`."""
        return self._found(
            self._rows.one(
                f"SELECT {COLUMNS} FROM submissions WHERE tenant = ? AND principal = ? AND key = ?",
                principal.tenant,
                principal.name,
                key,
            )
        )

    def lane(self, address: Address) -> Lane:
        """See `Book.lane`."""
        lane = self._lanes.get(address)
        if lane is not None:
            return lane
        epoch = self._rows.one(
            "SELECT epoch FROM lanes WHERE tenant = ? AND conversation = ?", address.tenant, address.conversation
        )
        lane = self._lanes[address] = Lane(address=address, epoch=Epoch(0 if epoch is None else epoch[0]))
        for row in self._rows.all(
            f"SELECT {COLUMNS} FROM submissions WHERE tenant = ? AND conversation = ? AND unsettled = 1"
            " ORDER BY sequence",
            address.tenant,
            address.conversation,
        ):
            entry = self._known(row)
            lane.entries[entry.id] = entry
        return lane

    def claimable(self, agents: frozenset[AgentId] | None) -> Entry | Instant | None:
        """See `Book.claimable`. Takes time with the number of agents, not with that of submissions or lanes."""
        first = [row for agent in self._agents(agents) if (row := self._first(agent)) is not None]
        if not first:
            return None
        due, _, tenant, conversation = min(first)
        if due > self.now:
            return Instant(due)
        head = self.lane(Address(tenant=TenantId(tenant), conversation=ConversationId(conversation))).head
        if head is None or head.due != due:
            raise CorruptLedger(problem="a conversation's line does not agree with its submissions")
        return head

    def _agents(self, wanted: frozenset[AgentId] | None) -> Iterator[str]:
        """The agents that are asked for, or else those that something waits for: found one behind the other."""
        if wanted is not None:
            yield from wanted
            return
        found = self._rows.one("SELECT min(agent) FROM lanes WHERE due IS NOT NULL")
        while found is not None and found[0] is not None:
            yield found[0]
            found = self._rows.one("SELECT min(agent) FROM lanes WHERE due IS NOT NULL AND agent > ?", found[0])

    def _first(self, agent: str) -> Row | None:
        return self._rows.one(
            "SELECT due, head, tenant, conversation FROM lanes WHERE due IS NOT NULL AND agent = ?"
            " ORDER BY due, head LIMIT 1",
            agent,
        )

    def add(self, entry: Entry) -> None:
        """See `Book.add`."""
        lane = self.lane(entry.standing.submission.address)
        lane.entries[entry.id] = entry
        self._entries[entry.id] = self._new[entry.id] = entry
        self._moved[lane.address] = lane

    def keep(self, entry: Entry) -> None:
        """See `Book.keep`."""
        self._changed[entry.id] = entry
        lane = self.lane(entry.standing.submission.address)
        self._moved[lane.address] = lane

    def replace(self, entry: Entry, standing: Standing) -> None:
        """See `Book.replace`."""
        entry.standing = standing
        self.keep(entry)
        if standing.status == "settled":
            self.lane(standing.submission.address).entries.pop(entry.id, None)

    def raise_epoch(self, lane: Lane, epoch: Epoch) -> None:
        """See `Book.raise_epoch`."""
        lane.epoch = epoch
        self._moved[lane.address] = lane

    def wake(self, topic: Topic) -> None:
        """See `Book.wake`."""
        self._rows.wake(topic)

    def write(self) -> None:
        """Put everything that changed into the database."""
        for entry in self._new.values():
            self._insert(entry)
        for id_, entry in self._changed.items():
            if id_ not in self._new:
                self._rows.run(
                    "UPDATE submissions SET unsettled = ?, state = ?, reserved = ? WHERE submission = ?",
                    int(entry.standing.status != "settled"),
                    written_state(entry),
                    entry.reserved,
                    id_,
                )
        for lane in self._moved.values():
            self._write_lane(lane)

    def _insert(self, entry: Entry) -> None:
        work = entry.standing.submission
        self._rows.run(
            "INSERT INTO submissions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            work.address.tenant,
            work.id,
            entry.standing.sequence,
            work.address.conversation,
            work.principal.name,
            work.key,
            int(entry.standing.status != "settled"),
            written_submission(work),
            written_state(entry),
            entry.reserved,
        )
        self._rows.run(
            "INSERT INTO counters VALUES ('sequence', ?) ON CONFLICT (counter) DO UPDATE SET value = excluded.value",
            entry.standing.sequence,
        )

    def _write_lane(self, lane: Lane) -> None:
        self._rows.run(
            "INSERT INTO lanes VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (tenant, conversation) DO UPDATE SET"
            " epoch = excluded.epoch, due = excluded.due, head = excluded.head, agent = excluded.agent,"
            " abort_wanted = excluded.abort_wanted, input_pending = excluded.input_pending",
            lane.address.tenant,
            lane.address.conversation,
            lane.epoch,
            *derived(lane),
        )

    def _found(self, row: Row | None) -> Entry | None:
        return None if row is None else self._known(row)

    def _known(self, row: Row) -> Entry:
        entry = read_entry(*row)
        # One value for each submission, however often it is found: what a verb changes is changed everywhere.
        return self._entries.setdefault(entry.id, entry)


def derived(lane: Lane) -> tuple[int | None, int | None, str | None, int, int]:
    """What a lane's row says of its entries: `due`, `head`, `agent`, `abort_wanted` and `input_pending`."""
    head, active = lane.head, lane.active
    signals = NO_SIGNALS if active is None else lane.signals(active)
    return (
        None if head is None else head.due,
        None if head is None else head.standing.sequence,
        None if head is None else head.standing.submission.agent,
        int(signals.abort_wanted),
        int(signals.input_pending),
    )
