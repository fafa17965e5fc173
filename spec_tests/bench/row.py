"""One row of the bench: what was measured, against which target, and what a timed operation has to come to.

Decides how a figure is taken: processor time of this process, unless a row says wall, over short rounds of which
the best counts, because on a machine that others use the others only ever add. It measures nothing by itself.
"""

import json
import time
from collections.abc import Awaitable, Callable

import attrs


@attrs.define(kw_only=True)
class WrongOutcome(Exception):
    """A timed operation did not do what it is timed for: its figure would mean nothing."""

    row: str
    problem: str

    def __str__(self) -> str:
        return f"{self.row}: {self.problem}"


@attrs.frozen(kw_only=True)
class Row:
    """A figure. `median` is that of all rounds, which shows how noisy the machine is.

    `floor_note` says why a target is missed.
    """

    name: str
    value: float
    unit: str
    target: float
    median: float | None = None
    floor_note: str | None = None

    @property
    def ratio(self) -> float:
        """1 or less: the target is met."""
        return self.value / self.target

    def line(self) -> str:
        """The row as one line of JSON."""
        content: dict[str, object] = {
            "name": self.name,
            "value": round(self.value, 3),
            "unit": self.unit,
            "target": self.target,
            "ratio": round(self.ratio, 3),
        }
        if self.median is not None:
            content["median"] = round(self.median, 3)
        if self.floor_note is not None and self.ratio > 1:
            content["floor_note"] = self.floor_note
        return json.dumps(content, ensure_ascii=False)


@attrs.frozen(kw_only=True)
class Effort:
    """How much is done for a figure: `rounds` rounds of `size` operations each, times what a row is by itself."""

    rounds: int = 25
    size: float = 1.0

    def times(self, operations: int) -> int:
        """So many operations in a round, at least one."""
        return max(1, round(operations * self.size))


def expect(row: str, *, holds: bool, problem: str) -> None:
    """Raise `WrongOutcome` unless it holds."""
    if not holds:
        raise WrongOutcome(row=row, problem=problem)


async def rounds_of(effort: Effort, operations: int, work: Callable[[], Awaitable[None]]) -> tuple[float, float]:
    """Microseconds of processor time for one operation: the best round, and the median. One round warms up."""
    await work()
    taken: list[float] = []
    for _ in range(effort.rounds):
        began = time.process_time()
        await work()
        taken.append((time.process_time() - began) / operations * 1e6)
    taken.sort()
    return taken[0], taken[len(taken) // 2]
