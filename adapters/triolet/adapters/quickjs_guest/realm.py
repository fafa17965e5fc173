"""Realms that were prepared once, and are copied into every guest.

Decides what a guest's memory is at the beginning of a pass: the engine, a context and the bridge, as they were before
any program ran; and how many realms whose bridge is open for some namespaces are kept. A guest at rest is its memory
and nothing else, so a copy of what is written there is a whole guest.
"""

import threading
from collections import OrderedDict
from typing import Final, NamedTuple

from triolet.adapters.quickjs_guest.steps import Settings

KEPT: Final = 16
"""Realms with an open bridge that one process keeps, of about a quarter of a megabyte each: the last ones used."""
_BLOCK: Final = 4096


class Bridge(NamedTuple):
    """Where the functions of an open bridge are, and where it logs (-1: nowhere)."""

    take: int
    settle: int
    finish: int
    describe: int
    log_at: int


class Realm(NamedTuple):
    """Where things are in a memory, how many pages of 64 KiB it has, and what is written in it. The rest is zero.

    `make` opens a bridge; `bridge` is the one that is open already.
    """

    runtime: int
    context: int
    scratch: int
    make: int
    pages: int
    parts: tuple[tuple[int, bytes], ...]
    bridge: Bridge | None = None


class Realms:
    """The realms of one compiled guest. Safe from any thread."""

    def __init__(self, first: Realm) -> None:
        self._first = first
        self._opened: OrderedDict[tuple[str, int], Realm] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, settings: Settings) -> Realm:
        """The realm for a pass: with its bridge open, if it was opened for the same before."""
        key = _key(settings)
        with self._lock:
            if key not in self._opened:
                return self._first
            self._opened.move_to_end(key)
            return self._opened[key]

    def keep(self, settings: Settings, realm: Realm) -> None:
        """Keep a realm whose bridge was just opened, and in which no program has run."""
        with self._lock:
            self._opened[_key(settings)] = realm
            while len(self._opened) > KEPT:
                self._opened.popitem(last=False)


def _key(settings: Settings) -> tuple[str, int]:
    return settings.manifest, settings.output_bytes


def written_parts(memory: bytes) -> tuple[tuple[int, bytes], ...]:
    """What of a memory is not zero: places and bytes, in order."""
    parts: list[tuple[int, bytes]] = []
    empty = bytes(_BLOCK)
    start: int | None = None
    for at in range(0, len(memory) + _BLOCK, _BLOCK):
        block = memory[at : at + _BLOCK]
        if block and block != empty[: len(block)]:
            start = at if start is None else start
        elif start is not None:
            parts.append((start, memory[start:at]))
            start = None
    return tuple(parts)
