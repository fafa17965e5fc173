"""A small MCP server on standard input and output, for tests of what such programs get wrong. Standard library only.

    python mcp_stdio_server.py MODE

It is a program of its own, and imports nothing of the project.
"""

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

MODE = sys.argv[1] if len(sys.argv) > 1 else "plain"
TOOLS = ["echo", "exit", "kill", "stop", "hang", "huge", "environment", "spoilt", "child", "deaf"]


def say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def raw(data: bytes) -> None:
    sys.stdout.flush()
    os.write(1, data)


def main() -> None:
    if MODE == "exits":
        sys.exit(3)
    if MODE == "mute":
        time.sleep(600)
    if MODE == "junk":
        while True:
            raw(b"this is no message\n" * 50)
    if MODE == "junk-without-lines":
        while True:
            raw(b"x" * 65_536)
    if MODE == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if MODE == "banner":
        raw(b"*** Welcome to the server ***\n\n\xff\xfe broken \xff\n[1, 2]\nnull\n")
        raw(b'{"no": "protocol"}\n' + b"y" * 300_000 + b"\n")
    for line in sys.stdin:
        serve(json.loads(line))
    if MODE == "stubborn":
        time.sleep(600)


def serve(message: dict[str, Any]) -> None:
    method, id_ = message.get("method"), message.get("id")
    if method == "initialize":
        info = {"name": "small", "version": "1"}
        version = message["params"]["protocolVersion"]
        result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        if MODE == "banner":
            # Half of the answer, then the rest.
            data = json.dumps({"jsonrpc": "2.0", "id": id_, "result": result}).encode() + b"\n"
            raw(data[:20])
            time.sleep(0.05)
            raw(data[20:])
        else:
            say({"id": id_, "result": result})
    elif method == "tools/list":
        say({"id": id_, "result": {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]}})
    elif method == "tools/call":
        called(id_, message["params"]["name"], message["params"].get("arguments", {}))


def called(id_: Any, name: str, arguments: dict[str, Any]) -> None:
    if name == "exit":
        os._exit(0)
    if name == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    if name == "hang":
        return
    if name == "deaf":
        time.sleep(600)
    if name == "child":
        # Somebody else holds the pipe when this process is gone.
        subprocess.Popen(["sleep", "600"])
        os._exit(0)
    text = json.dumps(arguments)
    if name == "huge":
        text = "z" * 300_000
    if name == "environment":
        text = json.dumps(dict(os.environ))
    if name == "spoilt":
        raw(b'{"jsonrpc":"2.0","id":' + str(id_).encode() + b',"result":{"content":[{"type":"text",')
        raw(b'"text":"\\ud800 \xff broken"}]}}\n')
        return
    say({"id": id_, "result": {"content": [{"type": "text", "text": text}]}})


if __name__ == "__main__":
    main()
