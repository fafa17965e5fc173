"""A child process on this thread: started, waited for by its pidfd, its group signalled before it is reaped.

Decides how a process is started so that nothing but what is named gets into it: closed standard input, a session and
process group of its own, its own environment, and only the descriptors that were handed over. Start it on Trio's
thread: a parent-death signal is bound to the thread that forked. (F-042)
"""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Final

import trio

_CHUNK: Final = 65_536
_REAPING_SECONDS: Final = 2.0


class Child:
    """A running process. Its pipes are read with `read`; `aclose` leaves no descriptor open."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        pass_fds: tuple[int, ...] = (),
        user: int | None = None,
        stdin: int = subprocess.DEVNULL,
    ) -> None:
        """Raises `OSError` if it cannot be started. `user` also becomes the group, without others."""
        self._popen: subprocess.Popen[bytes] = subprocess.Popen(
            list(argv),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=dict(env),
            cwd=cwd,
            pass_fds=pass_fds,
            start_new_session=True,
            user=user,
            group=user,
            extra_groups=None if user is None else [],
        )
        self.pid: Final = self._popen.pid
        self._pidfd = os.pidfd_open(self.pid)
        self.stdout: Final = _stream(self._popen.stdout)
        self.stderr: Final = _stream(self._popen.stderr)

    @property
    def returncode(self) -> int | None:
        """Its exit status, or minus the signal that killed it; None until it was reaped."""
        return self._popen.returncode

    async def ended(self) -> None:
        """Wait until it has ended. It is not reaped, so that its group's number stays its own."""
        if self._popen.returncode is None:
            await wait_pidfd(self._pidfd)

    def reap(self) -> int:
        """Take its exit status. Only after `ended`: it blocks otherwise."""
        return self._popen.wait()

    def signal_group(self, number: signal.Signals) -> None:
        """Send a signal to everything in its process group. Only before `reap`."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def kill(self) -> None:
        """Kill the process alone. Only before `reap`."""
        self._popen.kill()

    async def abandon(self) -> None:
        """Kill and reap it if that was not done, and close everything. Shielded and bounded."""
        if self._popen.returncode is None:
            # Left before it was ended, or that took too long: no process stays unreaped.
            self.signal_group(signal.SIGKILL)
            with trio.CancelScope(shield=True, deadline=trio.current_time() + _REAPING_SECONDS):
                await self.ended()
                self.reap()
        for stream in (self.stdout, self.stderr):
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 1):
                await stream.aclose()
        os.close(self._pidfd)


async def wait_pidfd(pidfd: int) -> None:
    """Wait until the process behind `pidfd` has ended."""
    await trio.lowlevel.wait_readable(pidfd)


async def read(stream: trio.lowlevel.FdStream) -> bytes:
    """The next bytes, or b'' at the end."""
    try:
        return await stream.receive_some(_CHUNK)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        return b""


def _stream(pipe: IO[bytes] | None) -> trio.lowlevel.FdStream:
    assert pipe is not None  # both were asked for
    stream = trio.lowlevel.FdStream(os.dup(pipe.fileno()))
    pipe.close()
    return stream
