"""The durable half of a kernel: submit, wait, answer, resolve, abort, retry, and the workers.

Decides how each of these is asked for. What becomes of work is the workers'; what is told to it counts once an attempt
has put it on record. Everything here needs a ledger, and says so where none is bound. (DUR-001, DUR-012, DUR-017)
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import trio

from triolet.kernel.addressing import address_for
from triolet.kernel.agent import Agent
from triolet.kernel.durable.attempt import Observe
from triolet.kernel.durable.failpoints import Reached
from triolet.kernel.durable.submitting import settlement_of, submit
from triolet.kernel.durable.verbs import DurableVerbs
from triolet.kernel.durable.workers import DEFAULT_WORKERS, WorkerPolicy, Workers
from triolet.kernel.policy import AS_DEFINED, Allowance
from triolet.kernel.preflight import MissingCapabilities
from triolet.kernel.results import RunResult
from triolet.kernel.runtime import Runtime
from triolet.kernel.scopes import open_plain_nursery
from triolet.ports.approval import Decision, call_of
from triolet.ports.identity import (
    ANONYMOUS,
    CallId,
    ConversationId,
    Principal,
    RequestId,
    SubmissionId,
    TenantId,
    run_of_call,
)
from triolet.ports.ledger import Abort, Act, Answer, Command, Receipt, Resolve, Retry, Standing, SubmissionKind
from triolet.ports.outcomes import Outcome
from triolet.ports.text import require_clean

In = TypeVar("In")
Out = TypeVar("Out")


class DurableKernel:
    """What a kernel does with accepted work."""

    def __init__(self, runtime: Runtime, reached: Reached) -> None:
        self._runtime = runtime
        ledger = runtime.capabilities.ledger
        self._durable = None if ledger is None else DurableVerbs(ledger, runtime.conversations, reached)

    async def submit(
        self,
        agent: Agent[In, Out],
        value: In,
        *,
        conversation: ConversationId | str | None = None,
        kind: SubmissionKind = "run",
        key: str | None = None,
        principal: Principal = ANONYMOUS,
        author: str | None = None,
        allowance: Allowance = AS_DEFINED,
    ) -> Receipt:
        """Accept work: once this returns, it will be settled, whatever crashes (DUR-001, DUR-002).

        It runs in `conversation` (a new one by default), behind everything accepted for it before. ``steering`` joins
        the run that is active there before its next model request, ``follow-up`` when that run would otherwise stop;
        where the run ends first, either becomes a run of `agent` of its own (STEER-001, STEER-002). `key` (1 to 200
        characters) is the caller's own for this work: submitting the same again gives the same receipt.

        Raises `UnknownAgent`, what is wrong with the input, `KeyReused`, `NoActiveRun`, `QueueFull`, or an error of
        the stores, which says whether the work may have been accepted: submitting again under the same key tells.
        """
        address = address_for(self._runtime, conversation, principal)
        return await submit(
            self._runtime,
            self._verbs,
            agent,
            value,
            address=address,
            kind=kind,
            key=key,
            principal=principal,
            author=author,
            allowance=allowance,
        )

    async def settlement(self, receipt: Receipt) -> RunResult[Any]:
        """Wait until accepted work has its end, and return it, from whichever process.

        Cancelling this only stops the waiting. Raises `UnknownSubmission`; `UnknownAgent` where the kernel does not
        have the agent whose answer is to be decoded.
        """
        return await settlement_of(self._runtime, self._verbs, receipt)

    async def standing(self, receipt: Receipt) -> Standing:
        """Where accepted work stands now: whether it waits, for what, and how often it was attempted."""
        return await self._verbs.ledger.lookup(receipt.tenant, receipt.submission)

    async def abort(self, receipt: Receipt, *, by: Principal, reason: str, key: str = "abort") -> Standing:
        """Ask for the end of accepted work. An outcome that is on record already stands (DUR-012)."""
        return await self._tell(receipt.tenant, receipt.submission, Abort(), key, by, reason)

    async def retry(self, receipt: Receipt, *, by: Principal, reason: str, key: str) -> Standing:
        """Try again what waits for an operator, with a fresh budget of attempts (DUR-014)."""
        return await self._tell(receipt.tenant, receipt.submission, Retry(), key, by, reason)

    async def resolve(self, call: CallId, outcome: Outcome | None, *, by: Principal, reason: str) -> Standing:
        """Say what became of a call whose outcome is unknown: its result, or None where it surely never started.

        `by` is answerable, and names the tenant (DUR-017, SEC-011). What fits no call that waits is never honoured.
        """
        submission = SubmissionId(run_of_call(call))
        return await self._tell(
            by.tenant, submission, Resolve(call=call, outcome=outcome), f"resolve {call}", by, reason
        )

    async def answer_submitted(self, request: RequestId, decision: Decision) -> Standing:
        """Leave an answer for an accepted run's request. Raises `UnknownSubmission`, `CommandReused`."""
        submission = SubmissionId(run_of_call(call_of(request)))
        act = Answer(request=request, decision=decision)
        return await self._tell(decision.by.tenant, submission, act, f"answer {request}", decision.by, decision.reason)

    @asynccontextmanager
    async def workers(
        self, *, name: str | None = None, policy: WorkerPolicy = DEFAULT_WORKERS, observe: Observe | None = None
    ) -> AsyncGenerator[Workers]:
        """Work on what was accepted for this kernel's agents, here, for as long as the scope lasts.

        `name` stands in the records; it may be shared. `observe` gets the events of each attempt. Leaving the scope
        claims nothing more, waits up to `policy.drain_seconds` for attempts under way, and gives back what has not
        ended: another process goes on with it (DUR-003). Cancelling does the same at once.
        """
        runtime = self._runtime
        who = runtime.ids.new("session") if name is None else require_clean(name, "name")
        workers = Workers(runtime, self._verbs, who, policy, observe)
        async with open_plain_nursery() as nursery:
            nursery.start_soon(workers.serve)
            yield workers
            workers.drain()
            nursery.cancel_scope.deadline = trio.current_time() + policy.drain_seconds

    async def _tell(
        self, tenant: TenantId, submission: SubmissionId, act: Act, key: str, by: Principal, reason: str
    ) -> Standing:
        command = Command(key=key, act=act, by=by, reason=require_clean(reason, "reason"), at=self._runtime.clock.now())
        return await self._verbs.post(tenant, submission, command)

    @property
    def _verbs(self) -> DurableVerbs:
        if self._durable is None:
            raise MissingCapabilities(missing=(("ledger", "accepted work"),))
        return self._durable
