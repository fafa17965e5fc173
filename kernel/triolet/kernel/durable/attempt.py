"""One attempt at accepted work: from a claim to a settlement, to a wait, or to whatever stopped it.

Decides from the log and the claim how the attempt opens (a new run, an open run, an ending that was reserved), and what
a run that did not end waits for. What happens in between is the interpreter's, and what a claim becomes after an error
is the worker's. (DUR-009, DUR-011, DUR-013, DUR-015, APPR-005)
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

import attrs
import trio

from triolet.kernel.agent import Agent
from triolet.kernel.durable.claimed_journal import ClaimedJournal, open_claimed_journal
from triolet.kernel.durable.first_request import first_request
from triolet.kernel.durable.found_out import resolutions_of
from triolet.kernel.durable.holding import Holding
from triolet.kernel.durable.verbs import DurableVerbs
from triolet.kernel.interpreter import Interpreter
from triolet.kernel.machine.advance import fold
from triolet.kernel.machine.decide import decide
from triolet.kernel.machine.decision import Refused
from triolet.kernel.machine.guards import open_run
from triolet.kernel.machine.observations import AbortWanted, AttemptResumed, Observation, RunRequested, Stopped
from triolet.kernel.machine.plan import next_action
from triolet.kernel.machine.recovery import uncertain
from triolet.kernel.runtime import Runtime
from triolet.kernel.scopes import open_plain_nursery
from triolet.kernel.trace import EventReader, EventSource
from triolet.ports.batch import decode_batch
from triolet.ports.conversation_store import Signals, Writer
from triolet.ports.events import Trace
from triolet.ports.identity import MICROSECONDS, Instant, SubmissionId
from triolet.ports.ledger import Answer, ApprovalWait, UnknownWait, Wait, run_of
from triolet.ports.records import Record, RunSettled

Observe = Callable[[EventReader], Awaitable[None]]
"""What a host does with the events of each attempt. What it raises ends its observing, and nothing else (RUN-010)."""
OBSERVE_SECONDS: Final = 1.0
"""How long an observer has for the last events after its attempt."""


@attrs.frozen(kw_only=True, weakref_slot=False)
class Waits:
    """The run is open and waits. At `until` time itself changes something."""

    waits: tuple[Wait, ...]
    until: Instant | None


class Attempt:
    """One claim's work."""

    def __init__(
        self, runtime: Runtime, verbs: DurableVerbs, holding: Holding, writer: Writer, observe: Observe | None
    ) -> None:
        self._runtime = runtime
        self._verbs = verbs
        self._holding = holding
        self._writer = writer
        self._observe = observe
        self._reconciled: frozenset[str] = frozenset()
        self.dealt_with: tuple[str, ...] = ()
        """The keys of the commands that this attempt took into account: on record, or about nothing that is open."""

    async def run(self) -> Waits | None:
        """Do the work. None: it is settled.

        Raises `Fenced` where the claim is over, `Corrupt` where the log cannot be read, `UnknownAgent` or
        `DefinitionChanged` where the run cannot be gone on with, `InputUnfit` where it cannot be begun, and what the
        ports raise; in each case what is on record is whole, and the next attempt goes on from there.
        """
        journal = await open_claimed_journal(self._verbs, self._holding, self._runtime.clock, self._writer)
        await self._reattach(journal)
        return await self._go_on(journal)

    async def _go_on(self, journal: ClaimedJournal) -> Waits | None:
        claim, state = self._holding.claim, journal.state
        run = run_of(claim.submission.id)
        if state.settled is not None and state.settled.run == run:
            # The log has the end, and the ledger was not told (DUR-015).
            await self._verbs.finalize(claim, state.settled)
            return None
        if claim.reserved is not None:
            await self._end_as_reserved(journal, claim.reserved)
            return None
        if state.run is not None and state.run.started.run != run:
            # Somebody without a claim began it, and is not its owner any more.
            await self._settle_lost(journal)
            state = journal.state
        self.dealt_with = tuple(command.key for command in claim.commands)
        if state.run is not None and self._holding.abort is not None:
            # Neither the agent nor its model is needed to end a run.
            await self._abort(journal, self._holding.abort)
            return None
        if state.run is None:
            # Now, since it is owned: once the run has settled, the next claim may come first.
            await journal.save_checkpoint()
            agent = self._runtime.known(claim.submission.agent)
            request = await first_request(self._runtime, agent, claim, aborted=self._holding.abort is not None)
            self._runtime.require_price(agent, self._runtime.model_for(agent, None), request.limits)
            return await self._drive(journal, agent, request)
        agent = self._runtime.agent_of(state.run.started)
        return await self._drive(journal, agent, await self._resumed(journal))

    async def _resumed(self, journal: ClaimedJournal) -> AttemptResumed:
        claim, run = self._holding.claim, open_run(journal.state)
        self._reconciled = frozenset(() if run.batch is None else uncertain(run.batch))
        return AttemptResumed(
            epoch=journal.epoch,
            worker=claim.worker,
            answers={
                command.act.request: command.act.decision
                for command in reversed(claim.commands)
                if isinstance(command.act, Answer)
            },
            resolutions=await resolutions_of(self._runtime.capabilities.reconciler, claim, run),
            at=self._runtime.clock.now(),
        )

    async def _drive(
        self, journal: ClaimedJournal, agent: Agent[Any, Any], opening: RunRequested | AttemptResumed
    ) -> Waits | None:
        runtime, address = self._runtime, journal.address
        trace = Trace(run=run_of(self._holding.claim.submission.id), conversation=address.conversation, agent=agent.id)
        source = EventSource(trace, runtime.clock, observed=self._observe is not None)
        interpreter = Interpreter(runtime, journal, agent, runtime.model_for(agent, None), source, self._holding)
        self._holding.stop = interpreter.request_stop
        if self._holding.abort is not None:
            interpreter.request_stop()
        deadline = opening.deadline if isinstance(opening, RunRequested) else open_run(journal.state).started.deadline
        seconds = None if deadline is None else max(0.0, (deadline - runtime.clock.now()) / MICROSECONDS)
        try:
            if self._observe is None:
                await interpreter.drive(opening, seconds=seconds)
            else:
                await self._observed(interpreter, opening, seconds, source.reader())
        finally:
            self._holding.stop = None
        return None if journal.state.run is None else self._waits(journal)

    async def _observed(
        self,
        interpreter: Interpreter,
        opening: RunRequested | AttemptResumed,
        seconds: float | None,
        events: EventReader,
    ) -> None:
        async with open_plain_nursery() as nursery:
            nursery.start_soon(self._watch, events)
            await interpreter.drive(opening, seconds=seconds)
            nursery.cancel_scope.deadline = trio.current_time() + OBSERVE_SECONDS

    async def _watch(self, events: EventReader) -> None:
        if self._observe is None:
            raise AssertionError("somebody observes")
        with suppress(Exception):  # whatever an observer runs into, it never decides a run
            await self._observe(events)

    def _waits(self, journal: ClaimedJournal) -> Waits:
        run, plan = open_run(journal.state), next_action(journal.state)
        rules, now = run.started.approval, self._runtime.clock.now()
        moments = [
            request.expires_at
            for request in plan.waits
            # Where silence leaves a request open, its time changes nothing.
            if request.expires_at is not None and rules.silence != "wait"
        ]
        if run.started.deadline is not None:
            moments.append(run.started.deadline)
        if self._runtime.capabilities.reconciler is not None and any(
            each.call not in self._reconciled for each in plan.unknown
        ):
            moments.append(now)
        return Waits(
            waits=(
                *(ApprovalWait(request=request, steerable=rules.steered == "deny") for request in plan.waits),
                *(UnknownWait(unknown=unknown) for unknown in plan.unknown),
            ),
            until=min(moments, default=None),
        )

    async def _reattach(self, journal: ClaimedJournal) -> None:
        """Tell the ledger which of the inputs that an earlier attempt was given are on record (DUR-016)."""
        joining = self._holding.claim.joining
        if not joining:
            return
        taken = {SubmissionId(id_) for id_, _ in journal.state.taken}
        known = tuple(each.id for each in joining if each.id in taken)
        if known:
            await self._verbs.mark_joined(self._holding.claim, known)
        if len(known) < len(joining):
            await self._verbs.revert(self._holding.claim)
            self._holding.heard(Signals(input_pending=True))

    async def _end_as_reserved(self, journal: ClaimedJournal, reserved: bytes) -> None:
        batch = decode_batch(reserved)
        settled = batch.records[-1]
        if not isinstance(settled, RunSettled):
            raise AssertionError("only a batch that ends a run is reserved")
        await journal.append(batch, fold(batch.records, journal.state))

    async def _abort(self, journal: ClaimedJournal, asked: AbortWanted) -> None:
        await self._record(journal, await self._resumed(journal), Stopped(cause="requested", asked=asked))

    async def _settle_lost(self, journal: ClaimedJournal) -> None:
        await self._record(journal, Stopped(cause="lost"))

    async def _record(self, journal: ClaimedJournal, *observations: Observation) -> None:
        run, state = open_run(journal.state).started.run, journal.state
        records: tuple[Record, ...] = ()
        for seen in observations:
            if state.run is None:  # an answer that came with the attempt has ended the run
                break
            decision = decide(state, seen)
            if isinstance(decision, Refused):
                raise AssertionError(decision.problem)
            records, state = (*records, *decision), fold(decision, state)
        await journal.append(journal.batch(run, records), state)
