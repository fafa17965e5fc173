"""Turns: what a scripted model does when it is asked once.

Decides where a turn waits and where it fails. A turn is an immutable value, built once and played any number of times.
Making its parts out of text and calls is `pieces`.
"""

import attrs
import trio

from triolet.ports.errors import Misuse
from triolet.ports.language_model import Finished, ModelPart


@attrs.define(kw_only=True)
class InvalidScript(Misuse):
    """A script that cannot be played. Raised when it is made; for a turn that a function returns, when it does."""

    problem: str

    @property
    def message(self) -> str:
        """What is wrong with it."""
        return f"script: {self.problem}"


@attrs.frozen(kw_only=True, weakref_slot=False)
class Fail:
    """Raise `error` here."""

    error: Exception


@attrs.frozen(kw_only=True, weakref_slot=False)
class Hang:
    """Set `began`, then wait until cancelled."""

    began: trio.Event


@attrs.frozen(kw_only=True, weakref_slot=False)
class Gate:
    """Go on once somebody has set `opens`."""

    opens: trio.Event


Control = Fail | Hang | Gate
Step = ModelPart | Control


@attrs.frozen(kw_only=True, weakref_slot=False)
class Turn:
    """One answer: `entry` happens while the scope is entered, `steps` while it is read.

    `parts` is the same as `steps` where nothing waits or fails, else None. The methods return changed copies; their
    `after` counts parts from the start (0: before the first), and None means while the scope is entered.
    """

    entry: tuple[Control, ...] = ()
    steps: tuple[Step, ...] = ()
    parts: tuple[ModelPart, ...] | None = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        parts = tuple(step for step in self.steps if not isinstance(step, Control))
        object.__setattr__(self, "parts", parts if len(parts) == len(self.steps) else None)

    def failing(self, error: Exception, after: int | None = None) -> "Turn":
        """This turn, but raising `error`; nothing that would come later is played."""
        if not isinstance(error, Exception):
            raise InvalidScript(problem="failing() takes an exception, not a class or anything else")
        return self._ending(Fail(error=error), after)

    def hanging(self, began: trio.Event, after: int | None = None) -> "Turn":
        """This turn, but waiting for ever; `began` is set when the wait begins."""
        return self._ending(Hang(began=_event(began)), after)

    def gated(self, opens: trio.Event, after: int | None = None) -> "Turn":
        """This turn, but waiting for `opens` before it goes on."""
        gate = Gate(opens=_event(opens))
        if after is None:
            return Turn(entry=(*self.entry, gate), steps=self.steps)
        place = self._place(after)
        return Turn(entry=self.entry, steps=(*self.steps[:place], gate, *self.steps[place:]))

    def cut(self, error: Exception | None = None) -> "Turn":
        """This turn without its `Finished` and what follows it: the connection closed, or broke with `error`."""
        finished = [place for place, step in enumerate(self.steps) if isinstance(step, Finished)]
        if not finished:
            raise InvalidScript(problem="cut() needs a turn that finishes")
        rest = Turn(entry=self.entry, steps=self.steps[: finished[0]])
        return rest if error is None else rest.failing(error, after=rest._count)

    @property
    def _count(self) -> int:
        return sum(not isinstance(step, Control) for step in self.steps)

    def _ending(self, last: Control, after: int | None) -> "Turn":
        if after is None:
            return Turn(entry=(*self.entry, last))
        return Turn(entry=self.entry, steps=(*self.steps[: self._place(after)], last))

    def _place(self, after: int) -> int:
        """The index in `steps` behind the first `after` parts, and behind what waits there already."""
        if not 0 <= after <= self._count:
            raise InvalidScript(problem=f"after={after} in a turn of {self._count} parts")
        parts = 0
        for place, step in enumerate(self.steps):
            if not isinstance(step, Control):
                if parts == after:
                    return place
                parts += 1
        return len(self.steps)


def _event(event: trio.Event) -> trio.Event:
    if not isinstance(event, trio.Event):
        raise InvalidScript(problem=f"a wait takes a trio.Event, no {type(event).__name__}")
    return event
