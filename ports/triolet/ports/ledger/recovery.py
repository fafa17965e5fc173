"""Recovery: how accepted work is found, counted and forgotten.

Decides what an operator and a metric can see without a claim. It changes nothing, but that a conversation can be
forgotten as a whole. (DUR-014, OPS-001, OPS-002)
"""

from typing import Protocol

import attrs

from triolet.ports.conversation_store import Address
from triolet.ports.errors import Conflict
from triolet.ports.identity import ConversationId, Instant, SequenceNumber, TenantId
from triolet.ports.ledger.submission import Standing, Status

SCAN_LIMIT = 1_000
"""The most rows that `scan` returns at once."""


@attrs.frozen(kw_only=True, weakref_slot=False)
class Figures:
    """The ledger at one moment. Counts are of submissions; instants are by the ledger's clock.

    `by_status` counts all but settled ones. `oldest_unsettled` is when the oldest of these was admitted (OPS-001), and
    `oldest_ready` since when the one that has been claimable longest is. `approvals`, `unknown` and `dead` count those
    suspended with such a wait; `fenced` the writes of lost claims that were refused since this ledger was opened.
    """

    now: Instant
    by_status: tuple[tuple[Status, int], ...]
    oldest_unsettled: Instant | None
    oldest_ready: Instant | None
    approvals: int
    unknown: int
    dead: int
    fenced: int


@attrs.define(kw_only=True)
class StillUnsettled(Conflict):
    """Accepted work is never forgotten before it is settled. Nothing was removed."""

    conversation: str
    unsettled: int

    @property
    def message(self) -> str:
        """How much, and where."""
        return f"{self.unsettled} submissions of conversation {self.conversation!r} are not settled"


class Recovery(Protocol):
    """The ledger seen from outside.

    Lifetime: as the ledger's. Emits: nothing by itself. (CAP-001)
    """

    async def scan(
        self,
        *,
        tenant: TenantId | None = None,
        conversation: ConversationId | None = None,
        unsettled: bool = True,
        after: SequenceNumber = SequenceNumber(0),
        limit: int = 100,
    ) -> tuple[Standing, ...]:
        """Does: list submissions in admission order, behind `after`, at most `limit` (1 to 1,000).

        `conversation` needs `tenant`. Without `unsettled`, settled ones are listed too. Atomicity, Ordering: one
        consistent view a page. Idempotency: reads. Cancellation: nothing changed. Raises: `LimitOutOfBounds`;
        `InvalidValue` for a conversation without its tenant.
        """
        ...

    async def figures(self) -> Figures:
        """Does: count. Atomicity, Ordering: one consistent view. Idempotency: reads. Cancellation: nothing changed.

        Raises: nothing of its own.
        """
        ...

    async def forget(self, address: Address) -> bool:
        """Does: remove everything about a conversation whose submissions are all settled; True if there was anything.

        Atomicity: all or nothing. Idempotency: False the second time. Ordering: none. Cancellation: gone or not.
        Raises: `StillUnsettled`, nothing removed.
        """
        ...
