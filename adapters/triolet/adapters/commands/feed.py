"""Events on their way from a running command to whoever reads them.

Decides that the command never waits for its reader, and that what waits is bounded all the same: by the beginning of
each stream that is kept, by the number of artifacts, and one event each for start and end. (SEC-013)
"""

from collections import deque

import trio

from triolet.adapters.commands.capture import whole_at_end
from triolet.ports.sandbox import Output, SandboxEvent, Started, StreamName
from triolet.ports.text import decode


class Feed:
    """An async iterator of events. Ends after `close`, or raises what was given to it."""

    def __init__(self) -> None:
        self._waiting: deque[SandboxEvent] = deque()
        self._text: dict[StreamName, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        self._woken = trio.Event()
        self._closed = False
        self._error: BaseException | None = None

    def put(self, event: SandboxEvent) -> None:
        """Add an event."""
        self._waiting.append(event)
        self._woken.set()

    def put_output(self, stream: StreamName, data: bytes) -> None:
        """Add output; pieces that nobody has read yet become one."""
        self._text[stream] += data
        self._woken.set()

    def close(self, error: BaseException | None = None) -> None:
        """No event comes after those that are there."""
        self._closed = True
        self._error = error
        self._woken.set()

    def __aiter__(self) -> "Feed":
        return self

    async def __anext__(self) -> SandboxEvent:
        await trio.lowlevel.checkpoint()
        while True:
            event = self._next()
            if event is not None:
                return event
            if self._closed:
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            self._woken = trio.Event()
            await self._woken.wait()

    def _next(self) -> SandboxEvent | None:
        if self._waiting and isinstance(self._waiting[0], Started):
            return self._waiting.popleft()
        for stream, held in self._text.items():
            # The rest of a character may still come; where it does not, it lies beyond what is shown.
            ready = whole_at_end(bytes(held))
            if ready:
                del held[: len(ready)]
                return Output(stream=stream, text=decode(ready))
        return self._waiting.popleft() if self._waiting else None
