"""What can keep the local model from starting: something is not installed, or its server does not come up."""

from typing import Literal

import attrs

from triolet.ports.errors import Misuse, Unavailable, bounded


@attrs.define(kw_only=True)
class LocalModelMissing(Misuse):
    """A part of the local model is not installed. `command` installs it."""

    part: str
    command: str

    @property
    def message(self) -> str:
        """One line: what is missing, and the command to run."""
        return f"the local model needs {self.part}. Run: {self.command}"


@attrs.define(kw_only=True)
class LocalModelFailed(Unavailable):
    """The server's process died before it was ready (`status` is its exit status), or took too long.

    `log` is the end of what it wrote, at most 4,000 characters. No process is left behind.
    """

    problem: Literal["died", "timeout"]
    status: int | None = None
    log: str = ""

    @property
    def message(self) -> str:
        """What happened, and the last line of the log."""
        what = f"died with status {self.status}" if self.problem == "died" else "was not ready in time"
        last = self.log.strip().rpartition("\n")[2]
        return f"the local model's server {what}" + (f": {bounded(last)}" if last else "")
