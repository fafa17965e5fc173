"""Ctrl-C and SIGTERM: the first one is a wish that the run can grant in its own way.

Decides that the first signal asks politely, so that the run is sealed and whatever was started is stopped, and that a
second one has its usual effect. It works in the main thread of a process only; elsewhere signals are not its business.
"""

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

import trio

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """Whether a signal came, and what to do when one does."""

    def __init__(self, on_signal: Callable[[], None]) -> None:
        self.on_signal = on_signal
        """Called once, in the Trio thread."""
        self.number: int | None = None

    @property
    def status(self) -> int:
        """The exit status that shells expect of a program which that signal ended."""
        return 128 + (self.number or 0)

    def arrived(self) -> None:
        """Do what was asked for."""
        self.on_signal()


@contextmanager
def listening(on_signal: Callable[[], None]) -> Generator[Interruption]:
    """Listen while the scope is open. Call it inside of Trio."""
    interruption = Interruption(on_signal)
    if threading.current_thread() is not threading.main_thread():
        yield interruption
        return
    token = trio.lowlevel.current_trio_token()
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def handle(number: int, _: object) -> None:
        interruption.number = number
        restore()
        token.run_sync_soon(interruption.arrived)

    for number in SIGNALS:
        signal.signal(number, handle)
    try:
        yield interruption
    finally:
        restore()
