"""Wrong conversation stores, each a memory store but for one thing."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import attrs
import trio

from tests.mutants.mutant import Mutant
from triolet.adapters.memory import MemoryConversations
from triolet.ports.batch import Batch
from triolet.ports.conversation_store import (
    Address,
    Appended,
    BatchReused,
    Checkpoint,
    ConversationExists,
    ConversationStore,
    ConversationSummary,
    Tail,
    TailMoved,
    Writer,
    WriterFenced,
    tail_after,
)
from triolet.ports.identity import ConversationId, Epoch, SequenceNumber, TenantId
from triolet.spec_tests.cases.conversation_store import CONVERSATION_STORE, StoreSubject

STORE_MUTANTS: list[Mutant] = []

START = SequenceNumber(0)


def breaks(mutants: list[Mutant], *violates: str) -> Any:
    """Take a store class in as a mutant."""

    def decorate(store: type[MemoryConversations]) -> type[MemoryConversations]:
        @asynccontextmanager
        async def maker() -> AsyncGenerator[StoreSubject]:
            opened = store()

            @asynccontextmanager
            async def reopen() -> AsyncGenerator[ConversationStore]:
                yield _reopened(opened)

            @asynccontextmanager
            async def damage(address: Address) -> AsyncGenerator[ConversationStore]:
                yield _damaged(opened, address)

            yield StoreSubject(port=opened, reopen=reopen, damage=damage)

        why = (store.__doc__ or "").partition("\n")[0].rstrip(".")
        mutants.append(Mutant(name=store.__name__, why=why, violates=violates, suite=CONVERSATION_STORE, open=maker))
        return store

    return decorate


def _reopened(store: MemoryConversations) -> ConversationStore:
    again = getattr(store, "again", None)
    return cast("ConversationStore", again()) if again else type(store).load(store.save())


def _damaged(store: MemoryConversations, _: Address) -> ConversationStore:
    image = bytearray(store.save())
    image[len(image) // 2] ^= 1
    guess = getattr(store, "guess", None)
    return cast("ConversationStore", guess()) if guess else MemoryConversations.load(bytes(image))


@breaks(STORE_MUTANTS, "STORE-004")
class WrongFirstTail(MemoryConversations):
    """`create` gives the tail of an empty log."""

    async def create(self, address: Address, first: Batch) -> Tail:
        await super().create(address, first)
        return Tail()


@breaks(STORE_MUTANTS, "STORE-004")
class CreatesOnce(MemoryConversations):
    """`create` refuses a repetition that should change nothing."""

    async def create(self, address: Address, first: Batch) -> Tail:
        if self._find(address) is not None:
            raise ConversationExists(conversation=address.conversation)
        return await super().create(address, first)


@breaks(STORE_MUTANTS, "STORE-004")
class CreatesAnew(MemoryConversations):
    """`create` replaces a log that is there."""

    async def create(self, address: Address, first: Batch) -> Tail:
        try:
            return await super().create(address, first)
        except ConversationExists:
            await self.delete(address)
            return await super().create(address, first)


@breaks(STORE_MUTANTS, "STORE-004", "STORE-005")
class ChainsCounts(MemoryConversations):
    """The chain seals a batch's identity, and not its bytes."""

    async def append(self, writer: Writer, batch: Batch, *, expected: Tail) -> Appended:
        appended = await super().append(writer, batch, expected=expected)
        wrong = tail_after(expected, batch.id.encode(), len(batch.records))
        return attrs.evolve(appended, tail=attrs.evolve(appended.tail, digest=wrong.digest))


@breaks(STORE_MUTANTS, "STORE-004", "DUR-007")
class ForgetsBatches(MemoryConversations):
    """A repeated batch is a stale append."""

    async def append(self, writer: Writer, batch: Batch, *, expected: Tail) -> Appended:
        appended = await super().append(writer, batch, expected=expected)
        if appended.replayed:
            raise TailMoved(conversation="", expected=0, actual=1)
        return appended


@breaks(STORE_MUTANTS, "STORE-004", "DUR-007")
class WritesTwice(MemoryConversations):
    """A repeated batch is written once more, under another name."""

    async def append(self, writer: Writer, batch: Batch, *, expected: Tail) -> Appended:
        appended = await super().append(writer, batch, expected=expected)
        if not appended.replayed:
            return appended
        tail = await self.inspect_tail(writer.address)
        again = attrs.evolve(batch, id=cast("Any", f"{batch.id}-again-{tail.sequence}"))
        return await super().append(writer, again, expected=tail)


@breaks(STORE_MUTANTS, "STORE-004", "DUR-007")
class TrustsNames(MemoryConversations):
    """Another batch under a name that is taken counts as replayed."""

    async def append(self, writer: Writer, batch: Batch, *, expected: Tail) -> Appended:
        try:
            return await super().append(writer, batch, expected=expected)
        except BatchReused:
            return Appended(tail=await self.inspect_tail(writer.address), replayed=True)


@breaks(STORE_MUTANTS, "STORE-004")
class AppendsAnywhere(MemoryConversations):
    """`append` looks at no tail: two writers of one place both write."""

    async def append(self, writer: Writer, batch: Batch, *, expected: Tail) -> Appended:
        tail = await self.inspect_tail(writer.address)
        return await super().append(writer, batch, expected=tail)


@breaks(STORE_MUTANTS, "STORE-004")
class IgnoresDigests(MemoryConversations):
    """`append` looks at the number alone."""

    async def append(self, writer: Writer, batch: Batch, *, expected: Tail) -> Appended:
        tail = await self.inspect_tail(writer.address)
        return await super().append(writer, batch, expected=tail if tail.sequence == expected.sequence else expected)


@breaks(STORE_MUTANTS, "STORE-004", "DUR-007")
class WritesHalves(MemoryConversations):
    """A cancelled `append` leaves the beginning of its batch behind."""

    async def append(self, writer: Writer, batch: Batch, *, expected: Tail) -> Appended:
        try:
            return await super().append(writer, batch, expected=expected)
        except trio.Cancelled:
            with trio.CancelScope(shield=True):
                await super().append(writer, attrs.evolve(batch, records=batch.records[:1]), expected=expected)
            raise


@breaks(STORE_MUTANTS, "CAP-001")
class RaisesKeyErrors(MemoryConversations):
    """What is not there is a KeyError of Python's."""

    def _log(self, address: Address) -> Any:
        return self._tenants[address.tenant][address.conversation]


@breaks(STORE_MUTANTS, "DUR-006")
class RepeatsEpochs(MemoryConversations):
    """`open_writer` allots the epoch that is there already."""

    async def open_writer(self, address: Address, epoch: Epoch | None = None) -> Writer:
        current = self._log(address).epoch
        return await super().open_writer(address, max(current, Epoch(1)) if epoch is None else epoch)


@breaks(STORE_MUTANTS, "DUR-006", "STORE-004", "STORE-007")
class FencesNobody(MemoryConversations):
    """Writers of any epoch write."""

    def _owned(self, writer: Writer) -> Any:
        return self._log(writer.address)


@breaks(STORE_MUTANTS, "DUR-006", "STORE-004")
class ReplaysForTheFenced(MemoryConversations):
    """A fenced writer is told that its batch is there before its epoch is looked at."""

    async def append(self, writer: Writer, batch: Batch, *, expected: Tail) -> Appended:
        try:
            return await super().append(writer, batch, expected=expected)
        except WriterFenced:
            current = attrs.evolve(writer, epoch=self._log(writer.address).epoch)
            appended = await super().append(current, batch, expected=await self.inspect_tail(writer.address))
            if appended.replayed:
                return appended
            raise


@breaks(STORE_MUTANTS, "DUR-006")
class ForgetsEpochs(MemoryConversations):
    """Epochs begin anew when the store is opened again."""

    def again(self) -> MemoryConversations:
        store = MemoryConversations.load(self.save())
        for logs in store._tenants.values():
            for log in logs.values():
                log.epoch = Epoch(0)
        return store


@breaks(STORE_MUTANTS, "SEC-002")
class MixesTenants(MemoryConversations):
    """All tenants share one space."""

    def _find(self, address: Address) -> Any:
        return super()._find(attrs.evolve(address, tenant=TenantId("acme")))


@breaks(STORE_MUTANTS, "SEC-002")
class ListsEverybody(MemoryConversations):
    """`list` shows every tenant's conversations."""

    async def list(
        self, tenant: TenantId, *, after: ConversationId | None = None, limit: int = 100
    ) -> tuple[ConversationSummary, ...]:
        rows = [row for each in (*self._tenants, tenant) for row in await super(ListsEverybody, self).list(each)]
        return tuple(rows)[:limit]


@breaks(STORE_MUTANTS, "CAP-001")
class DeletesHalf(MemoryConversations):
    """A deleted conversation's checkpoint turns up again in its successor."""

    async def delete(self, address: Address) -> bool:
        log = self._find(address)
        if log is not None:
            self.kept = log.checkpoint
        return await super().delete(address)

    async def load_checkpoint(self, address: Address) -> Checkpoint | None:
        return await super().load_checkpoint(address) or getattr(self, "kept", None)


@breaks(STORE_MUTANTS, "DUR-006")
class DeletesWithoutFencing(MemoryConversations):
    """A right to a deleted conversation holds for its successor."""

    def _owned(self, writer: Writer) -> Any:
        log = self._log(writer.address)
        if writer.epoch < log.epoch:
            raise WriterFenced(conversation="", epoch=writer.epoch, current=log.epoch)
        return log


@breaks(STORE_MUTANTS, "STORE-007")
class KeepsAnyCheckpoint(MemoryConversations):
    """An earlier checkpoint replaces a later one."""

    async def save_checkpoint(self, writer: Writer, checkpoint: Checkpoint) -> None:
        self._owned(writer).checkpoint = None
        await super().save_checkpoint(writer, checkpoint)
