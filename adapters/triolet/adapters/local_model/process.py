"""The local model's server as a child process that never outlives its scope.

Decides how the child is started, when it counts as ready, and that it is gone when the scope is left, whichever way.
The child watches its standard input, so it also goes when this process is killed. Asks the model nothing.
"""

import json
import os
import sys
import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from subprocess import PIPE
from typing import IO, Final

import trio

from triolet.adapters.local_model.errors import LocalModelFailed
from triolet.ports.text import decode

_PROGRAM: Final = Path(__file__).with_name("server.py")
_PATIENT_THREADS: Final = {"OMP_WAIT_POLICY": "PASSIVE"}
"""Threads that wait for each other sleep. If they spin, a busy neighbour slows the model five to thirty times."""

_LOG_TAIL: Final = 4_000
_REAPING_SECONDS: Final = 10.0


@asynccontextmanager
async def serving(config: Mapping[str, object], *, patience: float) -> AsyncGenerator[str, None]:
    """Start the server, and yield its address once it is ready. `patience` is in seconds.

    Raises `LocalModelFailed` as soon as the process has died, or after `patience`. On leaving, the process is ended and
    reaped under a shield.
    """
    with tempfile.TemporaryFile() as log:
        # -P: the program's folder is no place to import from.
        process = await trio.lowlevel.open_process(
            [sys.executable, "-P", str(_PROGRAM)],
            stdin=PIPE,
            stdout=PIPE,
            stderr=log,
            env={**_PATIENT_THREADS, **os.environ},
        )
        try:
            yield await _address(process, config, patience, log)
        finally:
            process.kill()
            with trio.move_on_after(_REAPING_SECONDS, shield=True):
                await process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with trio.move_on_after(_REAPING_SECONDS, shield=True):
                        await stream.aclose()


async def _address(process: trio.Process, config: Mapping[str, object], patience: float, log: IO[bytes]) -> str:
    """What the child announces. Waits for the announcement or its end, whichever comes first."""
    assert process.stdin is not None  # both are pipes
    assert process.stdout is not None
    heard = b""
    with trio.move_on_after(patience) as waiting:
        with suppress(trio.BrokenResourceError):  # it died before it read; the end of its output says so below
            await process.stdin.send_all(json.dumps(dict(config)).encode() + b"\n")
        while not heard.endswith(b"\n"):
            more = await process.stdout.receive_some(1024)
            if not more:
                break
            heard += more
        else:
            return heard.decode().strip()
        status = await process.wait()
        raise LocalModelFailed(problem="died", status=status, log=_tail(log))
    assert waiting.cancelled_caught
    raise LocalModelFailed(problem="timeout", log=_tail(log))


def _tail(log: IO[bytes]) -> str:
    size = log.seek(0, 2)
    log.seek(max(0, size - _LOG_TAIL))
    return decode(log.read())[-_LOG_TAIL:]
