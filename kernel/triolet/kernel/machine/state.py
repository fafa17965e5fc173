"""What a conversation *is*: the state that its canonical records fold to.

Decides what is remembered between two records and nothing else: no clock, no callable, no task. Every value
here is immutable; a new state shares what it can with the one before.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

import attrs

from triolet.kernel.machine.history import EMPTY, History
from triolet.kernel.machine.shown import WHOLE, View
from triolet.ports.approval import ApprovalRequest
from triolet.ports.identity import CallId, Epoch, InputId, Instant, SequenceNumber
from triolet.ports.messages import ToolCall
from triolet.ports.outcomes import Outcome, UnknownCall, UnknownReason
from triolet.ports.records import (
    ApprovalDecided,
    Dimension,
    GrantGiven,
    ModelResponded,
    RunSettled,
    RunStarted,
    ToolCatalogueChanged,
)
from triolet.ports.strict_json import JsonText
from triolet.ports.tools import ExecutionClass
from triolet.ports.usage import UsageTotals

MACHINE_VERSION = 3
"""Changes whenever the same records fold to another state; checkpoints of other versions are ignored."""

Phase = Literal["new", "idle", "opening", "seam", "batch", "answered"]
"""Where a conversation stands.

`new` has no record yet; `idle` has no open run; `opening` has a run without input; `seam` is the safe point
before a model request; `batch` has calls without results; `answered` has a response that may end the run.
"""


KNOWN_TAKEN: Final = 256
"""How many inputs that came out of a queue stay known: more than can be on record without their queue knowing it."""
NOTHING_USED: Final = UsageTotals()
NOT_WARNED: Final[frozenset[tuple[str | None, Dimension]]] = frozenset()
NO_CATALOGUES: Final[Mapping[str, ToolCatalogueChanged]] = MappingProxyType({})
NONE_PREPARED: Final[Mapping[CallId, ExecutionClass]] = MappingProxyType({})
NO_STEPS: Final[Mapping[tuple[CallId, str], JsonText]] = MappingProxyType({})
NOT_ASKED: Final[Mapping[CallId, ApprovalRequest]] = MappingProxyType({})
NONE_UNKNOWN: Final[Mapping[CallId, UnknownReason]] = MappingProxyType({})
NONE_RESOLVED: Final[Mapping[CallId, Outcome]] = MappingProxyType({})
NOT_ANSWERED: Final[Mapping[CallId, ApprovalDecided]] = MappingProxyType({})


@attrs.frozen(kw_only=True, weakref_slot=False)
class CallBatch:
    """The calls of one response, and how far each is. `outcomes` is a prefix in declaration order.

    `runnable` is None until this attempt has decided every call. `prepared` are the calls that started, in this
    attempt or one before, under the class that they had then. `steps` holds recorded steps by call and name.
    `requests` and `answers` are what is on record about approval, by call. `unknown` are calls that may have had their
    effect and wait for somebody who knows; `resolved` are results that became known and whose turn is still to come.
    """

    turn: int
    calls: tuple[ToolCall, ...]
    outcomes: tuple[Outcome, ...] = ()
    runnable: Mapping[CallId, ExecutionClass] | None = None
    prepared: Mapping[CallId, ExecutionClass] = NONE_PREPARED
    steps: Mapping[tuple[CallId, str], JsonText] = NO_STEPS
    requests: Mapping[CallId, ApprovalRequest] = NOT_ASKED
    answers: Mapping[CallId, ApprovalDecided] = NOT_ANSWERED
    unknown: Mapping[CallId, UnknownReason] = NONE_UNKNOWN
    resolved: Mapping[CallId, Outcome] = NONE_RESOLVED

    @property
    def open(self) -> tuple[ToolCall, ...]:
        """The calls that have no result yet, in declaration order."""
        return self.calls[len(self.outcomes) :]

    @property
    def undecided(self) -> tuple[ToolCall, ...]:
        """The open calls about which an attempt has to find out whether they may run, in declaration order."""
        return tuple(call for call in self.open if call.id not in self.resolved) if self.resolved else self.open

    @property
    def unsolved(self) -> tuple[UnknownCall, ...]:
        """The calls whose outcome somebody has to say, in declaration order (DUR-017)."""
        return tuple(
            UnknownCall(call=call.id, tool=call.name, reason=self.unknown[call.id])
            for call in (self.open if self.unknown else ())
            if call.id in self.unknown
        )

    @property
    def waiting(self) -> tuple[ApprovalRequest, ...]:
        """The requests that have no answer, in the order of their calls."""
        return tuple(request for call, request in self.requests.items() if call not in self.answers)


@attrs.frozen(kw_only=True, weakref_slot=False)
class RunState:
    """The open run. `turn` is the last turn that has a response; `spent` counts calls that may have run.

    `exhausted` is the limit that was run over; using up the turns is not noted, it can be seen. `closing` is the
    last turn that a reached limit still allows. `warned` are the limits whose use was announced, by node. `attempt`
    counts the tries of the coming turn that ended without a response, and `retry_at` is when the next one may be
    made. `failures` counts results in a row that are no success, `result_bytes` the results of the whole run.
    `overflowed` is the last turn whose request a provider found too large, `compacting` says that the context must
    shrink before it is asked again, and `summarised` is the last turn for which a summary was made or tried.
    `catalogues` is what each tool source was last recorded to offer.
    """

    started: RunStarted
    epoch: Epoch | None = None
    turn: int = 0
    attempt: int = 0
    retry_at: Instant | None = None
    usage: UsageTotals = NOTHING_USED
    spent: int = 0
    failures: int = 0
    result_bytes: int = 0
    exhausted: Dimension | None = None
    closing: int | None = None
    warned: frozenset[tuple[str | None, Dimension]] = NOT_WARNED
    overflowed: int = 0
    compacting: bool = False
    summarised: int = 0
    catalogues: Mapping[str, ToolCatalogueChanged] = NO_CATALOGUES
    batch: CallBatch | None = None
    answer: ModelResponded | None = None

    @property
    def over_turns(self) -> bool:
        """Whether the ordinary turns are used up."""
        return self.turn >= self.started.limits.max_turns

    @property
    def limit_reached(self) -> Dimension | None:
        """The limit that forbids tools from the next request on, if any (RUN-018, RUN-019)."""
        return self.exhausted or ("turns" if self.over_turns else None)

    @property
    def grace_used(self) -> bool:
        """Whether the last turn that any limit allows has its response."""
        return self.turn > self.started.limits.max_turns or (self.closing is not None and self.turn >= self.closing)

    def with_batch(self, batch: CallBatch | None) -> "RunState":
        """This run with its batch replaced."""
        return self.with_counts(
            batch,
            spent=self.spent,
            failures=self.failures,
            result_bytes=self.result_bytes,
            exhausted=self.exhausted,
        )

    def with_counts(
        self, batch: CallBatch | None, *, spent: int, failures: int, result_bytes: int, exhausted: Dimension | None
    ) -> "RunState":
        """This run with another batch and these counts: the step that every call takes, so it is spelt out."""
        return RunState(
            started=self.started,
            epoch=self.epoch,
            turn=self.turn,
            attempt=self.attempt,
            retry_at=self.retry_at,
            usage=self.usage,
            spent=spent,
            failures=failures,
            result_bytes=result_bytes,
            exhausted=exhausted,
            closing=self.closing,
            warned=self.warned,
            overflowed=self.overflowed,
            compacting=self.compacting,
            summarised=self.summarised,
            catalogues=self.catalogues,
            batch=batch,
            answer=self.answer,
        )


@attrs.frozen(kw_only=True, weakref_slot=False)
class ConversationState:
    """A conversation after `sequence` records. `view` is what of the history a model is shown.

    `settled` is the last run's settlement: whoever accepted that run and was not told of its end finds it (DUR-015).
    `taken` are the last `KNOWN_TAKEN` inputs that came out of a queue, by id and the time of their offer, so that a
    queue which was not told can be told again (DUR-016).
    """

    phase: Phase = "new"
    sequence: SequenceNumber = SequenceNumber(0)
    epoch: Epoch = Epoch(0)
    history: History = EMPTY
    view: View = WHOLE
    run: RunState | None = None
    grants: tuple[GrantGiven, ...] = ()
    settled: RunSettled | None = None
    taken: tuple[tuple[InputId, Instant], ...] = ()


NEW = ConversationState()
