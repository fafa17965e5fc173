"""The streamable HTTP transport against a server that breaks off, forgets, babbles or hangs (F-033, F-036)."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio

from tests.mcp_http_peer import Exchange, HttpPeer, http_peer
from tests.mcp_peer import Handle, call, definition, texts
from triolet.adapters.mcp import (
    HttpServer,
    McpConnectionLost,
    McpLimits,
    McpResultUnusable,
    McpSource,
    McpTimedOut,
    McpTimes,
    McpUnavailable,
    open_mcp,
)
from triolet.adapters.mcp.events import Events, EventTooLong

_SOON = 10.0
_QUICK = McpTimes(close=0.3, first_wait=0.01)


@pytest.fixture
async def peer() -> AsyncIterator[HttpPeer]:
    with trio.fail_after(_SOON):
        async with http_peer() as made:
            yield made


def _is_call(exchange: Exchange) -> bool:
    return exchange.message.get("method") == "tools/call"


async def test_sessions_and_versions_are_told_in_headers_and_the_session_is_ended(peer: HttpPeer) -> None:
    async with open_mcp(HttpServer(url=peer.url, headers={"X-Who": "me"}), times=_QUICK) as source:
        assert texts(await call(source, a=1)) == ["{'a': 1}"]
    assert "DELETE" in peer.methods()
    posted = [each for each in peer.seen if each.message.get("method") != "initialize"]
    assert {each.headers["mcp-session-id"] for each in posted} == {"session-0"}
    assert {each.headers["mcp-protocol-version"] for each in posted if each.method == "POST"} == {"2025-11-25"}
    assert {each.headers["x-who"] for each in peer.seen} == {"me"}
    assert "mcp-session-id" not in peer.seen[0].headers


async def test_f033_a_server_that_is_not_there_is_a_typed_error() -> None:
    with trio.fail_after(_SOON), pytest.raises(McpUnavailable, match="nothing answers there") as caught:
        async with open_mcp(HttpServer(url="http://127.0.0.1:9/mcp"), times=_QUICK):
            pytest.fail("it was opened")
    assert caught.value.reason == "refused"


@pytest.mark.parametrize("how", ["closes", "half a head", "half a body", "ends the stream", "other answer", "no JSON"])
async def test_f033_an_answer_that_breaks_off_is_an_unknown_outcome(peer: HttpPeer, how: str) -> None:
    async def act(exchange: Exchange) -> bool:
        if not _is_call(exchange):
            return False
        match how:
            case "half a head":
                await exchange.raw(b"HTTP/1.1 200 OK\r\nContent-")
            case "half a body":
                await exchange.raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{")
            case "ends the stream":
                await exchange.stream_opens()
                await exchange.event({"jsonrpc": "2.0", "method": "notifications/message", "params": {}})
            case "other answer":
                await exchange.status(200, json.dumps({"jsonrpc": "2.0", "id": 99, "result": {}}).encode())
            case "no JSON":
                await exchange.status(200, b"<html>", kind="text/html")
            case _:
                pass
        return True

    peer.act = act
    async with open_mcp(HttpServer(url=peer.url), times=_QUICK) as source:
        with pytest.raises(McpConnectionLost):
            await call(source)
        # The line as such is there: the next call needs no new session.
        peer.act = None
        assert texts(await call(source)) == ["{}"]
    assert peer.methods().count("initialize") == 1
    assert peer.methods().count("tools/call") == 2


async def test_f033_two_open_calls_end_when_the_server_goes(peer: HttpPeer) -> None:
    arrived = trio.Semaphore(0)
    go = trio.Event()
    ended: list[str] = []

    async def act(exchange: Exchange) -> bool:
        if not _is_call(exchange):
            return False
        arrived.release()
        await go.wait()
        return True

    async def waits(source: McpSource) -> None:
        with pytest.raises(McpConnectionLost):
            await call(source)
        ended.append("lost")

    peer.act = act
    async with open_mcp(HttpServer(url=peer.url), times=_QUICK) as source, trio.open_nursery() as nursery:
        nursery.start_soon(waits, source)
        nursery.start_soon(waits, source)
        await arrived.acquire()
        await arrived.acquire()
        go.set()
    assert ended == ["lost", "lost"]


async def test_f036_a_session_that_the_server_forgot_is_replaced_once_and_the_call_repeated_once(
    peer: HttpPeer,
) -> None:
    async with open_mcp(HttpServer(url=peer.url), times=_QUICK) as source:
        before = await source.snapshot()
        assert texts(await call(source)) == ["{}"]
        peer.known.clear()
        assert texts(await call(source)) == ["{}"]
        assert source.changed(before)
        await source.snapshot()
    assert peer.methods().count("initialize") == 2
    calls = [each for each in peer.seen if _is_call(each)]
    assert [each.headers["mcp-session-id"] for each in calls] == ["session-0", "session-0", "session-1"]
    second = [each for each in peer.seen if each.message.get("method") == "initialize"][1]
    assert "mcp-session-id" not in second.headers


async def test_f036_two_calls_that_were_refused_together_share_the_new_session(peer: HttpPeer) -> None:
    async with open_mcp(HttpServer(url=peer.url), times=_QUICK) as source:
        await call(source)
        peer.known.clear()
        answers: list[Any] = []

        async def one() -> None:
            answers.append(texts(await call(source)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(one)
            nursery.start_soon(one)
        assert answers == [["{}"], ["{}"]]
    assert peer.methods().count("initialize") == 2


async def test_f036_a_server_that_always_forgets_is_a_typed_error(peer: HttpPeer) -> None:
    async def act(exchange: Exchange) -> bool:
        if _is_call(exchange):
            await exchange.status(404)
        return _is_call(exchange)

    peer.act = act
    async with open_mcp(HttpServer(url=peer.url), times=_QUICK) as source:
        with pytest.raises(McpUnavailable, match="does not know this session"):
            await call(source)
    assert peer.methods().count("tools/call") == 2


@pytest.mark.parametrize("fields", [{}, {"id": None}, {"id": 1}])
async def test_f036_what_reference_servers_say_instead_of_not_found_counts_too(
    peer: HttpPeer, fields: dict[str, Any]
) -> None:
    async def act(exchange: Exchange) -> bool:
        if _is_call(exchange) and exchange.headers["mcp-session-id"] == "session-0":
            error = {"code": -32000, "message": "Bad Request: No valid session ID provided"}
            await exchange.status(400, json.dumps({"jsonrpc": "2.0", "error": error, **fields}).encode())
            return True
        return False

    peer.act = act
    async with open_mcp(HttpServer(url=peer.url), times=_QUICK) as source:
        assert texts(await call(source)) == ["{}"]


@pytest.mark.parametrize(
    ("status", "error", "reason"),
    [
        (401, McpUnavailable, "unauthorized"),
        (403, McpUnavailable, "unauthorized"),
        (429, McpUnavailable, "refused"),
        (307, McpUnavailable, "refused"),
        (500, McpConnectionLost, "connection-lost"),
    ],
)
async def test_a_status_says_whether_the_call_may_have_run(
    peer: HttpPeer, status: int, error: type[Exception], reason: str
) -> None:
    async def act(exchange: Exchange) -> bool:
        if _is_call(exchange):
            await exchange.status(status, b"secret words of the server", Location="http://elsewhere.invalid/")
        return _is_call(exchange)

    peer.act = act
    async with open_mcp(HttpServer(url=peer.url), times=_QUICK) as source:
        with pytest.raises(error) as caught:
            await call(source)
    assert getattr(caught.value, "reason", None) == reason
    assert "secret words" not in str(caught.value)
    assert peer.methods().count("tools/call") == 1


async def test_a_stream_brings_progress_and_then_the_answer(peer: HttpPeer) -> None:
    async def act(exchange: Exchange) -> bool:
        if not _is_call(exchange):
            return False
        token = exchange.message["params"]["_meta"]["progressToken"]
        await exchange.stream_opens()
        await exchange.raw(b": a comment\n\n")
        params = {"progressToken": token, "progress": 1, "total": 2}
        await exchange.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}, "event: message")
        result = {"content": [{"type": "text", "text": "streamed"}]}
        await exchange.event({"jsonrpc": "2.0", "id": exchange.message["id"], "result": result})
        await trio.sleep_forever()
        return True

    peer.act = act
    handle = Handle()
    async with open_mcp(HttpServer(url=peer.url), times=_QUICK) as source:
        assert texts(await call(source, "echo", handle)) == ["streamed"]
    assert handle.notes == [("", 1.0, 2.0)]


async def test_a_stream_that_breaks_is_taken_up_again_and_nothing_is_sent_anew(peer: HttpPeer) -> None:
    answer: dict[str, Any] = {}

    async def act(exchange: Exchange) -> bool:
        if _is_call(exchange):
            answer.update(jsonrpc="2.0", id=exchange.message["id"], result={"content": []})
            await exchange.stream_opens()
            await exchange.event(None, "id: event-1", "retry: 20", "data:")
            return True
        if exchange.method == "GET" and exchange.headers.get("last-event-id") == "event-1":
            await exchange.stream_opens()
            await exchange.event(answer, "id: event-2")
            return True
        return False

    peer.act = act
    async with open_mcp(HttpServer(url=peer.url), times=_QUICK) as source:
        assert await call(source) == {"content": []}
    assert peer.methods().count("tools/call") == 1


async def test_a_stream_that_never_brings_its_answer_is_given_up(peer: HttpPeer) -> None:
    async def act(exchange: Exchange) -> bool:
        if _is_call(exchange) or (exchange.method == "GET" and "last-event-id" in exchange.headers):
            await exchange.stream_opens()
            await exchange.event(None, "id: event-1", "retry: 5", "data:")
            return True
        return False

    peer.act = act
    async with open_mcp(HttpServer(url=peer.url), times=_QUICK) as source:
        with pytest.raises(McpConnectionLost, match="without the answer"):
            await call(source)


async def test_what_the_server_says_unasked_comes_over_a_stream_of_its_own(peer: HttpPeer) -> None:
    told = trio.Event()

    async def act(exchange: Exchange) -> bool:
        if exchange.method == "GET":
            await exchange.stream_opens()
            await told.wait()
            await exchange.event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
            await trio.sleep_forever()
        return False

    peer.act = act
    async with open_mcp(HttpServer(url=peer.url), times=_QUICK) as source:
        snapshot = await source.snapshot()
        assert not source.changed(snapshot)
        told.set()
        while not source.changed(snapshot):
            await trio.testing.wait_all_tasks_blocked(0.01)


@pytest.mark.parametrize("how", ["json", "stream", "one line"])
async def test_a_body_without_an_end_fails_its_call_and_is_not_kept(peer: HttpPeer, how: str) -> None:
    async def act(exchange: Exchange) -> bool:
        if not _is_call(exchange):
            return False
        if how == "json":
            await exchange.raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{")
        else:
            await exchange.stream_opens()
            await exchange.raw(b"data: ")
        while True:
            await exchange.raw(b"x" * 50_000 + (b"\ndata: " if how == "stream" else b""))

    peer.act = act
    async with open_mcp(HttpServer(url=peer.url), limits=McpLimits(message_bytes=200_000), times=_QUICK) as source:
        with pytest.raises(McpResultUnusable, match="larger than 200000 bytes"):
            await call(source)
        peer.act = None
        assert texts(await call(source)) == ["{}"]


async def test_f034_a_mute_server_and_a_delete_that_hangs_hold_up_nobody(peer: HttpPeer) -> None:
    async def act(exchange: Exchange) -> bool:
        if _is_call(exchange) or exchange.method == "DELETE":
            await trio.sleep_forever()
        return False

    peer.act = act
    with trio.fail_after(3):
        async with open_mcp(HttpServer(url=peer.url), times=McpTimes(call=0.2, close=0.2)) as source:
            with pytest.raises(McpTimedOut):
                await call(source)
            with trio.move_on_after(0.05) as scope:
                await call(source)
            assert scope.cancelled_caught
    await trio.testing.wait_all_tasks_blocked(0.05)
    assert peer.methods().count("notifications/cancelled") == 2


async def test_garbage_in_a_stream_is_skipped_and_a_flood_of_it_is_an_end(peer: HttpPeer) -> None:
    flood = 3

    async def act(exchange: Exchange) -> bool:
        if not _is_call(exchange):
            return False
        await exchange.stream_opens()
        for _ in range(flood):
            await exchange.raw(b"data: no message\n\n")
        await exchange.event({"jsonrpc": "2.0", "id": exchange.message["id"], "result": {"content": []}})
        return True

    peer.act = act
    async with open_mcp(HttpServer(url=peer.url), limits=McpLimits(junk=50), times=_QUICK) as source:
        assert await call(source) == {"content": []}
        assert source.diagnostics.junk == 3
        flood = 200
        with pytest.raises((McpConnectionLost, McpUnavailable)):
            for _ in range(3):
                await call(source)


async def test_two_tools_lists_are_one_request_for_whoever_asks_at_the_same_time(peer: HttpPeer) -> None:
    async with open_mcp(HttpServer(url=peer.url), times=_QUICK) as source:
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(source.snapshot)
    assert peer.methods().count("tools/list") == 1
    assert definition("echo")["name"] == "echo"


def test_events_are_cut_within_their_bound_however_they_come() -> None:
    data = (
        b"id: 1\ndata: one\ndata: two\n\n: comment\r\n\r\nretry: 1500\nid: 2\n\nevent: x\ndata:three\n\ndata: cut off"
    )
    events = Events(100)
    for size in (1, 2, 5, 1_000):
        events, found = Events(100), []
        for start in range(0, len(data), size):
            found += events.feed(data[start : start + size])
        assert [event.data for event in found] == [b"one\ntwo", b"three"]
        assert (events.last_id, events.retry) == ("2", 1.5)
    again = Events.after(events)
    assert (again.last_id, again.retry) == ("2", 1.5)
    assert [event.data for event in again.feed(b"data: four\n\n")] == [b"four"]
    with pytest.raises(EventTooLong):
        Events(100).feed(b"data: " + b"x" * 50 + b"\ndata: " + b"x" * 60 + b"\n")
    with pytest.raises(EventTooLong):
        Events(100).feed(b"x" * 1_000 + b"\n")
