"""How an operation ended: well, failed, or cancelled; and of a failure its family and its type, never its text.

Decides which names a failure is known by in spans and metrics. No message, argument, note or cause of an exception is
looked at (CAP-013).
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, Literal, cast

import attrs
import trio

from triolet.ports.errors import Conflict, Corrupt, Fenced, Misuse, TrioletError, Unavailable

MAX_TYPE: Final = 100
"""Characters of a type's name."""

_FAMILIES: Final[Mapping[type[BaseException], str]] = {
    Conflict: "conflict",
    Fenced: "fenced",
    Unavailable: "unavailable",
    Corrupt: "corrupt",
    Misuse: "misuse",
    TrioletError: "other",
}
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_.-]")


@attrs.frozen(weakref_slot=False)
class Ending:
    """An ending. `family` says what a caller does next (`triolet.ports.errors`), or ``foreign``; `type` what it was."""

    outcome: Literal["ok", "failed", "cancelled"]
    family: str | None = None
    type: str | None = None

    @property
    def attributes(self) -> dict[str, str]:
        """What a span says of it."""
        told: dict[str, str] = {"triolet.outcome": self.outcome}
        if self.family is not None:
            told["triolet.error.family"] = self.family
        if self.type is not None:
            told["error.type"] = self.type
        return told

    @property
    def labels(self) -> dict[str, str]:
        """What a metric says of it: the family only, since there may be any number of types."""
        told: dict[str, str] = {"triolet.outcome": self.outcome}
        if self.family is not None:
            told["error.type"] = self.family
        return told


WELL: Final = Ending("ok")
CANCELLED: Final = Ending("cancelled")


def failed(family: str, type_: str) -> Ending:
    """A failure that was no exception: a code stands for its type."""
    return Ending("failed", family, type_name(type_))


def ending_of(error: BaseException | None) -> Ending:
    """What an exception that left an operation, or none, says of it."""
    if error is None:
        return WELL
    leaves = list(_leaves(error))
    broken = [leaf for leaf in leaves if not isinstance(leaf, trio.Cancelled | GeneratorExit)]
    if not broken:
        return CANCELLED
    told = broken[0] if len(broken) == 1 else error
    family = next((name for family, name in _FAMILIES.items() if isinstance(told, family)), "foreign")
    return Ending("failed", family, type_name(type(told).__name__))


def type_name(name: str) -> str:
    """A type's name, bounded, and with nothing in it that no name has."""
    return _NO_NAME.sub("_", name[:MAX_TYPE])


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from _leaves(inner)
    else:
        yield error
