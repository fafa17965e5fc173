"""The child: one guest in a process of its own, driven over its standard input and output.

Decides what it lets its own process have before any program gets near it: no file of any size, no core, a bounded
address space, and a processor time that ends in a kill even if the guest's own limit were passed. It serves one pass,
and ends with its input.
"""

import resource
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, BinaryIO, Final

from triolet.adapters.quickjs_guest.cell import Cell
from triolet.adapters.quickjs_guest.framing import HEADER, BadMessage, framed, length_of, message_of
from triolet.adapters.quickjs_guest.guest import Guest
from triolet.adapters.quickjs_guest.steps import Settings, Step

_FINEST: Final = 0.002
_OWN_BYTES: Final = 1 << 30
"""Address space of the interpreter and the engine."""


def main(guest_descriptor: int) -> None:
    """Serve one pass. The compiled guest is open at this descriptor."""
    order = _received(sys.stdin.buffer)
    if order is None:
        return
    settings = Settings(**order["settings"])
    _hold(settings.memory_bytes, order["cpu_seconds"])
    guest = Guest(Cell(f"/proc/self/fd/{guest_descriptor}"), settings)
    _Serving(guest, order["cpu_seconds"]).run()


class _Serving:
    def __init__(self, guest: Guest, cpu_limit: float) -> None:
        self._guest = guest
        self._limit = cpu_limit
        self._clock = time.pthread_getcpuclockid(threading.get_ident())
        self._before = 0.0
        self._began = time.clock_gettime(self._clock)
        self._told = 0
        self._running = threading.Event()

    def run(self) -> None:
        threading.Thread(target=self._watch, daemon=True).start()
        step = self._driven(self._guest.start)
        while step.kind == "call":
            answer = _received(sys.stdin.buffer)
            if answer is None:
                return
            call, good, text = int(answer["call"]), bool(answer["good"]), str(answer["text"])
            step = self._driven(partial(self._guest.resume, call, good, text))

    def _driven(self, action: Callable[[], Step]) -> Step:
        self._running.set()
        self._began = time.clock_gettime(self._clock)
        step = action()
        self._before += time.clock_gettime(self._clock) - self._began
        self._running.clear()
        if step.kind == "call" and self._before >= self._limit:
            step = Step("cpu")
        logs, dropped = self._guest.logs()
        fresh, self._told = logs[self._told :], len(logs)
        told: dict[str, Any] = {**step._asdict(), "cpu": self._before, "logs": fresh, "dropped": dropped}
        sys.stdout.buffer.write(framed(told))
        sys.stdout.buffer.flush()
        return step

    def _watch(self) -> None:
        while True:
            self._running.wait()
            left = self._limit - self._before - (time.clock_gettime(self._clock) - self._began)
            if left <= 0:
                self._guest.interrupt()
            time.sleep(max(_FINEST, left))


def _received(stream: BinaryIO) -> dict[str, Any] | None:
    header = stream.read(HEADER)
    if len(header) < HEADER:
        return None
    try:
        length = length_of(header)
        data = stream.read(length)
        return message_of(data) if len(data) == length else None
    except BadMessage:
        return None


def _hold(memory_bytes: int, cpu_seconds: float) -> None:
    seconds = int(cpu_seconds) + 5
    space = _OWN_BYTES + memory_bytes
    for name, bound in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_AS, space),
        (resource.RLIMIT_NOFILE, 32),
    ):
        resource.setrlimit(name, (bound, bound))
