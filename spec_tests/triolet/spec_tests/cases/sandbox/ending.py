"""Endings: whatever way a command ends, what it started in its group is gone, at once and without a trace.

CAP-001, F-042.
"""

import secrets
from typing import Final

import trio

from triolet.ports.sandbox import Output
from triolet.spec_tests.cases.sandbox.footprint import footprint, private_temporary_folder
from triolet.spec_tests.cases.sandbox.setting import SandboxSubject, alive, python, request, run, run_python
from triolet.spec_tests.claims import ensure, ensure_equal
from triolet.spec_tests.definition import case

ROUNDS: Final = 25
MOST_GROWTH: Final = 16 * 1024 * 1024
"""Of memory, over all rounds; a leak of one captured stream each would be as much."""

# Each leaves something behind that has the token in its command line, and holds the pipes.
_SLEEPER = "import time; time.sleep(60)"
_DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
_STARTS: Final = """
import subprocess, sys, time
token, child, stays = sys.argv[1:]
pipe = subprocess.PIPE if 'deaf' in child else None
started = subprocess.Popen([sys.executable, '-I', '-S', '-c', child, token], stdout=pipe)
if started.stdout:
    started.stdout.readline()
print('started', flush=True)
if stays == 'stays':
    time.sleep(60)
"""


@case("CAP-001")
async def nothing_of_the_group_outlives_its_command(subject: SandboxSubject) -> None:
    """A child that sleeps, or ignores the polite signal, or holds the pipe, is gone when the result is there."""
    for child in (_SLEEPER, _DEAF):
        token = secrets.token_hex(8)
        with trio.fail_after(6):
            result = await run_python(subject.port, _STARTS, token, child, "goes")
        ensure_equal((result.status, result.stdout.text), (0, "started\n"), "what became of the command itself")
        ensure(not alive(token), "a child of the command is still running after its result")


@case("CAP-001")
async def a_timeout_ends_the_whole_group(subject: SandboxSubject) -> None:
    """After the wall-clock limit nothing of the group runs, also what ignores the polite signal."""
    for child in (_SLEEPER, _DEAF):
        token = secrets.token_hex(8)
        with trio.fail_after(6):
            result = await run_python(subject.port, _STARTS, token, child, "stays", limits={"wall_seconds": 0.6})
        ensure_equal((result.status, result.stopped), (None, "wall-clock"), "status, and the limit that ended it")
        ensure(not alive(token), "a process of the group is still running after the time-out")


@case("CAP-001")
async def cancelling_ends_the_whole_group(subject: SandboxSubject) -> None:
    """Cancelling, or leaving early, ends the command and its group before the scope is left."""
    for way in ("cancel", "leave"):
        token = secrets.token_hex(8)
        argv = python(_STARTS, token, _DEAF, "stays")
        with trio.fail_after(6):
            with trio.CancelScope() as scope:
                async with subject.port.execute(request(subject.port, *argv)) as events:
                    async for event in events:
                        if isinstance(event, Output):
                            if way == "cancel":
                                scope.cancel()
                                await trio.lowlevel.checkpoint()
                            break
            ensure_equal(scope.cancelled_caught, way == "cancel", "whether the cancellation came through")
        ensure(not alive(token), f"a process of the group is still running (way out: {way})")


@case("CAP-001")
async def standard_input_is_empty(subject: SandboxSubject) -> None:
    """A command that reads its standard input finds the end of it at once."""
    with trio.fail_after(4):
        result = await run_python(subject.port, "import sys; print(repr(sys.stdin.read()))")
    ensure_equal(result.stdout.text, "''\n", "what it read")


@case("CAP-001")
async def nothing_piles_up(subject: SandboxSubject) -> None:
    """A hundred commands that end in four ways leave no process, descriptor, thread, memory or file behind."""
    await _once(subject, 0)  # whatever is loaded or opened once for all
    with private_temporary_folder() as folder:
        before = footprint(folder)
        for number in range(ROUNDS * 4):
            await _once(subject, number % 4)
        after = footprint(folder)
    ensure_equal(sorted(after.descriptors - before.descriptors), [], "descriptors that are still open")
    ensure_equal(sorted(after.children - before.children), [], "children of this process that are still there")
    ensure_equal(sorted(after.threads - before.threads), [], "threads that are still there")
    ensure_equal(sorted(after.files), [], "temporary files and control groups that are still there")
    grown = after.memory_bytes - before.memory_bytes
    ensure(grown < MOST_GROWTH, f"this process grew by {grown} bytes")


async def _once(subject: SandboxSubject, way: int) -> None:
    short = {"wall_seconds": 0.02}
    match way:
        case 0 | 1:
            await run(subject.port, "sh", "-c", f"exit {way}")
        case 2:
            await run(subject.port, "sleep", "30", limits=short)
        case _:
            with trio.move_on_after(0.02):
                await run(subject.port, "sleep", "30")


ENDING = (
    nothing_of_the_group_outlives_its_command,
    a_timeout_ends_the_whole_group,
    cancelling_ends_the_whole_group,
    standard_input_is_empty,
    nothing_piles_up,
)
