"""The handle on a running run: its events, its result, and the wish to end it.

Decides nothing about the run. It lives inside the scope that `stream` opens, and leaving that scope ends the run.
"""

from typing import Any, Generic, Protocol, TypeVar

import trio

from triolet.kernel.agent import Agent
from triolet.kernel.interpreter import Interpreter
from triolet.kernel.offers import InputRefused
from triolet.kernel.results import Owner, RunResult, result_of
from triolet.kernel.trace import EventReader, EventSource
from triolet.ports.admission import Admitted
from triolet.ports.identity import ConversationId, RunId

Out = TypeVar("Out")


class InputDoor(Protocol):
    """Where a handle's input goes: the conversation."""

    async def steer(self, text: str, *, author: str | None = None, key: str | None = None) -> Admitted | InputRefused:
        """See `Conversation.steer`."""
        ...

    async def follow_up(
        self, text: str, *, author: str | None = None, key: str | None = None
    ) -> Admitted | InputRefused:
        """See `Conversation.follow_up`."""
        ...


class RunHandle(Generic[Out]):
    """A run under way. Iterating it reads its events from the first; every iteration is another reader."""

    def __init__(
        self,
        interpreter: Interpreter,
        source: EventSource,
        agent: Agent[Any, Out],
        owner: Owner,
        admission: InputDoor,
    ) -> None:
        self._owner = owner
        self._admission = admission
        self._interpreter = interpreter
        self._source = source
        self._agent = agent
        self._ended = trio.Event()
        self._result: RunResult[Out] | None = None

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
        """Wait for the run to end; what it came to. Asking again gives the same answer."""
        await self._ended.wait()
        if self._source.terminal is None:
            raise AssertionError("a run that ends has its terminal event, or raised")
        if self._result is None:
            self._result = result_of(self._source.terminal, self._agent, self._owner)
        return self._result

    async def steer(self, text: str, *, author: str | None = None, key: str | None = None) -> Admitted | InputRefused:
        """Offer input that enters before the run's next model request (RUN-014). See `Conversation.steer`."""
        return await self._admission.steer(text, author=author, key=key)

    async def follow_up(
        self, text: str, *, author: str | None = None, key: str | None = None
    ) -> Admitted | InputRefused:
        """Offer input that enters when the run would otherwise stop (RUN-015). See `Conversation.follow_up`."""
        return await self._admission.follow_up(text, author=author, key=key)

    def cancel(self) -> None:
        """Ask the run to end as aborted. It seals first; `result` tells when. Idempotent."""
        self._interpreter.request_stop()

    def mark_ended(self) -> None:
        """For the scope that owns the run."""
        self._ended.set()
