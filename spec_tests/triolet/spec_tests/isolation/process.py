"""One child process: started, asked for one case at a time, killed with everything in its session.

Decides how long it may take to load and to answer, and what of its standard error is kept. It knows no certificate;
what a silence or a death means for a case is the supervisor's. Needs a POSIX system.
"""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import attrs
import trio

from triolet.ports.errors import InvalidJson, InvalidValue
from triolet.ports.text import repair
from triolet.spec_tests.isolation.messages import MAX_LINE, MESSAGE, Message

LOAD_SECONDS: Final = 60.0
"""How long a process may take to start and to import the target."""

GRACE_SECONDS: Final = 2.0
"""How much longer than a case's own limit the parent waits before it kills."""

_EXIT_SECONDS: Final = 2.0
_KEPT_STDERR: Final = 3_000


@attrs.frozen(kw_only=True, weakref_slot=False)
class Silence:
    """Nothing came within the time."""


@attrs.frozen(kw_only=True, weakref_slot=False)
class Death:
    """The process ended, or wrote what is no message; `how` says which. `said` is the end of its standard error."""

    how: str
    said: str


class Child:
    """A running child."""

    def __init__(self, process: trio.Process, stdin: trio.abc.SendStream, stdout: trio.abc.ReceiveStream) -> None:
        self._process = process
        self._stdin = stdin
        self._stdout = stdout
        self._buffer = bytearray()
        self.stderr = bytearray()
        """The end of what it wrote to standard error."""

    async def ask(self, name: str, seconds: float) -> Message | Silence | Death:
        """Ask for a case and wait for its report."""
        try:
            await self._stdin.send_all(name.encode() + b"\n")
        except trio.BrokenResourceError:
            return await self._death()
        return await self.next_message(seconds)

    async def next_message(self, seconds: float) -> Message | Silence | Death:
        """Wait for the next message."""
        with trio.move_on_after(seconds):
            line = await self._line()
            if line is None:
                return await self._death()
            try:
                return MESSAGE.decode_text(line)
            except (InvalidJson, InvalidValue):
                return Death(how="it wrote what is no report", said=self._said())
        return Silence()

    async def stop(self) -> None:
        """Let it end by itself for a moment, then kill it and all that it started in its session."""
        with trio.CancelScope(shield=True):
            await self._stdin.aclose()
            with trio.move_on_after(_EXIT_SECONDS):
                await self._process.wait()
            self.kill()
            await self._process.wait()

    def kill(self) -> None:
        """Kill its whole session's process group. What has left that group is beyond reach."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return

    async def read_stderr(self, stream: trio.abc.ReceiveStream) -> None:
        """Keep the pipe empty, whatever the subject prints, and remember the end."""
        async for data in stream:
            self.stderr += data
            del self.stderr[:-_KEPT_STDERR]

    async def _line(self) -> bytes | None:
        while (end := self._buffer.find(b"\n")) < 0:
            data = await self._stdout.receive_some()
            if not data or len(self._buffer) > MAX_LINE:
                return None
            self._buffer += data
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line

    async def _death(self) -> Death:
        with trio.move_on_after(_EXIT_SECONDS):
            await self._process.wait()
            # Its last words may still be in the pipe.
            await trio.sleep(0.05)
        status = self._process.returncode
        if status is None:
            return Death(how="it closed its channel and did not end", said=self._said())
        if status < 0:
            return Death(how=f"the process was ended by {_signal_name(-status)}", said=self._said())
        return Death(how=f"the process ended itself with status {status}", said=self._said())

    def _said(self) -> str:
        return repair(self.stderr.decode(errors="replace"))


@asynccontextmanager
async def open_child(port: str, limit: float, target: str) -> AsyncGenerator[Child]:
    """Start a child for this target; on leaving, nothing of it is left."""
    command = [sys.executable, "-m", "triolet.spec_tests.isolation.child", port, repr(limit), target]
    process = await trio.lowlevel.open_process(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "PYTHONFAULTHANDLER": "1"},
    )
    if process.stdin is None or process.stdout is None or process.stderr is None:
        raise AssertionError("all three streams are pipes")
    child = Child(process, process.stdin, process.stdout)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(child.read_stderr, process.stderr)
        try:
            yield child
        except BaseException:
            child.kill()
            raise
        finally:
            await child.stop()
            nursery.cancel_scope.cancel()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
