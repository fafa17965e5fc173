"""Combined verbs, for a ledger and logs that share one database.

Decides nothing new: each verb does what its parts do in their order, in one transaction, and keeps the promises of all
of them. A store that offers these still offers the parts, and both ways lead to the same state (STORE-001, STORE-002).
"""

from typing import Protocol

from triolet.ports.batch import Batch
from triolet.ports.conversation_store import Appended, Tail, Writer
from triolet.ports.identity import AgentId
from triolet.ports.ledger.ownership import Claim, Idle
from triolet.ports.ledger.submission import Standing, Submission
from triolet.ports.records import RunSettled


class SharedVerbs(Protocol):
    """What one transaction can do on both. Cancellation: as for `Ownership`."""

    async def submit(self, submission: Submission, first: Batch) -> Standing:
        """Does: `Admissions.admit`, `ConversationStore.create` unless the log is there, `Admissions.mark_ready`.

        `first` is used only if there is no log yet. Atomicity: all or nothing. Idempotency, Ordering, Raises: as the
        parts, but that an existing conversation is fine.
        """
        ...

    async def claim_writer(
        self, worker: str, *, agents: frozenset[AgentId] | None, lease_seconds: float
    ) -> tuple[Claim, Writer | None] | Idle:
        """Does: `Ownership.claim` and `ConversationStore.open_writer` under one epoch, higher than both had.

        No writer: the conversation's log is gone, and the claim stands.
        Atomicity: both or neither. Idempotency, Ordering, Raises: as the parts.
        """
        ...

    async def settle(
        self, claim: Claim, writer: Writer, batch: Batch, *, expected: Tail, settled: RunSettled
    ) -> Appended:
        """Does: `ConversationStore.append` of the batch that ends the run, and `Settlements.finalize`.

        Nothing has to be reserved: there is no moment between the two. Atomicity: both or neither. Idempotency: as the
        parts: the same again, also under a claim that is over, changes nothing. Ordering, Raises: as the parts.
        """
        ...
