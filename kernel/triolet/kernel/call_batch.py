"""One call batch at a time: permits, handlers in a nursery, outcomes in the order they end.

Decides which calls run now, within the run's concurrency and the host's groups (RUN-009), and hands every happening
to the interpreter as an observation. It decides no order of records and commits nothing; it keeps finished
outcomes until they are on record, because a slower sibling may stand before them.
"""

from collections.abc import Iterable
from typing import Any, Protocol

import attrs
import trio

from triolet.kernel.accounts import Accounts
from triolet.kernel.agent import Agent
from triolet.kernel.catalogue import Catalogue
from triolet.kernel.machine.budget import over_calls, refusals_of
from triolet.kernel.machine.guards import open_batch, open_run
from triolet.kernel.machine.observations import (
    BudgetRefused,
    CallsEnded,
    CallsJudged,
    Forbidden,
    Observation,
    PermitsHeld,
    StepEnded,
)
from triolet.kernel.machine.outcome_table import used_up
from triolet.kernel.machine.plan import Action, JudgeCalls, StartCall, next_action
from triolet.kernel.machine.state import ConversationState, RunState
from triolet.kernel.pipeline.authority import Authority, may_need_a_say
from triolet.kernel.pipeline.bound import keeper
from triolet.kernel.pipeline.calling import Calling
from triolet.kernel.pipeline.judge import Judgement, judge_freely, judge_with_authority, verdicts
from triolet.kernel.pipeline.runnable import Runnable
from triolet.kernel.runtime import Runtime
from triolet.kernel.scopes import open_plain_nursery
from triolet.kernel.trace import EventSource
from triolet.ports.approval import ApprovalRequest
from triolet.ports.events import CallBegan, CallProgressed
from triolet.ports.identity import CallId, TenantId
from triolet.ports.outcomes import Outcome, ToolRejected, ToolUnknownOutcome
from triolet.ports.records import RunStarted
from triolet.ports.strict_json import JsonText


class Observer(Protocol):
    """What a batch needs of its interpreter."""

    @property
    def state(self) -> ConversationState:
        """The state that all observations so far lead to."""
        ...

    async def observed(self, observation: Observation) -> None:
        """Take an observation and put what follows from it on record."""
        ...

    async def stash(self, call: CallId, outcome: Outcome) -> None:
        """Keep an outcome whose turn is still to come."""
        ...


@attrs.define(kw_only=True, eq=False, weakref_slot=False)
class _Call:
    """A call that has one of the run's places. `go` is set once its preparation is on record."""

    runnable: Runnable
    group: trio.CapacityLimiter | None
    permitted: bool
    running: bool = False
    go: trio.Event = attrs.field(factory=trio.Event)

    @property
    def id(self) -> CallId:
        """The call's identity, which is also what borrows from the group."""
        return self.runnable.call.id

    def give_back(self) -> None:
        """Return the group's permit, once."""
        if self.permitted and self.group is not None:
            self.group.release_on_behalf_of(self.id)
        self.permitted = False


class BatchScope:
    """The calls of the run's current response."""

    __slots__ = (
        "_accounts",
        "_agent",
        "_asks",
        "_before",
        "_bell",
        "_catalogue",
        "_ended",
        "_granted",
        "_keep",
        "_places",
        "_runnable",
        "_runtime",
        "_source",
        "_stashed",
        "_steps",
        "_turn",
        "outcomes",
        "programmatic",
        "started",
    )

    def __init__(
        self,
        runtime: Runtime,
        agent: Agent[Any, Any],
        source: EventSource,
        tenant: TenantId,
        accounts: Accounts,
        catalogue: Catalogue,
    ) -> None:
        self._catalogue = catalogue
        self._keep = keeper(runtime.capabilities.artifacts, tenant)
        self._runtime = runtime
        self._agent = agent
        self._source = source
        self._accounts = accounts
        self._asks = accounts.bound or may_need_a_say(runtime, agent)
        self._turn = 0
        self._runnable: dict[CallId, Runnable] = {}
        self._places: dict[CallId, _Call] = {}
        self._granted: list[CallId] = []
        self._steps: list[tuple[StepEnded, trio.Event]] = []
        self._ended = False
        self._bell = trio.Event()
        self.programmatic: dict[CallId, int] = {}
        """How many calls of other tools the handlers of this batch have paid for."""
        self._before: RunState | None = None
        self.outcomes: dict[CallId, Outcome] = {}
        """Outcomes of this batch that are known, on record or not."""
        self._stashed: set[CallId] = set()
        self.started: set[CallId] = set()
        """Calls of this batch whose handlers have begun."""

    def judge_at_once(self, action: JudgeCalls) -> CallsJudged | None:
        """Judge a new batch, or None where somebody has to be asked for that, or was when the run was suspended."""
        if self._asks or action.answers:
            return None
        return self._judged(action, judge_freely(self._catalogue.toolkit, action), None)

    async def judge(self, action: JudgeCalls, started: RunStarted) -> CallsJudged:
        """Judge a new batch, asking whoever has a say."""
        authority = Authority(self._runtime, self._agent, started, self._source.trace.conversation)
        judgements = await judge_with_authority(self._catalogue.toolkit, action, authority)
        refusal = None
        if all(not isinstance(each, ApprovalRequest | Forbidden) for each in judgements.values()):
            refusal = await self._accounts.pay_calls(sum(isinstance(each, Runnable) for each in judgements.values()))
        return self._judged(action, judgements, refusal)

    def _judged(
        self, action: JudgeCalls, judgements: dict[CallId, Judgement], refusal: BudgetRefused | None
    ) -> CallsJudged:
        seen = CallsJudged(verdicts=verdicts(judgements), at=self._runtime.clock.now(), refusal=refusal)
        self._turn = action.turn
        self._runnable = {call: judgement for call, judgement in judgements.items() if isinstance(judgement, Runnable)}
        self.outcomes = refusals_of(seen)
        self.started = set()
        self._stashed = set()
        self.programmatic = {}
        self._runtime.watch.refused(self.outcomes)
        return seen

    def take_permits(self, actions: Iterable[Action]) -> PermitsHeld | None:
        """Give free places to calls in order, with what permits can be had at once; which of these to prepare."""
        held: list[CallId] = []
        for start in actions:
            if not isinstance(start, StartCall):
                continue
            call = start.call.id
            if call in self._places or call in self.outcomes:
                continue
            if len(self._places) >= self._agent.policy.concurrency:
                break
            place = self._place(self._runnable[call])
            self._places[call] = place
            if place.permitted and not start.prepared:
                held.append(call)
        return PermitsHeld(calls=tuple(held)) if held else None

    async def run(self, interpreter: Observer) -> None:
        """Run the batch to its last result. Every task lives and ends in here (RUN-007)."""
        self._before = open_run(interpreter.state)
        async with open_plain_nursery() as nursery:
            while interpreter.state.phase == "batch":
                self._start(nursery, interpreter.state)
                if self._stuck(interpreter.state):
                    return
                if not (self._granted or self._steps or self._ended):
                    await self._bell.wait()
                self._bell = trio.Event()
                await self._deliver(interpreter)

    def can_go_on(self, actions: Iterable[Action]) -> bool:
        """Whether any of these calls is still to end: the others are done, or wait for word about a sibling."""
        return any(not isinstance(each, StartCall) or each.call.id not in self.outcomes for each in actions)

    def release(self) -> None:
        """Give back permits of calls that never came to run."""
        for place in self._places.values():
            if not place.running:
                place.give_back()
        self._places.clear()

    # What a call's context needs of its host.

    def progressed(self, call: CallId, note: str, done: float | None, total: float | None) -> None:
        """Tell observers how far a handler is."""
        self._source.live(CallProgressed, turn=self._turn, call=call, note=note, done=done, total=total)

    async def pay(self, outer: CallId) -> ToolRejected | None:
        """Pay for a programmatic call out of what the run, and the budgets above it, have left (RUN-017)."""
        if self._before is None:
            raise AssertionError("a handler runs in a batch")
        rejected = over_calls(self._before, sum(self.programmatic.values()))
        if rejected is not None:
            return rejected
        self.programmatic[outer] = self.programmatic.get(outer, 0) + 1
        refusal = await self._accounts.pay_calls(1)
        if refusal is None:
            return None
        self.programmatic[outer] -= 1
        return used_up(refusal.dimension)

    async def record_step(self, call: CallId, name: str, value: JsonText) -> None:
        """Return once the step is on record."""
        recorded = trio.Event()
        self._steps.append((StepEnded(call=call, name=name, value=value), recorded))
        self._bell.set()
        await recorded.wait()

    def _place(self, runnable: Runnable) -> _Call:
        group = None if runnable.tool.group is None else self._runtime.groups[runnable.tool.group]
        place = _Call(runnable=runnable, group=group, permitted=True)
        if group is not None:
            try:
                group.acquire_on_behalf_of_nowait(place.id)
            except trio.WouldBlock:
                place.permitted = False
        return place

    def _start(self, nursery: trio.Nursery, state: ConversationState) -> None:
        for start in next_action(state).actions:
            place = self._places.get(start.call.id) if isinstance(start, StartCall) else None
            if place is None or not isinstance(start, StartCall):
                continue
            if start.prepared:
                place.go.set()
            if not place.running:
                place.running = True
                nursery.start_soon(self._run_call, place, state)

    async def _run_call(self, place: _Call, state: ConversationState) -> None:
        try:
            if not place.permitted and place.group is not None:
                await place.group.acquire_on_behalf_of(place.id)
                place.permitted = True
                if not place.go.is_set():
                    self._granted.append(place.id)
                    self._bell.set()
            if not place.go.is_set():
                await place.go.wait()
            with self._runtime.watch.call(place.runnable) as work:
                self.outcomes[place.id] = work.settled(await self._handle(place.runnable, state))
            self._ended = True
            self._bell.set()
        finally:
            place.give_back()
            self._places.pop(place.id, None)

    async def _handle(self, runnable: Runnable, state: ConversationState) -> Outcome:
        call, tool = runnable.call.id, runnable.tool.name

        def began() -> None:
            self.started.add(call)
            self._source.live(CallBegan, turn=self._turn, call=call, tool=tool)

        calling = Calling(
            runtime=self._runtime,
            agent=self._agent,
            started=open_run(state).started,
            conversation=self._source.trace.conversation,
            account=self,
            host=self,
            keep=self._keep,
        )
        return await calling.call(runnable, began, open_batch(state).steps)

    async def _deliver(self, interpreter: Observer) -> None:
        if self._granted:
            granted, self._granted = tuple(self._granted), []
            await interpreter.observed(PermitsHeld(calls=granted))
        while self._steps:
            step, recorded = self._steps.pop(0)
            await interpreter.observed(step)
            recorded.set()
        if self._ended:
            self._ended = False
            await interpreter.observed(CallsEnded(outcomes=dict(self.outcomes), programmatic=dict(self.programmatic)))
            await self._stash(interpreter)

    async def _stash(self, interpreter: Observer) -> None:
        # What a slower sibling keeps from the log must outlive this process some other way.
        run = interpreter.state.run
        if run is None or run.batch is None:
            return
        for call in run.batch.open:
            outcome = self.outcomes.get(call.id)
            if outcome is None or call.id in self._stashed or isinstance(outcome, ToolUnknownOutcome):
                continue
            if call.id in run.batch.prepared:
                self._stashed.add(call.id)
                await interpreter.stash(call.id, outcome)

    def _stuck(self, state: ConversationState) -> bool:
        # Nothing runs, nothing is to be delivered, and a sibling's outcome has to be said by somebody.
        if self._places or self._granted or self._steps or self._ended:
            return False
        plan = next_action(state)
        return bool(plan.unknown) and not self.can_go_on(plan.actions)
