"""Server-sent events with their ids, cut out of bytes within a bound.

Decides where events end, by the WHATWG rules as far as MCP uses them: `data`, `id` and `retry`; comments and other
fields are skipped, an event that the stream's end cuts off is dropped. It reads nothing by itself. (SEC-013)
"""

from typing import Final

import attrs

from triolet.adapters.mcp.lines import Lines, Overlong
from triolet.ports.text import decode

_LONGEST_RETRY: Final = 60_000


@attrs.frozen(kw_only=True, weakref_slot=False)
class Event:
    """One event with data. One without only has an id or a time to wait, which `Events` remembers."""

    data: bytes


class EventTooLong(Exception):
    """An event, or one line of it, is longer than allowed. The stream is of no more use."""


class Events:
    """Takes the chunks of one stream in order. `last_id` and `retry` (seconds) are what the server said last."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lines = Lines(limit + 64, keep_blank=True)
        self._data: list[bytes] = []
        self._size = 0
        self.last_id: str | None = None
        self.retry: float | None = None

    @classmethod
    def after(cls, before: "Events") -> "Events":
        """For the stream that goes on where `before` broke off: half an event is forgotten, what was said is not."""
        events = cls(before.limit)
        events.last_id, events.retry = before.last_id, before.retry
        return events

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that `chunk` completes. Raises `EventTooLong`."""
        events: list[Event] = []
        for line in self._lines.feed(chunk):
            if isinstance(line, Overlong):
                raise EventTooLong
            if line:
                self._field(line)
            else:
                data = b"\n".join(self._data)
                self._data, self._size = [], 0
                if data:
                    events.append(Event(data=data))
        if self._lines.is_overlong:
            raise EventTooLong
        return events

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._size += len(value) + 1
            if self._size > self.limit:
                raise EventTooLong
            self._data.append(value)
        elif name == b"id" and b"\0" not in value and len(value) <= 1_000:
            self.last_id = decode(value)
        elif name == b"retry" and value.isdigit() and len(value) < 10:
            self.retry = min(int(value), _LONGEST_RETRY) / 1_000
