"""What can go wrong with an attempt itself, rather than with the run that it drives.

Decides only how that is told: the interpreter and the machine disagree, or a stopped run could not be settled in time.
"""

import attrs

from triolet.ports.errors import Misuse, Unavailable
from triolet.ports.identity import RunId


@attrs.define(kw_only=True)
class MachineRefused(Misuse):
    """The machine refused an observation. Nothing was recorded; the interpreter and the machine disagree."""

    run: RunId
    problem: str

    @property
    def message(self) -> str:
        """What it refused."""
        return f"run {self.run}: {self.problem}"


@attrs.define(kw_only=True)
class SealTimedOut(Unavailable):
    """A stopped run could not be settled in time. The log may be open; its next owner settles it as lost."""

    run: RunId
    seconds: float

    @property
    def message(self) -> str:
        """Which run, and how long it was tried."""
        return f"run {self.run} could not be sealed within {self.seconds:g} seconds"
