"""The rules of owning work: claim, renew, give back, keep aside.

Decides the transitions under a claim. Each function is one verb of the port, on a book; what it raises, it raises
before it has changed anything. (DUR-005, DUR-006, APPR-004)
"""

from collections.abc import Callable
from math import isfinite
from types import MappingProxyType
from typing import Any

from triolet.adapters.store_rules.book import Book, Entry, move
from triolet.adapters.store_rules.telling import is_about
from triolet.ports.conversation_store import Address
from triolet.ports.errors import InvalidValue
from triolet.ports.identity import AgentId, CallId, Epoch, Instant, after
from triolet.ports.ledger import ApprovalWait, Claim, ClaimLost, Idle, Kept, OperatorWait, Renewed, Wait
from triolet.ports.outcomes import Outcome
from triolet.ports.wakeups import WORK


def check_lease(seconds: float) -> None:
    """Refuse a lease that is not positive and finite, with `InvalidValue`."""
    if not (seconds > 0 and isfinite(seconds)):
        raise InvalidValue(subject="lease", violations=(("", "is not positive and finite"),))


def owned(book: Book, claim: Claim) -> Entry:
    """The entry that a claim owns. Raises `ClaimLost`."""
    entry = book.by_id(claim.submission.id)
    if entry is None or entry.standing.status != "claimed" or entry.standing.epoch != claim.epoch:
        raise ClaimLost(submission=claim.submission.id, epoch=claim.epoch)
    return entry


def claim(
    book: Book,
    worker: str,
    agents: frozenset[AgentId] | None,
    lease_seconds: float,
    floor: Callable[[Address], Epoch] = lambda _: Epoch(0),
) -> Claim | Idle:
    """See `Ownership.claim`; under an epoch that is also above the conversation's floor."""
    check_lease(lease_seconds)
    if not worker:
        raise InvalidValue(subject="worker", violations=(("", "is empty"),))
    entry = book.claimable(agents)
    if not isinstance(entry, Entry):
        return Idle(next_at=entry)
    before, address = entry.standing, entry.standing.submission.address
    lane = book.lane(address)
    book.raise_epoch(lane, Epoch(max(lane.epoch, floor(address)) + 1))
    move(
        book,
        entry,
        status="claimed",
        epoch=lane.epoch,
        worker=worker,
        lease_until=after(book.now, lease_seconds),
        attempts=before.attempts + 1,
        not_before=None,
        until=None,
        waits=(),
    )
    return claim_of(book, entry, resumed=before.epoch > 0)


def renew(book: Book, claim: Claim, lease_seconds: float, at_least: Epoch | None) -> Renewed:
    """See `Ownership.renew`."""
    check_lease(lease_seconds)
    entry = owned(book, claim)
    epoch = claim.epoch if at_least is None else Epoch(max(claim.epoch, at_least))
    lane = book.lane(claim.submission.address)
    if epoch > lane.epoch:
        book.raise_epoch(lane, epoch)
    move(book, entry, epoch=epoch, lease_until=after(book.now, lease_seconds))
    renewed = claim_of(book, entry, resumed=claim.resumed)
    return Renewed(claim=renewed, signals=renewed.signals)


def release(book: Book, claim: Claim, not_before: Instant | None, *, failed: bool) -> None:
    """See `Ownership.release`."""
    if _is_given_back(book, claim, "ready"):
        return
    entry = owned(book, claim)
    attempts = entry.standing.attempts if failed else entry.standing.attempts - 1
    _give_back(book, entry, status="ready", attempts=attempts, not_before=not_before)


def suspend(book: Book, claim: Claim, waits: tuple[Wait, ...], until: Instant | None) -> None:
    """See `Ownership.suspend`."""
    if not waits:
        raise InvalidValue(subject="waits", violations=(("", "is empty"),))
    if _is_given_back(book, claim, "suspended") or _is_given_back(book, claim, "ready"):
        return
    entry = owned(book, claim)
    handed_over = any(isinstance(wait, OperatorWait) for wait in waits)
    attempts = entry.standing.attempts if handed_over else 0
    if _is_told_already(book, entry, waits):
        _give_back(book, entry, status="ready", attempts=attempts)
    else:
        _give_back(book, entry, status="suspended", attempts=attempts, waits=waits, until=until)


def stash(book: Book, claim: Claim, call: CallId, outcome: Outcome) -> None:
    """See `Ownership.stash`."""
    entry = owned(book, claim)
    if call not in entry.stash:
        entry.stash[call] = outcome
        book.keep(entry)


def take(book: Book, claim: Claim, keys: tuple[str, ...]) -> None:
    """See `Ownership.take`."""
    entry = owned(book, claim)
    for key in keys:
        if key in entry.kept:
            entry.kept[key] = Kept(command=entry.kept[key].command, taken=True)
    book.keep(entry)


def claim_of(book: Book, entry: Entry, *, resumed: bool) -> Claim:
    """The claim on a claimed entry, as its attempt gets it."""
    standing = entry.standing
    if standing.worker is None or standing.lease_until is None:
        raise AssertionError("a claimed submission has its worker and its lease")
    lane = book.lane(standing.submission.address)
    return Claim(
        submission=standing.submission,
        epoch=standing.epoch,
        worker=standing.worker,
        lease_until=standing.lease_until,
        attempts=standing.attempts,
        resumed=resumed,
        reserved=entry.reserved,
        stash=MappingProxyType(dict(entry.stash)),
        joining=tuple(
            each.standing.submission
            for each in lane.entries.values()
            if each.standing.status == "joining" and each.standing.host == entry.id
        ),
        commands=tuple(each.command for each in entry.untaken),
        signals=lane.signals(entry),
    )


def _is_given_back(book: Book, claim: Claim, status: str) -> bool:
    # By this very claim, with nobody having claimed since.
    entry = book.by_id(claim.submission.id)
    return entry is not None and entry.standing.status == status and entry.standing.epoch == claim.epoch


def _give_back(book: Book, entry: Entry, **changes: Any) -> None:
    move(book, entry, worker=None, lease_until=None, **changes)
    book.wake(WORK)


def _is_told_already(book: Book, entry: Entry, waits: tuple[Wait, ...]) -> bool:
    if any(is_about(kept.command, wait) for kept in entry.untaken for wait in waits):
        return True
    steerable = any(isinstance(wait, ApprovalWait) and wait.steerable for wait in waits)
    return steerable and book.lane(entry.standing.submission.address).steered
