# ruff: noqa: ASYNC240 -- small local files of a scene; nothing here waits for a disk
"""Attacks on the host by its own means: too many processes, too much memory, staying alive, floods, trapped artifacts.

SEC-010, SEC-013, CAP-010, CONF-005.
"""

import secrets
import subprocess
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import trio

from triolet.ports.identity import DEFAULT_TENANT
from triolet.ports.sandbox import SandboxResult
from triolet.spec_tests.cases.sandbox.scene import Attack, ensure_held, is_alive, removing
from triolet.spec_tests.cases.sandbox.setting import SandboxSubject
from triolet.spec_tests.claims import lever
from triolet.spec_tests.definition import case

MOST_PROCESSES = 200
MIB = 1024 * 1024

_FORK = """
import os, sys, time
made = 0
for _ in range(int(sys.argv[1])):
    try:
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
        made += 1
    except OSError:
        break
print('made', made)
print('tried')
"""

_FILL = """
import os, sys
print('tried', flush=True)
children, pids = [], []
for _ in range(4):
    reading, writing = os.pipe()
    pids.append(os.fork())
    if pids[-1] == 0:
        held = bytearray(int(sys.argv[1]))
        held[::4096] = b'x' * len(held[::4096])
        os.write(writing, b'x')
        import time; time.sleep(20)
    os.close(writing)
    children.append(reading)
done = sum(len(os.read(reading, 1)) for reading in children)
# Those that were killed to make room for the others hold nothing any more.
print('held', done - sum(os.waitpid(pid, os.WNOHANG)[0] != 0 for pid in pids), flush=True)
"""

_STAY = """
import os, signal, sys, time
def stay():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    for stream in (0, 1, 2):
        os.close(stream)
    time.sleep(30)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        stay()
    os._exit(0)
os.wait()
print('tried', flush=True)
if sys.argv[2] == 'wait':
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(30)
"""

_FLOOD = """
import sys
piece = b'x' * 65536
for _ in range(int(sys.argv[1]) // len(piece)):
    sys.stdout.buffer.write(piece)
sys.stdout.buffer.write(b'\\ntried\\n')
"""

_LINK = """
import os, sys
kind, target = sys.argv[1:]
try:
    if kind == 'symbolic':
        os.symlink(target, 'out.txt')
    elif kind == 'folder':
        os.symlink(os.path.dirname(target), 'out')
    else:
        os.link(target, 'out.txt')
except OSError as error:
    print(error)
print('tried')
"""


@case("SEC-010", "SEC-013")
async def attack_by_forking(subject: SandboxSubject) -> None:
    """A program that forks without end gets no more processes than its limit."""
    limit = 40

    @asynccontextmanager
    async def scene(_: SandboxSubject | None) -> AsyncGenerator[Attack]:
        token = f"fork-{secrets.token_hex(8)}"

        async def too_many(result: SandboxResult) -> bool:
            await trio.lowlevel.checkpoint()
            made = [int(line.split()[1]) for line in result.stdout.text.splitlines() if line.startswith("made ")]
            return bool(made) and made[0] > limit

        async with removing(token):
            yield Attack(
                program=_FORK,
                arguments=(str(MOST_PROCESSES), token),
                succeeded=too_many,
                limits={"processes": limit},
            )

    await ensure_held(subject, scene, f"more than {limit} processes were made")


@case("SEC-010", "SEC-013")
async def attack_by_filling_memory(subject: SandboxSubject) -> None:
    """Four processes of 100 MiB each do not get past a limit of 256 MiB that holds for all of them together."""

    @asynccontextmanager
    async def scene(_: SandboxSubject | None) -> AsyncGenerator[Attack]:
        token = f"fill-{secrets.token_hex(8)}"

        async def held_all(result: SandboxResult) -> bool:
            await trio.lowlevel.checkpoint()
            return "held 4" in result.stdout.text

        async with removing(token):
            yield Attack(
                program=_FILL,
                arguments=(str(100 * MIB), token),
                succeeded=held_all,
                limits={"memory_bytes": 256 * MIB},
                wall_seconds=4.0,
            )

    await ensure_held(subject, scene, "400 MiB were held with a limit of 256 MiB")


@asynccontextmanager
async def _staying(_: SandboxSubject | None, *, way: str, seconds: float) -> AsyncGenerator[Attack]:
    token = f"stay-{secrets.token_hex(8)}"

    async def stayed(_: SandboxResult) -> bool:
        return await is_alive(token)

    async with removing(token):
        yield Attack(program=_STAY, arguments=(token, way), succeeded=stayed, wall_seconds=seconds)


@case("SEC-010", "CAP-010")
async def attack_by_a_daemon(subject: SandboxSubject) -> None:
    """A daemon, in a session of its own and without a parent, does not outlive its command."""
    await ensure_held(subject, partial(_staying, way="go", seconds=8.0), "a daemon outlived its command")


@case("SEC-010", "CAP-010")
async def attack_by_ignoring_the_end(subject: SandboxSubject) -> None:
    """What ignores polite signals in a session of its own does not outlive the time-out."""
    await ensure_held(subject, partial(_staying, way="wait", seconds=0.7), "a process outlived the time-out")


@case("SEC-013", "SEC-010")
async def attack_by_flooding(subject: SandboxSubject) -> None:
    """Sixty-four megabytes of output do not end up in this process's memory."""
    size, limit = 64 * MIB, 100_000

    async def naive(argv: tuple[str, ...]) -> bool:
        # The unisolated runner bounds output too; what is unprotected here is a reader that keeps whatever comes.
        done = await trio.run_process(list(argv), capture_stdout=True, env={})
        return len(done.stdout) > limit

    @asynccontextmanager
    async def scene(_: SandboxSubject | None) -> AsyncGenerator[Attack]:
        async def kept(result: SandboxResult) -> bool:
            await trio.lowlevel.checkpoint()
            return len(result.stdout.text) > limit + 200

        yield Attack(
            program=_FLOOD,
            arguments=(str(size),),
            succeeded=kept,
            limits={"output_bytes": limit},
            unprotected=naive,
        )

    await ensure_held(subject, scene, "all of a flood was kept")


@asynccontextmanager
async def _linking(under: SandboxSubject | None, *, kind: str) -> AsyncGenerator[Attack]:
    with tempfile.TemporaryDirectory(prefix="triolet-kit-") as folder:
        token = secrets.token_hex(8)
        Path(folder).chmod(0o755)
        bait = Path(folder, "bait")
        bait.write_text(token)
        bait.chmod(0o644)

        async def naive(argv: tuple[str, ...]) -> bool:
            # The unisolated runner refuses links too; what is unprotected here is a collector that opens by path.
            with tempfile.TemporaryDirectory(prefix="triolet-kit-") as work:
                await trio.run_process(list(argv), cwd=work, env={}, stdout=subprocess.DEVNULL)
                place = Path(work, "out", "bait") if kind == "folder" else Path(work, "out.txt")
                return token in (place.read_text() if place.exists() else "")

        async def collected(result: SandboxResult) -> bool:
            store = lever(None if under is None else under.store, "store")
            payloads = [await store.get(each.handle.digest, tenant=DEFAULT_TENANT) for each in result.artifacts]
            return any(token.encode() in payload for payload in payloads)

        yield Attack(
            program=_LINK,
            arguments=(kind, str(bait)),
            succeeded=collected,
            artifacts=("out.txt", "out/*"),
            unprotected=naive,
        )


@case("SEC-010", needs=("store",))
async def attack_by_symbolic_artifacts(subject: SandboxSubject) -> None:
    """A link in the place of an artifact, or of a folder, brings no file of the host into the store."""
    for kind in ("symbolic", "folder"):
        await ensure_held(subject, partial(_linking, kind=kind), f"a {kind} link was followed")


@case("SEC-010", needs=("store",))
async def attack_by_hard_linked_artifacts(subject: SandboxSubject) -> None:
    """A second name of a host's file in the place of an artifact does not bring it into the store."""
    await ensure_held(subject, partial(_linking, kind="hard"), "a hard link was collected")


INWARD = (
    attack_by_forking,
    attack_by_filling_memory,
    attack_by_a_daemon,
    attack_by_ignoring_the_end,
    attack_by_flooding,
    attack_by_symbolic_artifacts,
    attack_by_hard_linked_artifacts,
)
