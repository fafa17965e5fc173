"""Playing one turn: the scope and the iterator that a scripted answer comes out of.

Decides when a turn is taken (on entering the scope, not before), when a step waits or fails, and that an answer is
dead once its scope was left. A turn of parts alone never reaches the scheduler, so that a benchmark measures its
subject and not this file. It decides nothing about what a turn holds.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from types import TracebackType

import attrs
import trio

from triolet.adapters.scripted_model.turns import Fail, Gate, Hang, Step, Turn
from triolet.ports.errors import Misuse
from triolet.ports.language_model import ModelPart, ModelRequest


@attrs.define(kw_only=True)
class AnswerClosed(Misuse):
    """A part was asked for after the answer's scope had been left, or the scope was entered twice."""

    problem: str

    @property
    def message(self) -> str:
        """What was done to the answer."""
        return f"scripted answer: {self.problem}"


class Playing:
    """One answer. Enter it once; what comes out yields the parts, and only inside the scope."""

    __slots__ = ("_parts", "_request", "_take")

    def __init__(self, take: Callable[[ModelRequest], Turn], request: ModelRequest) -> None:
        self._take = take
        self._request = request
        self._parts: _Parts | _Steps | None = None

    async def __aenter__(self) -> AsyncIterator[ModelPart]:
        """Take the turn, do what it does before streaming, and return its iterator."""
        if self._parts is not None:
            raise AnswerClosed(problem="its scope was entered a second time")
        # Like any request, this one is not sent from a cancelled scope. The check alone never yields.
        await trio.lowlevel.checkpoint_if_cancelled()
        turn = self._take(self._request)
        parts = turn.parts
        self._parts = _Steps(turn.steps) if parts is None else _Parts(parts)
        for step in turn.entry:
            await _perform(step)
        return self._parts

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Make the iterator unusable."""
        if self._parts is not None:
            self._parts.close()


class _Parts:
    """The fast way: nothing but parts."""

    __slots__ = ("_rest",)

    def __init__(self, parts: tuple[ModelPart, ...]) -> None:
        self._rest: Iterator[ModelPart] = iter(parts)

    def __aiter__(self) -> AsyncIterator[ModelPart]:
        return self

    async def __anext__(self) -> ModelPart:
        for part in self._rest:
            return part
        raise StopAsyncIteration

    def close(self) -> None:
        """From here on the iterator raises."""
        self._rest = _Closed()


class _Steps:
    """The general way: parts with waits and failures between them."""

    __slots__ = ("_rest",)

    def __init__(self, steps: tuple[Step, ...]) -> None:
        self._rest: Iterator[Step] = iter(steps)

    def __aiter__(self) -> AsyncIterator[ModelPart]:
        return self

    async def __anext__(self) -> ModelPart:
        for step in self._rest:
            if isinstance(step, Fail | Hang | Gate):
                await _perform(step)
            else:
                return step
        raise StopAsyncIteration

    def close(self) -> None:
        """From here on the iterator raises."""
        self._rest = _Closed()


class _Closed:
    """The rest of an answer whose scope was left."""

    __slots__ = ()

    def __iter__(self) -> Iterator[ModelPart]:
        return self

    def __next__(self) -> ModelPart:
        raise AnswerClosed(problem="a part was asked for after its scope was left")


async def _perform(step: Fail | Hang | Gate) -> None:
    match step:
        case Fail(error=error):
            # One error object may fail many turns; each time it starts with a trace of its own.
            raise error.with_traceback(None)
        case Hang(began=began):
            began.set()
            await trio.sleep_forever()
        case Gate(opens=opens):
            await opens.wait()
