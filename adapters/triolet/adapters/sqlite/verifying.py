"""Full verification: everything in the file is read, and each thing is held against what it has to agree with.

Decides what counts as a contradiction: a broken chain, a gap, a batch that is none or belongs to no log, a run with two
ends, a settlement that is not the run's end, a checkpoint of another log, a line of work that does not agree with what
stands in it, a session that is none. It repairs nothing, and never stops at the first. (STORE-006)
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final

import attrs

from triolet.adapters.sqlite import log_rows
from triolet.adapters.sqlite.ledger_book import COLUMNS, SqliteBook, derived
from triolet.adapters.sqlite.ledger_values import read_entry
from triolet.adapters.sqlite.transaction import Transaction
from triolet.adapters.store_rules.sessions import read_session
from triolet.ports.conversation_store import Address, CorruptLog
from triolet.ports.errors import Corrupt
from triolet.ports.identity import ConversationId, Instant, RunId, SequenceNumber, TenantId
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
    strays = rows.all(
        "SELECT tenant, conversation FROM batches UNION SELECT tenant, conversation FROM checkpoints"
        " EXCEPT SELECT tenant, conversation FROM conversations"
    )
    for tenant, conversation in strays:
        yield Finding(tenant=tenant, conversation=conversation, problem="there are rows of a log that is not there")
    yield from _lanes(rows)
    for tenant, body in rows.all("SELECT tenant, body FROM sessions"):
        try:
            read_session(body)
        except Corrupt as error:
            yield Finding(tenant=tenant, conversation=ConversationId(""), problem=error.message)
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


def _lanes(rows: Transaction) -> Iterator[Finding]:
    """Whatever waits must be found when its time comes, and what is kept beside a line is derived from it."""
    kept = {
        Address(tenant=TenantId(tenant), conversation=ConversationId(conversation)): tuple(rest)
        for tenant, conversation, *rest in rows.all(
            "SELECT tenant, conversation, due, head, agent, abort_wanted, input_pending FROM lanes"
        )
    }
    addresses = {
        Address(tenant=TenantId(tenant), conversation=ConversationId(conversation))
        for tenant, conversation in rows.all("SELECT DISTINCT tenant, conversation FROM submissions")
    }
    for address in sorted(addresses | kept.keys(), key=lambda each: (each.tenant, each.conversation)):
        try:
            agrees = kept.get(address) == derived(SqliteBook(rows, Instant(0)).lane(address))
        except Corrupt:
            # Said already, of the submission itself.
            continue
        if not agrees:
            problem = "the line of work does not agree with what stands in it"
            yield Finding(tenant=address.tenant, conversation=address.conversation, problem=problem)


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
