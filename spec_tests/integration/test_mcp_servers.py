"""MCP against servers that this project did not write, over every transport: each tool, each kind of content, each end.

The versions are pinned in `node/package.json`; what the servers answer is theirs, so shapes are asserted and not words.
"""

import json
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from integration.places import FILESYSTEM, ROOT, TRANSPORTS, everything, program
from tests.kernel_world import World, script, shown_outcomes, talker
from tests.kernel_world import world as world  # noqa: PLC0414 -- pytest finds a fixture by its name here
from tests.mcp_peer import Handle, call, public_names, texts, tool_named
from triolet.adapters.mcp import (
    McpConnectionLost,
    McpPolicy,
    McpSource,
    McpTimedOut,
    McpTimes,
    McpToolFailed,
    open_mcp,
)
from triolet.adapters.scripted_model import call as calls
from triolet.adapters.scripted_model import turn
from triolet.kernel import Completed
from triolet.ports.errors import InvalidValue
from triolet.ports.events import CallProgressed
from triolet.ports.outcomes import ToolFailure, ToolSuccess
from triolet.ports.records import ToolCatalogueChanged
from triolet.ports.strict_json import parse

_SOON = 60.0

ARGUMENTS: dict[str, dict[str, Any]] = {
    "echo": {"message": "hello"},
    "get-annotated-message": {"messageType": "error", "includeImage": True},
    "get-env": {},
    "get-resource-links": {"count": 3},
    "get-resource-reference": {"resourceType": "Blob", "resourceId": 2},
    "get-structured-content": {"location": "Chicago"},
    "get-sum": {"a": 2, "b": 3.5},
    "get-tiny-image": {},
    "gzip-file-as-resource": {"name": "a.gz", "data": "data:text/plain;base64,aGk=", "outputType": "resource"},
    "toggle-simulated-logging": {},
    "toggle-subscriber-updates": {},
    "trigger-long-running-operation": {"duration": 0.2, "steps": 2},
}
"""Every tool of the reference server that can be called, with something to call it with."""
KINDS = {
    "get-annotated-message": {"text", "image"},
    "get-resource-links": {"text", "resource_link"},
    "get-resource-reference": {"text", "resource"},
    "get-tiny-image": {"text", "image"},
    "gzip-file-as-resource": {"resource"},
}


@asynccontextmanager
async def _connected(transport: str, **options: Any) -> AsyncGenerator[McpSource]:
    with trio.fail_after(_SOON):
        async with everything(transport) as place, open_mcp(place.server, name="everything", **options) as source:
            yield source


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_every_tool_is_called_and_every_kind_of_content_comes_through(transport: str) -> None:
    async with _connected(transport) as source:
        snapshot = await source.snapshot()
        assert snapshot.provenance.server == "mcp-servers/everything"
        assert snapshot.provenance.version == "2.0.0"
        assert "tools" in snapshot.provenance.capabilities
        assert {each.origin.name for each in snapshot.tools if each.origin} == ARGUMENTS.keys()
        for name, arguments in ARGUMENTS.items():
            tool = await tool_named(source, name)
            result = await call(source, name, **arguments)
            # The kernel's own boundary: the result is by the tool's schema.
            assert tool.output.encode(result) == result
            kinds = {block["type"] for block in result["content"]}
            assert kinds >= KINDS.get(name, {"text"})
            assert ("structured" in result) == (name == "get-structured-content")
        assert source.diagnostics.sessions == 1


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_structured_content_agrees_with_its_text(transport: str) -> None:
    async with _connected(transport) as source:
        result = await call(source, "get-structured-content", location="New York")
        assert json.loads(texts(result)[0]) == result["structured"]


@pytest.mark.parametrize("transport", ["stdio", "streamable-http", "websocket"])
async def test_progress_comes_while_the_call_runs(transport: str) -> None:
    handle = Handle()
    async with _connected(transport) as source:
        await call(source, "trigger-long-running-operation", handle, duration=0.5, steps=5)
    assert [(done, total) for _, done, total in handle.notes] == [(float(step), 5.0) for step in range(1, 6)]


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_cancelling_returns_at_once_and_the_session_goes_on(transport: str) -> None:
    async with _connected(transport) as source:
        await source.snapshot()
        with trio.move_on_after(0.2) as scope:
            await call(source, "trigger-long-running-operation", duration=30, steps=30)
        assert scope.cancelled_caught
        assert trio.current_time() - scope.deadline < 0.2
        assert texts(await call(source, "echo", message="still there")) == ["Echo: still there"]
        assert source.diagnostics.sessions == 1


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_input_that_the_server_s_schema_refuses_is_refused_here(transport: str) -> None:
    async with _connected(transport) as source:
        with pytest.raises(InvalidValue):
            await call(source, "get-sum", a="two", b=3)


async def test_a_tool_s_own_error_is_a_failed_result(tmp_path: Path) -> None:
    async with open_mcp(program(FILESYSTEM, str(tmp_path)), name="files") as source:
        with pytest.raises(McpToolFailed) as caught:
            await call(source, "read_text_file", path=str(tmp_path / "missing.txt"))
        assert "ENOENT" in json.dumps(caught.value.content)
        with pytest.raises(McpToolFailed) as denied:
            await call(source, "read_text_file", path="/etc/passwd")
        assert "denied" in json.dumps(denied.value.content)


async def test_an_agent_works_on_a_folder_through_the_file_server(tmp_path: Path, world: World) -> None:
    (tmp_path / "note.txt").write_text("twelve bottles\n")
    policy = McpPolicy(trust_hints=("read_*", "list_*"), deny=("move_file",))
    async with open_mcp(program(FILESYSTEM, str(tmp_path)), name="files", policy=policy) as source:
        snapshot = await source.snapshot()
        assert "files__move_file" not in public_names(snapshot.tools)
        execution = {each.name: each.execution for each in snapshot.tools}
        assert (execution["files__read_text_file"], execution["files__write_file"]) == ("readonly", "uncertain")
        world.ports["tool_sources"] = (source,)
        agent = talker(sources=("files",))
        path = str(tmp_path / "note.txt")
        model = script(
            turn(calls("files__read_text_file", {"path": path}), calls("files__read_text_file", {"path": "/no"})),
            turn(calls("files__write_file", {"path": path, "content": "eleven\n"})),
            turn("Done."),
        )
        async with world.kernel(agent, model=model) as kernel:
            assert isinstance(await kernel.run(agent, "go"), Completed)
    read, refused, written = world.outcomes()
    assert isinstance(read, ToolSuccess)
    assert "twelve bottles" in str(parse(read.output))
    assert isinstance(refused, ToolFailure)
    assert isinstance(written, ToolSuccess)
    assert (tmp_path / "note.txt").read_text() == "eleven\n"
    [record] = world.of(ToolCatalogueChanged)
    assert record.server == "secure-filesystem-server"
    assert len(shown_outcomes(model.requests[-1])) == 3


async def test_f014_tools_that_change_during_a_call_are_taken_up_at_the_seam(world: World) -> None:
    async with open_mcp(program(str(ROOT / ".node" / "changing_server.mjs")), name="c") as source:
        world.ports["tool_sources"] = (source,)
        agent = talker(sources=("c",))
        model = script(turn(calls("c__swap", {})), turn(calls("c__after", {})), turn("Done."))
        async with world.kernel(agent, model=model) as kernel:
            assert isinstance(await kernel.run(agent, "go"), Completed)
    shown = [[declared.name for declared in request.tools] for request in model.requests]
    assert shown == [["c__before", "c__swap"], ["c__after", "c__swap"], ["c__after", "c__swap"]]
    assert all(isinstance(outcome, ToolSuccess) for outcome in world.outcomes())


async def test_progress_of_a_call_is_an_event_of_its_run(world: World) -> None:
    async with _connected("websocket") as source:
        world.ports["tool_sources"] = (source,)
        agent = talker(sources=("everything",))
        name = "everything__trigger-long-running-operation"
        model = script(turn(calls(name, {"duration": 0.2, "steps": 2})), turn("Done."))
        async with world.kernel(agent, model=model) as kernel, kernel.stream(agent, "go") as run:
            events = [event async for event in run]
    progress = [(event.done, event.total) for event in events if isinstance(event, CallProgressed)]
    assert progress == [(1.0, 2.0), (2.0, 2.0)]


@pytest.mark.parametrize("transport", ["streamable-http", "websocket", "supergateway"])
async def test_f033_a_server_that_is_killed_ends_the_call_and_its_successor_serves_the_next(transport: str) -> None:
    """The source outlives a server; nothing is repeated, and a session that the successor does not know is replaced."""
    lost: list[str] = []

    async def waits(source: McpSource) -> None:
        with pytest.raises(McpConnectionLost):
            await call(source, "trigger-long-running-operation", duration=30, steps=30)
        lost.append("lost")

    times = McpTimes(tries=20, first_wait=0.1, longest_wait=0.5, close=0.5)
    with trio.fail_after(_SOON):
        async with everything(transport) as place, open_mcp(place.server, name="e", times=times) as source:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(waits, source)
                await trio.sleep(0.5)
                place.kill()
            assert lost == ["lost"]
            await place.start()
            assert texts(await call(source, "echo", message="anew")) == ["Echo: anew"]
            assert source.diagnostics.sessions == 2
            assert (await source.snapshot()).tools


async def test_f034_a_server_that_is_stopped_ends_the_call_in_time() -> None:
    with trio.fail_after(_SOON):
        async with everything("streamable-http") as place:
            times = McpTimes(call=0.5, close=0.5)
            async with open_mcp(place.server, name="e", times=times) as source:
                await call(source, "echo", message="before")
                assert place.process is not None
                place.process.send_signal(signal.SIGSTOP)
                with pytest.raises(McpTimedOut):
                    await call(source, "echo", message="meanwhile")
                place.process.send_signal(signal.SIGCONT)
                assert texts(await call(source, "echo", message="after")) == ["Echo: after"]
