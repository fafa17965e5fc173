"""Server-sent events, parsed from bytes within bounds.

Decides where lines and events end, after the WHATWG rules: LF, CRLF and CR end a line, a blank line ends an event, a
line that begins with a colon is a comment, an event that the stream's end cuts off is dropped. It reads no socket,
keeps no time, and knows nothing of what an event's data means. Text is made clean here: U+FFFD stands for what is not
UTF-8. The work is linear in the bytes, however they are cut into chunks.
"""

import re
from typing import Final

import attrs

from triolet.adapters.openai_compatible.bounds import Limits
from triolet.ports.language_model import MalformedResponse
from triolet.ports.text import decode

_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


@attrs.frozen(kw_only=True, weakref_slot=False)
class Event:
    """One event. `name` is ``message`` unless the server gave another; `data` is all its data lines."""

    name: str
    data: str


class EventParser:
    """Takes chunks of one stream in order, and gives the events that each completes.

    `lines` counts the complete lines so far, comments included: what a caller that watches for a stall looks at.
    """

    __slots__ = ("_data", "_event_size", "_limits", "_name", "_partial", "_partial_size", "_received", "_skip", "lines")

    def __init__(self, limits: Limits) -> None:
        self.lines = 0
        self._limits = limits
        self._received = 0
        self._partial: list[bytes] = []
        self._partial_size = 0
        self._skip = b""
        self._name = ""
        self._data: list[bytes] = []
        self._event_size = 0

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that `chunk` completes. Raises `MalformedResponse` beyond a bound; then the parser is spent."""
        self._received += len(chunk)
        if self._received > self._limits.response_bytes:
            raise MalformedResponse(problem=f"the stream is longer than {self._limits.response_bytes} bytes")
        # A CR that ended the last chunk has ended its line already; a LF that follows is the same line end.
        if self._skip and chunk:
            chunk = chunk.removeprefix(self._skip)
            self._skip = b""
        if chunk.endswith(b"\r"):
            self._skip = b"\n"
        *ended, rest = _LINE_END.split(chunk)
        events: list[Event] = []
        for line in ended:
            whole = self._join(line)
            self.lines += 1
            if event := self._line(whole):
                events.append(event)
        if rest:
            self._partial.append(rest)
            self._partial_size += len(rest)
            self._check_line(self._partial_size)
        return events

    def _join(self, line: bytes) -> bytes:
        if self._partial:
            line = b"".join((*self._partial, line))
            self._partial.clear()
            self._partial_size = 0
        self._check_line(len(line))
        return line

    def _check_line(self, size: int) -> None:
        if size > self._limits.line_bytes:
            raise MalformedResponse(problem=f"a line is longer than {self._limits.line_bytes} bytes")

    def _line(self, line: bytes) -> Event | None:
        if self.lines == 1:
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if not line:
            return self._dispatch()
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._collect(value)
        elif field == b"event":
            self._name = decode(value)
        elif field == b"error":
            # Not of the standard: some servers report a failure of the stream in a field of its own.
            self._name = "error"
            self._collect(value)
        return None

    def _collect(self, value: bytes) -> None:
        self._event_size += len(value) + 1
        if self._event_size > self._limits.event_bytes:
            raise MalformedResponse(problem=f"an event is longer than {self._limits.event_bytes} bytes")
        self._data.append(value)

    def _dispatch(self) -> Event | None:
        name, data = self._name, self._data
        self._name, self._data, self._event_size = "", [], 0
        if not data:
            return None
        return Event(name=name or "message", data=decode(b"\n".join(data)))
