"""MCP calls against a peer inside the test, on a mock clock: answers, losses, deadlines, ends (F-033 to F-036)."""

import json
from typing import Any

import pytest
import trio

from tests.mcp_peer import SERVER, Handle, Peer, call, peer_in_place, texts, tool_named
from triolet.adapters.authorizers import RecordingAuthorizer
from triolet.adapters.mcp import (
    HttpServer,
    InvalidMcpServer,
    McpCallRefused,
    McpConnectionLost,
    McpDenied,
    McpLimits,
    McpResultUnusable,
    McpSource,
    McpTimedOut,
    McpTimes,
    McpToolFailed,
    McpUnavailable,
    StdioServer,
    WebSocketServer,
    connect_mcp,
    open_mcp,
)
from triolet.adapters.mcp.messages import JsonObject
from triolet.ports.authorizer import Allow, ConnectMcp, Deny, ResolveSecret
from triolet.ports.errors import InvalidJson
from triolet.ports.identity import ANONYMOUS
from triolet.ports.secrets import Secret, SecretHandle
from triolet.ports.tool_context import OutcomeUnknown


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> Peer:
    return peer_in_place(monkeypatch)


class Held:
    """Calls that the peer keeps until the test answers them."""

    def __init__(self, peer: Peer) -> None:
        self.calls: list[Any] = []
        self._came = trio.Event()
        peer.calls = self._keep

    async def _keep(self, wire: Any, message: JsonObject) -> None:
        self.calls.append((wire, message))
        came, self._came = self._came, trio.Event()
        came.set()

    async def arrived(self, count: int) -> None:
        while len(self.calls) < count:
            await self._came.wait()


async def test_a_result_maps_content_and_structured_data_without_loss(peer: Peer, autojump_clock: Any) -> None:
    blocks = [
        {"type": "text", "text": "hi", "annotations": {"audience": ["user"], "priority": 0.5}},
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "file:///a", "name": "a", "_meta": {"k": [1, None]}},
        {"type": "resource", "resource": {"uri": "file:///b", "blob": "aGk="}},
        {"type": "hologram", "of": {"a later day": True}},
    ]

    async def calls(wire: Any, message: JsonObject) -> None:
        await wire.answer(message, content=blocks, structuredContent={"n": [1, {"deep": None}]}, _meta={"x": 1})

    peer.calls = calls
    async with open_mcp(SERVER, name="s") as source:
        assert await call(source) == {"content": blocks, "structured": {"n": [1, {"deep": None}]}}


async def test_a_result_that_is_an_error_is_a_failure_with_its_content(peer: Peer, autojump_clock: Any) -> None:
    async def calls(wire: Any, message: JsonObject) -> None:
        await wire.answer(message, content=[{"type": "text", "text": "disk full"}], isError=True)

    peer.calls = calls
    async with open_mcp(SERVER, name="s") as source:
        with pytest.raises(McpToolFailed) as caught:
            await call(source)
    assert caught.value.content == [{"type": "text", "text": "disk full"}]


async def test_an_error_of_the_protocol_is_a_failure(peer: Peer, autojump_clock: Any) -> None:
    async def calls(wire: Any, message: JsonObject) -> None:
        await wire.refuse(message, -32602, "no such \ud800 tool" + "x" * 5_000)

    peer.calls = calls
    async with open_mcp(SERVER, name="s") as source:
        with pytest.raises(McpCallRefused) as caught:
            await call(source)
    assert caught.value.code == -32602
    assert caught.value.problem.startswith("no such \ufffd tool")
    assert len(caught.value.problem) == 1_000


@pytest.mark.parametrize(
    "result",
    [
        {},
        {"content": 7},
        {"content": ["x"]},
        {"structuredContent": [1], "content": []},
        {"content": [{"t": "x" * 999}]},
    ],
)
async def test_a_result_that_cannot_be_taken_over_says_so(peer: Peer, autojump_clock: Any, result: JsonObject) -> None:
    async def calls(wire: Any, message: JsonObject) -> None:
        await wire.answer(message, **result)

    peer.calls = calls
    async with open_mcp(SERVER, name="s", limits=McpLimits(result_bytes=900)) as source:
        with pytest.raises(McpResultUnusable):
            await call(source)


async def test_a_result_that_nests_too_deep_says_so(peer: Peer, autojump_clock: Any) -> None:
    deep: Any = {}
    for _ in range(400):
        deep = {"a": deep}

    async def calls(wire: Any, message: JsonObject) -> None:
        await wire.answer(message, content=[], structuredContent=deep)

    peer.calls = calls
    async with open_mcp(SERVER, name="s") as source:
        with pytest.raises(McpResultUnusable, match="too deep"):
            await call(source)


async def test_a_number_that_is_no_json_fails_its_own_call(peer: Peer, autojump_clock: Any) -> None:
    async def calls(wire: Any, message: JsonObject) -> None:
        token = message["params"]["_meta"]["progressToken"]
        await wire.notice("notifications/progress", progressToken=token, progress=float("inf"))
        await wire.answer(message, content=[], structuredContent={"n": float("nan")})

    peer.calls = calls
    handle = Handle()
    async with open_mcp(SERVER, name="s") as source:
        tool = await tool_named(source, "echo")
        with pytest.raises(InvalidJson):
            tool.output.encode(await call(source, "echo", handle))
    assert handle.notes == []


async def test_progress_is_handed_on(peer: Peer, autojump_clock: Any) -> None:
    async def calls(wire: Any, message: JsonObject) -> None:
        token = message["params"]["_meta"]["progressToken"]
        await wire.notice("notifications/progress", progressToken=token, progress=1, total=4, message="on \ud800 it")
        await wire.notice("notifications/progress", progressToken=token, progress=2.5)
        await wire.notice("notifications/progress", progressToken=token, progress="much")
        await wire.notice("notifications/progress", progressToken="other", progress=3)
        await wire.answer(message, content=[])

    peer.calls = calls
    handle = Handle()
    async with open_mcp(SERVER, name="s") as source:
        await call(source, "echo", handle)
        assert source.diagnostics.ignored == 2
    assert handle.notes == [("on \ufffd it", 1.0, 4.0), ("", 2.5, None)]


async def test_f033_losing_the_line_ends_every_open_call_at_once(peer: Peer, autojump_clock: Any) -> None:
    held = Held(peer)
    failed: list[Any] = []

    async def one(source: McpSource) -> None:
        with pytest.raises(McpConnectionLost) as caught:
            await call(source)
        failed.append((caught.value.reason, trio.current_time()))

    async with open_mcp(SERVER, name="s") as source:
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one, source)
            nursery.start_soon(one, source)
            await held.arrived(2)
            await peer.wire.break_off()
        assert failed == [("connection-lost", began)] * 2
        peer.calls = None
        assert texts(await call(source, x=1)) == ["echo {'x': 1}"]
    assert peer.called() == ["echo"] * 3
    assert issubclass(McpConnectionLost, OutcomeUnknown)


async def test_f033_a_server_that_is_gone_at_the_start_is_a_typed_error(peer: Peer, autojump_clock: Any) -> None:
    peer.refuses = True
    with pytest.raises(McpUnavailable, match="nothing answers there") as caught:
        async with open_mcp(SERVER, name="s"):
            pytest.fail("it was opened")
    assert caught.value.reason == "refused"


async def test_f034_a_mute_server_is_given_up_at_the_deadline_of_connecting(peer: Peer, autojump_clock: Any) -> None:
    peer.mute = True
    began = trio.current_time()
    with pytest.raises(McpUnavailable) as caught:
        async with open_mcp(SERVER, name="s", times=McpTimes(connect=7)):
            pytest.fail("it was opened")
    assert caught.value.reason == "timeout"
    assert trio.current_time() == began + 7
    assert peer.open == 0


async def test_f034_cancelling_a_call_returns_at_once_and_tells_the_server(peer: Peer, autojump_clock: Any) -> None:
    held = Held(peer)
    async with open_mcp(SERVER, name="s") as source:
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, source)
            await held.arrived(1)
            nursery.cancel_scope.cancel()
        assert trio.current_time() == began
        await trio.testing.wait_all_tasks_blocked()
        wire, message = held.calls[0]
        assert peer.heard[-1]["method"] == "notifications/cancelled"
        assert peer.heard[-1]["params"]["requestId"] == message["id"]
        # The answer that comes too late does nothing, and the session serves the next call.
        await wire.answer(message, content=[{"type": "text", "text": "late"}])
        peer.calls = None
        assert texts(await call(source)) == ["echo {}"]
        assert source.diagnostics.late == 1
        assert source.diagnostics.sessions == 1


async def test_f034_cancelling_is_at_once_also_while_nothing_can_be_sent(peer: Peer, autojump_clock: Any) -> None:
    async with open_mcp(SERVER, name="s", times=McpTimes(close=1)) as source:
        await source.snapshot()
        peer.wire.blocked = trio.Event()
        began = trio.current_time()
        for _ in range(3):
            with trio.move_on_after(1):
                await call(source)
        assert trio.current_time() == began + 3
        peer.wire.blocked.set()
        await trio.testing.wait_all_tasks_blocked()
        # The first was under way; what was never handed over is not sent any more, and needs no notice.
        assert peer.called() == ["echo"]
        assert peer.methods()[-1] == "notifications/cancelled"


async def test_f034_the_deadline_holds_whatever_bytes_arrive(peer: Peer, autojump_clock: Any) -> None:
    async def chatter(wire: Any, message: JsonObject) -> None:
        async def talk() -> None:
            token = message["params"]["_meta"]["progressToken"]
            for _ in range(1_000):
                await trio.sleep(1)
                await wire.notice("notifications/progress", progressToken=token, progress=1)
                await wire.notice("notifications/message", level="info", data="alive")

        nursery.start_soon(talk)

    peer.calls = chatter
    async with trio.open_nursery() as nursery:
        async with open_mcp(SERVER, name="s", times=McpTimes(call=10, overall=50)) as source:
            began = trio.current_time()
            with pytest.raises(McpTimedOut) as caught:
                await call(source)
            assert caught.value.reason == "timeout"
            assert trio.current_time() == began + 10
            await trio.testing.wait_all_tasks_blocked(0.1)
            assert peer.methods()[-1] == "notifications/cancelled"
        nursery.cancel_scope.cancel()


async def test_f034_progress_extends_only_if_asked_for_and_never_past_the_cap(peer: Peer, autojump_clock: Any) -> None:
    async def chatter(wire: Any, message: JsonObject) -> None:
        async def talk() -> None:
            token = message["params"]["_meta"]["progressToken"]
            for _ in range(1_000):
                await trio.sleep(6)
                await wire.notice("notifications/progress", progressToken=token, progress=1)

        nursery.start_soon(talk)

    peer.calls = chatter
    async with trio.open_nursery() as nursery:
        times = McpTimes(call=10, overall=50, progress_extends=True)
        async with open_mcp(SERVER, name="s", times=times) as source:
            began = trio.current_time()
            with pytest.raises(McpTimedOut):
                await call(source)
            assert trio.current_time() == began + 50
        nursery.cancel_scope.cancel()


async def test_f034_a_call_that_was_never_handed_over_surely_did_not_run(peer: Peer, autojump_clock: Any) -> None:
    async with open_mcp(SERVER, name="s", times=McpTimes(call=5, close=1)) as source:
        await source.snapshot()
        peer.wire.blocked = trio.Event()
        async with trio.open_nursery() as nursery:

            async def first() -> None:
                with pytest.raises(McpTimedOut):
                    await call(source)

            nursery.start_soon(first)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(McpUnavailable) as caught:
                await call(source)
            assert caught.value.reason == "timeout"
        peer.wire.blocked.set()


async def test_f035_connections_are_closed_from_other_tasks_in_any_order(peer: Peer, autojump_clock: Any) -> None:
    held = Held(peer)
    lost: list[str] = []

    async def calls_on(source: McpSource) -> None:
        with pytest.raises(McpConnectionLost) as caught:
            await call(source)
        lost.append(caught.value.source)

    async def closes(source: McpSource, done: trio.Event) -> None:
        await source.aclose()
        await source.aclose()
        done.set()

    async with trio.open_nursery() as nursery:
        sources = [await connect_mcp(nursery, SERVER, name=name) for name in ("a", "b", "c")]
        nursery.start_soon(calls_on, sources[0])
        await held.arrived(1)
        peer.calls = None
        for place, source in enumerate(sources):
            done = trio.Event()
            nursery.start_soon(closes, source, done)
            await done.wait()
            with pytest.raises(McpUnavailable, match="is closed"):
                await call(source)
            for other in sources[place + 1 :]:
                assert texts(await call(other)) == ["echo {}"]
    assert lost == ["a"]
    assert peer.open == 0


async def test_f035_cancelling_the_nursery_ends_every_connection(peer: Peer, autojump_clock: Any) -> None:
    async with trio.open_nursery() as nursery:
        for name in ("a", "b", "c"):
            await connect_mcp(nursery, SERVER, name=name)
        assert peer.open == 3
        nursery.cancel_scope.cancel()
    assert peer.open == 0


async def test_f035_what_is_raised_in_the_scope_comes_out_of_it_bare(peer: Peer, autojump_clock: Any) -> None:
    with pytest.raises(LookupError, match="mine"):
        async with open_mcp(SERVER, name="s"):
            raise LookupError("mine")
    assert peer.open == 0


async def test_f035_being_cancelled_while_connecting_leaves_nothing_behind(peer: Peer, autojump_clock: Any) -> None:
    peer.mute = True
    with trio.move_on_after(3) as scope:
        async with open_mcp(SERVER, name="s"):
            pytest.fail("it was opened")
    assert scope.cancelled_caught
    assert peer.open == 0


async def test_f036_a_call_that_the_session_check_refused_is_asked_once_more(peer: Peer, autojump_clock: Any) -> None:
    async def calls(wire: Any, message: JsonObject) -> None:
        if wire is peer.wires[0]:
            await wire.unanswered(message, "no", session_gone=True)
            await wire.break_off()
        else:
            await wire.answer(message, content=[{"type": "text", "text": "again"}])

    peer.calls = calls
    async with open_mcp(SERVER, name="s") as source:
        before = await source.snapshot()
        assert texts(await call(source)) == ["again"]
        assert source.changed(before)
        assert (await source.snapshot()).digest == before.digest
    assert peer.called() == ["echo", "echo"]
    assert peer.methods().count("initialize") == 2


async def test_f036_a_call_that_broke_half_way_is_not_asked_again(peer: Peer, autojump_clock: Any) -> None:
    async def calls(wire: Any, message: JsonObject) -> None:
        await wire.unanswered(message, "unknown")

    peer.calls = calls
    async with open_mcp(SERVER, name="s") as source:
        with pytest.raises(McpConnectionLost):
            await call(source)
    assert peer.called() == ["echo"]
    assert peer.methods().count("initialize") == 1


async def test_f036_a_server_that_always_forgets_is_a_typed_error_after_the_bound(
    peer: Peer, autojump_clock: Any
) -> None:
    async def calls(wire: Any, message: JsonObject) -> None:
        await wire.unanswered(message, "no", session_gone=True, problem="the session is unknown")
        await wire.break_off()

    peer.calls = calls
    async with open_mcp(SERVER, name="s") as source:
        with pytest.raises(McpUnavailable, match="the session is unknown"):
            await call(source)
    assert peer.called() == ["echo", "echo"]


async def test_f036_an_error_of_a_tool_that_looks_alike_is_left_alone(peer: Peer, autojump_clock: Any) -> None:
    async def calls(wire: Any, message: JsonObject) -> None:
        await wire.refuse(message, -32001, "session not found")

    peer.calls = calls
    async with open_mcp(SERVER, name="s") as source:
        with pytest.raises(McpCallRefused):
            await call(source)
    assert peer.called() == ["echo"]


async def test_reconnecting_is_bounded_and_begins_anew_when_somebody_asks(peer: Peer, autojump_clock: Any) -> None:
    times = McpTimes(tries=3, first_wait=1, longest_wait=2)
    async with open_mcp(SERVER, name="s", times=times) as source:
        tool = (await source.snapshot()).tools[0]
        await call(source)
        peer.refuses = True
        attempts = len(peer.headers)
        await peer.wire.break_off()
        began = trio.current_time()
        handler: Any = tool.handler
        with pytest.raises(McpUnavailable, match="nothing answers there"):
            await handler({}, Handle())
        # At once, after one second, after two more.
        assert trio.current_time() - began == 1 + 2
        assert len(peer.headers) - attempts == 3
        tried = len(peer.headers)
        await trio.sleep(1_000)
        assert len(peer.headers) == tried
        peer.refuses = False
        assert texts(await handler({}, Handle())) == ["echo {}"]
        assert len(peer.headers) == tried + 1


async def test_a_flood_of_notices_takes_no_memory_and_disturbs_no_call(peer: Peer, autojump_clock: Any) -> None:
    async def calls(wire: Any, message: JsonObject) -> None:
        for _ in range(3_000):
            await wire.notice("notifications/tools/list_changed")
            await wire.notice("notifications/message", level="info", data="x" * 1_000)
        await wire.answer(message, content=[])

    peer.calls = calls
    async with open_mcp(SERVER, name="s") as source:
        await call(source)
        listings = peer.listings
        await source.snapshot()
        await source.snapshot()
        assert peer.listings == listings + 1
        assert source.diagnostics.ignored == 3_000


async def test_a_flood_of_requests_from_a_server_that_reads_nothing_ends_the_connection(
    peer: Peer, autojump_clock: Any
) -> None:
    async with open_mcp(SERVER, name="s", times=McpTimes(close=1)) as source:
        await source.snapshot()
        first = peer.wire
        first.blocked = trio.Event()
        for number in range(1_100):
            await first.say({"jsonrpc": "2.0", "id": number, "method": "ping"})
        await trio.testing.wait_all_tasks_blocked()
        await trio.sleep(1)
        assert peer.wire is not first


async def test_requests_of_a_server_are_answered_or_refused(peer: Peer, autojump_clock: Any) -> None:
    async with open_mcp(SERVER, name="s"):
        for number, method in enumerate(["ping", "sampling/createMessage", "roots/list", "nonsense"]):
            await peer.wire.say({"jsonrpc": "2.0", "id": f"r{number}", "method": method, "params": {}})
        await trio.testing.wait_all_tasks_blocked()
    answers = [message for message in peer.heard if "method" not in message]
    assert [answer["id"] for answer in answers] == ["r0", "r1", "r2", "r3"]
    assert answers[0]["result"] == {}
    assert all("error" in answer for answer in answers[1:])


@pytest.mark.parametrize(
    "oddity",
    [
        {"jsonrpc": "2.0", "id": 999, "result": {}},
        {"jsonrpc": "2.0", "id": None, "error": {"code": -1, "message": "x"}},
        {"jsonrpc": "2.0", "id": [1], "result": {}},
        {"jsonrpc": "2.0", "method": 7},
        {"jsonrpc": "2.0", "id": {}, "method": "ping"},
        {"jsonrpc": "2.0", "method": "notifications/progress", "params": [1]},
        {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": True, "progress": 1}},
    ],
)
async def test_odd_messages_disturb_nobody(peer: Peer, autojump_clock: Any, oddity: JsonObject) -> None:
    async with open_mcp(SERVER, name="s") as source:
        await peer.wire.say(oddity)
        assert texts(await call(source)) == ["echo {}"]
        assert source.diagnostics.sessions == 1


async def test_an_answer_without_a_result_is_a_loss_of_that_call_alone(peer: Peer, autojump_clock: Any) -> None:
    async def calls(wire: Any, message: JsonObject) -> None:
        await wire.say({"jsonrpc": "2.0", "id": message["id"]})

    peer.calls = calls
    async with open_mcp(SERVER, name="s") as source:
        with pytest.raises(McpConnectionLost):
            await call(source)
        assert source.diagnostics.sessions == 1


async def test_open_calls_are_bounded(peer: Peer, autojump_clock: Any) -> None:
    held = Held(peer)
    async with open_mcp(SERVER, name="s", limits=McpLimits(open_calls=2)) as source:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, source)
            nursery.start_soon(call, source)
            await held.arrived(2)
            with pytest.raises(McpUnavailable) as caught:
                await call(source)
            assert caught.value.reason == "too-large"
            nursery.cancel_scope.cancel()


async def test_a_call_that_is_too_large_to_send_surely_did_not_run(peer: Peer, autojump_clock: Any) -> None:
    async with open_mcp(SERVER, name="s", limits=McpLimits(message_bytes=2_000)) as source:
        with pytest.raises(McpUnavailable) as caught:
            await call(source, x="y" * 3_000)
        assert caught.value.reason == "too-large"
    assert peer.called() == []


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"protocol": "1999-01-01"}, "protocol"),
        ({"protocol": 7}, "protocol"),
        ({"capabilities": "many"}, "protocol"),
    ],
)
async def test_a_handshake_that_is_not_by_the_protocol_is_a_typed_error(
    peer: Peer, autojump_clock: Any, fields: dict[str, Any], reason: str
) -> None:
    for name, value in fields.items():
        setattr(peer, name, value)
    with pytest.raises(McpUnavailable) as caught:
        async with open_mcp(SERVER, name="s"):
            pytest.fail("it was opened")
    assert caught.value.reason == reason
    assert "1999" not in caught.value.message


class _Vault:
    """Secrets of a test, counting how often they were asked for."""

    def __init__(self, value: str) -> None:
        self.value = value
        self.asked = 0

    async def resolve(self, handle: SecretHandle) -> Secret:
        self.asked += 1
        return Secret(handle, self.value)


_TOKEN = SecretHandle(name="token")


async def test_a_secret_goes_into_a_header_by_its_handle_and_comes_back_from_nowhere(
    peer: Peer, autojump_clock: Any
) -> None:
    async def calls(wire: Any, message: JsonObject) -> None:
        token = message["params"]["_meta"]["progressToken"]
        await wire.notice("notifications/progress", progressToken=token, progress=1, message="with s3cr3t-word-1")
        if message["params"]["arguments"]:
            await wire.refuse(message, -1, "no Bearer s3cr3t-word-1 here")
        else:
            text = "you sent Bearer s3cr3t-word-1"
            await wire.answer(message, content=[{"type": "text", "text": text}], structuredContent={text: [text]})

    peer.calls = calls
    vault = _Vault("Bearer s3cr3t-word-1")
    server = HttpServer(url="http://test.invalid/mcp", headers={"Authorization": _TOKEN, "X-Plain": "p"})
    handle = Handle()
    async with open_mcp(server, name="s", secrets=vault) as source:
        result = await call(source, "echo", handle)
        with pytest.raises(McpCallRefused) as refused:
            await call(source, x=1)
        vault.value = "Bearer another-word-2"
        await peer.wire.break_off()
        await call(source)
    assert peer.headers[0] == {"Authorization": "Bearer s3cr3t-word-1", "X-Plain": "p"}
    assert peer.headers[1]["Authorization"] == "Bearer another-word-2"
    assert "s3cr3t" not in json.dumps(result) + refused.value.problem + str(handle.notes)
    assert "[secret token]" in json.dumps(result)
    assert "s3cr3t" not in repr(server) + repr(source)


async def test_authority_is_asked_for_each_connection_and_each_secret(peer: Peer, autojump_clock: Any) -> None:
    authorizer = RecordingAuthorizer()
    server = HttpServer(url="http://test.invalid/mcp?key=hidden", headers={"Authorization": _TOKEN})
    async with open_mcp(server, name="s", secrets=_Vault("v" * 20), authorizer=authorizer) as source:
        asked = [action for action, _ in authorizer.asked]
        assert asked == [
            ConnectMcp(server="http://test.invalid/mcp", transport="streamable-http"),
            ResolveSecret(handle="token"),
        ]
        authorizer.answer = lambda action, _: Deny(reason="no") if isinstance(action, ConnectMcp) else Allow()
        await peer.wire.break_off()
        with pytest.raises(McpDenied, match="may not connect"):
            await call(source)
    assert {principal for _, principal in authorizer.asked} == {ANONYMOUS}


@pytest.mark.parametrize("what", ["connect-mcp", "resolve-secret"])
async def test_what_authority_denies_is_never_sent(peer: Peer, autojump_clock: Any, what: str) -> None:
    authorizer = RecordingAuthorizer(lambda action, _: Deny(reason="no") if action.kind == what else Allow())
    server = HttpServer(url="http://test.invalid/mcp", headers={"Authorization": _TOKEN})
    with pytest.raises(McpDenied):
        async with open_mcp(server, name="s", secrets=_Vault("v"), authorizer=authorizer):
            pytest.fail("it was opened")
    assert peer.heard == []


@pytest.mark.parametrize(
    "make",
    [
        lambda: HttpServer(url="http://user:password@host/"),
        lambda: HttpServer(url="ftp://host/"),
        lambda: HttpServer(url="http://host/#part"),
        lambda: HttpServer(url="http://host/\n"),
        lambda: HttpServer(url="http:///x"),
        lambda: WebSocketServer(url="http://host/"),
        lambda: WebSocketServer(url="wss://token@host/"),
        lambda: HttpServer(url="http://host/", headers={"Host": "other"}),
        lambda: HttpServer(url="http://host/", headers={"X": "a\r\nB: c"}),
        lambda: HttpServer(url="http://host/", headers={"X Y": "a"}),
        lambda: WebSocketServer(url="ws://host/", headers={"Sec-WebSocket-Key": "a"}),
        lambda: StdioServer(command=()),
        lambda: StdioServer(command="node server.js"),  # type: ignore[arg-type]  # the mistake in question
        lambda: StdioServer(command=("a\0b",)),
        lambda: StdioServer(command=("a",), env={"A=B": "c"}),
        lambda: McpTimes(call=0),
        lambda: McpTimes(overall=float("inf")),
        lambda: McpLimits(tools=-1),
    ],
)
def test_a_description_that_cannot_be_right_is_refused_when_it_is_made(make: Any) -> None:
    with pytest.raises(InvalidMcpServer):
        make()


async def test_a_secret_that_nobody_resolves_is_refused_before_anything_is_opened(
    peer: Peer, autojump_clock: Any
) -> None:
    server = HttpServer(url="http://test.invalid/mcp", headers={"Authorization": _TOKEN})
    with pytest.raises(InvalidMcpServer, match="no resolver"):
        async with open_mcp(server, name="s"):
            pytest.fail("it was opened")


def test_who_it_is_does_not_show_what_a_query_may_hide() -> None:
    assert HttpServer(url="https://host/mcp?key=1").target == "https://host/mcp"
    assert WebSocketServer(url="wss://host/mcp?key=1").shown == "host"
    assert StdioServer(command=("/usr/bin/node", "--token=1")).target == "/usr/bin/node"
    assert StdioServer(command=("/usr/bin/node", "x")).shown == "node"
