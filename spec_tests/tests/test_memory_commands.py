"""Generated command sequences: the memory store agrees with a model that says each rule plainly."""

from collections.abc import Awaitable, Callable, Iterator

import attrs
from hypothesis import given
from hypothesis import strategies as st

from tests.memory_samples import batch, first
from triolet.adapters.memory import MemoryConversations
from triolet.ports.batch import Batch, encode_batch
from triolet.ports.canonical import GENESIS, Digest, chain
from triolet.ports.conversation_store import (
    Address,
    BatchReused,
    Checkpoint,
    ConversationExists,
    StoredBatch,
    Tail,
    TailMoved,
    UnknownConversation,
    Writer,
    WriterFenced,
)
from triolet.ports.errors import TrioletError
from triolet.ports.identity import (
    ConversationId,
    Epoch,
    Principal,
    RunId,
    SequenceNumber,
    TenantId,
)
from triolet.ports.records import AbortRequested

ADDRESSES = [
    Address(tenant=TenantId(tenant), conversation=ConversationId(name))
    for tenant in ("acme", "other")
    for name in ("a", "b")
]
POOL = [
    *(first(address) for address in ADDRESSES[:2]),
    *(batch(name, size, content) for name in ("b1", "b2", "b3") for size, content in ((1, "x"), (1, "y"), (3, "x"))),
    attrs.evolve(
        batch("b4"), records=(AbortRequested(run=RunId("run1"), by=Principal(name="ann"), reason="é\u2028😀\n"),)
    ),
    attrs.evolve(batch("b5"), records=()),
]


@attrs.define
class ModelLog:
    """What the port says of one log, as plainly as it can be said."""

    batches: list[Batch]
    epoch: int = 0
    checkpoint: Checkpoint | None = None

    def rows(self) -> Iterator[tuple[StoredBatch, Tail]]:
        digest, last = GENESIS, 0
        for each in self.batches:
            start, last = last + 1, last + len(each.records)
            digest = chain(digest, last, encode_batch(each))
            row = StoredBatch(batch=each, first=SequenceNumber(start), digest=digest)
            yield row, Tail(sequence=SequenceNumber(last), digest=digest)

    @property
    def tail(self) -> Tail:
        *_, (_, tail) = self.rows()
        return tail

    def tail_of(self, wanted: Batch) -> Tail | None:
        return next((tail for row, tail in self.rows() if row.batch.id == wanted.id), None)

    def holds(self, wanted: Batch) -> bool:
        return any(each == wanted for each in self.batches)


@attrs.define
class Model:
    logs: dict[Address, ModelLog] = attrs.field(factory=dict[Address, ModelLog])

    def find(self, address: Address) -> ModelLog:
        if address not in self.logs:
            raise UnknownConversation(conversation=address.conversation)
        return self.logs[address]

    def owned(self, address: Address, epoch: int) -> ModelLog:
        log = self.find(address)
        if epoch != log.epoch:
            raise WriterFenced(conversation=address.conversation, epoch=epoch, current=log.epoch)
        return log

    def create(self, address: Address, new: Batch) -> Tail:
        encode_batch(new)
        log = self.logs.get(address)
        if log is None:
            log = self.logs[address] = ModelLog([new])
        elif log.batches[0] != new:
            raise ConversationExists(conversation=address.conversation)
        return next(log.rows())[1]

    def delete(self, address: Address) -> bool:
        return self.logs.pop(address, None) is not None

    def open_writer(self, address: Address, epoch: int | None) -> tuple[int, Tail]:
        log = self.find(address)
        if epoch is not None and epoch < log.epoch:
            raise WriterFenced(conversation=address.conversation, epoch=epoch, current=log.epoch)
        log.epoch = log.epoch + 1 if epoch is None else epoch
        return log.epoch, log.tail

    def append(self, address: Address, epoch: int, new: Batch, expected: Tail) -> tuple[Tail, bool]:
        log = self.owned(address, epoch)
        encode_batch(new)
        there = log.tail_of(new)
        if there is not None:
            if not log.holds(new):
                raise BatchReused(conversation=address.conversation, batch=new.id)
            return there, True
        if expected != log.tail:
            raise TailMoved(conversation=address.conversation, expected=expected.sequence, actual=log.tail.sequence)
        log.batches.append(new)
        return log.tail, False

    def save_checkpoint(self, address: Address, epoch: int, checkpoint: Checkpoint) -> None:
        log = self.owned(address, epoch)
        if log.checkpoint is None or checkpoint.tail.sequence >= log.checkpoint.tail.sequence:
            log.checkpoint = checkpoint


@attrs.frozen
class Command:
    """One step: `epoch` and `expected` are relative to what holds when it is played."""

    verb: str
    address: Address
    batch: Batch
    epoch: int
    expected: str


COMMANDS = st.lists(
    st.builds(
        Command,
        st.sampled_from(
            ["create", "open", "take", "append", "append", "append", "delete", "pack", "reload", "checkpoint"]
        ),
        st.sampled_from(ADDRESSES),
        st.sampled_from(POOL),
        st.sampled_from([0, 0, 0, 0, -1, 1]),
        st.sampled_from(["tail", "tail", "tail", "start", "digest"]),
    ),
    max_size=40,
)


async def outcome(action: Callable[[], Awaitable[object]]) -> object:
    try:
        return await action()
    except TrioletError as error:
        return type(error), error.message


def said(action: Callable[[], object]) -> object:
    try:
        return action()
    except TrioletError as error:
        return type(error), error.message


@attrs.frozen
class Played:
    """What the store and the model said to one command, and the store to go on with."""

    got: object
    wanted: object
    store: MemoryConversations


async def play(command: Command, store: MemoryConversations, model: Model) -> Played:
    address, new = command.address, command.batch
    log = model.logs.get(address)
    real = log.tail if log else Tail()
    epoch = (log.epoch if log else 0) + command.epoch
    wrong = attrs.evolve(real, digest=Digest("sha256:" + "0" * 64))
    expected = {"tail": real, "start": Tail(), "digest": wrong}[command.expected]
    writer = Writer(address=address, epoch=Epoch(epoch), tail=expected)

    async def opened(asked: int | None) -> tuple[int, Tail]:
        got = await store.open_writer(address, None if asked is None else Epoch(asked))
        return got.epoch, got.tail

    async def appended() -> tuple[Tail, bool]:
        got = await store.append(writer, new, expected=expected)
        return got.tail, got.replayed

    match command.verb:
        case "create":
            wanted = said(lambda: model.create(address, new))
            return Played(await outcome(lambda: store.create(address, new)), wanted, store)
        case "open" | "take":
            asked = None if command.verb == "take" else epoch
            wanted = said(lambda: model.open_writer(address, asked))
            return Played(await outcome(lambda: opened(asked)), wanted, store)
        case "append":
            wanted = said(lambda: model.append(address, epoch, new, expected))
            return Played(await outcome(appended), wanted, store)
        case "delete":
            return Played(await store.delete(address), model.delete(address), store)
        case "checkpoint":
            made = Checkpoint(tail=expected, machine_version=len(new.records), body=new.id.encode())
            wanted = said(lambda: model.save_checkpoint(address, epoch, made))
            return Played(await outcome(lambda: store.save_checkpoint(writer, made)), wanted, store)
        case "pack":
            store.pack(address)
            return Played(None, None, store)
        case _:
            return Played(None, None, MemoryConversations.load(store.save()))


async def agree(store: MemoryConversations, model: Model) -> None:
    # Read from a copy, so that reading does not unpack what the commands packed.
    copy = MemoryConversations.load(store.save())
    for address, log in model.logs.items():
        assert await store.inspect_tail(address) == log.tail
        assert await store.load_checkpoint(address) == log.checkpoint
        assert (await store.open_writer(address, Epoch(log.epoch))).tail == log.tail
        assert (await copy.read(address)).batches == tuple(row for row, _ in log.rows())
    for tenant in {address.tenant for address in ADDRESSES}:
        names = sorted(address.conversation for address in model.logs if address.tenant == tenant)
        assert [row.conversation for row in await store.list(tenant)] == names


@given(COMMANDS)
async def test_generated_commands_agree_with_the_model(commands: list[Command]) -> None:
    store, model = MemoryConversations(), Model()
    for command in commands:
        played = await play(command, store, model)
        assert played.got == played.wanted, command
        store = played.store
        await agree(store, model)
