"""open_kernel and the Kernel: what an application embeds.

Decides how a run is asked for: which agent, on whose authority, on which model, in which conversation. It knows
nothing of what happens in a run, and holds no state but what was bound when it was opened.
"""

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from math import inf
from typing import Any, Final, TypeVar

import attrs
import trio

from triolet.kernel.addressing import address_for
from triolet.kernel.agent import Agent
from triolet.kernel.catalogue import check_catalogues
from triolet.kernel.conversation import Conversation, WhileBusy
from triolet.kernel.conversation_opening import own_conversation, reopen_suspended
from triolet.kernel.durable.accepting import DurableKernel
from triolet.kernel.durable.failpoints import Reached, unwatched
from triolet.kernel.policy import AS_DEFINED, Allowance
from triolet.kernel.preflight import MissingCapabilities
from triolet.kernel.results import RunResult, Suspended
from triolet.kernel.run_handle import RunHandle
from triolet.kernel.runtime import assemble
from triolet.kernel.telemetry.opening import watch_for
from triolet.kernel.telemetry.settings import PROCESS_WIDE, Telemetry
from triolet.kernel.threads import CLOSE_SECONDS, AbandonedCall
from triolet.ports.approval import Decision
from triolet.ports.capabilities import Capabilities
from triolet.ports.conversation_store import Address
from triolet.ports.errors import Misuse
from triolet.ports.identity import ANONYMOUS, AgentId, ConversationId, Principal, RequestId
from triolet.ports.inbox import Inbox
from triolet.ports.language_model import LanguageModel
from triolet.ports.ledger import UnknownSubmission

In = TypeVar("In")
Out = TypeVar("Out")

DELETE_SECONDS: Final = 10.0
"""How long dropping a one-shot run's conversation may take."""
DISCARD_SECONDS: Final = 5.0
"""How long forgetting answers that are on record may take."""


@attrs.define(kw_only=True)
class DuplicateAgent(Misuse):
    """Two agents of one kernel share an id."""

    agent: str

    @property
    def message(self) -> str:
        """Which id."""
        return f"two agents have the id {self.agent!r}"


@attrs.define(kw_only=True)
class InvalidCloseSeconds(Misuse):
    """Closing waits for 0 seconds or more, and not for ever."""

    seconds: float

    @property
    def message(self) -> str:
        """What was given."""
        return f"close_seconds is 0 or more and finite, not {self.seconds:g}"


class Kernel(DurableKernel):
    """Runs agents. Opened by `open_kernel`; every run lives in the scope of whoever asked for it (RUN-007).

    What is submitted lives in the stores instead, and is worked on by whoever opens `workers`.
    """

    @property
    def abandoned(self) -> tuple[AbandonedCall, ...]:
        """The calls whose synchronous handlers run on although their time was up or their run was stopped.

        No thread can be stopped from outside: such a one keeps its place among `max_threads` until it ends, and what it
        returns is dropped. Once the kernel's scope is left, these are the threads that did not end within
        `close_seconds`; an effect of theirs may still come. (RUN-009)
        """
        return self._runtime.threads.abandoned

    async def run(
        self,
        agent: Agent[In, Out],
        value: In,
        *,
        principal: Principal = ANONYMOUS,
        author: str | None = None,
        model: LanguageModel | None = None,
        allowance: Allowance = AS_DEFINED,
    ) -> RunResult[Out]:
        """Run `agent` once on `value`, in a conversation of its own that is dropped when the run has ended.

        To keep what was said, or to go on, use `conversation`. `allowance` may only take off what the agent's policy
        allows (RUN-021). Raises `UnknownAgent`, what is wrong with the
        input, or an error of a port; a run that fails or is aborted is a result, not an exception. Cancelling
        the caller seals the run first (RUN-005).
        """
        self._runtime.check_known(agent)
        address = address_for(self._runtime, None, principal)
        conversation: Conversation | None = None
        try:
            conversation = await self._own_fresh(address, principal)
            return await conversation.run(agent, value, model=model, author=author, allowance=allowance)
        finally:
            await self._drop_unless_suspended(conversation, address)

    @asynccontextmanager
    async def stream(
        self,
        agent: Agent[In, Out],
        value: In,
        *,
        principal: Principal = ANONYMOUS,
        author: str | None = None,
        model: LanguageModel | None = None,
        allowance: Allowance = AS_DEFINED,
    ) -> AsyncGenerator[RunHandle[Out]]:
        """As `run`, observed: the handle gives events while they happen, and the result.

        Leaving the scope ends the run.
        """
        self._runtime.check_known(agent)
        address = address_for(self._runtime, None, principal)
        conversation: Conversation | None = None
        try:
            conversation = await self._own_fresh(address, principal)
            async with conversation.stream(agent, value, model=model, author=author, allowance=allowance) as handle:
                yield handle
        finally:
            await self._drop_unless_suspended(conversation, address)

    @asynccontextmanager
    async def conversation(
        self,
        id: ConversationId | str | None = None,  # noqa: A002 -- it is what the thing is called
        *,
        principal: Principal = ANONYMOUS,
        while_busy: WhileBusy = "reject",
    ) -> AsyncGenerator[Conversation]:
        """Own a conversation that spans runs: a new one, or the one of this id within the principal's tenant.

        Opening one that somebody else has open fences them; a run that was left open is settled as lost. With
        `while_busy` ``queue`` a second run waits for the first, in order; with ``reject`` it is refused.
        """
        conversation = await own_conversation(
            self._runtime,
            address_for(self._runtime, id, principal),
            principal=principal,
            while_busy=while_busy,
            fresh=id is None,
        )
        try:
            yield conversation
        finally:
            conversation.close()

    async def answer(self, request: RequestId, decision: Decision) -> None:
        """Store an answer for a suspended run. In any order, one by one (APPR-005).

        `resume` puts it on record, or a worker does where the run was submitted: `decision.by` then names its tenant.
        Raises `AlreadyAnswered` or `CommandReused` for another answer than the first; `MissingCapabilities` where no
        inbox is bound. An answer that fits no request, or not what was asked, is never honoured.
        """
        if self._durable is not None:
            with suppress(UnknownSubmission):
                await self.answer_submitted(request, decision)
                return
        await self._inbox().post(request, decision)

    async def resume(self, suspended: Suspended) -> RunResult[Any]:
        """Go on with a suspended run as a new attempt, on the answers that are there; the model is not asked again.

        What is still unanswered is put to the desk once more, and the run may be suspended again. Raises `NotSuspended`
        if it does not wait under this suspension any more; `UnknownAgent` or `DefinitionChanged` if the kernel does not
        have the agent exactly as it was when the run started: then everything stays as it is.
        """
        inbox = self._inbox()
        requests = tuple(request.id for request in suspended.requests)
        conversation, opening = await reopen_suspended(self._runtime, suspended)
        agent = self._runtime.agent_of(conversation.open_run)
        answers = await inbox.take(requests)
        address = Address(tenant=suspended.tenant, conversation=suspended.conversation)
        try:
            return await conversation.resume(agent, attrs.evolve(opening, answers=answers))
        finally:
            # Not before the attempt is on record, and with it what it made of the answers: until then they are all
            # there is, for whoever resumes after this or in its place.
            if conversation.attempted >= opening.epoch:
                with trio.move_on_after(DISCARD_SECONDS, shield=True):
                    await inbox.discard(tuple(answers))
            if suspended.one_shot:
                await self._drop_unless_suspended(conversation, address)

    def _inbox(self) -> Inbox:
        inbox = self._runtime.capabilities.inbox
        if inbox is None:
            raise MissingCapabilities(missing=(("inbox", "answers"),))
        return inbox

    async def _own_fresh(self, address: Address, principal: Principal) -> Conversation:
        return await own_conversation(
            self._runtime, address, principal=principal, while_busy="reject", fresh=True, one_shot=True
        )

    async def _drop_unless_suspended(self, conversation: Conversation | None, address: Address) -> None:
        # Shielded: whoever cancels a one-shot run must not leave its conversation behind.
        if conversation is not None and conversation.suspended is not None:
            return
        with trio.move_on_after(DELETE_SECONDS, shield=True):
            await self._runtime.conversations.delete(address)


@asynccontextmanager
async def open_kernel(
    *,
    agents: Iterable[Agent[Any, Any]],
    capabilities: Capabilities,
    groups: Mapping[str, int] | None = None,
    max_threads: int = 16,
    close_seconds: float = CLOSE_SECONDS,
    telemetry: Telemetry = PROCESS_WIDE,
    reached: Reached = unwatched,
) -> AsyncGenerator[Kernel]:
    """Open a kernel for these agents on these capabilities.

    `groups` sizes the concurrency groups that tools name (RUN-009); `max_threads` bounds the threads of plain
    functions; `telemetry` says what OpenTelemetry is told (CAP-013); `reached` is called at each failpoint of accepted
    work, for tests that kill their process. Acquires nothing outside: the host owns what it
    bound, and closes it after the kernel. Leaving the scope waits up to `close_seconds` (5) for threads that calls have
    left behind; `Kernel.abandoned` says which go on. Raises `MissingCapabilities` naming everything that is missing
    (CAP-002), `DuplicateAgent`, `DuplicateSource`, `InvalidCloseSeconds`; `ToolNameClash` where a tool source's tool
    and another have one name; `ToolSourceUnavailable`.
    """
    if not 0 <= close_seconds < inf:
        raise InvalidCloseSeconds(seconds=close_seconds)
    by_id: dict[AgentId, Agent[Any, Any]] = {}
    for agent in agents:
        if agent.id in by_id:
            raise DuplicateAgent(agent=agent.id)
        by_id[agent.id] = agent
    runtime = assemble(by_id, capabilities, groups or {}, max_threads, watch_for(telemetry))
    await check_catalogues(by_id.values(), runtime.capabilities)
    try:
        yield Kernel(runtime, reached)
    finally:
        await runtime.threads.close(close_seconds)
