"""The conversation handle: one writer over one log, one run at a time.

Decides what a second run meets while one is under way, what becomes of a run that an earlier owner left open (settled
as lost, unless it waits for answers), and whether input for a busy conversation is admitted. What a run does is the
interpreter's.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal, TypeVar

import attrs
import trio

from triolet.kernel.agent import Agent
from triolet.kernel.interpreter import Interpreter
from triolet.kernel.journal import Journal
from triolet.kernel.machine.advance import fold
from triolet.kernel.machine.decide import decide
from triolet.kernel.machine.decision import Refused
from triolet.kernel.machine.guards import open_run
from triolet.kernel.machine.observations import AttemptResumed, GrantEnded, Observation, RunRequested, Stopped
from triolet.kernel.machine.plan import next_action
from triolet.kernel.machine.shown import shown
from triolet.kernel.offers import InputRefused, offered
from triolet.kernel.policy import AS_DEFINED, Allowance
from triolet.kernel.preflight import MissingCapabilities
from triolet.kernel.rebuilding import summary_between_runs
from triolet.kernel.results import Owner, RunResult, Suspended, result_of
from triolet.kernel.run_handle import RunHandle
from triolet.kernel.run_request import request_run
from triolet.kernel.runtime import Runtime
from triolet.kernel.scopes import open_plain_nursery
from triolet.kernel.tenure import OwnTenure
from triolet.kernel.trace import EventSource
from triolet.ports.admission import Admitted, InputKind
from triolet.ports.errors import Conflict, Misuse
from triolet.ports.events import Trace
from triolet.ports.identity import MICROSECONDS, ConversationId, Epoch, GrantId, Principal, RunId
from triolet.ports.language_model import LanguageModel
from triolet.ports.messages import Message
from triolet.ports.records import GrantGiven, RunStarted
from triolet.ports.text import require_clean

In = TypeVar("In")
Out = TypeVar("Out")

WhileBusy = Literal["reject", "queue"]


@attrs.define(kw_only=True)
class ConversationBusy(Conflict):
    """A run is under way in this conversation, or waits for answers. Nothing was recorded."""

    conversation: str
    suspended: bool = False

    @property
    def message(self) -> str:
        """Which conversation."""
        what = "waits for approval" if self.suspended else "is under way"
        return f"a run {what} in conversation {self.conversation!r}"


@attrs.define(kw_only=True)
class ConversationClosed(Misuse):
    """The handle's scope was left."""

    conversation: str

    @property
    def message(self) -> str:
        """Which conversation."""
        return f"the handle on conversation {self.conversation!r} is closed"


@attrs.define(kw_only=True)
class UnknownGrant(Misuse):
    """There is no such grant in this conversation, or not any more."""

    grant: str

    @property
    def message(self) -> str:
        """Which grant."""
        return f"no grant {self.grant!r} stands"


class Conversation:
    """A conversation that this process owns until the handle's scope is left."""

    __slots__ = (
        "_active",
        "_closed",
        "_journal",
        "_one_shot",
        "_principal",
        "_runtime",
        "_turnstile",
        "_while_busy",
    )

    def __init__(
        self,
        runtime: Runtime,
        journal: Journal,
        principal: Principal,
        while_busy: WhileBusy,
        *,
        one_shot: bool = False,
    ) -> None:
        self._one_shot = one_shot
        self._runtime = runtime
        self._journal = journal
        self._principal = principal
        self._while_busy: WhileBusy = while_busy
        # No lock: a run that is observed ends in another task than the one that asked for it.
        self._turnstile = trio.Semaphore(1)
        self._closed = False
        self._active: Interpreter | None = None

    @property
    def id(self) -> ConversationId:
        """The conversation's identity."""
        return self._journal.address.conversation

    @property
    def history(self) -> Sequence[Message]:
        """All messages that are on record: an immutable view, whatever was compacted (CAP-007)."""
        return self._journal.state.history

    @property
    def context(self) -> Sequence[Message]:
        """What a model would be shown now: the history, or a summary and the rest of it."""
        return shown(self._journal.state.history, self._journal.state.view)

    @property
    def suspended(self) -> Suspended | None:
        """The run that waits for answers here, if one does: what `kernel.resume` takes."""
        run, waits = self._journal.state.run, next_action(self._journal.state).waits
        if run is None or not waits or self._active is not None:
            return None
        return Suspended(
            run=run.started.run,
            conversation=self.id,
            usage=run.usage,
            turns=run.turn,
            tenant=self._journal.address.tenant,
            epoch=self._journal.epoch,
            requests=waits,
            one_shot=self._one_shot,
        )

    @property
    def open_run(self) -> RunStarted:
        """How the open run was started; there is one while a run is under way or waits for answers."""
        return open_run(self._journal.state).started

    @property
    def attempted(self) -> Epoch:
        """The epoch of the last attempt that is on record."""
        return self._journal.state.epoch

    @property
    def grants(self) -> tuple[GrantGiven, ...]:
        """The grants that stand in this conversation; those whose time is up are among them until they are revoked."""
        return self._journal.state.grants

    async def run(
        self,
        agent: Agent[In, Out],
        value: In,
        *,
        model: LanguageModel | None = None,
        author: str | None = None,
        allowance: Allowance = AS_DEFINED,
    ) -> RunResult[Out]:
        """Run `agent` on `value` to its end. `allowance` may only take off what the agent's policy allows (RUN-021).

        Raises what `request_run` raises, with nothing recorded; `ConversationBusy` under ``reject``. Cancelling
        the caller seals the run, settles it as aborted, and propagates.
        """
        await self._enter()
        try:
            request = await self._request(agent, value, author, allowance, model)
            return await self._drive(agent, request, model, _seconds(agent, allowance))
        finally:
            self._turnstile.release()

    async def resume(self, agent: Agent[Any, Out], opening: AttemptResumed) -> RunResult[Out]:
        """Go on with the suspended run as a new attempt. For `kernel.resume`, which has checked that it may."""
        await self._enter(resuming=True)
        try:
            deadline = self.open_run.deadline
            seconds = None if deadline is None else max(0.0, (deadline - self._runtime.clock.now()) / MICROSECONDS)
            return await self._drive(agent, opening, None, seconds)
        finally:
            self._turnstile.release()

    @asynccontextmanager
    async def stream(
        self,
        agent: Agent[In, Out],
        value: In,
        *,
        model: LanguageModel | None = None,
        author: str | None = None,
        allowance: Allowance = AS_DEFINED,
    ) -> AsyncGenerator[RunHandle[Out]]:
        """Start `agent` on `value` and observe it. Leaving the scope ends the run (RUN-010).

        What `run` raises is raised here, on entering or leaving.
        """
        await self._enter()
        try:
            request = await self._request(agent, value, author, allowance, model)
            interpreter, source = self._interpreter(agent, request.run, model, observed=True)
        except BaseException:
            self._turnstile.release()
            raise
        handle = RunHandle(interpreter, source, agent, self._owner, self)

        async def drive() -> None:
            try:
                await interpreter.drive(request, seconds=_seconds(agent, allowance))
                handle.mark_ended()
            finally:
                # The conversation is free when the run has ended, however long its observer stays.
                self._active = None
                self._turnstile.release()

        async with open_plain_nursery() as nursery:
            nursery.start_soon(drive)
            try:
                yield handle
            finally:
                handle.cancel()

    async def steer(self, text: str, *, author: str | None = None, key: str | None = None) -> Admitted | InputRefused:
        """Offer input that enters before the run's next model request (STEER-001, RUN-014).

        `key` is the caller's own for this input: offering it again gives the same answer. Refused unless a run is under
        way or waits for answers. Raises `BrokenText`, `InvalidValue`, `OfferReused`, `QueueFull`;
        `MissingCapabilities` where no input queue is bound.
        """
        return await self._admit("steering", text, author, key)

    async def follow_up(
        self, text: str, *, author: str | None = None, key: str | None = None
    ) -> Admitted | InputRefused:
        """Offer input that enters when the run would otherwise stop (STEER-002, RUN-015). Otherwise as `steer`."""
        return await self._admit("follow-up", text, author, key)

    async def revoke(self, grant: GrantId, *, reason: str) -> None:
        """Take a grant back: calls that it covered ask again.

        Raises `UnknownGrant`; `ConversationBusy` during a run.
        """
        await self._enter(resuming=True)
        try:
            state = self._journal.state
            if all(standing.grant != grant for standing in state.grants):
                raise UnknownGrant(grant=grant[:200])
            await self._record(GrantEnded(grant=grant, by=self._principal, reason=require_clean(reason, "reason")))
        finally:
            self._turnstile.release()

    async def compact(
        self, agent: Agent[Any, Any], *, model: LanguageModel | None = None, rebuild: bool = False
    ) -> None:
        """Show a model a summary of everything but the newest turn from now on; the log keeps it all (CAP-007).

        By the agent's rules about summaries, on the run's model or the host's compactor. With `rebuild` an earlier
        summary is made again from the log. Raises `NotCompacted`, with nothing recorded; `ConversationBusy` during a
        run, which compacts by itself, or while another compaction is under way under ``reject``.
        """
        await self._enter()
        try:
            self._runtime.check_known(agent)
            made = await summary_between_runs(
                self._runtime,
                agent,
                self._runtime.model_for(agent, model),
                self._journal.address,
                self._journal.state,
                rebuild=rebuild,
            )
            await self._record(made)
        finally:
            self._turnstile.release()

    def close(self) -> None:
        """Refuse further runs. Called on leaving the scope."""
        self._closed = True

    async def settle_lost_run(self) -> None:
        """Settle as lost what an earlier owner left open; a run that waits for answers is not lost."""
        state = self._journal.state
        if state.run is not None and not next_action(state).waits:
            await self._record(Stopped(cause="lost"))

    @property
    def _owner(self) -> Owner:
        return Owner(tenant=self._journal.address.tenant, epoch=self._journal.epoch, one_shot=self._one_shot)

    async def _enter(self, *, resuming: bool = False) -> None:
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
        if self._journal.state.run is not None and not resuming:
            self._turnstile.release()
            raise ConversationBusy(conversation=self.id, suspended=True)

    async def _request(
        self,
        agent: Agent[Any, Any],
        value: Any,
        author: str | None,
        allowance: Allowance,
        model: LanguageModel | None,
    ) -> RunRequested:
        runtime = self._runtime
        runtime.check_known(agent)
        request = await request_run(
            runtime,
            agent,
            value,
            principal=self._principal,
            author=author,
            epoch=self._journal.epoch,
            allowance=allowance,
        )
        runtime.require_price(agent, runtime.model_for(agent, model), request.limits)
        return request

    async def _drive(
        self,
        agent: Agent[Any, Out],
        opening: RunRequested | AttemptResumed,
        model: LanguageModel | None,
        seconds: float | None,
    ) -> RunResult[Out]:
        run = opening.run if isinstance(opening, RunRequested) else self.open_run.run
        interpreter, source = self._interpreter(agent, run, model, observed=False)
        try:
            await interpreter.drive(opening, seconds=seconds)
        finally:
            self._active = None
        if source.terminal is None:
            raise AssertionError("an attempt that ends has its terminal event, or raised")
        return result_of(source.terminal, agent, self._owner)

    def _interpreter(
        self, agent: Agent[Any, Any], run: RunId, model: LanguageModel | None, *, observed: bool
    ) -> tuple[Interpreter, EventSource]:
        runtime = self._runtime
        source = EventSource(Trace(run=run, conversation=self.id, agent=agent.id), runtime.clock, observed=observed)
        tenure = OwnTenure(runtime.capabilities.inputs)
        self._active = Interpreter(runtime, self._journal, agent, runtime.model_for(agent, model), source, tenure)
        return self._active, source

    async def _admit(self, kind: InputKind, text: str, author: str | None, id_: str | None) -> Admitted | InputRefused:
        queue = self._runtime.capabilities.inputs
        if queue is None:
            raise MissingCapabilities(missing=(("inputs", kind),))
        offer = offered(self._runtime, kind, text, self._principal, author, id_)
        if await queue.lookup(self._journal.address, offer) is not None:
            # The same again has its place still, whatever the run does; other content is refused.
            return await queue.admit(self._journal.address, offer)
        active = self._active
        if active is not None and active.state.run is not None:
            with active.joining.coming():
                return await queue.admit(self._journal.address, offer)
        if self._closed or self.suspended is None:
            return InputRefused(offer=offer, reason="no run is under way, and none waits for answers")
        return await queue.admit(self._journal.address, offer)

    async def _record(self, seen: Observation) -> None:
        state = self._journal.state
        decision = decide(state, seen)
        if isinstance(decision, Refused):
            raise AssertionError(decision.problem)
        run = RunId(self._runtime.ids.new("run")) if state.run is None else state.run.started.run
        await self._journal.append(self._journal.batch(run, decision), fold(decision, state))


def _seconds(agent: Agent[Any, Any], allowance: Allowance) -> float | None:
    return agent.policy.tightened(allowance).max_seconds
