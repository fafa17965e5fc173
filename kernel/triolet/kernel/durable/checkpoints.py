"""Checkpoints: a conversation's folded state between two runs, so that a long log need not be read again.

Decides when one is worth its bytes, and when one that was found may be used: only if it was made by this very machine,
and the log still has, at its place, the digest that it was made behind. Anything else reads the log (STORE-007). It is
never truth, and losing it loses nothing.
"""

from typing import Final

import attrs

from triolet.kernel.machine.history import resumed_history
from triolet.kernel.machine.shown import View
from triolet.kernel.machine.state import MACHINE_VERSION, ConversationState
from triolet.ports.conversation_store import Checkpoint, ConversationStore, Tail, Writer
from triolet.ports.errors import InvalidJson, InvalidValue
from triolet.ports.identity import Epoch, InputId, Instant, SequenceNumber
from triolet.ports.messages import AssistantMessage, Message, ToolMessage, UserMessage
from triolet.ports.records import GrantGiven, RunSettled
from triolet.ports.schema import codec_for
from triolet.ports.strict_json import JsonLimits

LEAST_RECORDS: Final = 256
"""A shorter stretch of log is read faster than a checkpoint is written."""
_LIMITS: Final = JsonLimits(max_bytes=256 * 1024 * 1024, max_depth=32)


@attrs.frozen(kw_only=True, weakref_slot=False)
class _Entry:
    """A message, under what it is, and the number of the record that completed it."""

    completed: int
    user: UserMessage | None = None
    assistant: AssistantMessage | None = None
    tool: ToolMessage | None = None

    @property
    def message(self) -> Message | None:
        """The one that there is; None for what nobody writes."""
        return self.user or self.assistant or self.tool


@attrs.frozen(kw_only=True, weakref_slot=False)
class _Replaced:
    index: int
    message: ToolMessage


@attrs.frozen(kw_only=True, weakref_slot=False)
class _Taken:
    id: InputId
    offered_at: Instant


@attrs.frozen(kw_only=True, weakref_slot=False)
class _Rest:
    """A state between runs, as values that have a schema."""

    sequence: int
    epoch: int
    history: tuple[_Entry, ...]
    view_count: int
    summary: UserMessage | None
    summarised: int
    cleared: int
    replaced: tuple[_Replaced, ...]
    grants: tuple[GrantGiven, ...]
    taken: tuple[_Taken, ...]
    settled: RunSettled | None


def is_due(checkpointed: int, state: ConversationState) -> bool:
    """Whether a checkpoint behind record `checkpointed` is to be replaced by one of this state.

    The stretch in between grows with the log, so that all checkpoints together cost a share of the log's own bytes.
    """
    return state.run is None and state.sequence - checkpointed >= max(LEAST_RECORDS, checkpointed // 2)


def checkpoint_of(state: ConversationState, tail: Tail) -> Checkpoint:
    """The checkpoint of a state between runs, which the log up to `tail` folds to."""
    rest = _Rest(
        sequence=state.sequence,
        epoch=state.epoch,
        history=tuple(
            _entry(message, state.history.completed_by(index)) for index, message in enumerate(state.history)
        ),
        view_count=state.view.count,
        summary=state.view.summary,
        summarised=state.view.summarised,
        cleared=state.view.cleared,
        replaced=tuple(_Replaced(index=index, message=message) for index, message in state.view.replaced.items()),
        grants=state.grants,
        taken=tuple(_Taken(id=id_, offered_at=offered_at) for id_, offered_at in state.taken),
        settled=state.settled,
    )
    return Checkpoint(tail=tail, machine_version=MACHINE_VERSION, body=codec_for(_Rest).encode_text(rest).encode())


async def state_of(checkpoint: Checkpoint, store: ConversationStore, writer: Writer) -> ConversationState | None:
    """The state of a checkpoint; None unless it is sound, of this machine, and of the log that `writer` owns."""
    at = checkpoint.tail.sequence
    if checkpoint.machine_version != MACHINE_VERSION or not 0 < at <= writer.tail.sequence:
        return None
    # The digest behind a record seals everything up to it: one batch read shows that the log is the same.
    page = await store.read(writer.address, after=SequenceNumber(at - 1), limit=1)
    if not page.batches or page.batches[0].digest != checkpoint.tail.digest:
        return None
    try:
        rest = codec_for(_Rest).decode_text(checkpoint.body, _LIMITS)
    except (InvalidJson, InvalidValue):
        return None
    return _state(rest) if rest.sequence == at else None


def _entry(message: Message, completed: SequenceNumber) -> _Entry:
    match message:
        case UserMessage():
            return _Entry(completed=completed, user=message)
        case AssistantMessage():
            return _Entry(completed=completed, assistant=message)
        case ToolMessage():
            return _Entry(completed=completed, tool=message)


def _state(rest: _Rest) -> ConversationState | None:
    entries = [(entry.message, SequenceNumber(entry.completed)) for entry in rest.history]
    history = resumed_history((message, completed) for message, completed in entries if message is not None)
    if len(history) != len(entries):
        return None
    view = View(
        count=rest.view_count,
        summary=rest.summary,
        summarised=rest.summarised,
        cleared=rest.cleared,
        replaced={each.index: each.message for each in rest.replaced},
    )
    return ConversationState(
        phase="idle",
        sequence=SequenceNumber(rest.sequence),
        epoch=Epoch(rest.epoch),
        history=history,
        view=view,
        grants=rest.grants,
        settled=rest.settled,
        taken=tuple((each.id, each.offered_at) for each in rest.taken),
    )
