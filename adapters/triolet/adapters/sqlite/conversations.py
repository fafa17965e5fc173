"""SqliteConversations: logs in a database file.

Decides what is checked before the writer is asked and which thread does what. What a verb does to the rows is in
`log_rows`. (STORE-004, STORE-013)
"""

from triolet.adapters.sqlite import log_rows
from triolet.adapters.sqlite.readers import Readers
from triolet.adapters.sqlite.writer import Writer as FileWriter
from triolet.ports.batch import Batch, encode_batch
from triolet.ports.conversation_store import (
    LIST_LIMIT,
    READ_LIMIT,
    Address,
    Appended,
    Checkpoint,
    ConversationSummary,
    Page,
    Tail,
    Writer,
    check_limit,
)
from triolet.ports.identity import ConversationId, Epoch, SequenceNumber, TenantId
from triolet.ports.text import require_clean


class SqliteConversations:
    """Logs in one file. See `ConversationStore`.

    Lifetime: it belongs to the `SqliteStore` that opened the file. Emits: nothing by itself. Cancellation, for every
    verb that writes: while it waits in line nothing happened and nothing will; once it is taken the caller gets its
    real outcome. Raises `StoreUnavailable` or `StoreDamaged`, too, which say whether something was written.
    """

    def __init__(self, writer: FileWriter, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def create(self, address: Address, first: Batch) -> Tail:
        """See `ConversationStore.create`."""
        require_clean(address.tenant, "tenant")
        require_clean(address.conversation, "conversation")
        body = encode_batch(first)
        return await self._writer.run(lambda rows: log_rows.create(rows, address, first, body))

    async def list(
        self, tenant: TenantId, *, after: ConversationId | None = None, limit: int = 100
    ) -> tuple[ConversationSummary, ...]:
        """See `ConversationStore.list`. The order is that of UTF-8, which is that of code points."""
        check_limit(limit, LIST_LIMIT)
        return await self._readers.run(lambda rows: log_rows.listed(rows, tenant, after, limit))

    async def delete(self, address: Address) -> bool:
        """See `ConversationStore.delete`."""
        return await self._writer.run(lambda rows: log_rows.delete(rows, address))

    async def open_writer(self, address: Address, epoch: Epoch | None = None) -> Writer:
        """See `ConversationStore.open_writer`."""
        return await self._writer.run(lambda rows: log_rows.open_writer(rows, address, epoch))

    async def append(self, writer: Writer, batch: Batch, *, expected: Tail) -> Appended:
        """See `ConversationStore.append`."""
        body = encode_batch(batch)
        return await self._writer.run(lambda rows: log_rows.append(rows, writer, batch, body, expected))

    async def read(self, address: Address, *, after: SequenceNumber = SequenceNumber(0), limit: int = 500) -> Page:
        """See `ConversationStore.read`."""
        check_limit(limit, READ_LIMIT)
        return await self._readers.run(lambda rows: log_rows.page(rows, address, after, limit))

    async def inspect_tail(self, address: Address) -> Tail:
        """See `ConversationStore.inspect_tail`."""
        return await self._readers.run(lambda rows: log_rows.tail_of(rows, address))

    async def save_checkpoint(self, writer: Writer, checkpoint: Checkpoint) -> None:
        """See `ConversationStore.save_checkpoint`."""
        await self._writer.run(lambda rows: log_rows.save_checkpoint(rows, writer, checkpoint))

    async def load_checkpoint(self, address: Address) -> Checkpoint | None:
        """See `ConversationStore.load_checkpoint`."""
        return await self._readers.run(lambda rows: log_rows.load_checkpoint(rows, address))
