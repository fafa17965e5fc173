"""Admissions: how work is accepted.

Decides that a receipt can be given only for what is durable and ready (DUR-001), and that asking twice is asking once.
"""

from typing import Protocol

import attrs

from triolet.ports.errors import Conflict, Misuse
from triolet.ports.identity import Principal, SubmissionId, TenantId
from triolet.ports.ledger.submission import Standing, Submission


@attrs.define(kw_only=True)
class KeyReused(Conflict):
    """This key stands for other work of the same principal. The first one stands, and nothing was admitted."""

    key: str
    submission: SubmissionId

    @property
    def message(self) -> str:
        """Which key, and whose it is."""
        return f"key {self.key[:80]!r} belongs to submission {self.submission}, which asks for something else"


@attrs.define(kw_only=True)
class NoActiveRun(Conflict):
    """Steering needs a run that is active: claimed, suspended, or between two attempts (STEER-001)."""

    conversation: str

    @property
    def message(self) -> str:
        """Where no run is active."""
        return f"no run is active in conversation {self.conversation!r}"


@attrs.define(kw_only=True)
class UnknownSubmission(Misuse):
    """There is no such submission for this tenant."""

    submission: SubmissionId

    @property
    def message(self) -> str:
        """Which one."""
        return f"no submission {self.submission[:80]!r}"


WAITING_LIMIT = 1_000
"""How many submissions of one conversation may be unsettled, by default."""


class Admissions(Protocol):
    """Where submissions come in.

    Lifetime: as the ledger's. Emits: nothing by itself. (CAP-001)
    """

    async def admit(self, submission: Submission) -> Standing:
        """Does: keep the work as `admitted`, behind everything admitted before it (DUR-004).

        It is not accepted yet: `mark_ready` is. What is only admitted holds back nothing, and whoever asks again under
        the same key finishes it. Atomicity: kept or not. Idempotency: by `key` within tenant and principal; the same
        work (see `same_work`) is answered with where it stands now, whatever its new `id`. Ordering: `sequence` only
        grows. Cancellation: kept or not; asking again tells.
        Raises, nothing kept: `KeyReused`, `NoActiveRun` for steering, `QueueFull` where too much of the conversation
        is unsettled, `InvalidValue` or `BrokenText` for what not every store can keep.
        """
        ...

    async def mark_ready(self, tenant: TenantId, submission: SubmissionId) -> Standing:
        """Does: accept what was admitted; from now on it will be settled (DUR-001, DUR-002).

        Steering makes the conversation's suspended submission ready, too, if it has a `steerable` wait.
        Atomicity: ready or not. Idempotency: again, and for what has moved on, it changes nothing. Ordering: none.
        Cancellation: ready or not; again is safe. Raises: `UnknownSubmission`.
        """
        ...

    async def lookup(self, tenant: TenantId, submission: SubmissionId) -> Standing:
        """Does: tell where a submission stands, strongly consistent (STORE-003).

        Atomicity, Ordering: one consistent view. Idempotency: reads. Cancellation: nothing changed. Raises:
        `UnknownSubmission`.
        """
        ...

    async def find(self, principal: Principal, key: str) -> Standing | None:
        """Does: find the submission of this principal, within its tenant, by its key. None: there is surely none.

        Atomicity, Ordering: one consistent view. Idempotency: reads. Cancellation: nothing changed. Raises:
        `Unavailable` where the ledger cannot tell, which never says None.
        """
        ...
