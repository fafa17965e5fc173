"""Ownership: who works on a submission, for how long, and what an attempt leaves behind.

Decides the claim and its epoch: at most one submission of a conversation is owned at a time (DUR-005), and every verb
of a worker carries the claim, so that a stale one is refused in the transaction of the write itself (DUR-006).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Protocol

import attrs

from triolet.ports.conversation_store import NO_SIGNALS, Signals
from triolet.ports.errors import Corrupt, Fenced
from triolet.ports.identity import AgentId, CallId, Epoch, Instant, SubmissionId
from triolet.ports.ledger.commands import Command
from triolet.ports.ledger.submission import Submission, Wait
from triolet.ports.outcomes import Outcome

NOTHING_STASHED: Final[Mapping[CallId, Outcome]] = MappingProxyType({})


@attrs.frozen(kw_only=True, weakref_slot=False)
class Claim:
    """A worker's right to one submission, and all that an attempt needs to know from the ledger.

    `epoch` is higher than that of every claim before it on the conversation. `lease_until` is by the ledger's clock.
    `attempts` counts the claims since the submission last got on, this one included. `resumed` says that there was a
    claim before. `reserved` is the exact batch that ends the run, where an earlier attempt got as far (DUR-011).
    `stash` are outcomes that finished behind a slower sibling. `joining` are the submissions that an earlier attempt
    was given and that are not known to be on record. `commands` are the untaken ones, oldest first. `signals` are as
    on an append.
    """

    submission: Submission
    epoch: Epoch
    worker: str
    lease_until: Instant
    attempts: int
    resumed: bool
    reserved: bytes | None = None
    stash: Mapping[CallId, Outcome] = NOTHING_STASHED
    joining: tuple[Submission, ...] = ()
    commands: tuple[Command, ...] = ()
    signals: Signals = NO_SIGNALS


@attrs.frozen(kw_only=True, weakref_slot=False)
class Idle:
    """Nothing can be claimed now for these agents. `next_at` is when time alone will change that, if it will: later."""

    next_at: Instant | None


@attrs.frozen(kw_only=True, weakref_slot=False)
class Renewed:
    """The claim under its new lease, its commands and epoch brought up to date, and what waits for it."""

    claim: Claim
    signals: Signals


@attrs.define(kw_only=True)
class CorruptLedger(Corrupt):
    """Stored rows of the ledger contradict each other, or are no rows. They are never repaired by guessing."""

    problem: str

    @property
    def message(self) -> str:
        """What is wrong."""
        return f"the ledger is corrupt: {self.problem}"


@attrs.define(kw_only=True)
class ClaimLost(Fenced):
    """The submission is not owned under this claim any more. Nothing was written, and nothing of it ever will be."""

    submission: SubmissionId
    epoch: int

    @property
    def message(self) -> str:
        """Which submission, and the epoch that is over."""
        return f"submission {self.submission} is not owned under epoch {self.epoch} any more"


class Ownership(Protocol):
    """Who works on what.

    Lifetime: as the ledger's. Emits: nothing by itself. Time is the ledger's own clock: workers need not agree on it.
    Cancellation, for every verb: before the write nothing happened, afterwards it did; a ledger that cannot tell says
    so, and repeating is safe. Every verb but `claim` raises `ClaimLost` for a claim that is over, nothing written.
    (CAP-001)
    """

    async def claim(self, worker: str, *, agents: frozenset[AgentId] | None, lease_seconds: float) -> Claim | Idle:
        """Does: own the oldest claimable submission for one of these agents (None: any), under a new epoch.

        Claimable is, of each conversation, only the first unsettled submission that is ready or beyond (joining and
        joined ones aside; one that was claimed before goes before all others), and only if it is ready and its
        `not_before` is over, suspended and its `until` is over, or claimed under a lease that is over (DUR-004,
        DUR-005). Oldest is the one that has been claimable longest.
        Atomicity: owned or not. Idempotency: none; every claim has an epoch of its own. Ordering: epochs of a
        conversation only grow. Cancellation: owned or not; then the lease runs out.
        Raises: `InvalidValue` for a lease that is not positive and finite, or an empty worker.
        """
        ...

    async def renew(self, claim: Claim, *, lease_seconds: float, at_least: Epoch | None = None) -> Renewed:
        """Does: extend the lease from now on; with `at_least`, raise the epoch to that, if it is lower.

        The second is for a log whose epoch is ahead of the ledger's. Atomicity: both or neither. Idempotency: again
        extends again. Ordering: none. A lease that ran out is renewed as long as nobody else has claimed.
        Cancellation, Raises: as the port says.
        """
        ...

    async def release(self, claim: Claim, *, not_before: Instant | None = None, failed: bool = False) -> None:
        """Does: give the submission back as ready, to be claimed at `not_before` or at once.

        `failed` keeps the count of attempts; otherwise this one does not count. Stash, reservation and joining inputs
        stay as they are. Atomicity: given back or not. Idempotency: again, with nobody having claimed since, changes
        nothing. Ordering: it keeps its place. Cancellation, Raises: as the port says.
        """
        ...

    async def suspend(self, claim: Claim, waits: tuple[Wait, ...], *, until: Instant | None) -> None:
        """Does: end ownership and keep what is waited for, one or more, until a command or `until` (APPR-004).

        A command that is untaken already and about one of the waits makes it ready at once instead, as does ready
        steering where a wait is `steerable`: none is missed.
        The count of attempts starts again, but not for an `OperatorWait`. Atomicity: suspended (or ready) or still
        claimed. Idempotency: again changes nothing. Ordering: it keeps its place and holds back what is behind it.
        Cancellation, Raises: as the port says.
        """
        ...

    async def stash(self, claim: Claim, call: CallId, outcome: Outcome) -> None:
        """Does: keep an outcome that cannot be recorded yet, so that a crash does not make it unknown.

        At most one for a call: the first one stands. It goes with the settlement. Atomicity: kept or not. Idempotency:
        again changes nothing. Ordering: none. Cancellation, Raises: as the port says.
        """
        ...

    async def take(self, claim: Claim, keys: tuple[str, ...]) -> None:
        """Does: mark these commands as dealt with; unknown keys are ignored. For after they are on record.

        Atomicity: all or none. Idempotency: again changes nothing. Ordering: none.
        Cancellation, Raises: as the port says.
        """
        ...
