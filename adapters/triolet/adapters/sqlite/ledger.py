"""SqliteLedger: accepted work in a database file, beside its logs.

Decides what is checked before the writer is asked, and that each verb is one operation of it. The transitions are those
of `triolet.adapters.store_rules`. (STORE-001, STORE-002, STORE-013)
"""

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from triolet.adapters.sqlite import ledger_reads, log_rows
from triolet.adapters.sqlite.ledger_book import SqliteBook
from triolet.adapters.sqlite.readers import Readers
from triolet.adapters.sqlite.transaction import Transaction
from triolet.adapters.sqlite.writer import Writer as FileWriter
from triolet.adapters.store_rules import ending, owning, telling
from triolet.adapters.store_rules.waking import WakeupBoard
from triolet.ports.admission import InputKind
from triolet.ports.batch import Batch, encode_batch
from triolet.ports.conversation_store import (
    Address,
    Appended,
    ConversationExists,
    Tail,
    UnknownConversation,
    Writer,
    check_limit,
)
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
    Submission,
    Wait,
)
from triolet.ports.outcomes import Outcome
from triolet.ports.records import RunSettled
from triolet.ports.sources import Clock

T = TypeVar("T")


class SqliteLedger(WakeupBoard):
    """Every part of the `Ledger` port, and the combined verbs. See `Ledger`.

    Lifetime: it belongs to the `SqliteStore` that opened the file. Emits: wake-ups within this process; what another
    process does is noticed within `scan_seconds`. Cancellation and errors: as for `SqliteConversations`.
    """

    def __init__(
        self, writer: FileWriter, readers: Readers, clock: Clock, *, waiting_limit: int, scan_seconds: float
    ) -> None:
        super().__init__()
        self._writer = writer
        self._readers = readers
        self._clock = clock
        self._waiting_limit = waiting_limit
        self._fenced = 0
        self.scan_seconds = scan_seconds
        """See `Wakeups.scan_seconds`."""

    @property
    def shared(self) -> "SqliteLedger":
        """The combined verbs: log and ledger are in one file."""
        return self

    # Admissions, Commands, Recovery

    async def admit(self, submission: Submission) -> Standing:
        """See `Admissions.admit`."""
        telling.check_submission(submission)
        return await self._change(lambda book: telling.admit(book, submission, self._waiting_limit))

    async def mark_ready(self, tenant: TenantId, submission: SubmissionId) -> Standing:
        """See `Admissions.mark_ready`."""
        return await self._change(lambda book: telling.mark_ready(book, tenant, submission))

    async def lookup(self, tenant: TenantId, submission: SubmissionId) -> Standing:
        """See `Admissions.lookup`."""
        return await self._look(lambda book: telling.find(book, tenant, submission).standing)

    async def find(self, principal: Principal, key: str) -> Standing | None:
        """See `Admissions.find`."""
        entry = await self._look(lambda book: book.by_key(principal, key))
        return None if entry is None else entry.standing

    async def post(self, tenant: TenantId, submission: SubmissionId, command: Command) -> Standing:
        """See `Commands.post`."""
        telling.check_command(command)
        return await self._change(lambda book: telling.post(book, tenant, submission, command))

    async def commands(self, tenant: TenantId, submission: SubmissionId) -> tuple[Kept, ...]:
        """See `Commands.commands`."""
        return await self._look(lambda book: tuple(telling.find(book, tenant, submission).kept.values()))

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
        check_limit(limit, SCAN_LIMIT)
        if conversation is not None and tenant is None:
            raise InvalidValue(subject="scan", violations=(("/tenant", "a conversation needs its tenant"),))
        return await self._readers.run(
            lambda rows: ledger_reads.scan(rows, tenant, conversation, after, limit, unsettled=unsettled)
        )

    async def figures(self) -> Figures:
        """See `Recovery.figures`."""
        now = self._clock.now()
        return await self._readers.run(lambda rows: ledger_reads.figures(rows, now, self._fenced))

    async def forget(self, address: Address) -> bool:
        """See `Recovery.forget`."""
        return await self._writer.run(lambda rows: ledger_reads.forget(rows, address))

    # Ownership, Joins, Settlements

    async def claim(self, worker: str, *, agents: frozenset[AgentId] | None, lease_seconds: float) -> Claim | Idle:
        """See `Ownership.claim`."""
        return await self._change(lambda book: owning.claim(book, worker, agents, lease_seconds))

    async def renew(self, claim: Claim, *, lease_seconds: float, at_least: Epoch | None = None) -> Renewed:
        """See `Ownership.renew`."""
        return await self._change(lambda book: owning.renew(book, claim, lease_seconds, at_least))

    async def release(self, claim: Claim, *, not_before: Instant | None = None, failed: bool = False) -> None:
        """See `Ownership.release`."""
        await self._change(lambda book: owning.release(book, claim, not_before, failed=failed))

    async def suspend(self, claim: Claim, waits: tuple[Wait, ...], *, until: Instant | None) -> None:
        """See `Ownership.suspend`."""
        await self._change(lambda book: owning.suspend(book, claim, waits, until))

    async def stash(self, claim: Claim, call: CallId, outcome: Outcome) -> None:
        """See `Ownership.stash`."""
        await self._change(lambda book: owning.stash(book, claim, call, outcome))

    async def take(self, claim: Claim, keys: tuple[str, ...]) -> None:
        """See `Ownership.take`."""
        await self._change(lambda book: owning.take(book, claim, keys))

    async def claim_joining(self, claim: Claim, kind: InputKind, limit: int) -> tuple[Submission, ...]:
        """See `Joins.claim_joining`."""
        return await self._change(lambda book: ending.claim_joining(book, claim, kind, limit))

    async def mark_joined(self, claim: Claim, submissions: tuple[SubmissionId, ...]) -> None:
        """See `Joins.mark_joined`."""
        await self._change(lambda book: ending.mark_joined(book, claim, submissions))

    async def revert(self, claim: Claim) -> None:
        """See `Joins.revert`."""
        await self._change(lambda book: ending.revert(book, claim))

    async def reserve(self, claim: Claim, batch: bytes) -> None:
        """See `Settlements.reserve`."""
        await self._change(lambda book: ending.reserve(book, claim, batch))

    async def finalize(self, claim: Claim, settled: RunSettled) -> Settlement:
        """See `Settlements.finalize`."""
        return await self._change(lambda book: ending.finalize(book, claim, settled))

    # SharedVerbs

    async def submit(self, submission: Submission, first: Batch) -> Standing:
        """See `SharedVerbs.submit`."""
        telling.check_submission(submission)
        body, now = encode_batch(first), self._clock.now()

        def both(rows: Transaction) -> Standing:
            book = SqliteBook(rows, now)
            admitted = telling.admit(book, submission, self._waiting_limit)
            with suppress(ConversationExists):
                log_rows.create(rows, submission.address, first, body)
            standing = telling.mark_ready(book, submission.address.tenant, admitted.submission.id)
            book.write()
            return standing

        return await self._writer.run(both)

    async def claim_writer(
        self, worker: str, *, agents: frozenset[AgentId] | None, lease_seconds: float
    ) -> tuple[Claim, Writer | None] | Idle:
        """See `SharedVerbs.claim_writer`."""
        now = self._clock.now()

        def both(rows: Transaction) -> tuple[Claim, Writer | None] | Idle:
            book = SqliteBook(rows, now)
            claim = owning.claim(
                book, worker, agents, lease_seconds, lambda address: log_rows.epoch_of(rows, address) or Epoch(0)
            )
            book.write()
            if isinstance(claim, Idle):
                return claim
            try:
                return claim, log_rows.open_writer(rows, claim.submission.address, claim.epoch)
            except UnknownConversation:
                return claim, None

        return await self._writer.run(both)

    async def settle(
        self, claim: Claim, writer: Writer, batch: Batch, *, expected: Tail, settled: RunSettled
    ) -> Appended:
        """See `SharedVerbs.settle`."""
        body, now = encode_batch(batch), self._clock.now()

        def both(rows: Transaction) -> Appended:
            book = SqliteBook(rows, now)
            if ending.ended(book, claim, settled) is not None:
                known = log_rows.tail_behind(rows, writer.address, batch, body)
                if known is not None:
                    return Appended(tail=known, replayed=True)
            appended = log_rows.append(rows, writer, batch, body, expected)
            ending.end(book, claim, settled)
            book.write()
            return appended

        return await self._fencing(both)

    async def _change(self, rule: Callable[[SqliteBook], T]) -> T:
        # Read here: a clock belongs to Trio's thread. A lease that begins a moment early also ends a moment early.
        now = self._clock.now()

        def changed(rows: Transaction) -> T:
            book = SqliteBook(rows, now)
            value = rule(book)
            book.write()
            return value

        return await self._fencing(changed)

    async def _fencing(self, work: Callable[[Transaction], T]) -> T:
        try:
            return await self._writer.run(work)
        except ClaimLost:
            self._fenced += 1
            raise

    async def _look(self, look: Callable[[SqliteBook], T]) -> T:
        now = self._clock.now()
        return await self._readers.run(lambda rows: look(SqliteBook(rows, now)))
