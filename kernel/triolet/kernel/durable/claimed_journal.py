"""The journal of an attempt under a claim: fenced appends, and the ending that settles what was accepted.

Decides that a batch which ends the run goes the way of the ending, and every other the ordinary one; and from which
checkpoint a log is read. It decides no record. (DUR-006, DUR-011, STORE-004, STORE-007)
"""

from contextlib import suppress

from triolet.kernel.durable.checkpoints import checkpoint_of, is_due, state_of
from triolet.kernel.durable.holding import Holding
from triolet.kernel.durable.verbs import DurableVerbs
from triolet.kernel.journal import Journal, read_log
from triolet.kernel.machine.state import NEW, ConversationState
from triolet.ports.batch import Batch
from triolet.ports.conversation_store import Tail, Writer
from triolet.ports.errors import Unavailable
from triolet.ports.ledger import run_of
from triolet.ports.records import RunSettled
from triolet.ports.sources import Clock


class ClaimedJournal(Journal):
    """One attempt's end of a log."""

    __slots__ = ("_checkpointed", "_holding", "_verbs")

    def __init__(
        self,
        verbs: DurableVerbs,
        holding: Holding,
        clock: Clock,
        writer: Writer,
        state: ConversationState,
        checkpointed: int,
    ) -> None:
        super().__init__(verbs.conversations, clock, writer, state)
        self._verbs = verbs
        self._holding = holding
        self._checkpointed = checkpointed

    async def _write(self, batch: Batch) -> Tail:
        last = batch.records[-1]
        if isinstance(last, RunSettled) and last.run == run_of(self._holding.claim.submission.id):
            return await self._verbs.settle(self._holding.claim, self._writer, batch, self._tail, last)
        appended = await self._verbs.append(self._writer, batch, self._tail)
        self._holding.heard(appended.signals)
        return appended.tail

    async def save_checkpoint(self) -> None:
        """Keep the folded state, if that saves the next attempt enough reading. For between runs only."""
        if not is_due(self._checkpointed, self.state):
            return
        with suppress(Unavailable):  # losing it loses nothing
            await self._verbs.save_checkpoint(self._writer, checkpoint_of(self.state, self._tail))


async def open_claimed_journal(verbs: DurableVerbs, holding: Holding, clock: Clock, writer: Writer) -> ClaimedJournal:
    """Fold the log that `writer` owns, from its checkpoint on if that is sound, and from the beginning otherwise."""
    store = verbs.conversations
    saved = await store.load_checkpoint(writer.address)
    state = None if saved is None else await state_of(saved, store, writer)
    behind = NEW if state is None else state
    return ClaimedJournal(verbs, holding, clock, writer, await read_log(store, writer, behind), behind.sequence)
