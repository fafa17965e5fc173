"""The conversation handle: one writer over one log, one run at a time.

Decides what a second run meets while one is under way, and what becomes of a run that an earlier owner left open
(it is settled as lost before anything else happens). What a run does is the interpreter's.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal, TypeVar

import attrs
import trio

from triolet.kernel.agent import Agent
from triolet.kernel.interpreter import Interpreter
from triolet.kernel.journal import Journal, open_journal
from triolet.kernel.machine.advance import fold
from triolet.kernel.machine.decide import Refused, decide
from triolet.kernel.machine.observations import ConversationOpened, Observation, RunRequested, Stopped
from triolet.kernel.machine.state import NEW, ConversationState
from triolet.kernel.results import RunResult, result_of
from triolet.kernel.run_handle import RunHandle
from triolet.kernel.run_request import request_run
from triolet.kernel.runtime import Runtime
from triolet.kernel.scopes import open_plain_nursery
from triolet.kernel.trace import EventSource
from triolet.ports.batch import Batch
from triolet.ports.conversation_store import Address, ConversationExists, UnknownConversation, first_batch_id
from triolet.ports.errors import Conflict, Misuse
from triolet.ports.events import Trace
from triolet.ports.identity import ConversationId, Epoch, Principal
from triolet.ports.language_model import LanguageModel
from triolet.ports.messages import Message
from triolet.ports.records import Record

In = TypeVar("In")
Out = TypeVar("Out")

WhileBusy = Literal["reject", "queue"]


@attrs.define(kw_only=True)
class ConversationBusy(Conflict):
    """A run is under way in this conversation, and the handle rejects a second one. Nothing was recorded."""

    conversation: str

    @property
    def message(self) -> str:
        """Which conversation."""
        return f"a run is under way in conversation {self.conversation!r}"


@attrs.define(kw_only=True)
class ConversationClosed(Misuse):
    """The handle's scope was left."""

    conversation: str

    @property
    def message(self) -> str:
        """Which conversation."""
        return f"the handle on conversation {self.conversation!r} is closed"


class Conversation:
    """A conversation that this process owns until the handle's scope is left."""

    def __init__(self, runtime: Runtime, journal: Journal, principal: Principal, while_busy: WhileBusy) -> None:
        self._runtime = runtime
        self._journal = journal
        self._principal = principal
        self._while_busy: WhileBusy = while_busy
        # No lock: a run that is observed ends in another task than the one that asked for it.
        self._turnstile = trio.Semaphore(1)
        self._closed = False

    @property
    def id(self) -> ConversationId:
        """The conversation's identity."""
        return self._journal.address.conversation

    @property
    def history(self) -> Sequence[Message]:
        """What a model would be shown now: an immutable view of what is on record."""
        return self._journal.state.history

    async def run(
        self, agent: Agent[In, Out], value: In, *, model: LanguageModel | None = None, author: str | None = None
    ) -> RunResult[Out]:
        """Run `agent` on `value` to its end.

        Raises what `request_run` raises, with nothing recorded; `ConversationBusy` under ``reject``. Cancelling
        the caller seals the run, settles it as aborted, and propagates.
        """
        await self._enter()
        try:
            interpreter, source, request = await self._prepare(agent, value, model, author, observed=False)
            await interpreter.drive(request, seconds=agent.policy.max_seconds)
        finally:
            self._turnstile.release()
        if source.terminal is None:
            raise AssertionError("a run that ends has its terminal event, or raised")
        return result_of(source.terminal, agent.output_codec)

    @asynccontextmanager
    async def stream(
        self, agent: Agent[In, Out], value: In, *, model: LanguageModel | None = None, author: str | None = None
    ) -> AsyncGenerator[RunHandle[Out]]:
        """Start `agent` on `value` and observe it. Leaving the scope ends the run (RUN-010).

        What `run` raises is raised here, on entering or leaving.
        """
        await self._enter()
        try:
            interpreter, source, request = await self._prepare(agent, value, model, author, observed=True)
        except BaseException:
            self._turnstile.release()
            raise
        handle = RunHandle(interpreter, source, agent.output_codec)

        async def drive() -> None:
            try:
                await interpreter.drive(request, seconds=agent.policy.max_seconds)
                handle.mark_ended()
            finally:
                # The conversation is free when the run has ended, however long its observer stays.
                self._turnstile.release()

        async with open_plain_nursery() as nursery:
            nursery.start_soon(drive)
            try:
                yield handle
            finally:
                handle.cancel()

    def close(self) -> None:
        """Refuse further runs. Called on leaving the scope."""
        self._closed = True

    async def settle_lost_run(self) -> None:
        """Settle as lost what an earlier owner left open."""
        state = self._journal.state
        if state.run is None:
            return
        records = _decided(state, Stopped(cause="lost"))
        batch = self._journal.batch(state.run.started.run, records)
        await self._journal.append(batch, fold(records, state))

    async def _enter(self) -> None:
        if self._while_busy == "queue":
            await self._turnstile.acquire()
        else:
            try:
                self._turnstile.acquire_nowait()
            except trio.WouldBlock:
                raise ConversationBusy(conversation=self.id) from None
        if self._closed:
            self._turnstile.release()
            raise ConversationClosed(conversation=self.id)

    async def _prepare(
        self, agent: Agent[Any, Any], value: Any, model: LanguageModel | None, author: str | None, *, observed: bool
    ) -> tuple[Interpreter, EventSource, RunRequested]:
        runtime = self._runtime
        runtime.check_known(agent)
        request = await request_run(
            runtime, agent, value, principal=self._principal, author=author, epoch=self._journal.epoch
        )
        trace = Trace(run=request.run, conversation=self.id, agent=agent.id)
        source = EventSource(trace, runtime.clock, observed=observed)
        interpreter = Interpreter(runtime, self._journal, agent, runtime.model_for(agent, model), source)
        return interpreter, source, request


async def own_conversation(
    runtime: Runtime, address: Address, *, principal: Principal, while_busy: WhileBusy, fresh: bool
) -> Conversation:
    """Take ownership of a conversation; one that is not there yet is created. The caller closes it.

    `fresh` says that it cannot be there. From here on any earlier handle on it is fenced.
    """
    journal = None if fresh else await _open_existing(runtime, address)
    if journal is None:
        try:
            state = await _create(runtime, address)
        except ConversationExists:
            if fresh:
                raise
            # Somebody else opened it at the same moment, and was first.
            state = NEW
        journal = await open_journal(runtime.conversations, runtime.clock, address, state=state)
    conversation = Conversation(runtime, journal, principal, while_busy)
    await conversation.settle_lost_run()
    return conversation


async def _open_existing(runtime: Runtime, address: Address) -> Journal | None:
    try:
        return await open_journal(runtime.conversations, runtime.clock, address)
    except UnknownConversation:
        return None


async def _create(runtime: Runtime, address: Address) -> ConversationState:
    seen = ConversationOpened(conversation=address.conversation, tenant=address.tenant)
    records = _decided(NEW, seen)
    batch = Batch(
        id=first_batch_id(address.conversation), run=None, epoch=Epoch(0), at=runtime.clock.now(), records=records
    )
    await runtime.conversations.create(address, batch)
    return fold(records)


def _decided(state: ConversationState, seen: Observation) -> tuple[Record, ...]:
    decision = decide(state, seen)
    if isinstance(decision, Refused):
        raise AssertionError(decision.problem)
    return decision
