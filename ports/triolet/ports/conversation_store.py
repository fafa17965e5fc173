"""The ConversationStore port: one append-only log of records per conversation, owned by one writer at a time.

Decides what every store must promise: atomic, idempotent, conflict-checked and fenced appends (STORE-004), and
strongly consistent reads (STORE-003). A store knows nothing of what records mean, and never changes one.
"""

from typing import Final, Protocol

import attrs

from triolet.ports.batch import Batch
from triolet.ports.canonical import GENESIS, Digest, chain
from triolet.ports.errors import Conflict, Corrupt, Fenced, Misuse
from triolet.ports.identity import BatchId, ConversationId, Epoch, Instant, SequenceNumber, TenantId


@attrs.frozen(kw_only=True, weakref_slot=False)
class Tail:
    """The end of a log: its last record's number and the digest of the whole chain up to there."""

    sequence: SequenceNumber = SequenceNumber(0)
    digest: Digest = GENESIS


@attrs.frozen(kw_only=True, weakref_slot=False)
class Address:
    """Which log: tenants never see each other's, even under an equal id (SEC-002)."""

    tenant: TenantId
    conversation: ConversationId


@attrs.frozen(kw_only=True, weakref_slot=False)
class Writer:
    """The right to append under `epoch`, and where the log ended when it was taken."""

    address: Address
    epoch: Epoch
    tail: Tail


@attrs.frozen(kw_only=True, weakref_slot=False)
class Signals:
    """Hints that ride on an append's answer. Never authority: read before acting on one."""

    abort_wanted: bool = False
    input_pending: bool = False


NO_SIGNALS: Final = Signals()


@attrs.frozen(kw_only=True, weakref_slot=False)
class Appended:
    """The log's new end. `replayed` says that this very batch was already there and nothing was written."""

    tail: Tail
    replayed: bool
    signals: Signals = NO_SIGNALS


@attrs.frozen(kw_only=True, weakref_slot=False)
class StoredBatch:
    """A batch with its place: `first` is the number of its first record, `digest` the chain's after it."""

    batch: Batch
    first: SequenceNumber
    digest: Digest


@attrs.frozen(kw_only=True, weakref_slot=False)
class Page:
    """Consecutive batches, whole. `more` says whether others follow."""

    batches: tuple[StoredBatch, ...]
    more: bool


@attrs.frozen(kw_only=True, weakref_slot=False)
class ConversationSummary:
    """A row of a listing."""

    conversation: ConversationId
    created_at: Instant
    tail: Tail


@attrs.frozen(kw_only=True, weakref_slot=False)
class Checkpoint:
    """A folded state at a tail. Disposable: a mismatch of tail or machine version means: read the log (STORE-007)."""

    tail: Tail
    machine_version: int
    body: bytes


@attrs.define(kw_only=True)
class UnknownConversation(Misuse):
    """There is no such conversation for this tenant."""

    conversation: str

    @property
    def message(self) -> str:
        """Which one."""
        return f"no conversation {self.conversation!r}"


@attrs.define(kw_only=True)
class TailMoved(Conflict):
    """The log does not end where the writer thought. Nothing was written."""

    conversation: str
    expected: int
    actual: int

    @property
    def message(self) -> str:
        """Both ends."""
        ends = f"not at {self.expected}" if self.actual != self.expected else "with another digest"
        return f"conversation {self.conversation!r} ends at {self.actual}, {ends}"


@attrs.define(kw_only=True)
class BatchReused(Conflict):
    """A batch of this identity is there, with other content. Nothing was written."""

    conversation: str
    batch: str

    @property
    def message(self) -> str:
        """Which batch."""
        return f"conversation {self.conversation!r} holds another batch under {self.batch!r}"


@attrs.define(kw_only=True)
class ConversationExists(Conflict):
    """A conversation of this id is there, with another first batch. Nothing was written."""

    conversation: str

    @property
    def message(self) -> str:
        """Which one."""
        return f"conversation {self.conversation!r} already exists"


@attrs.define(kw_only=True)
class WriterFenced(Fenced):
    """A higher epoch has been opened. Nothing was written, and nothing of this writer ever will be."""

    conversation: str
    epoch: int
    current: int

    @property
    def message(self) -> str:
        """Both epochs."""
        return f"epoch {self.epoch} of conversation {self.conversation!r} is fenced by epoch {self.current}"


@attrs.define(kw_only=True)
class LimitOutOfBounds(Misuse):
    """A page of a size that no store gives."""

    limit: int
    most: int

    @property
    def message(self) -> str:
        """The limit, and what it may be."""
        return f"a page's limit is 1 to {self.most}, not {self.limit}"


@attrs.define(kw_only=True)
class CorruptLog(Corrupt):
    """The stored chain is broken: a gap, a wrong digest, or bytes that are no batch."""

    conversation: str
    sequence: int
    problem: str

    @property
    def message(self) -> str:
        """Where and what."""
        return f"log of conversation {self.conversation!r} is corrupt at record {self.sequence}: {self.problem}"


class ConversationStore(Protocol):
    """Logs of records, one per conversation.

    Lifetime: the host opens it (`async with open_…`), binds it to kernels and closes it after them; closing
    releases files, threads and connections. One value serves many tasks. Emits: nothing by itself; the kernel
    derives events from what it committed. Errors: the families of `triolet.ports.errors`, translated at the
    adapter's boundary; an adapter over an outside thing may raise `Unavailable` from any verb, and says in
    it whether the write happened. (CAP-001)
    """

    async def create(self, address: Address, first: Batch) -> Tail:
        """Does: begin a log with `first` as its first batch, at epoch 0.

        Atomicity: the conversation exists with its whole first batch, or not at all (STORE-004).
        Idempotency: the same address and the same batch again changes nothing and returns the same tail;
        another batch is `ConversationExists`. Ordering: none. Cancellation: before the write, nothing happened;
        a store that cannot tell says so in its own docstring, and repeating is safe.
        Raises: `ConversationExists`, `InvalidValue`, `BrokenText` for an address that not every store can keep:
        nothing written.
        """
        ...

    async def list(
        self, tenant: TenantId, *, after: ConversationId | None = None, limit: int = 100
    ) -> tuple[ConversationSummary, ...]:
        """Does: list a tenant's conversations in the order of their ids, after the given one (SEC-002).

        At most `limit` (1 to 1,000) rows. Atomicity, Ordering: one consistent view per page. Idempotency: reads.
        Cancellation: nothing is written. Raises: `LimitOutOfBounds`.
        """
        ...

    async def delete(self, address: Address) -> bool:
        """Does: remove a conversation with all of its rows, and fence its writer.

        Atomicity: all or nothing. Idempotency: True the first time, False when there was none. Ordering: an
        append that comes later finds no conversation. Cancellation: as for `create`. Raises: nothing of its own.
        """
        ...

    async def open_writer(self, address: Address, epoch: Epoch | None = None) -> Writer:
        """Does: take ownership under `epoch`, or under the next one that the log allots (DUR-006).

        Atomicity: from the return on, every append of a lower epoch is refused. Idempotency: opening the
        current epoch again returns the same right. Ordering: epochs only grow. Cancellation: the epoch may be
        taken or not; opening again is safe. Raises: `UnknownConversation`; `WriterFenced` for an epoch below
        the current one.
        """
        ...

    async def append(self, writer: Writer, batch: Batch, *, expected: Tail) -> Appended:
        """Does: add a batch at the end of the log.

        Atomicity: all of its records, or none (DUR-007). Idempotency: a batch that is already there with the
        same bytes is answered with `replayed` and the tail that it led to, whatever `expected` says; the epoch
        is checked first. Ordering: records are numbered without gaps from the tail on.
        Cancellation: before the write nothing happened; afterwards it did; where a store cannot tell, repeating
        the same batch is safe and tells.
        Raises, nothing written: `WriterFenced`, `TailMoved` (sequence or digest differs), `BatchReused`,
        `UnknownConversation`, `InvalidValue` for a batch that is empty or breaks its schema.
        """
        ...

    async def read(self, address: Address, *, after: SequenceNumber = SequenceNumber(0), limit: int = 500) -> Page:
        """Does: read whole batches in order, starting with the one that holds record `after` + 1.

        A page holds the fewest batches that reach `limit` (1 to 10,000) records, so that it always advances.
        Atomicity: strongly consistent (STORE-003). Idempotency: reads. Ordering: log order, no gap.
        Cancellation: nothing is written. Raises: `UnknownConversation`, `CorruptLog`, `UnsupportedRecord`,
        `LimitOutOfBounds`.
        """
        ...

    async def inspect_tail(self, address: Address) -> Tail:
        """Does: tell where the log ends, strongly consistent. Raises: `UnknownConversation`.

        Atomicity, Ordering: one consistent view. Idempotency: reads. Cancellation: nothing is written.
        """
        ...

    async def save_checkpoint(self, writer: Writer, checkpoint: Checkpoint) -> None:
        """Does: keep a folded state, replacing an older one. Losing it loses nothing (STORE-007).

        Atomicity: the whole checkpoint or the one before. Idempotency: saving it again changes nothing; one
        of an earlier tail is ignored. Ordering: none. Cancellation: kept or not, both are fine.
        Raises: `WriterFenced`, `UnknownConversation`: not kept.
        """
        ...

    async def load_checkpoint(self, address: Address) -> Checkpoint | None:
        """Does: return the latest checkpoint, or None. The reader checks tail and version itself.

        Atomicity, Ordering: one consistent view. Idempotency: reads. Cancellation: nothing is written.
        Raises: `UnknownConversation`.
        """
        ...


LIST_LIMIT: Final = 1_000
"""The most rows that `list` returns at once."""

READ_LIMIT: Final = 10_000
"""The most records that a caller of `read` may ask a page to reach."""


def check_limit(limit: int, most: int) -> None:
    """Refuse a page size that is not 1 to `most`, with `LimitOutOfBounds`."""
    if not 1 <= limit <= most:
        raise LimitOutOfBounds(limit=limit, most=most)


def tail_after(tail: Tail, body: bytes, records: int) -> Tail:
    """Where a log that ended at `tail` ends behind a batch of this many records, spelt in exactly these bytes.

    The link of the chain seals the number of the batch's last record, so a tail's two fields belong together.
    """
    last = SequenceNumber(tail.sequence + records)
    return Tail(sequence=last, digest=chain(tail.digest, last, body))


def first_batch_id(conversation: ConversationId) -> BatchId:
    """The identity of a conversation's first batch."""
    return BatchId(f"{conversation}/0/0")
