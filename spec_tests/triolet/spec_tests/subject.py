"""Subjects: the fresh thing under test, with whatever levers its maker can offer.

Decides what a maker gives and which levers exist on every port. A lever does what the port itself cannot be asked
to do: reopen, kill, let time pass. It weakens no promise; where it is absent, what needs it is reported as not
exercised. (CONF-002)
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, TypeVar

import attrs

P = TypeVar("P")

Maker = Callable[[], AbstractAsyncContextManager[Any]]
"""What a case opens: each call gives a scope with a fresh, independent subject, or with the bare port."""


@attrs.frozen(kw_only=True, eq=False, weakref_slot=False)
class Subject(Generic[P]):
    """A port's implementation, opened for one case.

    `name` and `version` identify it in the certificate; left empty, they are those of its class and distribution.
    `declines` maps a trait that it does not have to the reason: cases that need it are not-applicable. `posture` is
    what it says about itself, such as ``{"durability": "memory"}``; it is reported and never believed.

    Levers, each None where the maker has none. `reopen` opens the same data again, as a process that starts later
    would find it; `port` is not used after that. `kill` ends whatever holds the data, without warning or clean-up.
    `advance` lets that many seconds pass on every clock that the subject reads.
    """

    port: P
    name: str = ""
    version: str = ""
    declines: Mapping[str, str] = attrs.field(factory=dict[str, str])
    posture: Mapping[str, str] = attrs.field(factory=dict[str, str])
    reopen: Callable[[], AbstractAsyncContextManager[P]] | None = None
    kill: Callable[[], Awaitable[None]] | None = None
    advance: Callable[[float], Awaitable[None]] | None = None

    @classmethod
    def lever_names(cls) -> tuple[str, ...]:
        """The levers that a subject of this kind may have."""
        plain = {"port", "name", "version", "declines", "posture"}
        return tuple(field.name for field in attrs.fields(cls) if field.name not in plain)

    @property
    def levers(self) -> tuple[str, ...]:
        """The levers that this subject has."""
        return tuple(name for name in self.lever_names() if getattr(self, name) is not None)
