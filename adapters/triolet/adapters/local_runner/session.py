"""One command as a plain process: its folder, its process group, and how that group is ended.

Decides the order in which a group is ended: a polite signal, a short grace, a kill, and only then the leader is reaped,
so that the group's number cannot have become somebody else's. It knows nothing of a process that made a session of its
own, and does not pretend to. (F-042)
"""

import os
import signal
import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from importlib import metadata
from pathlib import Path
from typing import Final, Literal

import trio

from triolet.adapters.commands.child import Child
from triolet.ports.isolation import UNISOLATED, Implementation
from triolet.ports.sandbox import CommandNotStarted, ResourceUse, SandboxRequest, StopReason
from triolet.ports.secrets import Secret

IMPLEMENTATION: Final = Implementation(name="local-runner", version=metadata.version("triolet"), posture=UNISOLATED)

GRACE_SECONDS: Final = 0.5
"""From the polite signal to the kill."""

_VANISH_SECONDS: Final = 2.0
_LOOK_SECONDS: Final = 0.005


class LocalSession:
    """Implements the session of `triolet.adapters.commands`."""

    cleanup: Literal["complete", "group-only"] = "group-only"
    implementation = IMPLEMENTATION

    def __init__(self, child: Child, folder: int) -> None:
        self.child = child
        self._folder = folder

    async def overrun(self) -> StopReason:
        """Never: processor time is not measured here."""
        await trio.sleep_forever()
        raise AssertionError("sleep_forever returned")

    def met(self) -> StopReason | None:
        """None: no limit of the system's is set."""
        return None

    def usage(self, wall_seconds: float) -> ResourceUse:
        """Wall time; the tree's other use is not known."""
        return ResourceUse(wall_seconds=wall_seconds)

    async def end(self) -> None:
        """Politely, then not. The leader is reaped last."""
        self.child.signal_group(signal.SIGTERM)
        with trio.move_on_after(GRACE_SECONDS):
            await self.child.ended()
            # The leader may be gone and others still on their way out.
            await self._others_gone()
        self.child.signal_group(signal.SIGKILL)
        await self.child.ended()
        with trio.move_on_after(_VANISH_SECONDS):
            await self._others_gone()
        self.child.reap()

    async def status(self) -> tuple[int | None, int | None]:
        """As the system reports it."""
        code = self.child.returncode
        assert code is not None  # `end` has reaped it
        return (code, None) if code >= 0 else (None, -code)

    def folder(self) -> int:
        """The temporary folder."""
        return self._folder

    async def _others_gone(self) -> None:
        # They are no children of this process, so looking is the only way. Bounded by the callers.
        while _alive_in_group(self.child.pid):  # noqa: ASYNC110
            await trio.sleep(_LOOK_SECONDS)


@asynccontextmanager
async def opened(request: SandboxRequest, secrets: Mapping[str, Secret]) -> AsyncGenerator[LocalSession]:
    """Start the command in a folder of its own, which is removed afterwards."""
    async with _work_folder() as work:
        environment = {"PATH": os.defpath, "HOME": work, "TMPDIR": work, "LANG": "C.UTF-8", **request.environment}
        environment.update((name, secret.reveal()) for name, secret in secrets.items())
        folder = os.open(work, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            child = _start(request, environment, str(Path(work, request.directory or ".")))
            try:
                yield LocalSession(child, folder)
            finally:
                await child.abandon()
        finally:
            os.close(folder)


def _start(request: SandboxRequest, environment: Mapping[str, str], folder: str) -> Child:
    try:
        return Child(request.argv, env=environment, cwd=folder)
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or "its arguments cannot be passed"
        raise CommandNotStarted(problem=problem) from error


@asynccontextmanager
async def _work_folder() -> AsyncGenerator[str]:
    folder = tempfile.TemporaryDirectory(prefix="triolet-work-", ignore_cleanup_errors=True)
    try:
        yield folder.name
    finally:
        with trio.CancelScope(shield=True):
            # Bounded by what is in it. In a thread, since a command may have put much into it.
            await trio.to_thread.run_sync(folder.cleanup)


def _alive_in_group(group: int) -> bool:
    """Whether any process but zombies is in this group."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            state, _, pgrp = text.rpartition(")")[2].split()[:3]
            if int(pgrp) == group and state not in "ZX":
                return True
    return False
