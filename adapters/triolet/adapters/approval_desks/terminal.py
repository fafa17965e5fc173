"""One terminal, read and written without a thread: what a task waits for, it can stop waiting for.

Decides how a terminal is reached: by its own name and with a descriptor of its own, so that neither a redirected output
nor the mode of anybody else's descriptor matters. POSIX only. It knows nothing of what is asked on it.
"""

import io
import locale
import os
import termios
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import trio

from triolet.adapters.console import Page, open_page
from triolet.ports.text import repair

USUAL_COLUMNS: Final = 80

_CHUNK: Final = 4_096
_LONGEST_LINE: Final = 65_536


class NoTerminal(Exception):
    """There is no terminal, or there is one no more. The text says what was tried."""


@contextmanager
def open_terminal(descriptor: int) -> Generator["Terminal"]:
    """The terminal that `descriptor` is open on. Leaves `descriptor` as it is. Raises `NoTerminal`."""
    try:
        # Its own open file: whether reading waits is a property that descriptors of one open file share.
        own = os.open(os.ttyname(descriptor), os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise NoTerminal(f"descriptor {descriptor} is no terminal ({error.strerror})") from error
    try:
        yield Terminal(own)
    finally:
        os.close(own)


class Terminal:
    """Lines from a person, and text to one. At most one task at a time reads, and one writes."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._encoding = locale.getpreferredencoding(do_setlocale=False)
        self._began = b""

    def forget_typed(self) -> None:
        """Drop what was typed so far: it was typed before anybody saw what comes next. Raises `NoTerminal`."""
        self._began = b""
        try:
            termios.tcflush(self._descriptor, termios.TCIFLUSH)
        except termios.error as error:
            raise NoTerminal("the terminal is gone") from error

    async def line(self) -> str | None:
        """The next whole line, without its end; None if the person ends the input. Raises `NoTerminal`.

        Waits as long as it takes. Cancellation loses nothing that was typed.
        """
        while True:
            # A terminal that somebody set to give single keys ends a line with CR.
            for end in (b"\n", b"\r"):
                line, found, rest = self._began.partition(end)
                if found:
                    self._began = rest
                    return repair(line.decode(self._encoding, "replace"))
            await trio.lowlevel.wait_readable(self._descriptor)
            try:
                more = os.read(self._descriptor, _CHUNK)
            except BlockingIOError:
                continue  # somebody else has read it
            except OSError as error:
                raise NoTerminal(f"the terminal is gone ({error.strerror})") from error
            if not more:
                self._require_present()
                return None
            self._began = (self._began + more)[-_LONGEST_LINE:]

    def _require_present(self) -> None:
        """A terminal that was hung up reads like one whose user has ended the input; but it has no settings."""
        try:
            termios.tcgetattr(self._descriptor)
        except termios.error as error:
            raise NoTerminal("the terminal is gone") from error

    async def write(self, text: str) -> None:
        """Write `text`. Raises `NoTerminal`. A cancelled call may have written a part."""
        left = memoryview(text.encode(self._encoding, "replace"))
        while left:
            await trio.lowlevel.wait_writable(self._descriptor)
            try:
                left = left[os.write(self._descriptor, left) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise NoTerminal(f"the terminal is gone ({error.strerror})") from error

    def sheet(self) -> "Sheet":
        """An empty sheet as wide as the terminal is now."""
        return Sheet(self._encoding, self._columns())

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._descriptor).columns or USUAL_COLUMNS
        except OSError:
            return USUAL_COLUMNS


class _Buffer(io.StringIO):
    """Text meant for a terminal: whoever writes to it may use colours."""

    def __init__(self, encoding: str) -> None:
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def isatty(self) -> bool:
        return True


class Sheet:
    """Rows to write in one go. `page` lays them out."""

    def __init__(self, encoding: str, columns: int) -> None:
        self._buffer = _Buffer(encoding)
        self.page: Page = open_page(self._buffer, width=columns)

    @property
    def text(self) -> str:
        """What the rows come to."""
        return self._buffer.getvalue()
