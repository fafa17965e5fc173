"""Makers for what this project ships: each can be certified by name, and shows how one is written.

Decides nothing. ``triolet certify triolet.spec_tests.makers:memory_conversations --port conversation-store`` uses
one.
"""

import hashlib
import os
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from triolet.adapters.artifact_files import open_artifact_files
from triolet.adapters.local_runner import LocalRunner
from triolet.adapters.memory import MemoryArtifacts, MemoryBudgets, MemoryConversations
from triolet.adapters.secrets import EnvironmentSecrets, SecretFiles
from triolet.kernel import open_kernel
from triolet.ports.artifact_store import ArtifactStore
from triolet.ports.budget import Amounts, Budgets, NodeId
from triolet.ports.canonical import Digest
from triolet.ports.conversation_store import Address, ConversationStore
from triolet.ports.identity import TenantId
from triolet.ports.secrets import SecretHandle
from triolet.spec_tests.cases.artifact_store import ArtifactSubject
from triolet.spec_tests.cases.budgets import BudgetSubject
from triolet.spec_tests.cases.code_executor import ExecutorSubject
from triolet.spec_tests.cases.conversation_store import StoreSubject
from triolet.spec_tests.cases.kernel import KernelSubject
from triolet.spec_tests.cases.language_model import ModelSubject
from triolet.spec_tests.cases.sandbox import KnownSecret, SandboxSubject
from triolet.spec_tests.cases.secret_resolver import SecretSubject
from triolet.spec_tests.cases.tool_source import Definition, ToolSourceSubject
from triolet.spec_tests.stand_ins.chat_completions import open_chat_completions
from triolet.spec_tests.stand_ins.one_secret import OneSecret
from triolet.spec_tests.stand_ins.scripted import ScriptedProvider

_BOUND = 40_000
"""What the artifact stores made here take, in bytes."""


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
async def memory_artifacts() -> AsyncGenerator[ArtifactSubject]:
    """The memory ArtifactStore. It hands out the very bytes that it keeps, so nothing outside can damage them."""
    yield ArtifactSubject(
        port=MemoryArtifacts(limit=_BOUND), bound=_BOUND, posture={"durability": "this process's memory"}
    )


@asynccontextmanager
async def local_runner() -> AsyncGenerator[SandboxSubject]:
    """The local runner, which is no sandbox and says so."""
    store, secret = MemoryArtifacts(), KnownSecret(handle=SecretHandle(name="kit"), value="s3cr3t-value-of-the-kit")
    yield SandboxSubject(
        port=LocalRunner(artifacts=store, secrets=OneSecret(secret.handle, secret.value)),
        name="triolet.adapters.local_runner",
        declines={"isolation": "it runs plain processes"},
        store=store,
        secret=secret,
        posture={"isolation": "unisolated"},
    )


@asynccontextmanager
async def file_artifacts() -> AsyncGenerator[ArtifactSubject]:
    """The ArtifactStore on a file system, in a temporary directory."""
    with tempfile.TemporaryDirectory() as directory:

        def reopen() -> AbstractAsyncContextManager[ArtifactStore]:
            return open_artifact_files(directory, limit=_BOUND)

        async def damage(digest: Digest, _: TenantId) -> None:
            _change_a_byte(Path(directory), digest.partition(":")[2])

        async with reopen() as store:
            yield ArtifactSubject(
                port=store, reopen=reopen, damage=damage, bound=_BOUND, posture={"durability": "fsync, one disk"}
            )


def _change_a_byte(directory: Path, name: str) -> None:
    [path] = directory.rglob(name)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@asynccontextmanager
async def environment_secrets() -> AsyncGenerator[SecretSubject]:
    """Secrets from environment variables, of which a few are set for as long as this is open."""
    prefix = f"TRIOLET_KIT_{hashlib.sha256(os.urandom(16)).hexdigest()[:16].upper()}_"
    names = ("plain", "spaced", "wide", "empty", "changing", "shown", "broken", "longest", "long", "twice")

    async def bind(name: str, value: bytes) -> SecretHandle:
        os.environb[os.fsencode(prefix + name)] = value
        return SecretHandle(name=name)

    try:
        yield SecretSubject(port=EnvironmentSecrets({name: prefix + name for name in names}), bind=bind)
    finally:
        for name in names:
            os.environ.pop(prefix + name, None)


@asynccontextmanager
async def file_secrets() -> AsyncGenerator[SecretSubject]:
    """Secrets from files in a temporary directory."""
    with tempfile.TemporaryDirectory() as directory:

        async def bind(name: str, value: bytes) -> SecretHandle:
            path = Path(directory) / name
            path.touch(mode=0o600)
            path.write_bytes(value)
            return SecretHandle(name=name)

        yield SecretSubject(port=SecretFiles(directory), bind=bind)


@asynccontextmanager
async def memory_budgets() -> AsyncGenerator[BudgetSubject]:
    """The memory Budgets."""

    @asynccontextmanager
    async def limited(limits: Mapping[NodeId, Amounts]) -> AsyncGenerator[Budgets]:
        yield MemoryBudgets(limits)

    yield BudgetSubject(port=MemoryBudgets({}), limited=limited, posture={"shared": "no: one process"})


@asynccontextmanager
async def bubblewrap() -> AsyncGenerator[SandboxSubject]:
    """Bubblewrap. Needs Linux with user namespaces and the program ``bwrap``."""
    from triolet.adapters.bubblewrap import open_bubblewrap

    store, secret = MemoryArtifacts(), KnownSecret(handle=SecretHandle(name="kit"), value="s3cr3t-value-of-the-kit")
    async with open_bubblewrap(artifacts=store, secrets=OneSecret(secret.handle, secret.value)) as port:
        yield SandboxSubject(
            port=port,
            name="triolet.adapters.bubblewrap",
            store=store,
            secret=secret,
            posture=dict(port.implementation.posture.items()),
        )


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


@asynccontextmanager
async def mcp_tools() -> AsyncGenerator[ToolSourceSubject]:
    """MCP servers as tool sources, over a line in memory to a stand-in. Needs the extra ``mcp``."""
    from triolet.adapters.mcp import open_mcp
    from triolet.spec_tests.stand_ins.mcp_server import McpStandIn

    peer = McpStandIn()
    peer.definitions = [{"name": "first", "inputSchema": {"type": "object"}}]

    async def offer(definitions: Sequence[Definition]) -> None:
        await peer.offer(
            {"name": each.name, "description": each.description, "inputSchema": each.input} for each in definitions
        )

    async def lose_next() -> None:
        peer.cuts_next = True

    async def hold() -> None:
        peer.holds_calls = True

    async def down() -> None:
        peer.down = True
        peer.break_lines()

    async with open_mcp(peer.server, name="kit") as source:
        yield ToolSourceSubject(
            port=source,
            name="triolet.adapters.mcp",
            offer=offer,
            called=lambda: [name for name, _ in peer.called],
            lose_next=lose_next,
            hold=hold,
            down=down,
            posture={"transport": "memory"},
        )
