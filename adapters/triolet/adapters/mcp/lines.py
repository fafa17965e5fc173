"""Lines of a byte stream, each within a bound.

Decides where lines end, and that of one that is too long only its beginning and its end are kept, whatever its length.
It reads nothing by itself. (SEC-013, F-040)
"""

from typing import Final

import attrs

EDGE: Final = 256
"""Bytes that are kept of each end of a line that is too long."""


@attrs.frozen(kw_only=True, weakref_slot=False)
class Overlong:
    """A line that was too long: its first and last `EDGE` bytes, and how long it was."""

    head: bytes
    tail: bytes
    size: int


class Lines:
    """Cuts chunks, in order, into lines without their ends. The work is linear in the bytes.

    Blank lines are left out unless `keep_blank` is set.
    """

    __slots__ = ("_head", "_keep_blank", "_limit", "_parts", "_size", "_tail")

    def __init__(self, limit: int, *, keep_blank: bool = False) -> None:
        self._limit = limit
        self._keep_blank = keep_blank
        self._parts: list[bytes] = []
        self._size = 0
        self._head = b""
        self._tail = b""

    def feed(self, chunk: bytes) -> list[bytes | Overlong]:
        """The lines that `chunk` completes."""
        *ended, rest = chunk.split(b"\n")
        lines: list[bytes | Overlong] = []
        for piece in ended:
            self._add(piece)
            line = self._taken()
            if self._keep_blank or isinstance(line, Overlong) or line.strip():
                lines.append(line)
        self._add(rest)
        return lines

    @property
    def is_overlong(self) -> bool:
        """Whether the line that has not ended yet is too long already."""
        return self._size > self._limit

    def rest(self) -> bytes | Overlong | None:
        """What came after the last line end, once the stream has ended."""
        line = self._taken()
        return line if isinstance(line, Overlong) or line.strip() else None

    def _add(self, piece: bytes) -> None:
        if not piece:
            return
        self._size += len(piece)
        if self._size <= self._limit:
            self._parts.append(piece)
            return
        if self._parts or not self._head:
            whole = b"".join(self._parts)
            self._parts = []
            self._head = (whole[:EDGE] + piece[:EDGE])[:EDGE]
            self._tail = whole[-EDGE:]
        self._tail = (self._tail + piece[-EDGE:])[-EDGE:]

    def _taken(self) -> bytes | Overlong:
        size, self._size = self._size, 0
        if size > self._limit:
            line = Overlong(head=self._head, tail=self._tail, size=size)
            self._head = self._tail = b""
            return line
        parts, self._parts = self._parts, []
        return b"".join(parts).removesuffix(b"\r")
