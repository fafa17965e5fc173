"""Bounded capture of one output stream: its beginning, its end, and how much was between.

Decides what is kept while bytes arrive, so that memory is bounded whatever a command writes and nobody who writes is
ever held up. Cuts fall between characters. It reads nothing by itself. (SEC-013)
"""

from collections import deque

from triolet.ports.sandbox import Captured
from triolet.ports.text import decode


class Capture:
    """Keeps at most `limit` bytes of what it is fed, half of them from the end once it is more than that."""

    def __init__(self, limit: int) -> None:
        self._head_room = limit - limit // 2
        self._tail_room = limit // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._total = 0

    def feed(self, data: bytes) -> bytes:
        """Take `data` in, and give the part of it that belongs to the beginning."""
        self._total += len(data)
        first = data[: self._head_room - len(self._head)]
        self._head += first
        rest = data[len(first) :]
        if rest:
            # Pieces are merged, so that a writer of single bytes costs no more than any other.
            if self._tail and len(self._tail[-1]) < 4096:
                self._tail[-1] += rest
            else:
                self._tail.append(rest)
            self._tail_size += len(rest)
            while self._tail and self._tail_size - len(self._tail[0]) >= self._tail_room:
                self._tail_size -= len(self._tail.popleft())
        return first

    def captured(self) -> Captured:
        """What is kept, as text."""
        tail = b"".join(self._tail)[-self._tail_room :] if self._tail_room else b""
        kept = len(self._head) + len(tail)
        if kept == self._total:
            return Captured(head=decode(bytes(self._head) + tail), tail="", total_bytes=self._total, dropped_bytes=0)
        head, tail = whole_at_end(bytes(self._head)), whole_at_start(tail)
        return Captured(
            head=decode(head),
            tail=decode(tail),
            total_bytes=self._total,
            dropped_bytes=self._total - len(head) - len(tail),
        )


def whole_at_end(data: bytes) -> bytes:
    """`data` without the beginning of a character at its end that the cut went through."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0b1100_0000 == 0b1000_0000:
            continue
        length = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return data[:-back] if length > back else data
    return data


def whole_at_start(data: bytes) -> bytes:
    """`data` without the rest of a character at its start that the cut went through."""
    for start in range(min(3, len(data))):
        if data[start] & 0b1100_0000 != 0b1000_0000:
            return data[start:]
    if len(data) <= 3:
        return b""
    # Four in a row are no character's rest, but bytes that are no text anyway.
    return data[3:] if data[3] & 0b1100_0000 != 0b1000_0000 else data
