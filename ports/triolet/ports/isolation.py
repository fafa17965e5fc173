"""What an implementation keeps away from a program that it runs: one posture value for each dimension.

Decides the words in which sandboxes and code executors say how far they can be trusted, and what "isolated" means:
filesystem, network and processes are each held whatever the program does. Nobody can say "isolated" of something else,
because the word is derived from the posture and never given. It judges no implementation; the attacks of the
conformance suite do. (CAP-010, CAP-015, SEC-010)
"""

from collections.abc import Iterator
from typing import Final, Literal

import attrs

Dimension = Literal["filesystem", "network", "processes", "memory", "cpu"]

Hold = Literal["none", "partial", "enforced"]
"""How far one dimension is held.

`none`: the program has what its host has. `partial`: there is a bound, and a program that sets out to can pass it, such
as a limit for each process that forking multiplies. `enforced`: nothing that the program does passes it.
"""

DIMENSIONS: Final[tuple[Dimension, ...]] = ("filesystem", "network", "processes", "memory", "cpu")

ISOLATING: Final[tuple[Dimension, ...]] = ("filesystem", "network", "processes")
"""The dimensions that have to be enforced before something counts as isolated."""


@attrs.frozen(kw_only=True, weakref_slot=False)
class Posture:
    """How far each dimension is held.

    `filesystem`: files of the host that were not handed in, for reading and writing. `network`: every address, loopback
    included. `processes`: other processes, seen, signalled or outlived. `memory` and `cpu`: what the program and all
    that it starts may use together. A missing memory or CPU bound lets nothing out, so it makes nothing unisolated; a
    request that needs one is refused by whoever cannot hold it.
    """

    filesystem: Hold
    network: Hold
    processes: Hold
    memory: Hold
    cpu: Hold

    @property
    def isolated(self) -> bool:
        """Whether this is a boundary for untrusted programs: every dimension of `ISOLATING` is enforced."""
        return not self.open_dimensions

    @property
    def open_dimensions(self) -> tuple[Dimension, ...]:
        """The dimensions of `ISOLATING` that are not enforced."""
        return tuple(dimension for dimension in ISOLATING if self.of(dimension) != "enforced")

    def of(self, dimension: Dimension) -> Hold:
        """How far this dimension is held."""
        hold: Hold = getattr(self, dimension)
        return hold

    def items(self) -> Iterator[tuple[Dimension, Hold]]:
        """All dimensions, in their order."""
        for dimension in DIMENSIONS:
            yield dimension, self.of(dimension)


UNISOLATED: Final = Posture(filesystem="none", network="none", processes="none", memory="none", cpu="none")
"""What a plain process has: everything."""


@attrs.frozen(kw_only=True, weakref_slot=False)
class Implementation:
    """Which implementation ran something, and what it holds. Part of every result, so that evidence names it."""

    name: str
    version: str
    posture: Posture

    @property
    def isolated(self) -> bool:
        """Whether its posture is one that untrusted programs may be given to (SEC-010)."""
        return self.posture.isolated

    @property
    def label(self) -> Literal["isolated", "unisolated"]:
        """The one word for people. There is no way to set it (CAP-010)."""
        return "isolated" if self.isolated else "unisolated"
