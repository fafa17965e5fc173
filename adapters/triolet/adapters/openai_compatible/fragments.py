"""Encoded pieces of requests, kept for the next turn.

Decides how long an encoding is kept, and by what it is found again: by the object it was made from, which is immutable
and handed over anew each turn. So a turn encodes what is new, and copies the rest. Never changes what is sent: a piece
that is not kept is encoded again.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")
E = TypeVar("E")

_ENTRY_BYTES: Final = 512
"""What an entry costs beside its encoding, roughly; so a byte bound bounds tiny pieces as well."""


class Fragments(Generic[T, E]):
    """The encodings of values of type `T`, least recently used first to go. Bounded by `limit` bytes.

    A value is held as long as its encoding, so its identity cannot pass to another value meanwhile.
    """

    __slots__ = ("_encode", "_kept", "_left", "_size")

    def __init__(self, encode: Callable[[T], E], size: Callable[[E], int], limit: int) -> None:
        self._encode = encode
        self._size = size
        self._left = limit
        self._kept: OrderedDict[int, tuple[T, E, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, value: T) -> E:
        """The encoding of `value`. Raises what encoding raises."""
        key = id(value)
        kept = self._kept.get(key)
        if kept is not None:
            self._kept.move_to_end(key)
            return kept[1]
        encoded = self._encode(value)
        size = self._size(encoded) + _ENTRY_BYTES
        self._kept[key] = (value, encoded, size)
        self._left -= size
        while self._left < 0:
            _, (_, _, freed) = self._kept.popitem(last=False)
            self._left += freed
        return encoded
