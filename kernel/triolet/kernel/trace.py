"""The event source of one attempt: numbered events, kept so that nobody who reads them can hold up the run.

Decides what an observer may miss: live events, when it falls more than a ring behind, and then it is told how
many (RUN-010). Emitting is synchronous, never waits and never fails. It decides no event's content.
"""

from collections.abc import Callable
from typing import Final

import trio

from triolet.kernel.machine.projection import event_of
from triolet.kernel.machine.state import ConversationState, RunState
from triolet.ports.approval import ApprovalRequest
from triolet.ports.events import Event, Gap, LiveEvent, RunSuspended, SemanticEvent, TerminalEvent, TextDelta, Trace
from triolet.ports.identity import Instant
from triolet.ports.outcomes import UnknownCall
from triolet.ports.records import Record, RunSettled
from triolet.ports.sources import Clock

RING: Final = 256
"""Live events that stay readable."""


class EventSource:
    """The events of one attempt. Semantic ones are all kept: they are bounded by the run's limits."""

    __slots__ = (
        "_clock",
        "_dropped",
        "_ended",
        "_live",
        "_live_count",
        "_lot",
        "_semantic",
        "_sequence",
        "observed",
        "terminal",
        "trace",
    )

    def __init__(self, trace: Trace, clock: Clock, *, observed: bool) -> None:
        self.trace = trace
        self.observed = observed
        """Whether anybody can ever read more than the terminal event; if not, nothing else is made."""
        self.terminal: TerminalEvent | None = None
        self._clock = clock
        self._sequence = 0
        self._semantic: list[SemanticEvent] = []
        self._live: list[LiveEvent | None] = [None] * RING if observed else []
        self._live_count = 0
        self._dropped: LiveEvent | None = None
        self._lot: trio.lowlevel.ParkingLot | None = None
        self._ended = False

    def record(self, before: ConversationState, record: Record, at: Instant) -> None:
        """Emit what a committed record shows."""
        if not self.observed and not isinstance(record, RunSettled):
            return
        event = event_of(before, record, self.trace, self._sequence + 1, at)
        if event is None:
            return
        self._sequence += 1
        if isinstance(event, TerminalEvent):
            self.terminal = event
        else:
            self._semantic.append(event)
        self._wake()

    def live(self, make: Callable[..., LiveEvent], **fields: object) -> None:
        """Emit a live event of class `make`. Costs next to nothing where nobody observes."""
        # Nothing follows the end: a handler's context may outlive its run, but it has nobody to tell.
        if not self.observed or self._ended or self.terminal is not None:
            return
        self._keep(make(trace=self.trace, sequence=self._sequence + 1, at=self._clock.now(), **fields))

    def text(self, turn: int, attempt: int, text: str) -> None:
        """As `live`, for the one event of which there are thousands."""
        if self.observed and not self._ended and self.terminal is None:
            sequence, at = self._sequence + 1, self._clock.now()
            self._keep(TextDelta(trace=self.trace, sequence=sequence, at=at, turn=turn, attempt=attempt, text=text))

    def _keep(self, event: LiveEvent) -> None:
        self._sequence = event.sequence
        place = self._live_count % RING
        self._dropped = self._live[place]
        self._live[place] = event
        self._live_count += 1
        if self._lot is not None:
            self._wake()

    def suspend(self, run: RunState, requests: tuple[ApprovalRequest, ...], unknown: tuple[UnknownCall, ...]) -> None:
        """Emit that the attempt ends with the run waiting for these answers, and for word about these calls."""
        self._sequence += 1
        self.terminal = RunSuspended(
            trace=self.trace,
            sequence=self._sequence,
            at=self._clock.now(),
            requests=requests,
            unknown=unknown,
            usage=run.usage,
            turns=run.turn,
        )
        self._wake()

    def end(self) -> None:
        """No event will follow. Observers end after what is there."""
        self._ended = True
        self._wake()

    def reader(self) -> "EventReader":
        """Read from the beginning, at the reader's own pace. Readers know nothing of each other."""
        return EventReader(self)

    async def arrival(self) -> bool:
        """Wait for more; False once no event will follow."""
        if self._ended:
            return False
        # Made anew for whoever waits next: emitting looks only whether there is one.
        if self._lot is None:
            self._lot = trio.lowlevel.ParkingLot()
        await self._lot.park()
        return True

    def next_for(self, reader: "EventReader") -> Event | None:
        """The reader's next event, if it is there already; moves the reader on."""
        count, place = self._live_count, reader.live
        if reader.semantic == len(self._semantic):
            # Most of what a reader meets: the next of many deltas, and nothing of which it is not sure.
            if count - RING <= place < count:
                reader.live = place + 1
                return self._live[place % RING]
            semantic = None
        else:
            semantic = self._semantic[reader.semantic]
        oldest = max(0, count - RING)
        last = self._dropped
        if reader.live < oldest and last is not None and (semantic is None or last.sequence < semantic.sequence):
            missed, reader.live = oldest - reader.live, oldest
            # Under the number of the last one missed, which nobody else has.
            return Gap(trace=self.trace, sequence=last.sequence, at=last.at, missed=missed)
        live = self._live[reader.live % RING] if oldest <= reader.live < self._live_count else None
        if live is not None and (semantic is None or live.sequence < semantic.sequence):
            reader.live += 1
            return live
        if semantic is not None:
            reader.semantic += 1
            return semantic
        if self.terminal is not None and not reader.done:
            reader.done = True
            return self.terminal
        return None

    def _wake(self) -> None:
        lot, self._lot = self._lot, None
        if lot is not None:
            lot.unpark_all()


class EventReader:
    """An asynchronous iterator over a source's events. Dropping it half-way costs nothing and tells nobody."""

    __slots__ = ("_source", "done", "live", "semantic")

    def __init__(self, source: EventSource) -> None:
        self._source = source
        self.live = 0
        self.semantic = 0
        self.done = False

    def __aiter__(self) -> "EventReader":
        return self

    async def __anext__(self) -> Event:
        source = self._source
        # Before the reader moves on: a cancelled reader that goes on later must not have missed an event.
        await trio.lowlevel.checkpoint_if_cancelled()
        while True:
            event = source.next_for(self)
            if event is not None:
                return event
            if not await source.arrival():
                raise StopAsyncIteration
