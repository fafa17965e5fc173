"""The stdio transport against a real process that dies, stops, babbles or says nothing (F-033, F-035, F-040)."""

import json
import os
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.mcp_peer import call, texts
from triolet.adapters.mcp import (
    McpConnectionLost,
    McpLimits,
    McpResultUnusable,
    McpSource,
    McpTimedOut,
    McpTimes,
    McpUnavailable,
    StdioServer,
    connect_mcp,
    open_mcp,
)
from triolet.adapters.mcp.lines import EDGE, Lines, Overlong
from triolet.ports.secrets import Secret, SecretHandle

_SCRIPT = str(Path(__file__).with_name("mcp_stdio_server.py"))
_SOON = 10.0
"""Seconds within which a test expects what should be at once; a hang takes longer."""


def server(mode: str = "plain", **fields: Any) -> StdioServer:
    return StdioServer(command=(sys.executable, "-u", _SCRIPT, mode), **fields)


def _children() -> set[int]:
    """The processes whose parent is this one and that have not been reaped."""
    found = set[int]()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                status = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(status[1]) == os.getpid():
                found.add(int(entry.name))
    return found


def _descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Any:
    before, descriptors = _children(), _descriptors()
    yield
    assert _children() <= before
    assert _descriptors() <= descriptors


async def test_a_call_and_its_answer() -> None:
    async with open_mcp(server(), name="small") as source:
        provenance = (await source.snapshot()).provenance
        assert (provenance.server, provenance.transport) == ("small", "stdio")
        assert texts(await call(source, x="ä\u2028")) == [json.dumps({"x": "ä\u2028"})]


async def test_f033_a_process_that_exits_at_the_start_is_a_typed_error() -> None:
    with trio.fail_after(_SOON), pytest.raises(McpUnavailable) as caught:
        async with open_mcp(server("exits")):
            pytest.fail("it was opened")
    assert caught.value.reason == "lost"


async def test_f033_a_program_that_is_not_there_is_a_typed_error() -> None:
    with pytest.raises(McpUnavailable, match="No such file") as caught:
        async with open_mcp(StdioServer(command=("/no/such/program",))):
            pytest.fail("it was opened")
    assert caught.value.reason == "refused"


@pytest.mark.parametrize("how", ["exit", "kill", "child"])
async def test_f033_the_end_of_the_process_ends_every_open_call(how: str) -> None:
    ended: list[str] = []

    async def waits(source: McpSource, name: str) -> None:
        with pytest.raises(McpConnectionLost):
            await call(source, name)
        ended.append(name)

    with trio.fail_after(_SOON):
        async with open_mcp(server(), times=McpTimes(first_wait=0)) as source:
            await source.snapshot()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(waits, source, "hang")
                await trio.testing.wait_all_tasks_blocked(0.01)
                nursery.start_soon(waits, source, how)
            assert sorted(ended) == sorted(["hang", how])
            # A new process serves the next call; nothing was repeated.
            assert texts(await call(source)) == ["{}"]
            assert source.diagnostics.sessions == 2


async def test_f034_a_stopped_process_ends_the_call_in_time_and_is_killed_at_the_end() -> None:
    with trio.fail_after(_SOON):
        async with open_mcp(server(), times=McpTimes(call=0.3, close=0.2)) as source:
            with pytest.raises(McpTimedOut):
                await call(source, "stop")
            with pytest.raises(McpTimedOut):
                await call(source)


async def test_f034_a_process_that_reads_nothing_holds_up_nobody() -> None:
    with trio.fail_after(_SOON):
        async with open_mcp(server(), times=McpTimes(call=0.3, close=0.2)) as source:
            with pytest.raises(McpTimedOut):
                await call(source, "deaf")
            # More than a pipe holds.
            with pytest.raises((McpTimedOut, McpUnavailable)):
                await call(source, x="y" * 500_000)
            with trio.move_on_after(0.05) as scope:
                await call(source)
            assert scope.cancelled_caught


async def test_f034_a_mute_process_is_given_up() -> None:
    with trio.fail_after(_SOON), pytest.raises(McpUnavailable) as caught:
        async with open_mcp(server("mute"), times=McpTimes(connect=0.5, close=0.2)):
            pytest.fail("it was opened")
    assert caught.value.reason == "timeout"


async def test_f035_a_stubborn_process_is_ended_all_the_same() -> None:
    with trio.fail_after(_SOON):
        async with open_mcp(server("stubborn"), times=McpTimes(close=0.2)) as source:
            assert texts(await call(source)) == ["{}"]


async def test_f035_processes_end_with_their_nursery_and_by_other_tasks() -> None:
    with trio.fail_after(_SOON):
        async with trio.open_nursery() as nursery:
            one, other = [await connect_mcp(nursery, server(), name=name) for name in "ab"]
            nursery.start_soon(one.aclose)
            await one.aclose()
            assert texts(await call(other)) == ["{}"]
            nursery.cancel_scope.cancel()


async def test_f040_what_is_printed_beside_messages_is_skipped_and_counted() -> None:
    with trio.fail_after(_SOON):
        async with open_mcp(server("banner"), limits=McpLimits(message_bytes=100_000)) as source:
            assert texts(await call(source)) == ["{}"]
            diagnostics = source.diagnostics
    assert (diagnostics.junk, diagnostics.oversize, diagnostics.sessions) == (6, 1, 1)
    assert diagnostics.junk_samples[0] == "*** Welcome to the server ***"
    assert "\ufffd broken \ufffd" in diagnostics.junk_samples[1]
    assert max(map(len, diagnostics.junk_samples)) <= 200


@pytest.mark.parametrize("mode", ["junk", "junk-without-lines"])
async def test_f040_endless_junk_ends_in_a_typed_error(mode: str) -> None:
    with trio.fail_after(_SOON), pytest.raises(McpUnavailable) as caught:
        limits = McpLimits(message_bytes=100_000, junk=200)
        async with open_mcp(server(mode), limits=limits, times=McpTimes(connect=1, close=0.2)):
            pytest.fail("it was opened")
    assert caught.value.reason == ("protocol" if mode == "junk" else "timeout")


async def test_f040_an_answer_that_is_too_long_fails_its_own_call_at_once() -> None:
    with trio.fail_after(_SOON):
        async with open_mcp(server(), limits=McpLimits(message_bytes=100_000)) as source:
            with pytest.raises(McpResultUnusable, match="larger than 100000"):
                await call(source, "huge")
            assert texts(await call(source)) == ["{}"]
            assert source.diagnostics.sessions == 1


async def test_broken_text_in_an_answer_is_repaired_and_not_lost() -> None:
    async with open_mcp(server()) as source:
        assert texts(await call(source, "spoilt")) == ["\ufffd \ufffd broken"]


async def test_a_process_sees_only_the_environment_that_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    class Vault:
        async def resolve(self, handle: SecretHandle) -> Secret:
            return Secret(handle, "value-of-the-secret")

    monkeypatch.setenv("TRIOLET_TEST_PRIVATE", "nobody's business")
    given = server(env={"PLAIN": "p", "TOKEN": SecretHandle(name="token")})
    async with open_mcp(given, secrets=Vault()) as source:
        [shown] = texts(await call(source, "environment"))
    environment = json.loads(shown)
    assert environment["PLAIN"] == "p"
    assert environment["TOKEN"] == "[secret token]"
    assert "TRIOLET_TEST_PRIVATE" not in environment
    assert environment.keys() <= {"PLAIN", "TOKEN", "LC_CTYPE", *StdioServer(command=("x",)).inherits}


def test_lines_are_cut_within_their_bound_however_they_come() -> None:
    data = b"one\r\n\n" + b"a" * 40 + b"\n" + b"b" * 41 + b"\nlast"
    for size in (1, 3, 7, 1_000):
        lines, found = Lines(40), []
        for start in range(0, len(data), size):
            found += lines.feed(data[start : start + size])
        assert found[:2] == [b"one", b"a" * 40]
        assert found[2] == Overlong(head=b"b" * 41, tail=b"b" * 41, size=41)
        assert lines.rest() == b"last"
        assert lines.rest() is None


def test_of_a_line_that_is_too_long_both_ends_are_kept_and_no_more() -> None:
    lines = Lines(10)
    assert lines.feed(b"start" + b"x" * 10_000) == []
    tracemalloc.start()
    try:
        for _ in range(100):
            assert lines.feed(b"y" * 10_000) == []
        assert tracemalloc.get_traced_memory()[0] < 20_000
    finally:
        tracemalloc.stop()
    [long] = lines.feed(b"end\n")
    assert isinstance(long, Overlong)
    assert long.head.startswith(b"start")
    assert long.tail.endswith(b"yend")
    assert (len(long.head), len(long.tail), long.size) == (EDGE, EDGE, 1_010_008)
    assert lines.feed(b"short\n") == [b"short"]
