"""The history: an append-only sequence of messages that costs the same to extend at any length.

Decides how successive states share one buffer: a view is a buffer and a length, and appending to the newest
view extends the buffer in place; and which record completed each message, so that a range of the log can be told from
a range of messages. It never changes a message, and never lets an older view see a newer one.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, overload

from triolet.ports.identity import SequenceNumber
from triolet.ports.messages import Message


class History(Sequence[Message]):
    """The first `length` messages of a shared buffer. Immutable to whoever holds it."""

    __slots__ = ("_buffer", "_completed", "_length")

    def __init__(self, buffer: list[Message], completed: "array[int]", length: int) -> None:
        """Take over `buffer`, of which this view sees the first `length` messages.

        `completed` holds, for each message, the number of the record that completed it.
        """
        self._buffer = buffer
        self._completed = completed
        self._length = length

    def plus(self, message: Message, completed: SequenceNumber) -> "History":
        """This history and one more message: amortised constant time for the newest view.

        An older view, left behind when a commit failed, copies before it extends: the buffer may hold
        messages that never became true.
        """
        buffer, numbers, length = self._buffer, self._completed, self._length
        if len(buffer) != length:
            buffer, numbers = buffer[:length], numbers[:length]
        buffer.append(message)
        numbers.append(completed)
        return History(buffer, numbers, length + 1)

    def completed_by(self, index: int) -> SequenceNumber:
        """The number of the record that completed the message at `index` (0 or more)."""
        if not 0 <= index < self._length:
            raise IndexError(f"message {index} of {self._length}")
        return SequenceNumber(self._completed[index])

    def covered_by(self, through: SequenceNumber) -> int | None:
        """How many messages the log holds up to record `through`; None unless that record completed one of them."""
        index = bisect_left(self._completed, through, 0, self._length)
        return index + 1 if index < self._length and self._completed[index] == through else None

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Message, ...]: ...
    def __getitem__(self, index: int | slice) -> Message | tuple[Message, ...]:
        if isinstance(index, slice):
            return tuple(self._buffer[position] for position in range(*index.indices(self._length)))
        if not -self._length <= index < self._length:
            raise IndexError(f"message {index} of {self._length}")
        return self._buffer[index if index >= 0 else self._length + index]

    def __iter__(self) -> Iterator[Message]:
        for index in range(self._length):
            yield self._buffer[index]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, History):
            return NotImplemented
        return self._length == other._length and all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(self._length)

    def __repr__(self) -> str:
        return f"History({self._length} messages)"


def resumed_history(entries: Iterable[tuple[Message, SequenceNumber]]) -> History:
    """A history of its own that holds these messages, each with the number of the record that completed it."""
    buffer: list[Message] = []
    completed = array("Q")
    for message, number in entries:
        buffer.append(message)
        completed.append(number)
    return History(buffer, completed, len(buffer))


def history_of(messages: Iterable[Message]) -> History:
    """A history of its own that holds `messages`, as if record n had completed the n-th."""
    buffer = list(messages)
    return History(buffer, array("Q", range(1, len(buffer) + 1)), len(buffer))


EMPTY: Final = history_of(())
