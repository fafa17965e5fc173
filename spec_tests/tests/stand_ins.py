"""Third-party servers that imitate OpenAI's API, started on the loopback interface for tests.

They run on another event loop, in a process of their own that ends with its scope and, should the tests be killed, when
its standard input does.
"""

import json
import os
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx2

_PROGRAM = """
import os, socket, sys, threading, uvicorn
threading.Thread(target=lambda: (os.read(0, 1), os._exit(0)), daemon=True).start()
{imports}
listening = socket.socket()
listening.bind(("127.0.0.1", 0))
listening.listen()
print(listening.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off")).run(sockets=[listening])
"""

LLMOCK = "from llmock.main import create_app; app = create_app()"
FAKELLM = "from fakellm.server import app"


@contextmanager
def stand_in(imports: str, environment: Mapping[str, str] | None = None) -> Generator[str]:
    """The address of a running server, which answers as soon as it is known."""
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM.format(imports=imports)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **(environment or {})},
    ) as process:
        try:
            assert process.stdout is not None
            port = process.stdout.readline()
            assert port, "the stand-in died before it listened"
            yield f"http://127.0.0.1:{int(port)}"
        finally:
            process.kill()


async def get(url: str) -> Any:
    async with httpx2.AsyncClient(trust_env=False) as client:
        return json.loads((await client.get(url)).raise_for_status().content)


async def post(url: str, value: object) -> None:
    async with httpx2.AsyncClient(trust_env=False) as client:
        (await client.post(url, json=value)).raise_for_status()
