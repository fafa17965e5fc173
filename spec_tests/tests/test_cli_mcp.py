"""`triolet mcp` and `triolet demo --mcp`, against a small server in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from triolet.adapters.cli.commands import CommandFailed
from triolet.adapters.cli.main import main
from triolet.adapters.cli.mcp_target import read_target
from triolet.adapters.mcp import HttpServer, StdioServer, WebSocketServer
from triolet.ports.secrets import SecretHandle

_SCRIPT = str(Path(__file__).with_name("mcp_stdio_server.py"))
_SERVER = [sys.executable, "-u", _SCRIPT]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.md").write_text("one two three\n", encoding="utf-8")
    return tmp_path


def _ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(list(arguments))
    shown = capsys.readouterr()
    return status, shown.out, shown.err


def test_the_page_says_who_it_is_and_what_it_offers(capsys: pytest.CaptureFixture[str]) -> None:
    status, shown, _ = _ran(capsys, "mcp", "--name", "small", "--schemas", "--", *_SERVER, "banner")
    assert status == 0
    for part in (
        "small 1, as small",
        "over stdio; can do: tools",
        "catalogue sha256:",
        "10 tools, 0 set aside",
        "small__echo  (echo)  uncertain",
        '"type": "object"',
        "6 lines or frames that are no messages, such as '*** Welcome to the server ***'",
    ):
        assert part in shown, part


def test_the_document_has_everything(capsys: pytest.CaptureFixture[str]) -> None:
    status, shown, _ = _ran(capsys, "mcp", "--json", *_SERVER)
    told = json.loads(shown)
    assert status == 0
    assert (told["server"], told["transport"]) == ({"name": "small", "version": "1"}, "stdio")
    assert [tool["own_name"] for tool in told["tools"]] == sorted(
        ["echo", "exit", "kill", "stop", "hang", "huge", "environment", "spoilt", "child", "deaf"]
    )
    assert told["tools"][0]["input"] == {"type": "object"}
    assert told["digest"].startswith("sha256:")


@pytest.mark.parametrize("tool", ["echo", "small__echo"])
def test_one_tool_is_called_by_either_name(tool: str, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["mcp", "--name", "small", "--call", tool, "--arguments", '{"x": "\\u001b[31m"}', *_SERVER]
    status, shown, _ = _ran(capsys, *given)
    assert (status, shown) == (0, '{"x": "\\u001b[31m"}\n')
    status, shown, _ = _ran(capsys, *given[:1], "--json", *given[1:])
    assert json.loads(shown)["result"]["content"][0]["type"] == "text"


def test_what_a_server_says_does_not_reach_the_terminal_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    _, shown, _ = _ran(capsys, "mcp", "--call", "spoilt", *_SERVER)
    assert shown == "\ufffd \ufffd broken\n"


def test_a_secret_variable_reaches_the_program_and_is_not_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SMALL_SECRET", "a-value-nobody-sees")
    given = ("--env", "TOKEN=$SMALL_SECRET", "--env", "PLAIN=p", "--call", "environment")
    status, shown, _ = _ran(capsys, "mcp", *given, *_SERVER)
    environment = json.loads(shown)
    assert status == 0
    assert environment["TOKEN"] == "[secret SMALL_SECRET]"
    assert environment["PLAIN"] == "p"
    assert "SMALL_SECRET" not in environment


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["http://127.0.0.1:9/"], 1, "nothing answers there"),
        (["ws://127.0.0.1:9/"], 1, "nothing answers there"),
        (["/no/such/program"], 1, "cannot be started"),
        ([*_SERVER, "exits"], 1, "(lost)"),
        (["--seconds", "0.5", *_SERVER, "mute"], 1, "(timeout)"),
        (["--seconds", "0", *_SERVER], 2, "positive"),
        (["--call", "nothing", *_SERVER], 2, "has no tool 'nothing'"),
        (["--call", "echo", "--arguments", "[1]", *_SERVER], 2, "--arguments"),
        (["--call", "echo", "--arguments", "{", *_SERVER], 2, "--arguments"),
        (["--call", "exit", *_SERVER], 1, "outcome unknown (connection-lost)"),
        (["--seconds", "0.5", "--call", "hang", *_SERVER], 1, "outcome unknown (timeout)"),
        (["--header", "A=b", *_SERVER], 2, "--header goes with a URL"),
        (["--env", "A=b", "http://x/"], 2, "--env goes with a program"),
        (["--header", "A", "http://x/"], 2, "NAME=VALUE"),
        (["http://user:word@x/"], 2, "credentials"),
        (["http://x/", "more"], 2, "stands alone"),
        ([], 2, "Missing argument"),
    ],
)
def test_what_goes_wrong_is_one_line_and_a_status(
    arguments: list[str], status: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ended, shown, complaint = _ran(capsys, "mcp", *arguments)
    assert (ended, shown) == (status, "")
    assert complaint.startswith("triolet: ")
    assert complaint.count("\n") == 1
    assert says in complaint
    assert "word" not in complaint.partition("credentials")[0]


def test_a_failure_is_a_document_where_one_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    status, shown, _ = _ran(capsys, "mcp", "--json", "/no/such/program")
    assert status == 1
    assert json.loads(shown)["error"] == "McpUnavailable"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["https://h/mcp"], HttpServer(url="https://h/mcp")),
        (["wss://h/mcp"], WebSocketServer(url="wss://h/mcp")),
        (["node", "a b.js"], StdioServer(command=("node", "a b.js"))),
        (["node 'a b.js' -x"], StdioServer(command=("node", "a b.js", "-x"))),
    ],
)
def test_a_target_is_a_url_or_a_command(words: list[str], expected: object) -> None:
    assert read_target(words).server == expected


def test_a_header_s_value_may_be_a_secret_s_name() -> None:
    read = read_target(["https://h/"], headers=["Authorization=$TOKEN", "X=$"])
    assert isinstance(read.server, HttpServer)
    assert read.server.headers == {"Authorization": SecretHandle(name="TOKEN"), "X": "$"}
    with pytest.raises(CommandFailed):
        read_target(["'unfinished command"])


def test_the_demo_s_agent_gets_the_server_s_tools(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = f"{sys.executable} -u {_SCRIPT}"
    status, shown, _ = _ran(
        capsys, "demo", str(folder), "--scripted", "--json", "--mcp", server, "--ask", "please echo this"
    )
    lines: list[dict[str, Any]] = [json.loads(line) for line in shown.splitlines()]
    assert status == 0
    [taken] = [line for line in lines if line["kind"] == "tool-catalogue-taken"]
    assert (taken["source"], taken["server"]) == ("server", "small")
    [ended] = [line for line in lines if line["kind"] == "call-ended"]
    assert (ended["tool"], ended["outcome"]["kind"]) == ("server__echo", "success")
    assert lines[-1]["kind"] == "result"
    status, page, _ = _ran(capsys, "demo", str(folder), "--scripted", "--mcp", server, "--ask", "please echo this")
    assert status == 0
    assert "server · small 1 · 10 tools" in " ".join(page.split())


@pytest.mark.parametrize("flag", ["--code", "--approve"])
def test_the_demo_s_other_plays_do_not_go_with_it(flag: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, complaint = _ran(capsys, "demo", str(folder), flag, "--mcp", "x")
    assert status == 2
    assert "goes neither" in complaint


def test_without_the_extra_the_command_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['mcp'] = None\n"
        "from triolet.adapters.cli.main import main\n"
        "raise SystemExit(main(['mcp', 'x']))"
    )
    ended = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert ended.stderr == "triolet: mcp is not installed. Run: pip install 'triolet[mcp]'\n"
