"""The rules of joining and settling: how submissions become part of a run, and end with it.

Decides the transitions under a claim. Each function is one verb of the port, on a book; what it raises, it raises
before it has changed anything. (DUR-002, DUR-011, DUR-016)
"""

from triolet.adapters.store_rules.book import Book, move
from triolet.adapters.store_rules.owning import owned
from triolet.ports.admission import InputKind
from triolet.ports.identity import SubmissionId
from triolet.ports.ledger import Claim, OtherEnding, Settlement, Submission, run_of
from triolet.ports.records import RunSettled
from triolet.ports.wakeups import WORK, settled_topic


def claim_joining(book: Book, claim: Claim, kind: InputKind, limit: int) -> tuple[Submission, ...]:
    """See `Joins.claim_joining`."""
    host = owned(book, claim).id
    lane = book.lane(claim.submission.address)
    found = [each for each in lane.entries.values() if each.standing.submission.kind == kind and each.id != host]
    given = [each for each in found if each.standing.status == "joining"]
    given += [each for each in found if each.standing.status == "ready"]
    for entry in given[:limit]:
        if entry.standing.status == "ready":
            move(book, entry, status="joining", host=host)
    return tuple(entry.standing.submission for entry in given[:limit])


def mark_joined(book: Book, claim: Claim, submissions: tuple[SubmissionId, ...]) -> None:
    """See `Joins.mark_joined`."""
    host = owned(book, claim).id
    lane = book.lane(claim.submission.address)
    for name in submissions:
        entry = lane.entries.get(name)
        if entry is not None and entry.standing.status in ("ready", "joining"):
            move(book, entry, status="joined", host=host)


def revert(book: Book, claim: Claim) -> None:
    """See `Joins.revert`."""
    owned(book, claim)
    _revert(book, claim.submission)


def reserve(book: Book, claim: Claim, batch: bytes) -> None:
    """See `Settlements.reserve`."""
    entry = owned(book, claim)
    if entry.reserved is not None and entry.reserved != batch:
        raise OtherEnding(submission=entry.id)
    entry.reserved = batch
    book.keep(entry)


def finalize(book: Book, claim: Claim, settled: RunSettled) -> Settlement:
    """See `Settlements.finalize`."""
    known = ended(book, claim, settled)
    return end(book, claim, settled) if known is None else known


def ended(book: Book, claim: Claim, settled: RunSettled) -> Settlement | None:
    """The settlement that is there already. Raises `OtherEnding`, or `ClaimLost` where none is to be had."""
    entry = book.by_id(claim.submission.id)
    known = None if entry is None else entry.standing.settlement
    if known is None:
        owned(book, claim)
    elif known.settled != settled:
        raise OtherEnding(submission=claim.submission.id)
    return known


def end(book: Book, claim: Claim, settled: RunSettled) -> Settlement:
    """Settle the submission and all that joined it; `ended` was asked before."""
    host, now = claim.submission.id, book.now
    lane = book.lane(claim.submission.address)
    _revert(book, claim.submission)
    for entry in list(lane.entries.values()):
        if entry.id == host or (entry.standing.host == host and entry.standing.status == "joined"):
            settlement = Settlement(submission=entry.id, run=run_of(host), at=now, settled=settled)
            entry.reserved = None
            entry.stash.clear()
            entry.kept = {key: kept for key, kept in entry.kept.items() if kept.taken}
            move(book, entry, status="settled", settlement=settlement, worker=None, lease_until=None)
            book.wake(settled_topic(entry.id))
    book.wake(WORK)
    return Settlement(submission=host, run=run_of(host), at=now, settled=settled)


def _revert(book: Book, host: Submission) -> None:
    for entry in book.lane(host.address).entries.values():
        if entry.standing.status == "joining" and entry.standing.host == host.id:
            move(book, entry, status="ready", host=None)
