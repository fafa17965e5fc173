"""MemoryConversations: the ConversationStore without a disk.

Decides nothing that another store may decide otherwise: it refuses what they refuse, byte by byte (STORE-013), so what
runs on it runs on them. What it leaves out is outliving the process; `save` and `load` carry it across by hand.
"""

from bisect import bisect_right
from collections.abc import Callable
from typing import Self

import trio

from triolet.adapters.memory.image import read_image, write_image
from triolet.adapters.memory.log import MemoryLog
from triolet.ports.batch import Batch, encode_batch
from triolet.ports.conversation_store import (
    LIST_LIMIT,
    READ_LIMIT,
    Address,
    Appended,
    BatchReused,
    Checkpoint,
    ConversationExists,
    ConversationSummary,
    CorruptLog,
    Page,
    Signals,
    Tail,
    TailMoved,
    UnknownConversation,
    Writer,
    WriterFenced,
    check_limit,
)
from triolet.ports.identity import ConversationId, Epoch, SequenceNumber, TenantId
from triolet.ports.text import require_clean


class MemoryConversations:
    """Logs in this process's memory.

    Lifetime: a plain value; it holds memory only, so it is made by calling it and nothing has to be closed. One value
    serves many tasks of one Trio run at a time, and no second thread. Emits: nothing by itself.

    Cancellation, for every verb: it is looked for before any effect, and everything after that is synchronous. A
    cancelled call never wrote, and a call that wrote returns normally. No verb lets other tasks run otherwise: there is
    nothing to wait for, a scheduler's round would cost more than most of the verbs, and fairness among runs is the
    business of whoever loops over them.

    Batches come back as the very objects that were appended. Nothing takes time with the length of a log but `pack`,
    `save`, `load`, and the first use of a packed log.
    """

    __slots__ = ("_listed", "_signals", "_tenants")

    def __init__(self) -> None:
        self._tenants: dict[TenantId, dict[ConversationId, MemoryLog]] = {}
        self._listed: dict[TenantId, list[ConversationId]] = {}
        self._signals: Callable[[Address], Signals] | None = None

    async def create(self, address: Address, first: Batch) -> Tail:
        """See `ConversationStore.create`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        require_clean(address.tenant, "tenant")
        require_clean(address.conversation, "conversation")
        body = encode_batch(first)
        known = self._find(address)
        if known is None:
            log = MemoryLog(address=address, epoch=Epoch(0), created_at=first.at, tail=Tail())
            tail = log.extend(first, body)
            self._enter(log)
            return tail
        begun = known.tail_at(0, body)
        if begun is None:
            raise ConversationExists(conversation=address.conversation)
        return begun

    async def list(
        self, tenant: TenantId, *, after: ConversationId | None = None, limit: int = 100
    ) -> tuple[ConversationSummary, ...]:
        """See `ConversationStore.list`. The order is that of code points."""
        await trio.lowlevel.checkpoint_if_cancelled()
        check_limit(limit, LIST_LIMIT)
        logs = self._tenants.get(tenant)
        if logs is None:
            return ()
        names = self._listed.get(tenant)
        if names is None:
            names = self._listed[tenant] = sorted(logs)
        start = 0 if after is None else bisect_right(names, after)
        return tuple(
            ConversationSummary(conversation=name, created_at=logs[name].created_at, tail=logs[name].tail)
            for name in names[start : start + limit]
        )

    async def delete(self, address: Address) -> bool:
        """See `ConversationStore.delete`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        logs = self._tenants.get(address.tenant)
        if logs is None or address.conversation not in logs:
            return False
        self._listed.pop(address.tenant, None)
        del logs[address.conversation]
        if not logs:
            del self._tenants[address.tenant]
        return True

    async def open_writer(self, address: Address, epoch: Epoch | None = None) -> Writer:
        """See `ConversationStore.open_writer`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        log = self._log(address)
        wanted = Epoch(log.epoch + 1) if epoch is None else epoch
        if wanted < log.epoch:
            raise WriterFenced(conversation=address.conversation, epoch=wanted, current=log.epoch)
        log.epoch = wanted
        return Writer(address=address, epoch=wanted, tail=log.tail)

    async def append(self, writer: Writer, batch: Batch, *, expected: Tail) -> Appended:
        """See `ConversationStore.append`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        log = self._owned(writer)
        body = encode_batch(batch)
        place = log.find(batch.id)
        if place is not None:
            tail = log.tail_at(place, body)
            if tail is None:
                raise BatchReused(conversation=log.address.conversation, batch=batch.id)
            return Appended(tail=tail, replayed=True)
        if expected != log.tail:
            raise TailMoved(conversation=log.address.conversation, expected=expected.sequence, actual=log.tail.sequence)
        tail = log.extend(batch, body)
        if self._signals is None:
            return Appended(tail=tail, replayed=False)
        return Appended(tail=tail, replayed=False, signals=self._signals(writer.address))

    async def read(self, address: Address, *, after: SequenceNumber = SequenceNumber(0), limit: int = 500) -> Page:
        """See `ConversationStore.read`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        check_limit(limit, READ_LIMIT)
        return self._log(address).page(after, limit)

    async def inspect_tail(self, address: Address) -> Tail:
        """See `ConversationStore.inspect_tail`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        return self._log(address).tail

    async def save_checkpoint(self, writer: Writer, checkpoint: Checkpoint) -> None:
        """See `ConversationStore.save_checkpoint`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        log = self._owned(writer)
        if log.checkpoint is None or log.checkpoint.tail.sequence <= checkpoint.tail.sequence:
            log.checkpoint = checkpoint

    async def load_checkpoint(self, address: Address) -> Checkpoint | None:
        """See `ConversationStore.load_checkpoint`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        return self._log(address).checkpoint

    def signal_by(self, signals: Callable[[Address], Signals]) -> None:
        """For a ledger beside these logs: what every append tells from now on about its conversation."""
        self._signals = signals

    def epoch_of(self, address: Address) -> Epoch:
        """The highest epoch that was opened; 0 where there is no such log."""
        log = self._find(address)
        return Epoch(0) if log is None else log.epoch

    def tail_behind(self, address: Address, batch: Batch) -> Tail | None:
        """Where the log ended behind exactly this batch, if it is on record."""
        log = self._find(address)
        place = None if log is None else log.find(batch.id)
        return None if log is None or place is None else log.tail_at(place, encode_batch(batch))

    def pack(self, address: Address) -> None:
        """A hint that this conversation will be idle: keep its log as compact bytes until somebody needs it.

        Takes time with the length of the log, as does the next verb that needs its batches (`append`, `read`, and
        `create` of the same address). Changes nothing that any verb returns, but that the batches are equal and no
        longer the same objects. An unknown conversation is nothing to pack.
        """
        log = self._find(address)
        if log is not None:
            log.pack()

    def save(self) -> bytes:
        """The whole store as bytes: logs, epochs and checkpoints."""
        return write_image(log for logs in self._tenants.values() for log in logs.values())

    @classmethod
    def load(cls, image: bytes) -> Self:
        """The store that `save` wrote, every log packed.

        Raises `CorruptLog` unless every digest is right. A batch that no reader here knows is `UnsupportedRecord`
        when it is needed, before any write.
        """
        store = cls()
        for log in read_image(image):
            if store._find(log.address) is not None:
                raise CorruptLog(
                    conversation=log.address.conversation, sequence=0, problem="the conversation is there twice"
                )
            store._enter(log)
        return store

    def _enter(self, log: MemoryLog) -> None:
        self._listed.pop(log.address.tenant, None)
        self._tenants.setdefault(log.address.tenant, {})[log.address.conversation] = log

    def _find(self, address: Address) -> MemoryLog | None:
        logs = self._tenants.get(address.tenant)
        return None if logs is None else logs.get(address.conversation)

    def _log(self, address: Address) -> MemoryLog:
        log = self._find(address)
        if log is None:
            raise UnknownConversation(conversation=address.conversation)
        return log

    def _owned(self, writer: Writer) -> MemoryLog:
        log = self._log(writer.address)
        # Unequal and not merely lower: a right to a deleted conversation is none to its successor.
        if writer.epoch != log.epoch:
            raise WriterFenced(conversation=writer.address.conversation, epoch=writer.epoch, current=log.epoch)
        return log
