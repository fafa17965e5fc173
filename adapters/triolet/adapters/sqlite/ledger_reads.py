"""What is seen of the ledger from outside: listings, figures, and forgetting.

Decides which rows are looked at. It moves no submission on. (DUR-014, OPS-001, OPS-002)
"""

from collections import Counter

from triolet.adapters.sqlite.ledger_book import COLUMNS
from triolet.adapters.sqlite.ledger_values import read_entry
from triolet.adapters.sqlite.transaction import Transaction, Value
from triolet.ports.conversation_store import Address
from triolet.ports.identity import ConversationId, Instant, SequenceNumber, TenantId
from triolet.ports.ledger import Figures, Standing, Status, StillUnsettled


def scan(
    rows: Transaction,
    tenant: TenantId | None,
    conversation: ConversationId | None,
    after: SequenceNumber,
    limit: int,
    *,
    unsettled: bool,
) -> tuple[Standing, ...]:
    """Submissions in admission order."""
    # Which index serves depends on what is given, and SQLite plans a statement before it sees its values.
    given: dict[str, Value] = {"sequence > ?": after}
    if tenant is not None:
        given["tenant = ?"] = tenant
    if conversation is not None:
        given["conversation = ?"] = conversation
    conditions = [*given, "unsettled = 1"] if unsettled else list(given)
    found = rows.all(
        f"SELECT {COLUMNS} FROM submissions WHERE {' AND '.join(conditions)} ORDER BY sequence LIMIT ?",
        *given.values(),
        limit,
    )
    return tuple(read_entry(*row).standing for row in found)


def figures(rows: Transaction, now: Instant, fenced: int) -> Figures:
    """The ledger at one moment."""
    by_status: Counter[Status] = Counter()
    waiting: Counter[str] = Counter()
    oldest: Instant | None = None
    for row in rows.each(f"SELECT {COLUMNS} FROM submissions WHERE unsettled = 1"):
        standing = read_entry(*row).standing
        by_status[standing.status] += 1
        oldest = standing.admitted_at if oldest is None else min(oldest, standing.admitted_at)
        if standing.status == "suspended":
            waiting.update({wait.kind for wait in standing.waits})
    ready = rows.one("SELECT min(due) FROM lanes WHERE due IS NOT NULL AND due <= ?", now)
    return Figures(
        now=now,
        by_status=tuple(sorted(by_status.items())),
        oldest_unsettled=oldest,
        oldest_ready=None if ready is None or ready[0] is None else Instant(ready[0]),
        approvals=waiting["approval"],
        unknown=waiting["unknown"],
        dead=waiting["operator"],
        fenced=fenced,
    )


def forget(rows: Transaction, address: Address) -> bool:
    """Remove everything about a conversation whose submissions are all settled."""
    where = "WHERE tenant = ? AND conversation = ?"
    left = rows.one(f"SELECT count(*) FROM submissions {where} AND unsettled = 1", address.tenant, address.conversation)
    if left is not None and left[0]:
        raise StillUnsettled(conversation=address.conversation, unsettled=left[0])
    there = [
        table
        for table in ("submissions", "lanes")
        if rows.one(f"SELECT 1 FROM {table} {where} LIMIT 1", address.tenant, address.conversation) is not None
    ]
    for table in there:
        rows.run(f"DELETE FROM {table} {where}", address.tenant, address.conversation)
    return bool(there)
