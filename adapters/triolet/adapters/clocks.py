"""Two clocks: the machine's, and one that follows Trio's time.

Decides how a reading becomes an `Instant`. Neither orders anything, and neither is asked for a duration.
"""

import time

import attrs
import trio

from triolet.ports.identity import MICROSECONDS, Instant


@attrs.frozen(weakref_slot=False)
class SystemClock:
    """The machine's wall clock, UTC. Steps with it, backwards too. A plain value; it emits nothing."""

    def now(self) -> Instant:
        """The current instant; a fraction of a microsecond is dropped."""
        return Instant(time.time_ns() // 1_000)


class TrioClock:
    """A wall clock that moves exactly as `trio.current_time()` does, so a `MockClock` rules stamps as well.

    It shows `start` when it is made; one made outside a Trio run shows it at its first reading. Durations come out to
    the microsecond: one that was slept for `s` seconds is later by `s` and never by a microsecond less, so that a
    deadline which Trio says is over is over on this clock too. For tests: a run's Trio time jumps as the test wills.
    """

    __slots__ = ("_origin", "_start")

    def __init__(self, start: Instant) -> None:
        self._start = start
        self._origin = trio.current_time() if trio.lowlevel.in_trio_run() else None

    def now(self) -> Instant:
        """The current instant. Raises `RuntimeError` outside a Trio run."""
        seconds = trio.current_time()
        if self._origin is None:
            self._origin = seconds
        # Rounded, since the difference of two doubles may fall short of the decimal that was meant.
        return Instant(self._start + round((seconds - self._origin) * MICROSECONDS))
