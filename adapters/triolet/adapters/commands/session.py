"""What an adapter does for one command: hand over a started process, say what it used, end it, give its files.

Decides the seam between the order of things, which is shared (`running`), and the isolation, which is the adapter's. It
does nothing by itself.
"""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol

from triolet.adapters.commands.child import Child
from triolet.ports.isolation import Implementation
from triolet.ports.sandbox import ResourceUse, SandboxRequest, StopReason
from triolet.ports.secrets import Secret


class Session(Protocol):
    """One command that has been started. Leaving the scope that gave it releases all that it holds."""

    child: Child
    implementation: Implementation
    cleanup: Literal["complete", "group-only"]

    async def overrun(self) -> StopReason:
        """Wait until the command has used up its processor time, and say so; for ever if that is not measured."""
        ...

    def met(self) -> StopReason | None:
        """The limit that the system itself ended something for."""
        ...

    def usage(self, wall_seconds: float) -> ResourceUse:
        """What was used so far. Asked before `end`, and once more after it."""
        ...

    async def end(self) -> None:
        """End everything that can be ended, and reap the child. Called once, under a shield and a bound."""
        ...

    async def status(self) -> tuple[int | None, int | None]:
        """Exit status and signal, after `end`, of a command that ended by itself.

        Raises `CommandNotStarted` if it never began.
        """
        ...

    def folder(self) -> int:
        """A descriptor of the work folder. The session's own; it stays open until the scope is left."""
        ...


class Opens(Protocol):
    """Opens sessions; an adapter's own part."""

    def __call__(self, request: SandboxRequest, secrets: Mapping[str, Secret]) -> AbstractAsyncContextManager[Session]:
        """Start the command. Raises `CommandNotStarted`, `SandboxUnavailable`; then nothing is left behind."""
        ...
