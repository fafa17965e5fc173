"""A kernel in a world that a test sees through: one store, scripted models, a mock clock, countable identifiers.

The store remembers every batch even after its conversation was deleted, which is what happens to a run of its own. When
a test has ended, each of these logs is read back from its bytes, folded, and counted by hand: one end for each run, one
result for each call, a valid history at every seam.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Any, TypeVar, cast

import attrs
import pytest
import trio

from triolet.adapters.clocks import TrioClock
from triolet.adapters.ids import SequentialIds
from triolet.adapters.memory import MemoryConversations
from triolet.adapters.scripted_model import ScriptedModel, Turn
from triolet.kernel import Agent, Capabilities, Kernel, Policy, RetryPolicy, Toolkit, history_problem, open_kernel
from triolet.kernel.machine.advance import advance
from triolet.kernel.machine.state import NEW, ConversationState
from triolet.ports.batch import Batch, decode_batch, encode_batch
from triolet.ports.conversation_store import Address, Appended, Tail, Writer
from triolet.ports.identity import DEFAULT_TENANT, ConversationId, Epoch, Instant
from triolet.ports.language_model import LanguageModel, ModelIdentity, ModelPart, ModelRequest
from triolet.ports.messages import ToolMessage
from triolet.ports.outcomes import Outcome
from triolet.ports.records import ModelResponded, Record, RunSettled, RunStarted, ToolSettled
from triolet.ports.tools import Tool

R = TypeVar("R", bound=Record)

START = Instant(1_700_000_000_000_000)


class SeenStore(MemoryConversations):
    """Memory conversations that keep what was deleted for the test to look at."""

    def __init__(self) -> None:
        super().__init__()
        self.logs: dict[Address, list[Batch]] = {}
        self.deleted: list[ConversationId] = []
        self.pauses: Callable[[], Awaitable[None]] | None = None
        """Awaited inside each append, before it writes: where a real store would wait for its disk."""
        self.pauses_after: Callable[[], Awaitable[None]] | None = None
        """Awaited after it wrote: whoever is cancelled here does not know whether the write happened."""
        self.opens_slowly = False
        """Whether creating and opening let other tasks run before and after, as a store behind a disk does."""

    async def create(self, address: Address, first: Batch) -> Tail:
        await self._wait_for_the_disk()
        tail = await super().create(address, first)
        self.logs.setdefault(address, [first])
        await self._wait_for_the_disk()
        return tail

    async def open_writer(self, address: Address, epoch: Epoch | None = None) -> Writer:
        await self._wait_for_the_disk()
        writer = await super().open_writer(address, epoch)
        await self._wait_for_the_disk()
        return writer

    async def _wait_for_the_disk(self) -> None:
        if self.opens_slowly:
            await trio.lowlevel.checkpoint()

    async def append(self, writer: Writer, batch: Batch, *, expected: Tail) -> Appended:
        if self.pauses is not None:
            await self.pauses()
        appended = await super().append(writer, batch, expected=expected)
        if not appended.replayed:
            self.logs[writer.address].append(batch)
        if self.pauses_after is not None:
            await self.pauses_after()
        return appended

    async def delete(self, address: Address) -> bool:
        existed = await super().delete(address)
        if existed:
            self.deleted.append(address.conversation)
        return existed

    def alive(self) -> list[ConversationId]:
        """Conversations that are in the store now."""
        return [address.conversation for address in self.logs if self._find(address) is not None]


@attrs.define(kw_only=True)
class World:
    """One store and what else kernels in a test share."""

    store: SeenStore = attrs.field(factory=SeenStore)
    ids: SequentialIds = attrs.field(factory=SequentialIds)
    clock: TrioClock = attrs.field(factory=lambda: TrioClock(START))
    open_runs_are_fine: bool = False
    ports: dict[str, Any] = attrs.field(factory=dict[str, Any])
    """Further capabilities, by name."""

    def kernel(
        self, *agents: Agent[Any, Any], model: LanguageModel | None = None, **options: Any
    ) -> AbstractAsyncContextManager[Kernel]:
        """A kernel over this world."""
        bound = Capabilities(model=model, conversations=self.store, clock=self.clock, ids=self.ids, **self.ports)
        return open_kernel(agents=agents, capabilities=bound, **options)

    def batches(self, conversation: str | None = None) -> list[Batch]:
        """Every batch of a conversation, or of the only one."""
        if conversation is None:
            assert len(self.store.logs) == 1, f"there are {len(self.store.logs)} conversations"
            return next(iter(self.store.logs.values()))
        return self.store.logs[Address(tenant=DEFAULT_TENANT, conversation=ConversationId(conversation))]

    def records(self, conversation: str | None = None) -> list[Any]:
        """Every record of a conversation, or of the only one."""
        return [record for batch in self.batches(conversation) for record in batch.records]

    def of(self, family: type[R], conversation: str | None = None) -> list[R]:
        """The records of one family."""
        return [record for record in self.records(conversation) if isinstance(record, family)]

    def outcomes(self, conversation: str | None = None) -> list[Outcome]:
        """The outcomes of all calls, in log order."""
        return [record.outcome for record in self.of(ToolSettled, conversation)]

    def settlement(self, conversation: str | None = None) -> RunSettled:
        """The end of the only run."""
        [settled] = self.of(RunSettled, conversation)
        return settled

    def check(self) -> None:
        """What holds for every log, whatever the test was about."""
        for address, batches in self.store.logs.items():
            check_log(batches, open_runs_are_fine=self.open_runs_are_fine, where=address.conversation)


def check_log(batches: Sequence[Batch], *, open_runs_are_fine: bool, where: str) -> ConversationState:
    """Read a log back from its bytes and hold it to the promises that every log keeps."""
    state = NEW
    started: list[str] = []
    settled: list[str] = []
    calls: list[str] = []
    results: list[str] = []
    for batch in batches:
        stored = decode_batch(encode_batch(batch))
        assert stored == batch, where
        for record in stored.records:
            state = advance(state, record)
            if state.phase != "batch":
                assert history_problem(state.history) is None, where
            match record:
                case RunStarted(run=run):
                    started.append(run)
                case RunSettled(run=run):
                    settled.append(run)
                case ModelResponded(message=message):
                    calls.extend(call.id for call in message.calls)
                case ToolSettled(call=call):
                    results.append(call)
                case _:
                    pass
    assert len(set(started)) == len(started), where
    assert len(set(calls)) == len(calls), where
    if open_runs_are_fine:
        assert settled == started[: len(settled)], where
        assert results == calls[: len(results)], where
    else:
        assert settled == started, f"{where}: runs {started} have the ends {settled}"
        assert results == calls, f"{where}: calls {calls} have the results {results}"
        assert state.run is None, where
    return state


@pytest.fixture
async def world(nursery: trio.Nursery) -> AsyncIterator[World]:
    """A world whose logs are checked when the test has ended. Under an autojump clock, a hang ends the test."""
    made = World()
    nursery.start_soon(_notice_a_hang)
    yield made
    made.check()


async def _notice_a_hang() -> None:
    # Later than any deadline of any test: an autojump clock gets here only when nothing else will ever happen.
    await trio.sleep_forever()
    raise AssertionError("every task of the test is blocked for ever")


def talker(*tools: Tool[Any, Any], id: str = "talker", policy: Policy | None = None, **fields: Any) -> Agent[str, str]:  # noqa: A002
    """An agent from text to text. Without a policy it asks its model once a turn."""
    given: dict[str, Any] = {"input": str, "output": str, "toolkit": Toolkit(tools), **fields}
    given["policy"] = policy or Policy(retry=RetryPolicy(tries=1))
    return Agent(id=cast("Any", id), **given)


def script(*turns: Turn | Callable[[ModelRequest], Turn], **options: Any) -> ScriptedModel:
    """A scripted model."""
    return ScriptedModel(turns, **options)


class Paced:
    """A scripted model that lets other tasks run before each part and on both ways out, as a network does."""

    def __init__(self, *turns: Turn | Callable[[ModelRequest], Turn]) -> None:
        self._model = ScriptedModel(turns)

    @property
    def identity(self) -> ModelIdentity:
        return self._model.identity

    @property
    def requests(self) -> tuple[ModelRequest, ...]:
        return self._model.requests

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelPart]]:
        await trio.lowlevel.checkpoint()
        async with self._model.stream(request) as parts, aclosing(_paced(parts)) as paced:
            yield paced
            await trio.lowlevel.checkpoint()


async def _paced(parts: AsyncIterator[ModelPart]) -> AsyncGenerator[ModelPart]:
    async for part in parts:
        await trio.lowlevel.checkpoint()
        yield part


def shown_outcomes(request: ModelRequest) -> list[Outcome]:
    """The outcomes of all calls that a request shows."""
    return [result.outcome for m in request.messages if isinstance(m, ToolMessage) for result in m.results]


@asynccontextmanager
async def one_agent(
    world: World, agent: Agent[Any, Any], *turns: Turn | Callable[[ModelRequest], Turn], **options: Any
) -> AsyncGenerator[tuple[Kernel, ScriptedModel]]:
    """A kernel with one agent on a scripted model."""
    model = script(*turns)
    async with world.kernel(agent, model=model, **options) as kernel:
        yield kernel, model
