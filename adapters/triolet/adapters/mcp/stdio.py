"""The stdio transport: a child process, a message a line, every line bounded.

Decides that what a server prints beside messages is skipped (F-040), that an answer which is too long fails its own
request at once where its id can be told for certain, and how a server is ended: its input is closed, then it is asked,
then its process group is killed; each within a bound. It decides no restart.
"""

import math
import os
import re
import signal
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Final

import trio

from triolet.adapters.commands.child import Child, read
from triolet.adapters.mcp.limits import McpLimits, McpTimes
from triolet.adapters.mcp.lines import Lines, Overlong
from triolet.adapters.mcp.messages import Diagnostics, JsonObject, decoded
from triolet.adapters.mcp.servers import StdioServer
from triolet.adapters.mcp.wire import Arrived, Unanswered, WireLost

_REST_SECONDS: Final = 0.5
"""After a server's end, what it left in its pipe is read for so long: a grandchild may hold the pipe open."""
_ASKING_SECONDS: Final = 1.0
_STDERR_LINE: Final = 4_096

# At the very beginning or end of a line these are members of the outermost object, whatever else is in it.
_ID_FIRST: Final = re.compile(rb'\{\s*"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*(\d{1,15})\s*,')
_ID_LAST: Final = re.compile(rb'"id"\s*:\s*(\d{1,15})\s*\}\s*\Z')


class _StdioWire:
    """See `Wire`."""

    def __init__(
        self, child: Child, stdin: trio.lowlevel.FdStream, limits: McpLimits, diagnostics: Diagnostics
    ) -> None:
        self._child = child
        self._stdin = stdin
        self._limits = limits
        self._diagnostics = diagnostics
        self._lines = Lines(limits.message_bytes)
        self._waiting: deque[Arrived] = deque()
        self._read_until = math.inf
        self._reading: trio.CancelScope | None = None

    async def send(self, message: JsonObject, data: bytes) -> None:
        """See `Wire.send`."""
        try:
            await self._stdin.send_all(data + b"\n")
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise WireLost("lost", "the server's process takes no more input") from None

    async def receive(self) -> Arrived:
        """See `Wire.receive`."""
        while not self._waiting:
            chunk = b""
            with trio.CancelScope(deadline=self._read_until) as self._reading:
                chunk = await read(self._child.stdout)
            for line in self._lines.feed(chunk):
                self._take(line)
            if not chunk:
                last = self._lines.rest()
                if last is not None:
                    self._take(last)
                if self._waiting:
                    break
                raise WireLost("lost", "the server's process has ended")
        return self._waiting.popleft()

    def agree(self, version: str) -> None:
        """Lines are the same in every version."""

    async def notice_end(self) -> None:
        """Stop reading soon after the process has ended, whoever else holds its pipe."""
        await self._child.ended()
        self._read_until = trio.current_time() + _REST_SECONDS
        if self._reading is not None:
            self._reading.deadline = self._read_until

    async def drain_stderr(self) -> None:
        """Keep the server from blocking on its log, and keep the end of that."""
        lines = Lines(_STDERR_LINE)
        while chunk := await read(self._child.stderr):
            for line in lines.feed(chunk):
                self._diagnostics.stderr_came(line.head if isinstance(line, Overlong) else line)

    def _take(self, line: bytes | Overlong) -> None:
        if isinstance(line, Overlong):
            found = _ID_FIRST.match(line.head) or _ID_LAST.search(line.tail)
            if found:
                problem = f"an answer of {line.size} bytes is larger than {self._limits.message_bytes}"
                self._waiting.append(
                    Unanswered(id=int(found[1]), happened="unknown", reason="too-large", problem=problem)
                )
            self._junk(line.head, oversize=True)
            return
        messages = decoded(line)
        if messages is None:
            self._junk(line, oversize=False)
            return
        self._diagnostics.message()
        self._waiting.extend(messages)

    def _junk(self, data: bytes, *, oversize: bool) -> None:
        if self._diagnostics.junk_came(data, oversize=oversize) > self._limits.junk:
            raise WireLost("protocol", f"more than {self._limits.junk} lines in a row are no messages")


@asynccontextmanager
async def open_stdio(
    server: StdioServer, env: Mapping[str, str], limits: McpLimits, times: McpTimes, diagnostics: Diagnostics
) -> AsyncGenerator[_StdioWire]:
    """Start the server with exactly this environment. Raises `WireLost` where it cannot be started."""
    theirs, ours = os.pipe()
    try:
        child = Child(server.command, env=env, cwd=server.cwd or str(await trio.Path.cwd()), stdin=theirs)
    except (OSError, ValueError) as error:
        os.close(ours)
        raise WireLost("refused", f"the program cannot be started: {_reason(error)}") from None
    finally:
        os.close(theirs)
    stdin = trio.lowlevel.FdStream(ours)
    try:
        async with trio.open_nursery() as nursery:
            wire = _StdioWire(child, stdin, limits, diagnostics)
            nursery.start_soon(wire.drain_stderr)
            nursery.start_soon(wire.notice_end)
            try:
                yield wire
            finally:
                with trio.CancelScope(shield=True):
                    await _end(child, stdin, times.close)
                nursery.cancel_scope.cancel()
    finally:
        await child.abandon()


async def _end(child: Child, stdin: trio.lowlevel.FdStream, seconds: float) -> None:
    with trio.move_on_after(1):
        await stdin.aclose()
    with trio.move_on_after(seconds) as patience:
        await child.ended()
    if patience.cancelled_caught:
        child.signal_group(signal.SIGTERM)
        with trio.move_on_after(_ASKING_SECONDS):
            await child.ended()
    # What it has started itself goes with it.
    child.signal_group(signal.SIGKILL)
    with trio.move_on_after(_ASKING_SECONDS):
        await child.ended()
        child.reap()


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
