"""Threads: the one place where synchronous handlers leave Trio's thread.

Decides that they are bounded, and that a caller whose time is up does not wait for them: the thread is abandoned,
keeps its place until it ends, and what it returns late is dropped (F-009). It knows which threads those are, and
closing waits for them within a bound; it never says that one has ended which has not. (RUN-009)
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

import attrs
import trio

from triolet.ports.identity import CallId, Instant, RunId
from triolet.ports.sources import Clock

CLOSE_SECONDS: Final = 5.0
"""How long closing a kernel waits for abandoned threads, unless the host says otherwise."""


@attrs.frozen(kw_only=True, weakref_slot=False)
class AbandonedCall:
    """A call whose synchronous handler still runs although the call has its outcome, since `at`."""

    tool: str
    call: CallId
    run: RunId
    at: Instant


class Threads:
    """The threads of one kernel, at most `limit` at a time, abandoned ones among them."""

    __slots__ = ("_abandoned", "_clock", "_lot", "limiter")

    def __init__(self, limit: int, clock: Clock) -> None:
        self.limiter = trio.CapacityLimiter(limit)
        """One token for each thread, from before it starts until it has ended."""
        self._clock = clock
        self._abandoned: dict[_Place, AbandonedCall] = {}
        self._lot = trio.lowlevel.ParkingLot()

    @property
    def abandoned(self) -> tuple[AbandonedCall, ...]:
        """The calls whose threads run on without them, oldest first."""
        return tuple(self._abandoned.values())

    async def run(
        self,
        function: Callable[..., Any],
        *args: Any,
        tool: str,
        call: CallId,
        run: RunId,
        began: Callable[[], None],
    ) -> Any:
        """Call `function` in a thread; `began` is called as it gets its place.

        Cancelling abandons a thread that has begun: it is listed until it ends.
        """
        place = _Place(self, began)
        noticed = cast("trio.CapacityLimiter", place)  # Trio asks for two of its methods only
        try:
            return await trio.to_thread.run_sync(partial(function, *args), abandon_on_cancel=True, limiter=noticed)
        finally:
            if place.taken:
                self._abandoned[place] = AbandonedCall(tool=tool, call=call, run=run, at=self._clock.now())

    async def close(self, seconds: float) -> None:
        """Wait until abandoned threads have ended, for at most `seconds`. Shielded; `abandoned` says which did not."""
        if not self._abandoned:
            return
        with trio.move_on_after(seconds, shield=True):
            while self._abandoned:
                await self._lot.park()

    def _ended(self, place: "_Place") -> None:
        if self._abandoned.pop(place, None) is not None:
            self._lot.unpark_all()


class _Place:
    """A limiter that tells when it let somebody through: from then on the thread runs, whoever still waits for it."""

    __slots__ = ("_began", "_threads", "taken")

    def __init__(self, threads: Threads, began: Callable[[], None]) -> None:
        self._threads = threads
        self._began = began
        self.taken = False

    async def acquire_on_behalf_of(self, borrower: object) -> None:
        await self._threads.limiter.acquire_on_behalf_of(borrower)
        self.taken = True
        self._began()

    def release_on_behalf_of(self, borrower: object) -> None:
        # In Trio's thread, when the other one has ended.
        self._threads.limiter.release_on_behalf_of(borrower)
        self.taken = False
        self._threads._ended(self)  # noqa: SLF001 -- two halves of one thing
