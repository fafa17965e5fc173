"""What a kernel watches of its own work: runs, turns, tool calls, compactions; and nothing where nobody listens.

Decides only what there is to watch. Which spans that makes is `work`'s; a kernel that nobody listens to has a
`Silence`, which costs a call or two.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol, Self, TypeVar

from triolet.kernel.agent import Agent
from triolet.kernel.machine.compaction import Summarize
from triolet.kernel.pipeline.runnable import Runnable
from triolet.kernel.trace import EventSource
from triolet.ports.capabilities import Capabilities
from triolet.ports.conversation_store import Address
from triolet.ports.identity import CallId, Epoch, RunId
from triolet.ports.language_model import LanguageModel
from triolet.ports.outcomes import Outcome
from triolet.ports.tools import Toolkit

T = TypeVar("T")


class Work(AbstractContextManager["Work"], Protocol):
    """A piece of work that is watched while its scope lasts."""

    def settled(self, outcome: T, problem: str | None = None) -> T:
        """Tell what came of it: a tool's outcome, or anything else with the code of what went wrong."""
        ...


class Watch(Protocol):
    """What the kernel tells of its work."""

    def capabilities(self, bound: Capabilities) -> Capabilities:
        """These capabilities, observed."""
        ...

    def model(self, model: LanguageModel) -> LanguageModel:
        """This model, observed."""
        ...

    def run(
        self,
        agent: Agent[Any, Any],
        source: EventSource,
        address: Address,
        epoch: Epoch,
        tools: Callable[[], Toolkit],
    ) -> AbstractContextManager[object]:
        """An attempt at a run; `tools` gives what it offers."""
        ...

    def turn(self, turn: int) -> None:
        """In a run's own task: this turn is under way from now on, if it is not already."""
        ...

    def call(self, runnable: Runnable) -> Work:
        """A tool call whose handler runs."""
        ...

    def refused(self, outcomes: Mapping[CallId, Outcome]) -> None:
        """These calls have their outcomes without a handler."""
        ...

    def compaction(
        self, agent: Agent[Any, Any], address: Address, run: RunId, action: Summarize, tools: Callable[[], Toolkit]
    ) -> Work:
        """The making of a summary, in a run or between runs."""
        ...


class _Nothing:
    """Work that nobody watches."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def settled(self, outcome: T, problem: str | None = None) -> T:
        """Nothing."""
        return outcome


_NOTHING: Final = _Nothing()


class Silence:
    """The watch of a kernel that nobody listens to."""

    __slots__ = ()

    def capabilities(self, bound: Capabilities) -> Capabilities:
        """As they are."""
        return bound

    def model(self, model: LanguageModel) -> LanguageModel:
        """As it is."""
        return model

    def run(
        self,
        agent: Agent[Any, Any],
        source: EventSource,
        address: Address,
        epoch: Epoch,
        tools: Callable[[], Toolkit],
    ) -> AbstractContextManager[object]:
        """Nothing."""
        return _NOTHING

    def turn(self, turn: int) -> None:
        """Nothing."""

    def call(self, runnable: Runnable) -> Work:
        """Nothing."""
        return _NOTHING

    def refused(self, outcomes: Mapping[CallId, Outcome]) -> None:
        """Nothing."""

    def compaction(
        self, agent: Agent[Any, Any], address: Address, run: RunId, action: Summarize, tools: Callable[[], Toolkit]
    ) -> Work:
        """Nothing."""
        return _NOTHING
