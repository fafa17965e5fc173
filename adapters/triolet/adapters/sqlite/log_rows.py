"""The rows of the logs: every verb of a ConversationStore as statements within one transaction.

Decides what is found and what is refused. The exact bytes of a batch are kept and chained; nothing is encoded again to
verify it, and nothing that is damaged is repaired. (STORE-003, STORE-004, STORE-006, STORE-007)
"""

import hashlib
from typing import Final

from triolet.adapters.sqlite.transaction import Transaction
from triolet.ports.batch import Batch, CorruptBatch, decode_batch
from triolet.ports.canonical import Digest
from triolet.ports.conversation_store import (
    NO_SIGNALS,
    Address,
    Appended,
    BatchReused,
    Checkpoint,
    ConversationExists,
    ConversationSummary,
    CorruptLog,
    Page,
    Signals,
    StoredBatch,
    Tail,
    TailMoved,
    UnknownConversation,
    Writer,
    WriterFenced,
    tail_after,
)
from triolet.ports.identity import ConversationId, Epoch, Instant, SequenceNumber, TenantId

_PREFIX: Final = "sha256:"
_LAST_POSSIBLE: Final = 2**63 - 1


def create(rows: Transaction, address: Address, first: Batch, body: bytes) -> Tail:
    """Begin a log, or find that it began with the very same batch."""
    tail = tail_after(Tail(), body, len(first.records))
    if epoch_of(rows, address) is None:
        rows.run("INSERT INTO conversations VALUES (?, ?, 0, ?)", address.tenant, address.conversation, first.at)
        _insert(rows, address, first, body, tail)
        return tail
    begun = rows.one(
        "SELECT body FROM batches WHERE tenant = ? AND conversation = ? ORDER BY last LIMIT 1",
        address.tenant,
        address.conversation,
    )
    if begun is None or begun[0] != body:
        raise ConversationExists(conversation=address.conversation)
    return tail


def listed(
    rows: Transaction, tenant: TenantId, after: ConversationId | None, limit: int
) -> tuple[ConversationSummary, ...]:
    """A tenant's conversations in the order of their ids."""
    found = rows.all(
        "SELECT conversation, created_at FROM conversations WHERE tenant = ? AND conversation > ?"
        " ORDER BY conversation LIMIT ?",
        tenant,
        "" if after is None else after,
        limit,
    )
    return tuple(
        ConversationSummary(
            conversation=ConversationId(name),
            created_at=Instant(created_at),
            tail=tail_of(rows, Address(tenant=tenant, conversation=ConversationId(name))),
        )
        for name, created_at in found
    )


def delete(rows: Transaction, address: Address) -> bool:
    """Remove a log with everything of it."""
    if epoch_of(rows, address) is None:
        return False
    for table in ("batches", "checkpoints", "conversations"):
        rows.run(f"DELETE FROM {table} WHERE tenant = ? AND conversation = ?", address.tenant, address.conversation)
    return True


def open_writer(rows: Transaction, address: Address, epoch: Epoch | None) -> Writer:
    """Own a log under an epoch, or under the next one."""
    current = _required_epoch(rows, address)
    wanted = Epoch(current + 1) if epoch is None else epoch
    if wanted < current:
        raise WriterFenced(conversation=address.conversation, epoch=wanted, current=current)
    if wanted > current:
        rows.run(
            "UPDATE conversations SET epoch = ? WHERE tenant = ? AND conversation = ?",
            wanted,
            address.tenant,
            address.conversation,
        )
    return Writer(address=address, epoch=wanted, tail=tail_of(rows, address))


def append(rows: Transaction, writer: Writer, batch: Batch, body: bytes, expected: Tail) -> Appended:
    """Add a batch, or find that it is there."""
    address = writer.address
    _check_owned(rows, writer)
    known = rows.one(
        "SELECT last, digest, body FROM batches WHERE tenant = ? AND conversation = ? AND batch = ?",
        address.tenant,
        address.conversation,
        batch.id,
    )
    if known is not None:
        if known[2] != body:
            raise BatchReused(conversation=address.conversation, batch=batch.id)
        return Appended(tail=_tail(known[0], known[1]), replayed=True)
    actual = tail_of(rows, address)
    if actual != expected:
        raise TailMoved(conversation=address.conversation, expected=expected.sequence, actual=actual.sequence)
    tail = tail_after(actual, body, len(batch.records))
    _insert(rows, address, batch, body, tail)
    return Appended(tail=tail, replayed=False, signals=signals_of(rows, address))


def tail_behind(rows: Transaction, address: Address, batch: Batch, body: bytes) -> Tail | None:
    """Where the log ended behind exactly this batch, if it is on record."""
    known = rows.one(
        "SELECT last, digest FROM batches WHERE tenant = ? AND conversation = ? AND batch = ? AND body = ?",
        address.tenant,
        address.conversation,
        batch.id,
        body,
    )
    return None if known is None else _tail(known[0], known[1])


def page(rows: Transaction, address: Address, after: SequenceNumber, limit: int) -> Page:
    """Whole batches in order, each checked against the chain."""
    _required_epoch(rows, address)
    before = rows.one(
        "SELECT last, digest FROM batches WHERE tenant = ? AND conversation = ? AND last <= ?"
        " ORDER BY last DESC LIMIT 1",
        address.tenant,
        address.conversation,
        min(after, _LAST_POSSIBLE),
    )
    tail = Tail() if before is None else _tail(before[0], before[1])
    batches: list[StoredBatch] = []
    count = 0
    for last, records, identity, digest, body in rows.each(
        "SELECT last, records, batch, digest, body FROM batches WHERE tenant = ? AND conversation = ? AND last > ?"
        " ORDER BY last",
        address.tenant,
        address.conversation,
        tail.sequence,
    ):
        if count >= limit:
            return Page(batches=tuple(batches), more=True)
        first = SequenceNumber(tail.sequence + 1)
        tail = tail_after(tail, body, records)
        batches.append(_checked(address, first, tail, _tail(last, digest), body, (identity, records)))
        count += records
    return Page(batches=tuple(batches), more=False)


def tail_of(rows: Transaction, address: Address) -> Tail:
    """Where a log ends. Raises `UnknownConversation`."""
    found = rows.one(
        "SELECT last, digest FROM batches WHERE tenant = ? AND conversation = ? ORDER BY last DESC LIMIT 1",
        address.tenant,
        address.conversation,
    )
    if found is None:
        raise UnknownConversation(conversation=address.conversation)
    return _tail(found[0], found[1])


def save_checkpoint(rows: Transaction, writer: Writer, checkpoint: Checkpoint) -> None:
    """Keep a checkpoint, unless a later one is kept."""
    address = writer.address
    _check_owned(rows, writer)
    rows.run(
        "INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (tenant, conversation) DO UPDATE SET"
        " sequence = excluded.sequence, digest = excluded.digest, machine_version = excluded.machine_version,"
        " seal = excluded.seal, body = excluded.body WHERE excluded.sequence >= checkpoints.sequence",
        address.tenant,
        address.conversation,
        checkpoint.tail.sequence,
        checkpoint.tail.digest,
        checkpoint.machine_version,
        hashlib.sha256(checkpoint.body).digest(),
        checkpoint.body,
    )


def load_checkpoint(rows: Transaction, address: Address) -> Checkpoint | None:
    """The checkpoint, unless its bytes are not what was kept: it is disposable."""
    _required_epoch(rows, address)
    found = rows.one(
        "SELECT sequence, digest, machine_version, seal, body FROM checkpoints WHERE tenant = ? AND conversation = ?",
        address.tenant,
        address.conversation,
    )
    if found is None or hashlib.sha256(found[4]).digest() != found[3]:
        return None
    tail = Tail(sequence=SequenceNumber(found[0]), digest=Digest(found[1]))
    return Checkpoint(tail=tail, machine_version=found[2], body=found[4])


def epoch_of(rows: Transaction, address: Address) -> Epoch | None:
    """The highest epoch that was opened; None where there is no such log."""
    found = rows.one(
        "SELECT epoch FROM conversations WHERE tenant = ? AND conversation = ?", address.tenant, address.conversation
    )
    return None if found is None else Epoch(found[0])


def signals_of(rows: Transaction, address: Address) -> Signals:
    """What waits for whoever owns a conversation."""
    found = rows.one(
        "SELECT abort_wanted, input_pending FROM lanes WHERE tenant = ? AND conversation = ?",
        address.tenant,
        address.conversation,
    )
    if found is None or found == (0, 0):
        return NO_SIGNALS
    return Signals(abort_wanted=bool(found[0]), input_pending=bool(found[1]))


def _required_epoch(rows: Transaction, address: Address) -> Epoch:
    epoch = epoch_of(rows, address)
    if epoch is None:
        raise UnknownConversation(conversation=address.conversation)
    return epoch


def _check_owned(rows: Transaction, writer: Writer) -> None:
    current = _required_epoch(rows, writer.address)
    # Unequal and not merely lower: a right to a deleted conversation is none to its successor.
    if writer.epoch != current:
        raise WriterFenced(conversation=writer.address.conversation, epoch=writer.epoch, current=current)


def _insert(rows: Transaction, address: Address, batch: Batch, body: bytes, tail: Tail) -> None:
    rows.run(
        "INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, ?)",
        address.tenant,
        address.conversation,
        tail.sequence,
        len(batch.records),
        batch.id,
        bytes.fromhex(tail.digest[len(_PREFIX) :]),
        body,
    )


def _checked(
    address: Address, first: SequenceNumber, computed: Tail, stored: Tail, body: bytes, stated: tuple[str, int]
) -> StoredBatch:
    if computed != stored:
        problem = "the chain of digests is broken" if computed.sequence == stored.sequence else "records are missing"
        raise CorruptLog(conversation=address.conversation, sequence=first, problem=problem)
    try:
        batch = decode_batch(body)
    except CorruptBatch as error:
        raise CorruptLog(conversation=address.conversation, sequence=first, problem=error.message) from error
    if (batch.id, len(batch.records)) != stated:
        problem = "a batch has another identity or number of records than its row states"
        raise CorruptLog(conversation=address.conversation, sequence=first, problem=problem)
    return StoredBatch(batch=batch, first=first, digest=stored.digest)


def _tail(sequence: int, digest: bytes) -> Tail:
    return Tail(sequence=SequenceNumber(sequence), digest=Digest(_PREFIX + digest.hex()))
