"""Settlements: how a run's end becomes the end of the work that was accepted for it.

Decides the three steps of an ending: one exact batch is reserved, the log gets it, the ledger is finalized; each can be
repeated, and after a crash in between the same end is reached (DUR-002, DUR-011).
"""

from typing import Protocol

import attrs

from triolet.ports.errors import Conflict
from triolet.ports.identity import SubmissionId
from triolet.ports.ledger.ownership import Claim
from triolet.ports.ledger.submission import Settlement
from triolet.ports.records import RunSettled


@attrs.define(kw_only=True)
class OtherEnding(Conflict):
    """The submission has, or has reserved, another end. The first one stands, and nothing was written."""

    submission: SubmissionId

    @property
    def message(self) -> str:
        """Which submission."""
        return f"submission {self.submission} has another ending already"


class Settlements(Protocol):
    """How work ends.

    Lifetime: as the ledger's. Emits: nothing by itself. Cancellation and `ClaimLost`: as for `Ownership`. (CAP-001)
    """

    async def reserve(self, claim: Claim, batch: bytes) -> None:
        """Does: keep the exact bytes of the batch that ends the run, before the log gets it.

        Atomicity: kept or not. Idempotency: the same bytes again change nothing; others are `OtherEnding`. Ordering:
        before the append and `finalize`. Cancellation, Raises: as the port says.
        """
        ...

    async def finalize(self, claim: Claim, settled: RunSettled) -> Settlement:
        """Does: settle the submission and all that joined it, and end ownership; joining ones become ready again.

        For after the log has the record. Reservation, stash and untaken commands go. Atomicity: all or none.
        Idempotency: with the same record it gives the same settlement, also under a claim that is over; with another
        one it is `OtherEnding`. Ordering: the conversation's next submission is claimable from here on.
        Cancellation, Raises: as the port says.
        """
        ...
