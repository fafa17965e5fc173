"""A realm that was prepared once, and is copied into every guest.

Decides what a guest's memory is at the beginning of a pass: the engine, a context and the bridge, as they were before
any program ran. A guest at rest is its memory and nothing else, so a copy of what is written there is a whole guest.
"""

from typing import Final, NamedTuple

_BLOCK: Final = 4096


class Realm(NamedTuple):
    """Where things are in a memory, how many pages of 64 KiB it has, and what is written in it. The rest is zero."""

    runtime: int
    context: int
    scratch: int
    make: int
    pages: int
    parts: tuple[tuple[int, bytes], ...]


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
