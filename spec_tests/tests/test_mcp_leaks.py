"""The leak scan over MCP: what a server says, and what it is sent, is told nobody unless the host asks for content.

Over each transport, with every library's log at its most talkative (F-055, CAP-013, SEC-006).
"""

import json
import logging
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import pytest
import trio

from tests.kernel_world import World, script, talker
from tests.mcp_http_peer import Exchange, http_peer
from tests.mcp_peer import definition
from tests.telemetry_world import Exported
from triolet.adapters.mcp import HttpServer, McpServer, McpTimes, McpUnavailable, StdioServer, open_mcp
from triolet.adapters.scripted_model import call, turn
from triolet.kernel import Completed
from triolet.ports.secrets import Secret, SecretHandle
from triolet.spec_tests.cases.kernel.marked import CONTENT
from triolet.spec_tests.markers import Markers
from triolet.spec_tests.stand_ins.mcp_server import McpStandIn

SAID: Final = ("mcp-input", "mcp-output", "mcp-failure", "mcp-error")
"""With content, these are in an attribute that may hold content."""
NEVER: Final = (
    "mcp-secret",
    "mcp-server",
    "mcp-description",
    "mcp-progress",
    "mcp-notice",
    "mcp-refusal",
    "mcp-unasked",
)
"""These are never told: a name or a word of a server that nobody here chose."""


class _Vault:
    def __init__(self, markers: Markers) -> None:
        self._markers = markers

    async def resolve(self, handle: SecretHandle) -> Secret:
        return Secret(handle, self._markers.passes("mcp-secret"))


@pytest.fixture
def exported() -> Exported:
    return Exported()


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG)
    return caplog


@asynccontextmanager
async def _server(markers: Markers) -> AsyncGenerator[McpServer]:
    """A server over HTTP that has a marker in everything it says."""

    async def act(exchange: Exchange) -> bool:
        message = exchange.message
        method = message.get("method")
        assert exchange.headers["authorization"] == markers.of("mcp-secret")
        if method == "initialize":
            info = {"name": markers.passes("mcp-server"), "version": "1"}
            version = message["params"]["protocolVersion"]
            result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
            await exchange.result({**result, "instructions": markers.of("mcp-description")}, Mcp_Session_Id="s")
        elif method == "tools/list":
            described = definition("talk", description=markers.passes("mcp-description"))
            await exchange.result({"tools": [described, {"name": "broken", "inputSchema": 7}]})
        elif method == "tools/call":
            await _called(exchange, markers)
        else:
            await exchange.status(202 if exchange.method == "POST" else 405)
        return True

    with trio.fail_after(20):
        async with http_peer() as peer:
            peer.act = act
            yield HttpServer(url=peer.url, headers={"Authorization": SecretHandle(name="token")})


async def _called(exchange: Exchange, markers: Markers) -> None:
    message = exchange.message
    how = message["params"]["arguments"].get("how")
    if how == "refused":
        await exchange.status(429, markers.passes("mcp-refusal").encode())
        return
    if how == "error":
        error = {"code": -32000, "message": markers.of("mcp-error"), "data": markers.of("mcp-error")}
        await exchange.stream_opens()
        await exchange.event({"jsonrpc": "2.0", "id": message["id"], "error": error})
        return
    text = markers.of("mcp-failure" if how == "failure" else "mcp-output")
    token = message["params"]["_meta"]["progressToken"]
    params = {"progressToken": token, "progress": 1, "message": markers.passes("mcp-progress")}
    await exchange.stream_opens()
    await exchange.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
    notice = {"level": "error", "data": markers.passes("mcp-notice")}
    await exchange.event({"jsonrpc": "2.0", "method": "notifications/message", "params": notice})
    await exchange.raw(f"data: {markers.passes('mcp-unasked')}\n\n".encode())
    asked = {"messages": [], "maxTokens": 1, "systemPrompt": markers.of("mcp-unasked")}
    await exchange.event({"jsonrpc": "2.0", "id": "r", "method": "sampling/createMessage", "params": asked})
    result = {"content": [{"type": "text", "text": text}], "isError": how == "failure"}
    await exchange.event({"jsonrpc": "2.0", "id": message["id"], "result": result})


async def _scan(world: World, exported: Exported, logged: pytest.LogCaptureFixture, **options: Any) -> dict[str, Any]:
    markers = Markers([*SAID, *NEVER])
    logging.getLogger("host").debug("the host logs too")
    given = {"text": markers.passes("mcp-input")}
    kinds: tuple[dict[str, Any], ...] = ({}, {"how": "failure"}, {"how": "error"}, {"how": "refused"})

    def shown(request: Any) -> Any:
        markers.look_for(["mcp-output", "mcp-failure", "mcp-error"], repr(tuple(request.messages)))
        return turn("Done.")

    async with _server(markers) as server:
        async with open_mcp(server, name="s", secrets=_Vault(markers), times=McpTimes(close=0.5)) as source:
            world.ports["tool_sources"] = (source,)
            agent = talker(sources=("s",))
            calls = turn(*(call("s__talk", {**given, **how}) for how in kinds))
            telemetry = exported.telemetry(**options)
            async with world.kernel(agent, model=script(calls, shown), telemetry=telemetry) as kernel:
                assert isinstance(await kernel.run(agent, "go"), Completed)
    assert exported.watch.open == {}
    assert len(exported.named("execute_tool s__talk")) == 4
    texts = [("log", f"{record.getMessage()} {record.__dict__!r} {record.exc_text}") for record in logged.records]
    return dict(markers.scan([*exported.texts(), *texts]))


async def test_f055_without_content_nothing_of_a_server_leaves(
    world: World, exported: Exported, logged: pytest.LogCaptureFixture
) -> None:
    assert await _scan(world, exported, logged) == {}


async def test_f055_with_content_each_channel_is_where_it_is_documented(
    world: World, exported: Exported, logged: pytest.LogCaptureFixture
) -> None:
    """The positive control: the same scan finds what it looks for when it is there."""
    found = await _scan(world, exported, logged, content=True)
    assert set(found) >= set(SAID)
    assert set().union(*found.values()) <= CONTENT
    # A description is part of no message, and what a server calls itself of none either.
    assert found.keys().isdisjoint(NEVER)


async def test_a_call_is_told_by_its_method_and_protocol(world: World, exported: Exported) -> None:
    server = McpStandIn(name="nobody's business")
    server.definitions = [{"name": "talk", "inputSchema": {"type": "object"}}]
    async with open_mcp(server.server, name="s") as source:
        world.ports["tool_sources"] = (source,)
        agent = talker(sources=("s",))
        model = script(turn(call("s__talk", {})), turn("Done."))
        async with world.kernel(agent, model=model, telemetry=exported.telemetry()) as kernel:
            await kernel.run(agent, "go")
    told = exported.one("execute_tool s__talk").attributes or {}
    assert (told["mcp.method.name"], told["mcp.protocol.version"]) == ("tools/call", "2025-11-25")
    looked = exported.named("triolet.tool_sources.snapshot")
    assert [(span.attributes or {})["triolet.resource.id"] for span in looked] == ["s"] * len(looked)
    assert looked
    # One span for a call, and none of a library's beside it.
    assert not [span.name for span in exported.spans if span.name.startswith("MCP")]


async def test_what_a_process_writes_to_its_error_stream_is_in_no_log_and_no_error(
    logged: pytest.LogCaptureFixture,
) -> None:
    markers = Markers(["stderr"])
    program = f"import sys; sys.stderr.write({markers.passes('stderr')!r} + chr(10)); sys.exit(1)"
    logging.getLogger("host").debug("the host logs too")
    with pytest.raises(McpUnavailable) as caught:
        async with open_mcp(StdioServer(command=(sys.executable, "-c", program)), name="s"):
            pytest.fail("it was opened")
    texts = [("log", repr(record.__dict__)) for record in logged.records]
    assert markers.scan([*texts, ("error", repr(caught.value) + str(caught.value))]) == {}


async def test_an_error_of_connecting_has_none_of_a_server_s_words() -> None:
    markers = Markers(["word"])

    async def act(exchange: Exchange) -> bool:
        error = {"code": -32603, "message": markers.passes("word")}
        answer = {"jsonrpc": "2.0", "id": exchange.message["id"], "error": error}
        await exchange.status(200, json.dumps(answer).encode())
        return True

    async with http_peer() as peer:
        peer.act = act
        with suppress(McpUnavailable):
            async with open_mcp(HttpServer(url=peer.url), name="s"):
                pytest.fail("it was opened")
        with pytest.raises(McpUnavailable) as caught:
            async with open_mcp(HttpServer(url=peer.url), name="s"):
                pytest.fail("it was opened")
    chain: list[str] = []
    error: BaseException | None = caught.value
    while error is not None:
        chain.append(f"{error} {error!r}")
        error = error.__cause__ or error.__context__
    assert markers.scan([("error", text) for text in chain]) == {}
