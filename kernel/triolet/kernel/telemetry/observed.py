"""One operation of a port under way: how it is named, how often it was tried, and what is told when it ends.

Decides what a span and the metrics of an operation say of its end. It wraps nothing; `ports` does.
"""

from collections.abc import Mapping
from typing import Final, Literal

import attrs

from triolet.kernel.telemetry.described import content_of, told_of_result
from triolet.kernel.telemetry.endings import WELL, ending_of
from triolet.kernel.telemetry.otel import Attributes, Backend, Current, OpenSpan

VERSIONS: Final[Mapping[str, int]] = {}
"""The version of a port's contract where it is not 1."""
TRIED: Final = 1_000
"""Resources whose failed operations are remembered, so that a retry can be told as one."""


@attrs.frozen(weakref_slot=False)
class Operation:
    """One operation of one port, as telemetry names it."""

    capability: str
    port: str
    name: str
    kind: Literal["call", "scope"]
    parameters: tuple[str, ...]

    @property
    def span(self) -> str:
        """The span's name."""
        return f"triolet.{self.capability}.{self.name}"

    @property
    def labels(self) -> Attributes:
        """What metrics say of it, and spans too."""
        return {"triolet.operation.name": f"{self.port}.{self.name}"}

    @property
    def version(self) -> int:
        """The version of the port's contract."""
        return VERSIONS.get(self.port, 1)


class Tries:
    """How often operations on a resource were begun and did not end well: the next one is that retry."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def before(self, key: str | None) -> int:
        """How many tries there were already."""
        return 0 if key is None else self._counts.get(key, 0)

    def ended(self, key: str | None, *, well: bool) -> None:
        """Note how one ended. Only the last `TRIED` resources are remembered."""
        if key is None:
            return
        count = self._counts.pop(key, 0)
        if not well:
            self._counts[key] = count + 1
            if len(self._counts) > TRIED:
                del self._counts[next(iter(self._counts))]


@attrs.frozen(eq=False, weakref_slot=False)
class Observed:
    """One operation under way."""

    operation: Operation
    backend: Backend
    span: OpenSpan
    content_limit: int | None
    tries: "Tries"
    key: str | None

    @property
    def current(self) -> Current:
        """The scope in which the adapter works."""
        return self.span.current

    def returned(self, result: object) -> None:
        """Tell what came of it, and end."""
        if self.span.recording:
            self.span.tell(told_of_result(result))
            if self.content_limit is not None:
                self.span.tell(content_of(result, self.content_limit))
        self.ended(None)

    def ended(self, error: BaseException | None) -> None:
        """End, by this exception if there is one."""
        ending = ending_of(error)
        self.tries.ended(self.key, well=ending is WELL)
        seconds = self.span.end(ending)
        labels = self.operation.labels | ending.labels
        self.backend.seconds.record(seconds, labels)
        if ending.outcome == "failed":
            self.backend.failures.add(1, labels)
