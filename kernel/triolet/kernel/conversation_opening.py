"""Opening conversations: created if they are not there, owned under the next epoch, or resumed under a given one.

Decides who owns a log from now on, and that of two who resume one suspension a single one may (a Conflict for the
other). It runs nothing.
"""

import attrs

from triolet.kernel.conversation import Conversation, WhileBusy
from triolet.kernel.journal import Journal, open_journal
from triolet.kernel.machine.advance import fold
from triolet.kernel.machine.decide import decide
from triolet.kernel.machine.decision import Refused
from triolet.kernel.machine.observations import AttemptResumed, ConversationOpened
from triolet.kernel.machine.plan import next_action
from triolet.kernel.machine.state import NEW, ConversationState
from triolet.kernel.results import Suspended
from triolet.kernel.runtime import Runtime
from triolet.ports.batch import Batch
from triolet.ports.conversation_store import (
    Address,
    ConversationExists,
    UnknownConversation,
    WriterFenced,
    first_batch_id,
)
from triolet.ports.errors import Conflict
from triolet.ports.identity import Epoch, Principal, RunId


@attrs.define(kw_only=True)
class NotSuspended(Conflict):
    """The run does not wait under this suspension any more: somebody resumed it, it settled, or its owner changed.

    Nothing was recorded. Look at the conversation's `suspended` for what is true now.
    """

    run: RunId

    @property
    def message(self) -> str:
        """Which run."""
        return f"run {self.run} is not suspended as it was"


async def own_conversation(
    runtime: Runtime,
    address: Address,
    *,
    principal: Principal,
    while_busy: WhileBusy,
    fresh: bool,
    one_shot: bool = False,
) -> Conversation:
    """Take ownership of a conversation; one that is not there yet is created. The caller closes it.

    `fresh` says that it cannot be there, `one_shot` that it goes with its only run. From here on any earlier handle on
    it is fenced.
    """
    journal = None if fresh else await _open_existing(runtime, address)
    if journal is None:
        try:
            state = await _create(runtime, address)
        except ConversationExists:
            if fresh:
                raise
            # Somebody else opened it at the same moment, and was first.
            state = NEW
        journal = await open_journal(runtime.conversations, runtime.clock, address, state=state)
    conversation = Conversation(runtime, journal, principal, while_busy, one_shot=one_shot)
    await conversation.settle_lost_run()
    return conversation


async def reopen_suspended(runtime: Runtime, suspended: Suspended) -> tuple[Conversation, AttemptResumed]:
    """Own the conversation of a suspended run under the next epoch after the one that ended. Raises `NotSuspended`."""
    address = Address(tenant=suspended.tenant, conversation=suspended.conversation)
    epoch = Epoch(suspended.epoch + 1)
    try:
        journal = await open_journal(runtime.conversations, runtime.clock, address, epoch=epoch)
    except (WriterFenced, UnknownConversation) as error:
        raise NotSuspended(run=suspended.run) from error
    run = journal.state.run
    if (
        run is None
        or run.started.run != suspended.run
        or journal.state.epoch >= epoch
        or not next_action(journal.state).waits
    ):
        raise NotSuspended(run=suspended.run)
    conversation = Conversation(runtime, journal, run.started.principal, "reject", one_shot=suspended.one_shot)
    # The name makes the first batch of two rivals differ, so the store refuses the second.
    opening = AttemptResumed(epoch=epoch, worker=runtime.ids.new("submission"), answers={}, at=runtime.clock.now())
    return conversation, opening


async def _open_existing(runtime: Runtime, address: Address) -> Journal | None:
    try:
        return await open_journal(runtime.conversations, runtime.clock, address)
    except UnknownConversation:
        return None


async def _create(runtime: Runtime, address: Address) -> ConversationState:
    batch = first_batch(runtime, address)
    await runtime.conversations.create(address, batch)
    return fold(batch.records)


def first_batch(runtime: Runtime, address: Address) -> Batch:
    """How a conversation's log begins."""
    decision = decide(NEW, ConversationOpened(conversation=address.conversation, tenant=address.tenant))
    if isinstance(decision, Refused):
        raise AssertionError(decision.problem)
    return Batch(
        id=first_batch_id(address.conversation), run=None, epoch=Epoch(0), at=runtime.clock.now(), records=decision
    )
