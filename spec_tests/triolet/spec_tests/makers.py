"""Makers for what this project ships: each can be certified by name, and shows how one is written.

Decides nothing. ``triolet certify triolet.spec_tests.makers:memory_conversations --port conversation-store`` uses
one.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from triolet.adapters.memory import MemoryConversations
from triolet.kernel import open_kernel
from triolet.ports.conversation_store import Address, ConversationStore
from triolet.spec_tests.cases.conversation_store import StoreSubject
from triolet.spec_tests.cases.kernel import KernelSubject


@asynccontextmanager
async def kernel() -> AsyncGenerator[KernelSubject]:
    """The kernel of this distribution."""
    yield KernelSubject(port=open_kernel, name="triolet.kernel")


@asynccontextmanager
async def memory_conversations() -> AsyncGenerator[StoreSubject]:
    """The memory ConversationStore. Reopening and damage go through its saved bytes."""
    store = MemoryConversations()

    @asynccontextmanager
    async def reopen() -> AsyncGenerator[ConversationStore]:
        yield MemoryConversations.load(store.save())

    @asynccontextmanager
    async def damage(_: Address) -> AsyncGenerator[ConversationStore]:
        image = bytearray(store.save())
        image[len(image) // 2] ^= 1
        yield MemoryConversations.load(bytes(image))

    yield StoreSubject(port=store, reopen=reopen, damage=damage, posture={"durability": "this process's memory"})
