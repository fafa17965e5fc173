"""A guest in this process: in a thread while the program runs, and in none while it waits.

Decides when a running program is interrupted: when its thread's processor time is used up, or when the pass is
cancelled. Both go through the epoch of the pass's cell, so that nobody else's program notices.
"""

import threading
import time
from collections.abc import Callable
from typing import Final

import trio

from triolet.adapters.quickjs_guest.guest import Guest
from triolet.adapters.quickjs_guest.steps import Step

_FINEST: Final = 0.002
"""Seconds between two looks at a program that is close to its limit."""


class ThreadWorker:
    """One guest, driven through Trio's threads within a limiter."""

    def __init__(self, guest: Guest, cpu_limit: float, threads: trio.CapacityLimiter) -> None:
        self._guest = guest
        self._limit = cpu_limit
        self._threads = threads
        self._done = 0.0
        self._running: tuple[int, float] | None = None
        self._tripped = False

    async def start(self) -> Step:
        """Evaluate the program and drive it to its first rest."""
        return await self._in_thread(self._guest.start)

    async def resume(self, call: int, good: bool, text: str) -> Step:
        """Settle a call and drive the program to its next rest."""
        return await self._in_thread(lambda: self._guest.resume(call, good, text))

    def logs(self) -> tuple[str, int]:
        """What the program logged. Only while nothing runs."""
        return self._guest.logs()

    @property
    def cpu_seconds(self) -> float:
        """Processor time of the program, by its thread's own clock."""
        running = self._running
        if running is None:
            return self._done
        clock, began = running
        try:
            return self._done + time.clock_gettime(clock) - began
        except OSError:
            # The thread has ended between the two looks; what it used is in `_done`, or about to be.
            return self._done

    async def watch(self) -> None:
        """Interrupt the program at its limit, and at once when cancelled."""
        try:
            while True:
                # Processor time passes no faster than time, so there is nothing to see before this is over.
                await trio.sleep(max(_FINEST, self._limit - self.cpu_seconds))
                if self.cpu_seconds >= self._limit:
                    self._tripped = True
                    self._guest.interrupt()
        finally:
            self._guest.interrupt()

    async def _in_thread(self, action: Callable[[], Step]) -> Step:
        def measured() -> Step:
            clock = time.pthread_getcpuclockid(threading.get_ident())
            began = time.clock_gettime(clock)
            self._running = clock, began
            try:
                return action()
            finally:
                self._running = None
                self._done += time.clock_gettime(clock) - began

        step = await trio.to_thread.run_sync(measured, limiter=self._threads)
        if step.kind == "cpu" and not self._tripped:
            # The epoch was moved because the pass is being cancelled.
            await trio.lowlevel.checkpoint()
        if step.kind == "call" and self._done >= self._limit:
            # It came to rest just before anybody looked.
            return Step("cpu")
        return step
