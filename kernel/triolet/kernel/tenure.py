"""Tenure: what an attempt may count on from whoever owns its run.

Decides nothing in an attempt; it names the few ways in which work that only this process knows of differs from accepted
work, which somebody else goes on with when this process stops. There is one interpreter for both (RUN-001).
"""

from typing import Protocol

from triolet.kernel.machine.observations import AbortWanted
from triolet.ports.admission import Joining
from triolet.ports.identity import CallId
from triolet.ports.outcomes import Outcome


class Tenure(Protocol):
    """On which terms an attempt holds its run."""

    @property
    def seals(self) -> bool:
        """Whether stopping ends the run. Otherwise a stop writes nothing: the next attempt goes on from the log."""
        ...

    @property
    def patient(self) -> bool:
        """Whether the attempt waits for approvers. Otherwise it ends suspended, and holds nobody up (APPR-004)."""
        ...

    @property
    def inputs(self) -> Joining | None:
        """Where input for this run waits."""
        ...

    @property
    def records_first(self) -> bool:
        """Whether what was answered goes on record before input is claimed.

        A claim that outlives this process must not be all that a crash leaves of a finished turn.
        """
        ...

    @property
    def abort(self) -> AbortWanted | None:
        """Who has asked for the run's end, where that is to be on record."""
        ...

    async def stash(self, call: CallId, outcome: Outcome) -> None:
        """Keep an outcome that cannot be recorded yet, so that a crash does not make it unknown."""
        ...


class OwnTenure:
    """The process that started the run is its only owner: what it does not seal is lost."""

    __slots__ = ("inputs",)

    seals: bool = True
    patient: bool = True
    records_first: bool = False
    abort: AbortWanted | None = None

    def __init__(self, inputs: Joining | None) -> None:
        self.inputs = inputs

    async def stash(self, call: CallId, outcome: Outcome) -> None:
        """Nothing outlives the process."""
