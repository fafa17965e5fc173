"""Joins: how a submission gets into a run that another one began.

Decides who holds an input between the queue and the log. The log is the authority for what has joined: the ledger is
told, and told again (DUR-015, DUR-016).
"""

from typing import Protocol

from triolet.ports.admission import InputKind
from triolet.ports.identity import SubmissionId
from triolet.ports.ledger.ownership import Claim
from triolet.ports.ledger.submission import Submission


class Joins(Protocol):
    """The inputs that wait for the conversation of a claim.

    Lifetime: as the ledger's. Emits: nothing by itself. Cancellation and `ClaimLost`: as for `Ownership`. (CAP-001)
    """

    async def claim_joining(self, claim: Claim, kind: InputKind, limit: int) -> tuple[Submission, ...]:
        """Does: give the claim up to `limit` ready submissions of a kind from its conversation, oldest first.

        Atomicity: all of them or none. Idempotency: what is joining already is given again, first. Ordering: admission
        order (DUR-004). Cancellation: as the port says. Raises: nothing
        else of its own.
        """
        ...

    async def mark_joined(self, claim: Claim, submissions: tuple[SubmissionId, ...]) -> None:
        """Does: note that these are on the run's record; they settle with it.

        Ready ones count too, since the log is the authority; unknown and settled ones are ignored. Atomicity: all or
        none. Idempotency: again changes nothing. Ordering: none. Cancellation, Raises: as the port says.
        """
        ...

    async def revert(self, claim: Claim) -> None:
        """Does: make every joining submission of the claim ready again, in its place.

        Atomicity: all or none. Idempotency: again changes nothing. Ordering: none.
        Cancellation, Raises: as the port says.
        """
        ...
