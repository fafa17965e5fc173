"""One command inside bubblewrap: what it used, how it is ended, where its files are.

Decides how a start is finished: bwrap is let through its first gate once its process is in the control group, builds
the view, and waits at the second gate while the work folder, which lives in memory, is opened from outside. That
descriptor keeps the folder alive after everything inside has ended, so artifacts are read when nobody can change them
any more, and no file of the host is ever written. Ending is a kill of the namespace's first process, with which the
system ends all others. (F-042, SEC-010)
"""

import json
import os
import resource
import select
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

import attrs
import trio

from triolet.adapters.bubblewrap.control_groups import ControlGroups, Group
from triolet.adapters.commands.child import Child, read, wait_pidfd
from triolet.ports.isolation import Implementation
from triolet.ports.sandbox import (
    CommandNotStarted,
    ResourceUse,
    SandboxRequest,
    StopReason,
)

_OPEN_FILES: Final = 1024
_CPU_LOOK_SECONDS: Final = 0.02
_VIEW_LOOK_SECONDS: Final = 0.001


@attrs.frozen(kw_only=True, eq=False)
class Fixture:
    """What all commands of one sandbox share, found when it was opened."""

    program: str
    user: int | None
    seccomp: bytes | None
    groups: ControlGroups
    implementation: Implementation


class BubblewrapSession:
    """Implements the session of `triolet.adapters.commands`."""

    cleanup: Literal["complete", "group-only"] = "complete"

    def __init__(
        self, *, child: Child, group: Group, status: trio.lowlevel.FdStream, request: SandboxRequest, fixture: Fixture
    ) -> None:
        self.child = child
        self.implementation = _as_run(fixture.implementation, request)
        self._group = group
        self._status = status
        self._limits = request.limits
        self._kills_before = group.memory_kills()
        self._first: int | None = None
        self._folder: int | None = None

    async def build(self, gate: int, block: int, marker: str) -> None:
        """Let bwrap build the view, take hold of the first process and the work folder, and let the command go."""
        self._group.add(self.child.pid)
        _limit(self.child.pid)
        os.write(gate, b"\n")
        first = (await self._report()).get("child-pid")
        if not isinstance(first, int):
            raise OSError("bwrap said nothing of the process inside")
        self._first = os.pidfd_open(first)
        root = f"/proc/{first}/root"
        while not Path(root + marker).is_dir():  # noqa: ASYNC240 -- procfs does not block
            if _has_ended(self._first):
                raise OSError("bwrap ended before its view was built")
            await trio.sleep(_VIEW_LOOK_SECONDS)
        self._folder = os.open(root + "/work", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        os.write(block, b"\n")

    async def overrun(self) -> StopReason:
        """Look at the tree's processor time; a limit is passed by no more than what fits between two looks."""
        limit = self._limits.cpu_seconds
        # Nobody is told of processor time, so it has to be looked at.
        while limit is None or (self._group.cpu_seconds() or 0.0) < limit:  # noqa: ASYNC110
            await trio.sleep(_CPU_LOOK_SECONDS)
        return "cpu"

    def met(self) -> StopReason | None:
        """Whether the system killed something for want of memory."""
        return "memory" if self._group.memory_kills() > self._kills_before else None

    def usage(self, wall_seconds: float) -> ResourceUse:
        """What the control group measured."""
        return ResourceUse(
            wall_seconds=wall_seconds,
            cpu_seconds=self._group.cpu_seconds(),
            peak_memory_bytes=self._group.peak_memory_bytes(),
        )

    async def end(self) -> None:
        """Kill the tree and wait until the system has taken the last of it away."""
        if self._first is not None:
            with suppress(ProcessLookupError):
                _kill(self._first)
            # The first process of a namespace has ended only when all others have.
            await wait_pidfd(self._first)
        else:
            self.child.kill()
        await self.child.ended()
        self.child.reap()
        await self._group.emptied()

    async def status(self) -> tuple[int | None, int | None]:
        """What bwrap reports of the command. Without a report it never began."""
        code = (await self._report()).get("exit-code")
        if isinstance(code, int):
            return code, None
        if self.met() is not None:
            return None, 9
        raise CommandNotStarted(problem="no such program or folder in this sandbox, or it is not executable")

    def folder(self) -> int:
        """The work folder, as it was left."""
        assert self._folder is not None  # opened by `build`
        return self._folder

    def close(self) -> None:
        """Close the descriptors; with the folder's goes what the program wrote."""
        for descriptor in (self._first, self._folder):
            if descriptor is not None:
                os.close(descriptor)

    async def _report(self) -> Mapping[str, object]:
        """The next JSON object on bwrap's status pipe; empty at its end."""
        text = b""
        while not text.endswith(b"}\n"):
            more = await read(self._status)
            if not more:
                return {}
            text += more
        merged: dict[str, object] = {}
        for line in text.splitlines():
            merged.update(json.loads(line))
        return merged


def _as_run(implementation: Implementation, request: SandboxRequest) -> Implementation:
    """The posture under this request's policy."""
    posture = implementation.posture
    if request.policy.network == "host":
        posture = attrs.evolve(posture, network="none")
    if request.limits.memory_bytes is None:
        posture = attrs.evolve(posture, memory="none")
    if request.limits.cpu_seconds is None:
        posture = attrs.evolve(posture, cpu="none")
    return attrs.evolve(implementation, posture=posture)


def _limit(pid: int) -> None:
    for what, most in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_NOFILE, _OPEN_FILES)):
        with suppress(OSError, ValueError):
            resource.prlimit(pid, what, (most, most))


def _kill(pidfd: int) -> None:
    signal.pidfd_send_signal(pidfd, signal.SIGKILL)


def _has_ended(pidfd: int) -> bool:
    return bool(select.select([pidfd], [], [], 0)[0])
