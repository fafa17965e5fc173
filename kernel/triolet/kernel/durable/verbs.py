"""The durable verbs: every change that accepted work makes outside this process goes through here.

Decides whether a combined verb of a shared database is used or its parts, in their order (STORE-002), and passes the
failpoint behind each change. It decides no transition, and retries nothing.
"""

from collections.abc import Awaitable
from contextlib import suppress
from typing import TypeVar

from triolet.kernel.durable.failpoints import Failpoint, Reached
from triolet.ports.admission import InputKind
from triolet.ports.batch import Batch, encode_batch
from triolet.ports.conversation_store import (
    Appended,
    Checkpoint,
    ConversationExists,
    ConversationStore,
    Tail,
    UnknownConversation,
    Writer,
    WriterFenced,
)
from triolet.ports.identity import AgentId, CallId, Epoch, Instant, SubmissionId, TenantId
from triolet.ports.ledger import Claim, Command, Idle, Ledger, Renewed, Settlement, Standing, Submission, Wait
from triolet.ports.outcomes import Outcome
from triolet.ports.records import RunSettled

T = TypeVar("T")


class DurableVerbs:
    """A ledger and the logs of one assembly. Errors, and what they say of the write, are those of the ports."""

    def __init__(self, ledger: Ledger, conversations: ConversationStore, reached: Reached) -> None:
        self.ledger = ledger
        self.conversations = conversations
        self._reached = reached
        self._shared = ledger.shared

    @property
    def hinted(self) -> bool:
        """Whether every append tells what waits for its claim. Otherwise only renewing does."""
        return self._shared is not None

    async def submit(self, submission: Submission, first: Batch) -> Standing:
        """Accept work; `first` begins the log of a conversation that is not there yet."""
        if self._shared is not None:
            return await self._then(Failpoint.SUBMITTED, self._shared.submit(submission, first))
        admitted = await self._then(Failpoint.ADMITTED, self.ledger.admit(submission))
        if admitted.status != "admitted":
            return admitted
        # Another first batch may stand there: the conversation exists, and that is all that is wanted.
        with suppress(ConversationExists):
            await self._then(Failpoint.CREATED, self.conversations.create(submission.address, first))
        tenant, kept = submission.address.tenant, admitted.submission.id
        return await self._then(Failpoint.READY, self.ledger.mark_ready(tenant, kept))

    async def post(self, tenant: TenantId, submission: SubmissionId, command: Command) -> Standing:
        """Leave a command."""
        return await self._then(Failpoint.POSTED, self.ledger.post(tenant, submission, command))

    async def claim(self, worker: str, agents: frozenset[AgentId], lease: float) -> tuple[Claim, Writer | None] | Idle:
        """Own a submission and the writing end of its log, under one epoch. No writer: the log is gone."""
        if self._shared is not None:
            both = await self._shared.claim_writer(worker, agents=agents, lease_seconds=lease)
            if not isinstance(both, Idle):
                self._reached(Failpoint.CLAIMED_WITH_WRITER)
            return both
        claim = await self.ledger.claim(worker, agents=agents, lease_seconds=lease)
        if isinstance(claim, Idle):
            return claim
        self._reached(Failpoint.CLAIMED)
        while True:
            address = claim.submission.address
            try:
                opened = self.conversations.open_writer(address, claim.epoch)
                return claim, await self._then(Failpoint.WRITER_OPENED, opened)
            except WriterFenced as error:
                # The log is ahead of the ledger: somebody has owned it who is not in the ledger.
                claim = (await self.renew(claim, lease, at_least=Epoch(error.current + 1))).claim
            except UnknownConversation:
                return claim, None

    async def renew(self, claim: Claim, lease: float, *, at_least: Epoch | None = None) -> Renewed:
        """Extend a lease."""
        renewed = self.ledger.renew(claim, lease_seconds=lease, at_least=at_least)
        return await self._then(Failpoint.RENEWED, renewed)

    async def append(self, writer: Writer, batch: Batch, expected: Tail) -> Appended:
        """Put a batch on record that does not end the run."""
        return await self._then(Failpoint.APPENDED, self.conversations.append(writer, batch, expected=expected))

    async def settle(self, claim: Claim, writer: Writer, batch: Batch, expected: Tail, settled: RunSettled) -> Tail:
        """Put the batch that ends the run on record, and settle what was accepted for it (DUR-011)."""
        if self._shared is not None:
            ending = self._shared.settle(claim, writer, batch, expected=expected, settled=settled)
            return (await self._then(Failpoint.SETTLED, ending)).tail
        await self._then(Failpoint.RESERVED, self.ledger.reserve(claim, encode_batch(batch)))
        appended = self.conversations.append(writer, batch, expected=expected)
        tail = (await self._then(Failpoint.ENDING_APPENDED, appended)).tail
        await self.finalize(claim, settled)
        return tail

    async def finalize(self, claim: Claim, settled: RunSettled) -> Settlement:
        """Settle what the log says is settled."""
        return await self._then(Failpoint.FINALIZED, self.ledger.finalize(claim, settled))

    async def stash(self, claim: Claim, call: CallId, outcome: Outcome) -> None:
        """Keep an outcome aside."""
        await self._then(Failpoint.STASHED, self.ledger.stash(claim, call, outcome))

    async def claim_joining(self, claim: Claim, kind: InputKind, limit: int) -> tuple[Submission, ...]:
        """Get waiting input for the run."""
        given = await self.ledger.claim_joining(claim, kind, limit)
        if given:
            self._reached(Failpoint.JOINING)
        return given

    async def mark_joined(self, claim: Claim, submissions: tuple[SubmissionId, ...]) -> None:
        """Tell that input is on record."""
        await self._then(Failpoint.JOINED, self.ledger.mark_joined(claim, submissions))

    async def revert(self, claim: Claim) -> None:
        """Put back input that is not on record."""
        await self._then(Failpoint.REVERTED, self.ledger.revert(claim))

    async def take(self, claim: Claim, keys: tuple[str, ...]) -> None:
        """Tell that commands are dealt with."""
        await self._then(Failpoint.TAKEN, self.ledger.take(claim, keys))

    async def suspend(self, claim: Claim, waits: tuple[Wait, ...], until: Instant | None) -> None:
        """Give the submission back until what it waits for has come."""
        await self._then(Failpoint.SUSPENDED, self.ledger.suspend(claim, waits, until=until))

    async def release(self, claim: Claim, *, not_before: Instant | None, failed: bool) -> None:
        """Give the submission back to whoever claims it next."""
        await self._then(Failpoint.RELEASED, self.ledger.release(claim, not_before=not_before, failed=failed))

    async def save_checkpoint(self, writer: Writer, checkpoint: Checkpoint) -> None:
        """Keep a folded state."""
        await self._then(Failpoint.CHECKPOINTED, self.conversations.save_checkpoint(writer, checkpoint))

    async def _then(self, failpoint: Failpoint, change: Awaitable[T]) -> T:
        done = await change
        self._reached(failpoint)
        return done
