"""Starting bwrap: the gates, the descriptors that it is given, and what is undone if it does not come up.

Decides what is inherited and what is not: the arguments, the filter, one pipe to report on and two gates, each of which
is gone before the command runs. A shell waits at the first gate until its process is in the control group; only then it
becomes bwrap. (SEC-006, SEC-010)
"""

import os
import secrets as random
from collections.abc import AsyncGenerator, Mapping
from contextlib import ExitStack, asynccontextmanager
from typing import Final

import trio

from triolet.adapters.bubblewrap.arguments import bwrap_arguments
from triolet.adapters.bubblewrap.control_groups import Group
from triolet.adapters.bubblewrap.session import BubblewrapSession, Fixture
from triolet.adapters.commands.child import Child, read
from triolet.ports.sandbox import SandboxRequest, SandboxUnavailable
from triolet.ports.secrets import Secret
from triolet.ports.text import decode

START_SECONDS: Final = 10.0
"""How long the sandbox may take to be built."""

_GATE: Final = 'IFS= read -r gate && exec "$@" </dev/null'
"""The gate is standard input, the one descriptor that a shell can surely get rid of again."""
_OWN_PROCESSES: Final = 2
"""bwrap outside and the first process inside, which count as processes too."""
_GONE_SECONDS: Final = 5.0


@asynccontextmanager
async def opened(
    fixture: Fixture, request: SandboxRequest, secrets: Mapping[str, Secret]
) -> AsyncGenerator[BubblewrapSession]:
    """Start a command. Raises `SandboxUnavailable` if the sandbox cannot be built; then nothing is left."""
    limits = request.limits
    try:
        group = fixture.groups.make(
            memory_bytes=limits.memory_bytes,
            processes=None if limits.processes is None else limits.processes + _OWN_PROCESSES,
        )
    except OSError as error:
        raise _unavailable(fixture, f"no control group could be made: {error.strerror}") from error
    try:
        async with _session(fixture, request, secrets, group) as session:
            yield session
    finally:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + _GONE_SECONDS):
            await group.emptied()
            await group.removed()


@asynccontextmanager
async def _session(
    fixture: Fixture, request: SandboxRequest, secrets: Mapping[str, Secret], group: Group
) -> AsyncGenerator[BubblewrapSession]:
    marker = f"/run/triolet-{random.token_hex(8)}"
    with ExitStack() as ends:
        inside, outside = _Pipes(), _Pipes()
        ends.callback(inside.close)
        ends.callback(outside.close)
        gate, block = inside.take_write_end(outside), inside.take_write_end(outside)
        status_read, status = os.pipe()
        inside.own(status)
        status_stream = trio.lowlevel.FdStream(status_read)
        arguments = bwrap_arguments(
            request,
            secrets,
            status=status,
            block=block[0],
            seccomp=None if fixture.seccomp is None else inside.holding(fixture.seccomp),
            marker=marker,
        )
        argv = inside.holding(arguments)
        command = ["/bin/sh", "-c", _GATE, "sh", fixture.program, "--args", str(argv), "--", *request.argv]
        try:
            child = _start(fixture, command, inside.all, stdin=gate[0])
            inside.close()
            try:
                session = BubblewrapSession(
                    child=child, group=group, status=status_stream, request=request, fixture=fixture
                )
                try:
                    await _build(session, fixture, gate[1], block[1], marker)
                    yield session
                finally:
                    session.close()
            finally:
                await child.abandon()
        finally:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 1):
                await status_stream.aclose()


class _Pipes:
    """Descriptors that are closed together."""

    def __init__(self) -> None:
        self.all: tuple[int, ...] = ()

    def own(self, descriptor: int) -> int:
        self.all += (descriptor,)
        return descriptor

    def take_write_end(self, outside: "_Pipes") -> tuple[int, int]:
        """A pipe whose read end is among these and whose write end is among `outside`."""
        reading, writing = os.pipe()
        return self.own(reading), outside.own(writing)

    def holding(self, content: bytes) -> int:
        """A file in memory with this content, read from its beginning."""
        descriptor = self.own(os.memfd_create("triolet"))
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor

    def close(self) -> None:
        for descriptor in self.all:
            os.close(descriptor)
        self.all = ()


def _start(fixture: Fixture, command: list[str], inherited: tuple[int, ...], stdin: int) -> Child:
    try:
        # bwrap's own environment and folder can be read from inside, so there is nothing in them.
        passed = tuple(descriptor for descriptor in inherited if descriptor != stdin)
        return Child(command, env={}, cwd="/", pass_fds=passed, user=fixture.user, stdin=stdin)
    except OSError as error:
        raise _unavailable(fixture, error.strerror or "it cannot be started") from error


async def _build(session: BubblewrapSession, fixture: Fixture, gate: int, block: int, marker: str) -> None:
    problem = "it was not built in time"
    with trio.move_on_after(START_SECONDS):
        try:
            await session.build(gate, block, marker)
        except (OSError, ValueError) as error:
            session.child.kill()
            problem = decode(await read(session.child.stderr)).strip() or str(error)
        else:
            return
    raise _unavailable(fixture, problem)


def _unavailable(fixture: Fixture, problem: str) -> SandboxUnavailable:
    return SandboxUnavailable(implementation=fixture.implementation.name, problem=problem)
