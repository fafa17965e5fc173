"""What the cases of the kernel share: the subject, and a bench that opens it on known ports and keeps all it does.

Decides nothing that is judged. A case drives the kernel through its public names alone, so that another kernel
behind the same names can be judged by the same cases.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, TypeVar

import attrs
import trio

from triolet.adapters.ids import SequentialIds
from triolet.adapters.memory import MemoryConversations
from triolet.adapters.scripted_model import ScriptedModel, ScriptItem
from triolet.kernel import Agent, Capabilities, Kernel, Policy, RetryPolicy, RunResult, Tool, Toolkit
from triolet.ports.batch import Batch, encode_batch
from triolet.ports.conversation_store import Address, Appended, Tail, Writer
from triolet.ports.events import Event
from triolet.ports.identity import Instant
from triolet.ports.language_model import LanguageModel, ModelRequest
from triolet.ports.messages import AssistantMessage, Message, ToolMessage
from triolet.ports.outcomes import Outcome
from triolet.ports.records import Record, ToolSettled
from triolet.spec_tests.cases.record_samples import AT
from triolet.spec_tests.claims import ensure, ensure_equal
from triolet.spec_tests.subject import Subject

R = TypeVar("R", bound=Record)

OpenKernel = Callable[..., AbstractAsyncContextManager[Kernel]]
"""Called as `triolet.kernel.open_kernel` is."""


@attrs.frozen(kw_only=True, eq=False, weakref_slot=False)
class KernelSubject(Subject[OpenKernel]):
    """A kernel under test: the function that opens it. It has no levers of its own so far."""


class StillClock:
    """A clock that always shows the same instant, so that two runs can be compared record by record."""

    def now(self) -> Instant:
        """The one instant."""
        return AT


class KeepingStore(MemoryConversations):
    """A memory store that keeps what was written to it, beyond deletion, and lets a case act at each append.

    `before` and `after` are called around each append that is asked for; what they raise is what the kernel meets.
    """

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[Batch] = []
        self.calls = 0
        self.before: Callable[[Batch], Awaitable[None]] | None = None
        self.after: Callable[[Batch], Awaitable[None]] | None = None

    async def create(self, address: Address, first: Batch) -> Tail:
        """Create, and keep the batch."""
        self.calls += 1
        tail = await super().create(address, first)
        self.batches.append(first)
        return tail

    async def append(self, writer: Writer, batch: Batch, *, expected: Tail) -> Appended:
        """Append, and keep the batch if it is new."""
        self.calls += 1
        if self.before is not None:
            await self.before(batch)
        appended = await super().append(writer, batch, expected=expected)
        if not appended.replayed:
            self.batches.append(batch)
        if self.after is not None:
            await self.after(batch)
        return appended


@attrs.frozen(kw_only=True, eq=False, weakref_slot=False)
class Bench:
    """An open kernel with one agent, and everything that was asked of its ports."""

    kernel: Kernel
    agent: Agent[Any, Any]
    model: ScriptedModel
    store: KeepingStore
    capabilities: Capabilities

    async def run(self, value: Any = "go") -> RunResult[Any]:
        """Run the agent once."""
        return await self.kernel.run(self.agent, value)

    async def observe(self, value: Any = "go") -> tuple[list[Event], RunResult[Any]]:
        """Run the agent once, and read all of its events."""
        async with self.kernel.stream(self.agent, value) as handle:
            events = [event async for event in handle.events()]
            return events, await handle.result()

    @property
    def requests(self) -> tuple[ModelRequest, ...]:
        """What the model was asked, in order."""
        return self.model.requests

    def shown(self, place: int) -> str:
        """The messages of the request at `place`, written out."""
        return repr(tuple(self.requests[place].messages))

    @property
    def records(self) -> list[Record]:
        """All records, in the order in which they were written."""
        return [record for batch in self.store.batches for record in batch.records]

    def recorded(self, family: type[R]) -> list[R]:
        """The records of one family."""
        return [record for record in self.records if isinstance(record, family)]

    @property
    def outcomes(self) -> list[Outcome]:
        """The outcomes on record, in order."""
        return [record.outcome for record in self.recorded(ToolSettled)]

    @property
    def stored_text(self) -> str:
        """Every byte that was written, as text."""
        return "\n".join(encode_batch(batch).decode() for batch in self.store.batches)


ASK_ONCE: Final = Policy(retry=RetryPolicy(tries=1))


def text_agent(*tools: Tool[Any, Any], policy: Policy | None = None, **fields: Any) -> Agent[Any, Any]:
    """An agent from text to text, unless `fields` say otherwise. Without a policy it asks its model once a turn."""
    given: dict[str, Any] = {"id": "agent", "input": str, "output": str, **fields}
    return Agent(toolkit=Toolkit(tools), policy=ASK_ONCE if policy is None else policy, **given)


@asynccontextmanager
async def open_bench(
    subject: KernelSubject,
    script: Iterable[ScriptItem],
    agent: Agent[Any, Any] | None = None,
    *,
    model: LanguageModel | None = None,
    groups: Mapping[str, int] | None = None,
    store: KeepingStore | None = None,
    ports: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
) -> AsyncGenerator[Bench]:
    """Open the kernel under test with one agent, on a scripted model and a store that keeps everything.

    `ports` binds further capabilities by name; `options` are further arguments of the kernel's.
    """
    scripted = ScriptedModel(script)
    runs = text_agent() if agent is None else agent
    kept = KeepingStore() if store is None else store
    capabilities = Capabilities(
        model=scripted if model is None else model,
        conversations=kept,
        clock=StillClock(),
        ids=SequentialIds(),
        **(ports or {}),
    )
    async with subject.port(agents=[runs], capabilities=capabilities, groups=groups or {}, **(options or {})) as kernel:
        yield Bench(kernel=kernel, agent=runs, model=scripted, store=kept, capabilities=capabilities)


def ensure_whole(messages: Sequence[Message], what: str) -> None:
    """Raise `SpecViolation` unless every call in `messages` has exactly one result, in order, right behind it."""
    for place, message in enumerate(messages):
        if isinstance(message, AssistantMessage) and message.calls:
            follower = messages[place + 1] if place + 1 < len(messages) else None
            results = follower.results if isinstance(follower, ToolMessage) else ()
            ensure_equal(
                [(result.call, result.name) for result in results],
                [(call.id, call.name) for call in message.calls],
                f"{what}: the results behind the calls of message {place}",
            )
        if isinstance(message, ToolMessage):
            before = messages[place - 1] if place else None
            behind_calls = isinstance(before, AssistantMessage) and bool(before.calls)
            ensure(behind_calls, f"{what}: message {place} holds results, and no calls stand before it")


async def turns_pass(condition: Callable[[], bool], what: str) -> None:
    """Let other tasks run until `condition` holds. Raises `SpecViolation` when nothing moves any more.

    It never sleeps, so a mocked clock stands still meanwhile.
    """
    for _ in range(2_000):
        if condition():
            return
        await trio.lowlevel.checkpoint()
    ensure(condition(), f"{what} did not happen")
