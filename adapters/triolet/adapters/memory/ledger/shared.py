"""The combined verbs of a memory ledger and the memory logs beside it.

Decides the order of the parts, and looks for every refusal before the first effect, so that a verb happens whole or not
at all. Nothing in between waits, so nobody sees half of one.
"""

from contextlib import suppress

import trio

from triolet.adapters.memory.conversations import MemoryConversations
from triolet.adapters.memory.ledger.verbs import WorkerVerbs
from triolet.adapters.store_rules import ending, owning
from triolet.ports.batch import Batch, encode_batch
from triolet.ports.conversation_store import (
    Appended,
    ConversationExists,
    Tail,
    UnknownConversation,
    Writer,
)
from triolet.ports.identity import AgentId
from triolet.ports.ledger import Claim, Idle, Standing, Submission
from triolet.ports.records import RunSettled


class MemoryShared:
    """See `SharedVerbs`."""

    def __init__(self, ledger: WorkerVerbs, conversations: MemoryConversations) -> None:
        self._ledger = ledger
        self._conversations = conversations

    async def submit(self, submission: Submission, first: Batch) -> Standing:
        """See `SharedVerbs.submit`."""
        encode_batch(first)
        admitted = await self._ledger.admit(submission)
        with suppress(ConversationExists):
            await self._conversations.create(submission.address, first)
        return await self._ledger.mark_ready(submission.address.tenant, admitted.submission.id)

    async def claim_writer(
        self, worker: str, *, agents: frozenset[AgentId] | None, lease_seconds: float
    ) -> tuple[Claim, Writer | None] | Idle:
        """See `SharedVerbs.claim_writer`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        claim = owning.claim(self._ledger.book, worker, agents, lease_seconds, self._conversations.epoch_of)
        if isinstance(claim, Idle):
            return claim
        try:
            return claim, await self._conversations.open_writer(claim.submission.address, claim.epoch)
        except UnknownConversation:
            return claim, None

    async def settle(
        self, claim: Claim, writer: Writer, batch: Batch, *, expected: Tail, settled: RunSettled
    ) -> Appended:
        """See `SharedVerbs.settle`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        ended = self._ledger.counted(lambda: ending.ended(self._ledger.book, claim, settled))
        if ended is not None:
            known = self._conversations.tail_behind(writer.address, batch)
            if known is not None:
                return Appended(tail=known, replayed=True)
        appended = await self._conversations.append(writer, batch, expected=expected)
        ending.end(self._ledger.book, claim, settled)
        return appended
