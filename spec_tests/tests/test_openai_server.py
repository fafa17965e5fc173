"""The OpenAI-compatible adapter against a raw server that does what servers should not do.

Nothing here waits for time to pass but the tests of time-outs themselves, and those wait for servers that will never
speak: they cannot be too slow, only slow.
"""

import json
from collections.abc import AsyncGenerator

import httpx2
import pytest
import trio
import trio.testing

from tests.chat_samples import asking
from tests.chat_server import (
    CHUNKED_HEAD,
    DONE,
    HEAD,
    REPORT,
    SAID,
    STOP,
    Asked,
    ChatServer,
    answer,
    answering,
    asked_model,
    delta,
    event,
    failure,
    saying,
    text_answer,
    usage,
)
from triolet.adapters.openai_compatible import (
    Limits,
    Timeouts,
)
from triolet.adapters.openai_compatible.connection import Chat
from triolet.ports.language_model import (
    CallChunk,
    CallOpened,
    Finished,
    MalformedResponse,
    ModelIdentity,
    ModelPart,
    ModelUnavailable,
    TextChunk,
)
from triolet.ports.messages import user_text


async def test_an_answer_streams() -> None:
    async with asked_model(saying(HEAD + text_answer(["he", "llo"])), api_key="k-1", provider="acme") as (
        model,
        server,
    ):
        assert await answer(model) == [*SAID, REPORT, STOP]
        assert model.identity == ModelIdentity(provider="acme", name="m")
    (asked,) = server.asked
    assert asked.line == "POST /v1/chat/completions HTTP/1.1"
    assert asked.headers["authorization"] == "Bearer k-1"
    assert asked.headers["accept-encoding"] == "identity"
    assert asked.body["messages"][-1] == {"role": "user", "content": "hello"}


async def test_no_key_no_header() -> None:
    async with asked_model(saying(HEAD + text_answer(["x"]))) as (model, server):
        await answer(model)
    assert "authorization" not in server.asked[0].headers


async def test_no_connection_is_used_twice() -> None:
    async def handler(_: Asked, stream: trio.SocketStream, server: ChatServer) -> None:
        said = delta({"content": "x"}, "stop")
        await stream.send_all(CHUNKED_HEAD + b"%x\r\n%b\r\n0\r\n\r\n" % (len(said), said))
        await server.hang(stream)

    async with asked_model(handler) as (model, server):
        for number in (1, 2):
            assert await answer(model) == [TextChunk(text="x"), STOP]
            assert len(server.asked) == number
            with trio.fail_after(10):  # a client that kept the connection would not close it
                await server.closed.wait()
    assert [asked.headers["connection"] for asked in server.asked] == ["close", "close"]


async def test_parts_arrive_while_the_answer_is_still_being_given() -> None:
    go_on = trio.Event()

    async def handler(_: Asked, stream: trio.SocketStream, server: ChatServer) -> None:
        await stream.send_all(HEAD + delta({"content": "he"}))
        await go_on.wait()
        await stream.send_all(text_answer(["llo"]))

    async with asked_model(handler) as (model, _), model.stream(asking()) as parts:
        assert await anext(parts) == SAID[0]
        go_on.set()
        assert [part async for part in parts] == [SAID[1], REPORT, STOP]


async def test_many_ask_at_once_and_each_gets_its_own() -> None:
    async def handler(asked: Asked, stream: trio.SocketStream, server: ChatServer) -> None:
        await stream.send_all(HEAD + text_answer([asked.body["messages"][-1]["content"]]))

    async with asked_model(handler, limits=Limits(connections=4)) as (model, _):
        heard: dict[str, list[ModelPart]] = {}

        async def ask(name: str) -> None:
            heard[name] = await answer(model, asking(user_text(name)))

        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(ask, str(number))
    assert heard == {str(number): [TextChunk(text=str(number)), REPORT, STOP] for number in range(20)}


@pytest.mark.parametrize("end", [b"", DONE, usage(10, 5), b"data: [DONE]\n"])
async def test_an_answer_with_a_finish_reason_is_complete_however_the_stream_ends(end: bytes) -> None:
    async with asked_model(saying(HEAD + delta({"content": "x"}, "stop") + end)) as (model, _):
        parts = await answer(model)
    assert parts[0] == TextChunk(text="x")
    assert parts[-1] == STOP


async def test_a_complete_answer_survives_a_connection_that_breaks_or_stalls_behind_it() -> None:
    broken = CHUNKED_HEAD + b"1000\r\n" + delta({"content": "x"}, "stop")
    async with asked_model(saying(broken)) as (model, _):
        assert await answer(model) == [TextChunk(text="x"), STOP]

    async def stalls(_: Asked, stream: trio.SocketStream, server: ChatServer) -> None:
        await stream.send_all(HEAD + delta({"content": "x"}, "stop"))
        await server.hang(stream)

    async with asked_model(stalls, timeouts=Timeouts(linger=0.05)) as (model, server):
        assert await answer(model) == [TextChunk(text="x"), STOP]
        await server.closed.wait()


@pytest.mark.parametrize("end", [b"", DONE, usage(10, 5) + DONE])
async def test_a_stream_that_ends_without_a_finish_reason_is_cut_short(end: bytes) -> None:
    call = delta({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "clock", "arguments": "{}"}}]})
    async with asked_model(saying(HEAD + call + end)) as (model, _):
        parts = await answer(model)
    assert parts[:2] == [CallOpened(index=0, name="clock"), CallChunk(index=0, text="{}")]
    assert not any(isinstance(part, Finished) for part in parts)


async def test_a_connection_that_breaks_mid_answer() -> None:
    seen, error = await failure(saying(CHUNKED_HEAD + b"1000\r\n" + delta({"content": "he"})))
    assert seen == SAID[:1]
    assert isinstance(error, ModelUnavailable)
    assert error.reason == "transport"


@pytest.mark.parametrize("beginning", [b"", HEAD, HEAD + delta({"content": "he"}), HEAD + b"data: {", HEAD[:20]])
async def test_a_server_that_falls_silent(beginning: bytes) -> None:
    async def handler(_: Asked, stream: trio.SocketStream, server: ChatServer) -> None:
        await stream.send_all(beginning)
        await server.hang(stream)

    async with asked_model(handler, timeouts=Timeouts(first=0.5, idle=0.05)) as (model, server):
        with pytest.raises(ModelUnavailable) as raised:
            await answer(model)
        await server.closed.wait()
    assert raised.value.reason == "timeout"


async def test_garbage() -> None:
    for garbage in (b"data: not json\n\n", b"data: 5\n\n", b"data: \xff\xfe\n\n"):
        seen, error = await failure(saying(HEAD + delta({"content": "he"}) + garbage))
        assert seen == SAID[:1]
        assert isinstance(error, MalformedResponse)
    async with asked_model(saying(HEAD + b"\x00\xff<html>\n\n\n" * 50)) as (model, _):
        assert await answer(model) == []


async def test_an_endless_line_is_not_read_to_its_end() -> None:
    async def handler(_: Asked, stream: trio.SocketStream, server: ChatServer) -> None:
        try:
            await stream.send_all(HEAD + b"data: ")
            while True:
                await stream.send_all(b"x" * 65536)
        except trio.BrokenResourceError:
            server.closed.set()

    async with asked_model(handler, limits=Limits(line_bytes=100_000)) as (model, server):
        with pytest.raises(MalformedResponse, match="a line is longer than 100000 bytes"):
            await answer(model)
        await server.closed.wait()


async def test_an_error_in_place_of_the_rest() -> None:
    for report in (
        event({"error": {"message": "secret", "type": "overloaded_error"}}),
        b'event: error\ndata: {"message": "secret", "code": "503"}\n\n',
        b'error: {"code":503,"message":"secret","type":"unavailable_error"}\n\n',
    ):
        seen, error = await failure(saying(HEAD + delta({"content": "he"}) + report))
        assert seen == SAID[:1]
        assert isinstance(error, ModelUnavailable)
        assert error.reason == "overloaded"
        assert "secret" not in str(error)


async def test_an_answer_that_is_no_stream() -> None:
    whole = json.dumps({"choices": [{"message": {"content": "secret"}}]}).encode()
    _, error = await failure(answering("200 OK", {"Content-Type": "application/json"}, whole))
    assert isinstance(error, MalformedResponse)
    assert "secret" not in str(error)
    headers = {"Content-Type": "text/event-stream", "Content-Encoding": "gzip"}
    _, error = await failure(answering("200 OK", headers, b"\x1f\x8b"))
    assert isinstance(error, MalformedResponse)
    assert "compressed" in str(error)


class _Paced(httpx2.AsyncByteStream):
    """A body whose pieces come at intervals of the test's clock."""

    def __init__(self, seconds: float, pieces: list[bytes]) -> None:
        self._seconds = seconds
        self._pieces = pieces

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        for piece in self._pieces:
            await trio.sleep(self._seconds)
            yield piece


async def paced(seconds: float, pieces: list[bytes], timeouts: Timeouts) -> list[ModelPart]:
    def handle(_: httpx2.Request) -> httpx2.Response:
        headers = {"Content-Type": "text/event-stream"}
        return httpx2.Response(200, headers=headers, stream=_Paced(seconds, pieces))

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(handle)) as client:
        chat = Chat(client=client, url="http://m/", model="m", timeouts=timeouts, limits=Limits())
        async with chat.ask(b"{}") as parts:
            return [part async for part in parts]


async def test_a_slow_first_token_is_not_a_stall(autojump_clock: trio.testing.MockClock) -> None:
    assert await paced(200.0, [text_answer(["he", "llo"])], Timeouts(first=300.0, idle=1.0)) == [*SAID, REPORT, STOP]
    assert trio.current_time() == pytest.approx(200.0)


async def test_comments_are_signs_of_life_and_halves_of_lines_are_not(autojump_clock: trio.testing.MockClock) -> None:
    quick = Timeouts(first=10.0, idle=10.0)
    assert await paced(6.0, [b": ping\n"] * 20 + [text_answer(["he", "llo"])], quick) == [*SAID, REPORT, STOP]
    began = trio.current_time()
    with pytest.raises(ModelUnavailable, match="timeout"):
        await paced(6.0, [b": ping\n"] + [b"data: drip "] * 20, quick)
    assert trio.current_time() - began == pytest.approx(16.0)


async def test_a_slow_reader_is_not_a_stall(autojump_clock: trio.testing.MockClock) -> None:
    pieces = [delta({"content": "he"}), text_answer(["llo"])]

    def handle(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"Content-Type": "text/event-stream"}, stream=_Paced(0.5, pieces))

    timeouts = Timeouts(first=1.0, idle=1.0)
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(handle)) as client:
        chat = Chat(client=client, url="http://m/", model="m", timeouts=timeouts, limits=Limits())
        seen: list[ModelPart] = []
        async with chat.ask(b"{}") as parts:
            async for part in parts:
                await trio.sleep(30.0)
                seen.append(part)
    assert seen == [*SAID, REPORT, STOP]


async def test_cancelling_closes_the_connection() -> None:
    for beginning in (b"", HEAD, HEAD + delta({"content": "he"})):

        async def handler(_: Asked, stream: trio.SocketStream, server: ChatServer, said: bytes = beginning) -> None:
            await stream.send_all(said)
            await server.hang(stream)

        async with asked_model(handler) as (model, server):
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(answer, model)
                    while not server.asked:
                        await trio.testing.wait_all_tasks_blocked(0.01)
                    await trio.testing.wait_all_tasks_blocked(0.01)
                    scope.cancel()
            await server.closed.wait()
            assert scope.cancelled_caught


async def test_leaving_the_scope_early_closes_the_connection() -> None:
    async def handler(_: Asked, stream: trio.SocketStream, server: ChatServer) -> None:
        await stream.send_all(HEAD + delta({"content": "he"}))
        await server.hang(stream)

    async with asked_model(handler) as (model, server):
        async with model.stream(asking()) as parts:
            assert await anext(parts) == SAID[0]
        await server.closed.wait()
        async with model.stream(asking()) as parts:
            pass  # nothing was asked for, nothing was sent
        assert len(server.asked) == 1


async def test_an_error_of_the_body_comes_out_as_it_is() -> None:
    async def handler(_: Asked, stream: trio.SocketStream, server: ChatServer) -> None:
        await stream.send_all(HEAD + delta({"content": "he"}))
        await server.hang(stream)

    async with asked_model(handler) as (model, _):

        async def fail() -> None:
            async with model.stream(asking()) as parts:
                await anext(parts)
                raise KeyError("mine")

        with pytest.raises(KeyError, match="mine"):
            await fail()
