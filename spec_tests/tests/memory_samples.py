"""Small conversations that the tests of the memory store share."""

from triolet.adapters.memory import MemoryConversations
from triolet.ports.batch import Batch
from triolet.ports.conversation_store import Address, StoredBatch, Writer, first_batch_id
from triolet.ports.identity import (
    BatchId,
    ConversationId,
    Epoch,
    InputId,
    Instant,
    RunId,
    SequenceNumber,
    TenantId,
)
from triolet.ports.messages import Text
from triolet.ports.records import ConversationCreated, InputTaken

TENANT = TenantId("acme")
HERE = Address(tenant=TENANT, conversation=ConversationId("c1"))
NOWHERE = Address(tenant=TENANT, conversation=ConversationId("none"))
AT = Instant(1_700_000_000_000_000)


def first(address: Address = HERE, at: int = AT) -> Batch:
    created = ConversationCreated(conversation=address.conversation, tenant=address.tenant)
    return Batch(id=first_batch_id(address.conversation), run=None, epoch=Epoch(0), at=Instant(at), records=(created,))


def batch(name: str, records: int = 1, content: str = "hello") -> Batch:
    return Batch(
        id=BatchId(name),
        run=RunId("run1"),
        epoch=Epoch(0),
        at=AT,
        records=tuple(
            InputTaken(
                id=InputId(f"i{number}"),
                source="user",
                author="ann",
                offered_at=AT,
                parts=(Text(text=content),),
            )
            for number in range(records)
        ),
    )


async def opened(address: Address = HERE) -> tuple[MemoryConversations, Writer]:
    store = MemoryConversations()
    await store.create(address, first(address))
    return store, await store.open_writer(address)


async def filled(*sizes: int) -> tuple[MemoryConversations, Writer, list[StoredBatch]]:
    """A store with a conversation of the first batch and batches of these sizes, and how it should read."""
    store, writer = await opened()
    stored = [StoredBatch(batch=first(), first=SequenceNumber(1), digest=writer.tail.digest)]
    tail = writer.tail
    for number, size in enumerate(sizes):
        new = batch(f"b{number}", size)
        start = SequenceNumber(tail.sequence + 1)
        tail = (await store.append(writer, new, expected=tail)).tail
        stored.append(StoredBatch(batch=new, first=start, digest=tail.digest))
    return store, writer, stored
