# ruff: noqa: ASYNC240 -- small local files of a scene; nothing here waits for a disk
"""Attacks on what is outside: network, files, processes, environment.

SEC-010, CAP-010, CONF-005.
"""

import secrets
import socket
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from triolet.ports.sandbox import Mount, SandboxResult
from triolet.spec_tests.cases.sandbox.scene import SETTLING_SECONDS, Attack, ensure_held, open_victim
from triolet.spec_tests.cases.sandbox.setting import SandboxSubject
from triolet.spec_tests.definition import case

_CONNECT = """
import socket, sys
host, port = sys.argv[1], int(sys.argv[2])
try:
    s = socket.create_connection((host, port), timeout=1)
    s.sendall(b'GET /latest/meta-data/ HTTP/1.0\\r\\n\\r\\n')
    print(s.recv(100).decode())
except OSError as error:
    print(error)
print('tried')
"""

_RESOLVE = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(1)
try:
    s.sendto(b'secret.example.org', (sys.argv[1], int(sys.argv[2])))
except OSError as error:
    print(error)
print('tried')
"""

_ABSTRACT = """
import socket, sys
s = socket.socket(socket.AF_UNIX)
try:
    s.connect('\\0' + sys.argv[1])
    print(s.recv(100).decode())
except OSError as error:
    print(error)
print('tried')
"""

_READ = """
import sys
for path in (sys.argv[1], '/proc/1/root' + sys.argv[1], '/proc/self/root/..' + sys.argv[1]):
    try:
        print(open(path).read())
    except OSError as error:
        print(error)
print('tried')
"""

_WRITE = """
import sys
for path in sys.argv[1:]:
    try:
        open(path, 'w').write('x')
    except OSError as error:
        print(error)
print('tried')
"""

_LOOK = """
import os, sys
for name in os.listdir('/proc'):
    for file in ('cmdline', 'environ'):
        try:
            text = open('/proc/' + name + '/' + file).read()
        except OSError:
            continue
        if sys.argv[1] in text and name not in (str(os.getpid()), '1', 'self', 'thread-self'):
            print('found', text.replace('\\0', ' '))
print('tried')
"""

_KILL = """
import os, signal, sys
for pid in [int(sys.argv[1])] + [int(n) for n in os.listdir('/proc') if n.isdigit()]:
    try:
        words = open('/proc/%d/cmdline' % pid).read().split('\\0') if pid != int(sys.argv[1]) else [sys.argv[2]]
        if sys.argv[2] in words and pid != os.getpid() and pid != 1 and '/bwrap' not in words[0]:
            os.kill(pid, signal.SIGKILL)
    except OSError as error:
        print(error)
print('tried')
"""


@asynccontextmanager
async def _listening(program: str, host: str) -> AsyncGenerator[Attack]:
    """A listener that stands for a service of the host, and answers with a token."""
    token = secrets.token_hex(8)
    server = trio.socket.socket()
    with server:
        await server.bind((host, 0))
        server.listen(5)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_answer, server, token)
            port = server.getsockname()[1]
            yield Attack(program=program, arguments=(host, str(port)), succeeded=_shows(token))
            nursery.cancel_scope.cancel()


async def _answer(server: trio.socket.SocketType, token: str) -> None:
    while True:
        connection, _ = await server.accept()
        with connection:
            await connection.send(token.encode())


def _shows(token: str) -> Callable[[SandboxResult], Awaitable[bool]]:
    async def shows(result: SandboxResult) -> bool:
        await trio.lowlevel.checkpoint()
        return token in result.stdout.text

    return shows


@case("SEC-010", "CAP-010")
async def attack_on_loopback(subject: SandboxSubject) -> None:
    """A service that listens on the host's loopback cannot be reached."""
    await ensure_held(subject, lambda _: _listening(_CONNECT, "127.0.0.1"), "the host's loopback was reached")


@case("SEC-010", "CAP-010")
async def attack_on_metadata(subject: SandboxSubject) -> None:
    """An address that stands for a cloud's metadata service cannot be reached."""
    await ensure_held(subject, lambda _: _listening(_CONNECT, "127.169.254.169"), "the metadata stand-in was reached")


@case("SEC-010", "CAP-010")
async def attack_on_names(subject: SandboxSubject) -> None:
    """A datagram to what stands for a name server does not arrive."""

    @asynccontextmanager
    async def scene(_: SandboxSubject | None) -> AsyncGenerator[Attack]:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
            server.bind(("127.0.0.53", 0))
            server.setblocking(False)

            async def arrived(_: SandboxResult) -> bool:
                await trio.sleep(SETTLING_SECONDS)
                try:
                    return bool(server.recv(100))
                except BlockingIOError:
                    return False

            host, port = server.getsockname()
            yield Attack(program=_RESOLVE, arguments=(host, str(port)), succeeded=arrived)

    await ensure_held(subject, scene, "the name server's stand-in was reached")


@case("SEC-010", "CAP-010")
async def attack_on_abstract_sockets(subject: SandboxSubject) -> None:
    """A socket without a file, such as a desktop's bus, cannot be reached."""

    @asynccontextmanager
    async def scene(_: SandboxSubject | None) -> AsyncGenerator[Attack]:
        name, token = f"triolet-kit-{secrets.token_hex(8)}", secrets.token_hex(8)
        server = trio.socket.socket(socket.AF_UNIX)
        with server:
            await server.bind("\0" + name)
            server.listen(5)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_answer, server, token)
                yield Attack(program=_ABSTRACT, arguments=(name,), succeeded=_shows(token))
                nursery.cancel_scope.cancel()

    await ensure_held(subject, scene, "a socket of the host was reached")


@case("SEC-010", "CAP-010")
async def attack_on_host_files(subject: SandboxSubject) -> None:
    """A file of the host that everybody may read is not there."""

    @asynccontextmanager
    async def scene(_: SandboxSubject | None) -> AsyncGenerator[Attack]:
        with _open_folder() as folder:
            token = secrets.token_hex(8)
            file = Path(folder, "bait")
            file.write_text(token)
            file.chmod(0o644)
            yield Attack(program=_READ, arguments=(str(file),), succeeded=_shows(token))

    await ensure_held(subject, scene, "a file of the host was read")


@case("SEC-010", "CAP-010")
async def attack_by_writing_outside(subject: SandboxSubject) -> None:
    """A folder of the host that everybody may write, a mount for reading, and the runtime: none is changed."""

    @asynccontextmanager
    async def scene(under: SandboxSubject | None) -> AsyncGenerator[Attack]:
        with _open_folder() as folder, _open_folder() as shown:
            name = f"triolet-kit-{secrets.token_hex(8)}"
            inside = "/shown" if under is not None else shown
            places = [Path(folder, name), Path(shown, name)]
            # The runtime is tried on the subject only: without protection this would leave a file on the machine.
            runtime = [Path("/usr", name), Path("/usr/lib", name)] if under is not None else []
            paths = (str(places[0]), f"{inside}/{name}", *map(str, runtime))

            async def written(_: SandboxResult) -> bool:
                await trio.lowlevel.checkpoint()
                return any(place.exists() for place in (*places, *runtime))

            yield Attack(
                program=_WRITE,
                arguments=paths,
                succeeded=written,
                policy={"mounts": (Mount(source=shown, target="/shown"),)},
            )

    await ensure_held(subject, scene, "something outside was written")


@case("SEC-010", "CAP-010")
async def attack_on_host_processes(subject: SandboxSubject) -> None:
    """Command lines and environments of the host's processes are not in `/proc`."""

    @asynccontextmanager
    async def scene(_: SandboxSubject | None) -> AsyncGenerator[Attack]:
        token = secrets.token_hex(8)
        async with open_victim(f"victim-{token}"):
            # The program knows a part only, so that what it was told is not taken for what it found.
            yield Attack(program=_LOOK, arguments=(f"victim-{token[:8]}",), succeeded=_shows(token))

    await ensure_held(subject, scene, "a process of the host was seen")


@case("SEC-010", "CAP-010")
async def attack_by_signals(subject: SandboxSubject) -> None:
    """A process of the host cannot be killed, neither by its number nor by looking for it."""

    @asynccontextmanager
    async def scene(_: SandboxSubject | None) -> AsyncGenerator[Attack]:
        token = f"victim-{secrets.token_hex(8)}"
        async with open_victim(token) as victim:

            async def killed(_: SandboxResult) -> bool:
                with trio.move_on_after(SETTLING_SECONDS):
                    await victim.wait()
                return victim.returncode is not None

            yield Attack(program=_KILL, arguments=(str(victim.pid), token), succeeded=killed)

    await ensure_held(subject, scene, "a process of the host was killed")


def _open_folder() -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory(prefix="triolet-kit-")
    Path(folder.name).chmod(0o777)
    return folder


OUTWARD = (
    attack_on_loopback,
    attack_on_metadata,
    attack_on_names,
    attack_on_abstract_sockets,
    attack_on_host_files,
    attack_by_writing_outside,
    attack_on_host_processes,
    attack_by_signals,
)
