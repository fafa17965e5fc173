"""A guest in a child process, driven over pipes.

Decides when the child is ended: with the pass, by a kill, whatever it is doing. What it says is bounded, and checked
like everything that comes from a program.
"""

import math
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from subprocess import DEVNULL, PIPE
from typing import Any, Final, get_args

import trio

from triolet.adapters.quickjs_guest.framing import HEADER, BadMessage, framed, length_of, message_of
from triolet.adapters.quickjs_guest.steps import Settings, Step, StepKind

_KINDS: Final = frozenset(get_args(StepKind))
_REAPING: Final = 5.0
"""Seconds that a killed child may take to be gone."""


class ProcessWorker:
    """One guest in one child."""

    def __init__(self, process: trio.Process, settings: Settings, cpu_limit: float) -> None:
        self._process = process
        self._order = {"settings": settings._asdict(), "cpu_seconds": cpu_limit}
        self._output = settings.output_bytes
        self._logs = ""
        self._dropped = 0
        self.cpu_seconds = 0.0

    async def start(self) -> Step:
        """Evaluate the program and drive it to its first rest."""
        return await self._exchange(self._order)

    async def resume(self, call: int, good: bool, text: str) -> Step:
        """Settle a call and drive the program to its next rest."""
        return await self._exchange({"call": call, "good": good, "text": text})

    def logs(self) -> tuple[str, int]:
        """What the program logged, as far as it came to rest since."""
        return self._logs, self._dropped

    async def _exchange(self, message: dict[str, Any]) -> Step:
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise AssertionError("the child has pipes")
        try:
            await stdin.send_all(framed(message))
            length = length_of(await _exactly(stdout, HEADER))
            return self._step(message_of(await _exactly(stdout, length)))
        except (BadMessage, trio.BrokenResourceError, KeyError, TypeError, ValueError) as error:
            return Step("broken", f"its process: {type(error).__name__}")

    def _step(self, said: dict[str, Any]) -> Step:
        step = Step(said["kind"], str(said["text"]), int(said["call"]), int(said["tool"]))
        if step.kind not in _KINDS:
            raise BadMessage
        cpu = float(said["cpu"])
        self.cpu_seconds = cpu if math.isfinite(cpu) else 0.0
        self._logs = (self._logs + str(said["logs"]))[: self._output]
        self._dropped = max(0, int(said["dropped"]))
        return step


@asynccontextmanager
async def open_child(command: Sequence[str], descriptor: int) -> AsyncGenerator[trio.Process]:
    """A child that is gone when the scope is left. Raises `OSError` if it cannot be started."""
    process = await trio.lowlevel.open_process(
        list(command), stdin=PIPE, stdout=PIPE, stderr=DEVNULL, pass_fds=[descriptor]
    )
    try:
        yield process
    finally:
        process.kill()
        with trio.CancelScope(shield=True, deadline=trio.current_time() + _REAPING):
            await process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with trio.CancelScope(shield=True):
                    await pipe.aclose()


async def _exactly(stream: trio.abc.ReceiveStream, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = await stream.receive_some(min(size - len(data), 1 << 20))
        if not part:
            raise BadMessage
        data += part
    return bytes(data)
