"""Accepted work in a world that can crash: what is durable is bytes, and every life has new kernels on new adapters.

A life begins from the bytes that an earlier one left, and ends with them. What its handlers did to the outside, and how
often a model was asked, is counted where no crash reaches it. After each durable change the world keeps the bytes as
they are then, so that a test can let any number of later lives begin there.
"""

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, cast

import attrs
import trio

from triolet.adapters.clocks import TrioClock
from triolet.adapters.memory import MemoryConversations, MemoryLedger, in_memory
from triolet.adapters.scripted_model import ScriptedModel, Turn
from triolet.kernel import Agent, Failpoint, Kernel, WorkerPolicy, open_kernel
from triolet.kernel.machine.advance import fold
from triolet.kernel.machine.state import NEW, ConversationState
from triolet.kernel.results import RunResult
from triolet.ports.approval import PENDING, ApprovalRequest, Decision, Pending
from triolet.ports.conversation_store import Address, StoredBatch
from triolet.ports.identity import ConversationId, Instant, Principal, RequestId, SequenceNumber, TenantId
from triolet.ports.language_model import ModelRequest
from triolet.ports.ledger import ApprovalWait, Receipt, Standing, UnknownWait
from triolet.ports.outcomes import ToolSuccess
from triolet.ports.records import Record
from triolet.ports.session_store import Revision, Session, SessionCreate, SessionId, SessionPatch
from triolet.ports.sources import IdKind
from triolet.ports.strict_json import JsonText

START = Instant(1_700_000_000_000_000)
BOSS = Principal(name="boss")
TALK = Address(tenant=TenantId("default"), conversation=ConversationId("talk"))
WORKERS = WorkerPolicy(concurrency=4, lease_seconds=30, retry_seconds=1, attempts=20)


@attrs.define
class Outside:
    """What no crash undoes. `effects` are operation keys, one for each time that an effect happened."""

    effects: list[str] = attrs.field(factory=list[str])
    bodies: list[str] = attrs.field(factory=list[str])
    asked: int = 0
    kernel: Kernel | None = None
    """The kernel of the life that is being lived, for handlers that talk to it as a client would."""

    def happened(self, key: str) -> bool:
        return key in self.effects


@attrs.frozen
class Moment:
    """What was durable right after a change, what time it was, and what had happened outside by then."""

    failpoint: Failpoint
    conversations: bytes
    ledger: bytes
    at: Instant
    effects: tuple[str, ...]
    bodies: tuple[str, ...]
    asked: int


class AwayDesk:
    """A desk at which nobody ever answers by itself."""

    async def request(self, request: ApprovalRequest, *, patience: float) -> Decision | Pending:
        return PENDING

    async def withdraw(self, request: RequestId) -> None:
        return None


class NoSessions:
    """A session store that is bound, because durable work wants one, and that nobody uses here."""

    async def create(self, session: SessionCreate) -> Session:
        raise AssertionError("no session is made here")

    async def get(self, tenant: TenantId, session: SessionId) -> Session | None:
        return None

    async def update(
        self, tenant: TenantId, session: SessionId, patch: SessionPatch, *, expected_revision: Revision
    ) -> Session:
        raise AssertionError("no session is changed here")


class Slow:
    """Anything whose verbs let other tasks run before they do their work, and after: as behind a disk."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name == "shared":
            return None if found is None else Slow(found)
        return self._slowly(found) if inspect.iscoroutinefunction(found) else found

    @staticmethod
    def _slowly(verb: Any) -> Any:
        async def slow(*arguments: Any, **named: Any) -> Any:
            await trio.lowlevel.checkpoint()
            done = await verb(*arguments, **named)
            await trio.lowlevel.checkpoint()
            return done

        return slow


class LifeIds:
    """Identifiers that no other life draws."""

    def __init__(self, life: str) -> None:
        self._life = life
        self._drawn = count(1)

    def new(self, kind: IdKind) -> str:
        return f"{kind}{self._life}{next(self._drawn)}"


Respond = Callable[[ModelRequest], Turn]
Client = Callable[[Kernel, Agent[Any, Any]], Awaitable[list[Receipt]]]


@attrs.define(eq=False)
class DurableWorld:
    """Memory stores, and the lives that are lived on them."""

    shared: bool
    remembers: bool = True
    """Whether moments are kept, which takes the whole world's bytes each time."""
    slow: bool = False
    """Whether the stores let other tasks run, so that work can be stopped inside of them."""
    outside: Outside = attrs.field(factory=Outside)
    moments: list[Moment] = attrs.field(factory=list[Moment])
    ports: dict[str, Any] = attrs.field(factory=dict[str, Any])
    clock: TrioClock = attrs.field(factory=lambda: TrioClock(START))
    ids: LifeIds = attrs.field(factory=lambda: LifeIds("A"))
    reached: Callable[[Failpoint], None] = lambda _: None
    conversations: MemoryConversations = attrs.field(init=False)
    ledger: MemoryLedger = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._bind(MemoryConversations(), None)

    @classmethod
    def after(cls, moment: Moment, *, shared: bool, effects: tuple[str, ...]) -> "DurableWorld":
        """The world as a crash at this moment leaves it, with what had happened outside before anybody noticed."""
        outside = Outside(effects=list(effects), bodies=list(moment.bodies), asked=moment.asked)
        world = cls(shared=shared, outside=outside, clock=TrioClock(moment.at), ids=LifeIds("B"))
        world._bind(MemoryConversations.load(moment.conversations), moment.ledger)
        return world

    def restart(self) -> None:
        """Everything that is not durable is gone."""
        self._bind(MemoryConversations.load(self.conversations.save()), self.ledger.save())

    def _bind(self, conversations: MemoryConversations, ledger: bytes | None) -> None:
        beside = conversations if self.shared else None
        self.conversations = conversations
        if ledger is None:
            self.ledger = MemoryLedger(self.clock, conversations=beside)
        else:
            self.ledger = MemoryLedger.load(ledger, self.clock, conversations=beside)

    @asynccontextmanager
    async def life(self, agent: Agent[Any, Any], respond: Respond, **options: Any) -> AsyncGenerator[Kernel]:
        """A process: a new kernel over what is durable."""

        def answer(request: ModelRequest) -> Turn:
            self.outside.asked += 1
            return respond(request)

        bound = in_memory(
            model=ScriptedModel([answer], then_repeat=True),
            conversations=cast("Any", Slow(self.conversations)) if self.slow else self.conversations,
            clock=self.clock,
            ids=self.ids,
            ledger=cast("Any", Slow(self.ledger)) if self.slow else self.ledger,
            sessions=NoSessions(),
            approval=AwayDesk(),
            **self.ports,
        )
        async with open_kernel(agents=[agent], capabilities=bound, reached=self._reached, **options) as kernel:
            self.outside.kernel = kernel
            yield kernel

    def _reached(self, failpoint: Failpoint) -> None:
        self.reached(failpoint)
        if self.remembers:
            self.moments.append(
                Moment(
                    failpoint=failpoint,
                    conversations=self.conversations.save(),
                    ledger=self.ledger.save(),
                    at=self.clock.now(),
                    effects=tuple(self.outside.effects),
                    bodies=tuple(self.outside.bodies),
                    asked=self.outside.asked,
                )
            )

    async def to_the_end(self, agent: Agent[Any, Any], respond: Respond, client: Client) -> list[RunResult[Any]]:
        """Live until everything that the client asks for is settled, with people who answer what is waited for."""
        async with self.life(agent, respond) as kernel, trio.open_nursery() as nursery:
            receipts = await client(kernel, agent)
            nursery.start_soon(self._people, kernel)
            async with kernel.workers(name="worker", policy=WORKERS):
                results = [await kernel.settlement(receipt) for receipt in receipts]
            nursery.cancel_scope.cancel()
        return results

    async def with_people(self, kernel: Kernel, receipt: Receipt) -> RunResult[Any]:
        """Work on one submission to its end, with people around."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._people, kernel)
            async with kernel.workers(name="worker", policy=WORKERS):
                result = await kernel.settlement(receipt)
            nursery.cancel_scope.cancel()
        return result

    async def answer_all(self, kernel: Kernel) -> None:
        """Say what is to be said about everything that waits now."""
        for standing in await self.ledger.scan():
            for wait in standing.waits:
                await self._say(kernel, standing, wait)

    async def _people(self, kernel: Kernel) -> None:
        # Looking once a minute is soon enough for people, and never the same moment as a lease or a retry.
        while True:
            await trio.sleep(61.7)
            await self.answer_all(kernel)

    async def _say(self, kernel: Kernel, standing: Standing, wait: object) -> None:
        match wait:
            case ApprovalWait(request=request):
                await kernel.answer(request.id, Decision(verdict="approved", by=BOSS, reason="fine"))
            case UnknownWait(unknown=unknown):
                done = ToolSuccess(output=JsonText('"done"')) if self.outside.happened(unknown.call) else None
                await kernel.resolve(unknown.call, done, by=BOSS, reason="looked")
            case _:
                raise AssertionError(f"{standing.submission.id} waits for an operator: {wait}")

    async def settled_down(self) -> None:
        """Nothing is left over: no claim, no wait, no input that is on its way."""
        assert await self.ledger.scan() == ()

    async def log(self, address: Address = TALK) -> list[StoredBatch]:
        """A conversation's log."""
        return list((await self.conversations.read(address, limit=10_000)).batches)

    async def records(self, address: Address = TALK) -> list[Record]:
        """A conversation's records."""
        return [record for stored in await self.log(address) for record in stored.batch.records]

    async def state(self, address: Address = TALK) -> ConversationState:
        """What a conversation's log folds to."""
        return fold(await self.records(address), NEW)

    async def told(self) -> str:
        """Everything a later reader can tell about what was settled, whatever its submissions were called."""
        rows = await self.ledger.scan(unsettled=False, after=SequenceNumber(0), limit=1_000)
        text = repr(
            [
                (row.submission.kind, row.status, row.settlement and (row.settlement.run, row.settlement.settled))
                for row in rows
            ]
        )
        for address in sorted({row.submission.address.conversation for row in rows}):
            state = await self.state(Address(tenant=TALK.tenant, conversation=address))
            text += repr(tuple(state.history))
        for place, row in enumerate(rows):
            text = text.replace(row.submission.id, f"<{place}>")
        return text
