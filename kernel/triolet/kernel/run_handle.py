"""The handle on a running run: its events, its result, and the wish to end it.

Decides nothing about the run. It lives inside the scope that `stream` opens, and leaving that scope ends the run.
"""

from typing import Generic, TypeVar

import trio

from triolet.kernel.interpreter import Interpreter
from triolet.kernel.results import RunResult, result_of
from triolet.kernel.trace import EventReader, EventSource
from triolet.ports.identity import ConversationId, RunId
from triolet.ports.schema import Codec

Out = TypeVar("Out")


class RunHandle(Generic[Out]):
    """A run under way. Iterating it reads its events from the first; every iteration is another reader."""

    def __init__(self, interpreter: Interpreter, source: EventSource, output: Codec[Out]) -> None:
        self._interpreter = interpreter
        self._source = source
        self._output = output
        self._ended = trio.Event()

    @property
    def run(self) -> RunId:
        """The run's identity."""
        return self._source.trace.run

    @property
    def conversation(self) -> ConversationId:
        """Where the run takes place."""
        return self._source.trace.conversation

    def __aiter__(self) -> EventReader:
        return self._source.reader()

    def events(self) -> EventReader:
        """Read the run's events from the first to the terminal one, at the reader's own pace.

        A reader that falls behind misses live events and gets a `Gap` that counts them; it never holds up the
        run (RUN-010).
        """
        return self._source.reader()

    async def result(self) -> RunResult[Out]:
        """Wait for the run to end; what it came to. Asking again gives an equal answer."""
        await self._ended.wait()
        if self._source.terminal is None:
            raise AssertionError("a run that ends has its terminal event, or raised")
        return result_of(self._source.terminal, self._output)

    def cancel(self) -> None:
        """Ask the run to end as aborted. It seals first; `result` tells when. Idempotent."""
        self._interpreter.request_stop()

    def mark_ended(self) -> None:
        """For the scope that owns the run."""
        self._ended.set()
