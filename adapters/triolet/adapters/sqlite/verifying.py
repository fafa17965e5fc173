"""Full verification: everything in the file is read, and each thing is held against what it has to agree with.

Decides what counts as a contradiction: a broken chain, a gap, a batch that is none, a run with two ends or an end that
the ledger does not know, a checkpoint of another log. It repairs nothing, and never stops at the first. (STORE-006)
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final

import attrs

from triolet.adapters.sqlite import log_rows
from triolet.adapters.sqlite.ledger_book import COLUMNS
from triolet.adapters.sqlite.ledger_values import read_entry
from triolet.adapters.sqlite.transaction import Transaction
from triolet.ports.conversation_store import Address, CorruptLog
from triolet.ports.errors import Corrupt
from triolet.ports.identity import ConversationId, RunId, SequenceNumber, TenantId
from triolet.ports.records import RunSettled

MOST_FINDINGS: Final = 1_000
_PAGE: Final = 500


@attrs.frozen(kw_only=True)
class Finding:
    """A contradiction, and where it is. `problem` holds nobody's text."""

    tenant: TenantId
    conversation: ConversationId
    problem: str


def verify(rows: Transaction) -> tuple[Finding, ...]:
    """What contradicts itself, at most `MOST_FINDINGS`."""
    return tuple(islice(_findings(rows), MOST_FINDINGS))


def _findings(rows: Transaction) -> Iterator[Finding]:
    check = rows.one("PRAGMA quick_check(1)")
    if check != ("ok",):
        yield Finding(tenant=TenantId(""), conversation=ConversationId(""), problem="the file itself is damaged")
        return
    for tenant, conversation in rows.all("SELECT tenant, conversation FROM conversations ORDER BY 1, 2"):
        address = Address(tenant=TenantId(tenant), conversation=ConversationId(conversation))
        for problem in _of_conversation(rows, address):
            yield Finding(tenant=address.tenant, conversation=address.conversation, problem=problem)
    orphans = rows.all(
        "SELECT DISTINCT tenant, conversation FROM submissions s WHERE NOT EXISTS (SELECT 1 FROM conversations c"
        " WHERE c.tenant = s.tenant AND c.conversation = s.conversation)"
    )
    for tenant, conversation in orphans:
        yield Finding(tenant=tenant, conversation=conversation, problem="work was accepted for a log that is not there")


def _of_conversation(rows: Transaction, address: Address) -> Iterator[str]:
    settled: dict[RunId, RunSettled] = {}
    after = SequenceNumber(0)
    try:
        while True:
            page = log_rows.page(rows, address, after, _PAGE)
            for stored in page.batches:
                for record in stored.batch.records:
                    if isinstance(record, RunSettled):
                        if record.run in settled:
                            yield f"run {record.run} has two ends"
                        settled[record.run] = record
                after = SequenceNumber(stored.first + len(stored.batch.records) - 1)
            if not page.more:
                break
    except Corrupt as error:
        at = f" at record {error.sequence}" if isinstance(error, CorruptLog) else ""
        yield f"the log is corrupt{at}: {error.message}"
        return
    yield from _checkpoint(rows, address)
    yield from _ledger(rows, address, settled)


def _checkpoint(rows: Transaction, address: Address) -> Iterator[str]:
    row = rows.one(
        "SELECT c.sequence, c.digest, hex(b.digest) FROM checkpoints c LEFT JOIN batches b ON b.tenant = c.tenant"
        " AND b.conversation = c.conversation AND b.last = c.sequence WHERE c.tenant = ? AND c.conversation = ?",
        address.tenant,
        address.conversation,
    )
    if row is not None and row[1] != f"sha256:{(row[2] or '').lower()}":
        yield f"the checkpoint at record {row[0]} is of another log"


def _ledger(rows: Transaction, address: Address, settled: dict[RunId, RunSettled]) -> Iterator[str]:
    for row in rows.all(
        f"SELECT {COLUMNS} FROM submissions WHERE tenant = ? AND conversation = ? ORDER BY sequence",
        address.tenant,
        address.conversation,
    ):
        try:
            standing = read_entry(*row).standing
        except Corrupt as error:
            yield error.message
            continue
        settlement = standing.settlement
        if (settlement is not None) != (standing.status == "settled"):
            yield f"submission {standing.submission.id} is {standing.status}, and its settlement says otherwise"
        elif settlement is not None and settled.get(settlement.run) != settlement.settled:
            yield f"submission {standing.submission.id} is settled otherwise than its run"
