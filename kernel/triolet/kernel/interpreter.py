"""The interpreter: the one loop that turns plans into work, and work into records (RUN-001).

    plan -> work -> observation -> decide -> records -> commit -> events -> plan -> ...

Decides when to commit: as late as possible. What can be answered without waiting is answered on the state that
the records *will* lead to, and becomes part of the same batch; only then is the batch appended, and only after that
does anybody see it. It holds no rule of its own about what follows what, and builds no record.
"""

from typing import Any, Literal

import attrs
import trio

from triolet.kernel.accounts import Accounts
from triolet.kernel.agent import Agent
from triolet.kernel.answer import judge_answer
from triolet.kernel.approval_desk import ApprovalDesk
from triolet.kernel.attempt_errors import MachineRefused, SealTimedOut
from triolet.kernel.call_batch import BatchScope
from triolet.kernel.catalogue import Catalogue
from triolet.kernel.joining import InputJoining
from triolet.kernel.journal import Journal
from triolet.kernel.machine.advance import advance
from triolet.kernel.machine.compaction import ClearResults, GiveUp, Measured, Summarize
from triolet.kernel.machine.decide import decide
from triolet.kernel.machine.decision import Refused
from triolet.kernel.machine.guards import open_run
from triolet.kernel.machine.observations import (
    ApprovalAnswered,
    ApprovalSilent,
    AttemptResumed,
    BudgetSpent,
    ContextFull,
    InputsOffered,
    Observation,
    ResultsDue,
    RunRequested,
    SteeredWhileWaiting,
    Stopped,
)
from triolet.kernel.machine.plan import (
    AskModel,
    JudgeAnswer,
    JudgeCalls,
    MeasureRequest,
    Plan,
    ReportBudgetSpent,
    next_action,
)
from triolet.kernel.machine.state import ConversationState
from triolet.kernel.runtime import Runtime
from triolet.kernel.seam import Seam
from triolet.kernel.tenure import Tenure
from triolet.kernel.trace import EventSource
from triolet.ports.approval import ApprovalRequest
from triolet.ports.batch import Batch
from triolet.ports.errors import TrioletError
from triolet.ports.identity import CallId, Instant
from triolet.ports.language_model import LanguageModel
from triolet.ports.outcomes import Outcome
from triolet.ports.records import AbortReason, InputTaken, Record

SEAL_SECONDS = 10.0
"""How long sealing a stopped run may take before it is given up; the log is then open, and whoever opens the
conversation next settles the run as lost."""


class Interpreter:
    """One attempt at one run."""

    __slots__ = (
        "_accounts",
        "_agent",
        "_batch_scope",
        "_catalogue",
        "_desk",
        "_drained",
        "_journal",
        "_pending",
        "_planned",
        "_requested",
        "_run",
        "_runtime",
        "_scope",
        "_seam",
        "_source",
        "_state",
        "_tenure",
        "_unconfirmed",
        "_watch",
        "joining",
    )

    def __init__(
        self,
        runtime: Runtime,
        journal: Journal,
        agent: Agent[Any, Any],
        model: LanguageModel,
        source: EventSource,
        tenure: Tenure,
    ) -> None:
        self._tenure = tenure
        self._runtime = runtime
        self._watch = runtime.watch
        self._journal = journal
        self._source = source
        self._run = source.trace.run
        self._agent = agent
        # A suspended run's last message has calls whose results are still to come: it is looked at again with them.
        behind = 1 if journal.state.phase == "batch" else 0
        checked = len(journal.state.history) - behind
        self._accounts = Accounts(runtime.capabilities.budgets, journal.address, agent.id, self._run, journal.epoch)
        self._catalogue = catalogue = Catalogue(agent, runtime.capabilities, runtime.groups)
        self._seam = Seam(runtime, agent, model, source, journal.address, self._accounts, catalogue, checked=checked)
        self._batch_scope = BatchScope(runtime, agent, source, journal.address.tenant, self._accounts, catalogue)
        self._desk = ApprovalDesk(runtime, next_action(journal.state).waits)
        self.joining = InputJoining(tenure.inputs, journal)
        """How waiting input gets into this run."""
        self._drained = 0
        # The state that the undecided future builds on; equal to the journal's once all is on record.
        self._state: ConversationState = journal.state
        self._planned: tuple[ConversationState, Measured | None, Plan] | None = None
        self._pending: list[tuple[ConversationState, Record]] = []
        self._unconfirmed: Batch | None = None
        self._scope = trio.CancelScope()
        self._requested = False

    def request_stop(self) -> None:
        """Ask the run to end: it seals and settles as aborted. Idempotent, and too late once it has settled."""
        self._requested = True
        self._scope.cancel()

    async def drive(self, opening: RunRequested | AttemptResumed, *, seconds: float | None) -> None:
        """Run to the settlement, or until nobody in this process can go on: then the run is suspended.

        On cancellation from outside: seal, settle as aborted, and let it propagate.
        """
        address, epoch = self._journal.address, self._journal.epoch
        with self._watch.run(self._agent, self._source, address, epoch, lambda: self._catalogue.toolkit):
            await self._drive(opening, seconds)

    async def _drive(self, opening: RunRequested | AttemptResumed, seconds: float | None) -> None:
        if seconds is not None:
            self._scope.deadline = trio.current_time() + seconds
        try:
            with self._scope:
                try:
                    self._observe(opening)
                    await self._loop()
                except BaseException as error:
                    await self._seal_after(error)
                    raise
            plan = self._plan
            await self._desk.withdraw(plan.waits)
            await self.joining.put_back()
            if plan.waits or plan.unknown:
                self._source.suspend(open_run(self._state), plan.waits, plan.unknown)
        finally:
            await self._accounts.release()
            self._batch_scope.release()
            self._source.end()

    def _cause(self, error: BaseException) -> AbortReason | Literal["deadline"]:
        if not isinstance(error, trio.Cancelled):
            return "crashed"
        if self._requested:
            return "requested"
        return "deadline" if trio.current_time() >= self._scope.deadline else "cancelled"

    async def _loop(self) -> None:
        while self._state.run is not None:
            if self._answer_at_once() or await self._answer_soon():
                continue
            await self._flush()
            # Only now: until an answer is on record, the desk's memory of it is the only one.
            await self._desk.withdraw(self._plan.waits)
            if not await self._work():
                return
        await self._flush()

    def _answer_at_once(self) -> bool:
        """Answer what needs no waiting, on the coming state. False if the plan needs more than that."""
        match self._plan.actions:
            case (MeasureRequest() | JudgeCalls() as action,) if self._tools_are_due(action):
                return False
            case (MeasureRequest() as action,) if action.turn <= self._drained or not self.joining.bound:
                seen: Observation | None = self._seam.measure(self._state, action)
            case (ClearResults() as action,):
                seen = ResultsDue(covers_through=action.covers_through)
            case (GiveUp() as action,):
                seen = ContextFull(tokens=action.tokens, limit=action.limit)
            case (JudgeCalls() as action,):
                seen = self._batch_scope.judge_at_once(action)
            case (JudgeAnswer() as action,) if not (action.intake and self.joining.bound):
                seen = judge_answer(self._agent, self._run, action, self._runtime.clock.now())
            case (ReportBudgetSpent(),):
                seen = BudgetSpent()
            case actions:
                seen = self._batch_scope.take_permits(actions)
        if seen is None:
            return False
        self._observe(seen)
        return True

    async def _answer_soon(self) -> bool:
        """Ask for what is known already: a desk's ready answers, waiting input. It joins the same commit."""
        plan = self._plan
        if plan.waits:
            ready = await self._desk.offer(plan.waits)
            for seen in ready:
                if self._state.run is not None:  # a terminal denial leaves nothing to answer
                    self._observe_answer(seen)
            if not ready and self._steering_denies and await self.joining.steering_waits():
                self._observe(SteeredWhileWaiting(at=self._runtime.clock.now()))
                return True
            return bool(ready)
        match plan.actions:
            case (JudgeAnswer() as action,):
                judged = judge_answer(self._agent, self._run, action, self._runtime.clock.now())
                wanted = action.intake if judged.output is not None else ()
                if wanted and self._tenure.records_first:
                    await self._flush()
                inputs = await self.joining.claim_before_stopping(wanted)
                self._observe(attrs.evolve(judged, inputs=inputs) if inputs else judged)
                if inputs:  # they are this seam's: the queue is not told yet, and would give them out again
                    self._drained = action.answer.turn + 1
                return True
            case ((AskModel() | Summarize()) as action,) if not self._seam.is_paid(action):
                self._observe(await self._seam.pay(action))
                return True
            case (MeasureRequest() | JudgeCalls() as action,) if self._tools_are_due(action):
                self._observe(await self._catalogue.take_up(action.turn))
                return True
            case (MeasureRequest() as action,):
                self._drained = action.turn
                if self._tenure.records_first:
                    await self._flush()
                inputs = await self.joining.claim(action.intake)
                if inputs:
                    self._observe(InputsOffered(inputs=inputs))
                return True
            case _:
                return False

    async def _work(self) -> bool:
        """Do what takes its time. False if the run waits for somebody who is not in this process."""
        plan = self._plan
        if plan.waits:
            return await self._wait(plan.waits)
        if plan.unknown and not self._batch_scope.can_go_on(plan.actions):
            return False
        match plan.actions:
            case ((AskModel() | Summarize()) as action,):
                self._watch.turn(action.turn)
                self._observe(await self._seam.work(self._state, action))
            case (JudgeCalls() as action,):
                self._observe(await self._batch_scope.judge(action, open_run(self._state).started))
            case _:
                await self._batch_scope.run(self)
        return True

    async def _wait(self, waits: tuple[ApprovalRequest, ...]) -> bool:
        if self._tenure.patient:
            seen = await self._desk.wait(waits, self.joining.steering_arrived if self._steering_denies else None)
        else:
            seen = await self._desk.wait(self._desk.overdue(waits), None)
        if seen is None:
            return False
        self._observe_answer(seen)
        return True

    @property
    def _plan(self) -> Plan:
        """What the state calls for: worked out once, however often it is looked at before the state changes."""
        state, measured = self._state, self._seam.measured
        planned = self._planned
        if planned is None or planned[0] is not state or planned[1] is not measured:
            planned = self._planned = (state, measured, next_action(state, measured))
        return planned[2]

    def _tools_are_due(self, action: MeasureRequest | JudgeCalls) -> bool:
        if isinstance(action, MeasureRequest):
            return self._catalogue.due_at_seam(action.turn)
        return self._catalogue.due_for_calls

    @property
    def _steering_denies(self) -> bool:
        return self.joining.bound and open_run(self._state).started.approval.steered == "deny"

    def _observe_answer(self, seen: Observation) -> None:
        self._observe(seen)
        for request in self._plan.waits:
            if isinstance(seen, ApprovalAnswered | ApprovalSilent) and request.call == seen.call:
                self._desk.give_up(request)

    # What a batch scope needs of its interpreter.

    @property
    def state(self) -> ConversationState:
        """The state that all observations so far lead to."""
        return self._state

    async def stash(self, call: CallId, outcome: Outcome) -> None:
        """Keep an outcome whose turn is still to come."""
        await self._tenure.stash(call, outcome)

    async def observed(self, observation: Observation) -> None:
        """Take an observation from within a batch, answer what follows at once, and commit."""
        self._observe(observation)
        while self._state.phase == "batch" and self._answer_at_once():
            pass
        await self._flush()

    def _observe(self, observation: Observation) -> None:
        decision = decide(self._state, observation)
        if isinstance(decision, Refused):
            raise MachineRefused(run=self._run, problem=decision.problem)
        for record in decision:
            self._pending.append((self._state, record))
            self._state = advance(self._state, record)

    async def _flush(self) -> None:
        if not self._pending:
            return
        if self._unconfirmed is None:
            records = tuple(record for _, record in self._pending)
            self._unconfirmed = self._journal.batch(self._run, records)
        batch = self._unconfirmed
        count = len(batch.records)
        after = self._state if count == len(self._pending) else self._pending[count][0]
        await self._journal.append(batch, after)
        done, self._pending, self._unconfirmed = self._pending[:count], self._pending[count:], None
        self._publish(done, batch.at)
        # Only what came out of the queue: a caller's key may look like an id of the kernel's own.
        entered = tuple(
            record.id
            for record in batch.records
            if isinstance(record, InputTaken) and record.source in ("steering", "follow-up")
        )
        await self.joining.joined(entered)

    def _publish(self, committed: list[tuple[ConversationState, Record]], at: Instant) -> None:
        for before, record in committed:
            self._source.record(before, record, at)

    async def _seal_after(self, error: BaseException) -> None:
        """Bring on record what was decided, close what is open, and settle: shielded, and bounded in time.

        Where somebody else goes on with the run, only its own end is settled: that it is asked for, or its time is up.
        """
        cause = self._cause(error)
        if not self._tenure.seals and cause not in ("requested", "deadline"):
            return
        failure: TrioletError = SealTimedOut(run=self._run, seconds=SEAL_SECONDS)
        with trio.move_on_after(SEAL_SECONDS, shield=True):
            try:
                await self._seal(cause)
                return
            except TrioletError as second:
                failure = second
        if isinstance(error, trio.Cancelled):
            raise failure from error
        # The first error is what the caller must see; that the log stays open is said beside it.
        error.add_note(f"and the run could not be sealed: {failure}")

    async def _seal(self, cause: AbortReason | Literal["deadline"]) -> None:
        # Until an answer is on record, the desk's memory of it is the only one.
        waiting = next_action(self._state).waits
        kept = tuple(each for each in next_action(self._journal.state).waits if each not in waiting)
        try:
            await self._flush()
            kept = ()
            if self._state.run is not None:
                self._observe(
                    Stopped(
                        cause=cause,
                        started=frozenset(self._batch_scope.started),
                        outcomes=self._batch_scope.outcomes,
                        programmatic=self._batch_scope.programmatic,
                        asking=self._seam.asking,
                        asked=self._tenure.abort,
                    )
                )
                await self._flush()
        finally:
            # Also where the log stays open: nobody is here any more for what this run has asked or claimed.
            await self._desk.withdraw(kept)
            await self.joining.put_back()
