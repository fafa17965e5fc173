"""Makers for what this project ships: each can be certified by name, and shows how one is written.

Decides nothing. ``triolet certify triolet.spec_tests.makers:memory_conversations --port conversation-store`` uses
one.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from triolet.adapters.memory import MemoryConversations
from triolet.kernel import open_kernel
from triolet.ports.conversation_store import Address, ConversationStore
from triolet.spec_tests.cases.code_executor import ExecutorSubject
from triolet.spec_tests.cases.conversation_store import StoreSubject
from triolet.spec_tests.cases.kernel import KernelSubject
from triolet.spec_tests.cases.language_model import ModelSubject
from triolet.spec_tests.stand_ins.chat_completions import open_chat_completions
from triolet.spec_tests.stand_ins.scripted import ScriptedProvider


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


@asynccontextmanager
async def scripted_model() -> AsyncGenerator[ModelSubject]:
    """The scripted model, which is its own provider."""
    provider = ScriptedProvider()
    yield ModelSubject(port=provider.model, provider=provider)


@asynccontextmanager
async def openai_compatible() -> AsyncGenerator[ModelSubject]:
    """The OpenAI-compatible model over a stand-in server on this machine. Needs the extra ``openai``."""
    from triolet.adapters.openai_compatible import open_openai_compatible

    async with (
        open_chat_completions() as server,
        open_openai_compatible(base_url=server.base_url, model="stand-in", use_environment=False) as model,
    ):
        yield ModelSubject(port=model, provider=server, name="triolet.adapters.openai_compatible")


@asynccontextmanager
async def local_model() -> AsyncGenerator[ModelSubject]:
    """The model inside this machine. Needs the extra ``local`` and its weights; no lever directs what it says."""
    from triolet.adapters.local_model import open_local_model

    async with open_local_model() as model:
        yield ModelSubject(port=model, name="triolet.adapters.local_model")


@asynccontextmanager
async def quickjs_wasm() -> AsyncGenerator[ExecutorSubject]:
    """Programs in QuickJS inside WebAssembly, in this process. Needs the extra ``code``."""
    from triolet.adapters.quickjs_wasm import open_quickjs_wasm

    async with open_quickjs_wasm() as executor:
        yield ExecutorSubject(port=executor, posture=dict(executor.implementation.posture.items()))


@asynccontextmanager
async def substitute_executor() -> AsyncGenerator[ExecutorSubject]:
    """The substitute for tests. It runs no JavaScript and says that it is unisolated."""
    from triolet.adapters.substitute_executor import SubstituteExecutor

    executor = SubstituteExecutor({})
    reason = "its programs are Python functions of a test"
    yield ExecutorSubject(
        port=executor,
        declines={"javascript": reason, "isolated": reason},
        posture=dict(executor.implementation.posture.items()),
    )


@asynccontextmanager
async def quickjs_wasm_sandboxed() -> AsyncGenerator[ExecutorSubject]:
    """The same guest in a child process under bubblewrap. Needs the extra ``code`` and bubblewrap."""
    from triolet.adapters.quickjs_wasm_sandboxed import open_quickjs_wasm_sandboxed

    async with open_quickjs_wasm_sandboxed() as executor:
        yield ExecutorSubject(port=executor, posture=dict(executor.implementation.posture.items()))
