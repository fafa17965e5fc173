"""The OpenAI-compatible adapter against servers: a raw one for faults, and third-party stand-ins.

Nothing here waits for time to pass but the tests of time-outs themselves, and those wait for servers that will never
speak: they cannot be too slow, only slow.
"""

import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
import trio
import trio.testing

from tests.chat_server import (
    CHUNKED_HEAD,
    DONE,
    HEAD,
    Asked,
    ChatServer,
    Handler,
    answering,
    chat_server,
    delta,
    event,
    saying,
    text_answer,
    usage,
)
from tests.stand_ins import FAKELLM, LLMOCK, get, post, stand_in
from tests.test_openai_wire import CLOCK, OUTPUT, WEATHER, asking, called, returned
from triolet.adapters.openai_compatible import (
    InvalidOption,
    JsonSchema,
    Limits,
    Timeouts,
    WorkedCall,
    WorkedExample,
    open_openai_compatible,
)
from triolet.adapters.openai_compatible.connection import Chat
from triolet.adapters.openai_compatible.errors import LONGEST_ADVICE, answer_error, retry_after
from triolet.ports.errors import TrioletError
from triolet.ports.language_model import (
    CallChunk,
    CallOpened,
    ContextTooLarge,
    Finished,
    LanguageModel,
    MalformedResponse,
    ModelIdentity,
    ModelPart,
    ModelRefused,
    ModelRequest,
    ModelSettings,
    ModelUnavailable,
    OneTool,
    TextChunk,
    ToolDeclaration,
    UsageReport,
)
from triolet.ports.messages import user_text
from triolet.ports.usage import Usage

SAID = [TextChunk(text="he"), TextChunk(text="llo")]
REPORT = UsageReport(usage=Usage(input_tokens=10, output_tokens=5))
STOP = Finished(reason="stop")


@asynccontextmanager
async def asked_model(handler: Handler, **options: Any) -> AsyncGenerator[tuple[LanguageModel, ChatServer]]:
    async with (
        chat_server(handler) as server,
        open_openai_compatible(base_url=server.url, model="m", use_environment=False, **options) as model,
    ):
        yield model, server


async def answer(model: LanguageModel, request: ModelRequest | None = None) -> list[ModelPart]:
    async with model.stream(request or asking()) as parts:
        return [part async for part in parts]


async def collect(model: LanguageModel, seen: list[ModelPart]) -> None:
    """Keep each part, so that those before an error are there to be looked at."""
    async with model.stream(asking()) as parts:
        async for part in parts:
            seen += [part]


async def failure(handler: Handler, **options: Any) -> tuple[list[ModelPart], TrioletError]:
    """The parts before the error, and the error."""
    seen: list[ModelPart] = []
    async with asked_model(handler, **options) as (model, _):
        with pytest.raises(TrioletError) as raised:
            await collect(model, seen)
    return seen, raised.value


# --- what goes well -------------------------------------------------------------------------------------------------


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


# --- what goes wrong in a stream ------------------------------------------------------------------------------------


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


# --- time, without waiting for it -----------------------------------------------------------------------------------


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


# --- cancelling, and leaving early ----------------------------------------------------------------------------------


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


# --- answers that are errors ----------------------------------------------------------------------------------------


def error_body(**facts: Any) -> bytes:
    return json.dumps({"error": {"message": "the secret prompt", **facts}}).encode()


@pytest.mark.parametrize(
    ("status", "body", "kind", "reason"),
    [
        (400, error_body(), ModelRefused, "bad-request"),
        (400, b"\xff not json", ModelRefused, "bad-request"),
        (400, b"[" * 100_000, ModelRefused, "bad-request"),
        (400, error_body(code="context_length_exceeded"), ContextTooLarge, None),
        (400, error_body(code=400, type="exceed_context_size_error"), ContextTooLarge, None),
        (400, b'{"error":{"message":"This model\'s maximum context length is 5 tokens"}}', ContextTooLarge, None),
        (400, b'{"object":"error","message":"prompt is too long: 9 > 5","code":400}', ContextTooLarge, None),
        (400, error_body(code="content_filter"), ModelRefused, "content"),
        (401, error_body(code="invalid_api_key"), ModelRefused, "authentication"),
        (402, b"", ModelRefused, "authentication"),
        (403, b"", ModelRefused, "authentication"),
        (403, error_body(code="model_not_found"), ModelRefused, "not-found"),
        (404, b"<html>", ModelRefused, "not-found"),
        (408, b"", ModelUnavailable, "timeout"),
        (409, b"", ModelUnavailable, "transport"),
        (413, b"", ContextTooLarge, None),
        (413, error_body(code="rate_limit_exceeded"), ModelUnavailable, "rate-limited"),
        (422, error_body(), ModelRefused, "bad-request"),
        (429, b"", ModelUnavailable, "rate-limited"),
        (429, error_body(code="insufficient_quota"), ModelRefused, "authentication"),
        (500, error_body(), ModelUnavailable, "transport"),
        (500, error_body(message="the context window is open"), ModelUnavailable, "transport"),
        (502, b"", ModelUnavailable, "transport"),
        (503, b"", ModelUnavailable, "overloaded"),
        (504, b"", ModelUnavailable, "timeout"),
        (529, b"", ModelUnavailable, "overloaded"),
        (301, b"", ModelRefused, "bad-request"),
        (204, b"", ModelRefused, "bad-request"),
    ],
)
def test_what_an_answer_that_is_an_error_means(status: int, body: bytes, kind: type, reason: str | None) -> None:
    error = answer_error("m", status, {}, body)
    assert type(error) is kind
    assert getattr(error, "reason", None) == reason
    assert getattr(error, "status", None) == status
    assert "secret" not in repr(error)
    assert "secret" not in str(error)


async def test_errors_over_the_wire_and_the_advice_to_wait() -> None:
    seen, error = await failure(answering("429 Slow Down", {"Retry-After": "7"}, error_body()))
    assert seen == []
    assert isinstance(error, ModelUnavailable)
    assert (error.reason, error.status, error.retry_after) == ("rate-limited", 429, 7.0)
    for status, reason in (("500 Oops", "transport"), ("503 Busy", "overloaded")):
        _, error = await failure(answering(status, {}, error_body()))
        assert isinstance(error, ModelUnavailable)
        assert (error.reason, error.retry_after) == (reason, None)
    _, error = await failure(answering("401 No", {}, error_body()), api_key="sk-very-secret")
    assert isinstance(error, ModelRefused)
    assert "secret" not in str(error)
    _, error = await failure(answering("302 Found", {"Location": "http://127.0.0.1:1/"}, b""))
    assert isinstance(error, ModelRefused)
    assert "redirects" in error.message


async def test_an_error_whose_body_never_ends_is_told_by_its_status() -> None:
    async def handler(_: Asked, stream: trio.SocketStream, server: ChatServer) -> None:
        await stream.send_all(b"HTTP/1.1 503 Busy\r\nContent-Length: 9999\r\n\r\n{")
        await server.hang(stream)

    _, error = await failure(handler, timeouts=Timeouts(linger=0.05))
    assert isinstance(error, ModelUnavailable)
    assert error.reason == "overloaded"


async def test_nobody_there() -> None:
    async with chat_server(saying()) as server:
        pass
    async with open_openai_compatible(base_url=server.url, model="m", use_environment=False) as model:
        with pytest.raises(ModelUnavailable, match="transport"):
            await answer(model)
    _, error = await failure(saying())
    assert isinstance(error, ModelUnavailable)
    _, error = await failure(saying(b"SSH-2.0-OpenSSH_9.2\r\n"))
    assert isinstance(error, ModelUnavailable)


DATE = "Mon, 01 Dec 2025 12:00:00 GMT"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "99999999"}, LONGEST_ADVICE),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after-ms": "x", "retry-after": "7"}, 7.0),
        ({"retry-after": "Mon, 01 Dec 2025 12:00:30 GMT", "date": DATE}, 30.0),
        ({"retry-after": "Mon, 01 Dec 2025 11:00:00 GMT", "date": DATE}, 0.0),
        ({"retry-after": "Mon, 01 Dec 2025 12:00:30 GMT", "date": "?"}, 0.0),
        ({"retry-after": "Fri, 31 Dec 9999 23:59:59 -2359", "date": DATE}, LONGEST_ADVICE),
    ],
)
def test_the_advice_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


# --- options --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"base_url": ""}, "base_url"),
        ({"base_url": "localhost:8080/v1"}, "base_url"),
        ({"base_url": "ftp://localhost/v1"}, "base_url"),
        ({"base_url": "http:///v1"}, "base_url"),
        ({"base_url": "http://user:secret@localhost/v1"}, "base_url"),
        ({"base_url": "http://localhost/v1?key=secret"}, "base_url"),
        ({"base_url": "http://localhost:99999/v1"}, "base_url"),
        ({"base_url": "http://local host/v1"}, "base_url"),
        ({"model": ""}, "model"),
        ({"api_key": ""}, "api_key"),
        ({"api_key": "secret\r\nX-Evil: 1"}, "api_key"),
        ({"api_key": "sécret"}, "api_key"),
        ({"extra": {"stream": False}}, "extra"),
        ({"protocol": "smoke signals"}, "protocol"),
    ],
)
async def test_options_that_can_never_work_are_refused_before_anything_is_opened(
    options: dict[str, Any], named: str
) -> None:
    given: dict[str, Any] = {"base_url": "http://localhost:8080/v1", "model": "m", **options}
    with pytest.raises(InvalidOption) as refused:
        async with open_openai_compatible(**given):
            pytest.fail("it opened")
    assert refused.value.option == named
    assert "secret" not in str(refused.value)


# --- two calls for one response -------------------------------------------------------------------------------------

STOP_TIME = ToolDeclaration(
    name="stop_time",
    description="Stop time.",
    input_schema={"type": "object", "properties": {}, "additionalProperties": False},
)


def enforcing(*said: str) -> Handler:
    """A server that says one thing after another, each cut into two chunks."""
    left = list(said)

    async def handler(_: Asked, stream: trio.SocketStream, server: ChatServer) -> None:
        text = left.pop(0)
        await stream.send_all(HEAD + text_answer([text[:4], text[4:]]))

    return handler


def formats(server: ChatServer) -> list[Any]:
    return [asked.body.get("response_format", {}).get("json_schema", {}).get("schema") for asked in server.asked]


def choice_of(*names: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"tool": {"type": "string", "enum": list(names)}},
        "required": ["tool"],
        "additionalProperties": False,
    }


async def test_a_tool_is_chosen_and_then_its_arguments() -> None:
    handler = enforcing('{"tool": "weather"}', '{"city": "Bonn"}')
    settings = ModelSettings(max_output_tokens=1000)
    async with asked_model(handler, protocol="json-schema") as (model, server):
        parts = await answer(model, asking(tools=(WEATHER, CLOCK), output=OUTPUT, settings=settings))
    assert parts == [
        UsageReport(usage=Usage(input_tokens=10, output_tokens=5, at_least=True)),
        CallOpened(index=0, name="weather"),
        CallChunk(index=0, text='{"ci'),
        CallChunk(index=0, text='ty": "Bonn"}'),
        UsageReport(usage=Usage(input_tokens=20, output_tokens=10)),
        Finished(reason="tool-calls"),
    ]
    assert formats(server) == [choice_of("weather", "clock", "answer"), WEATHER.input_schema]
    first, second = (asked.body for asked in server.asked)
    assert second["messages"][: len(first["messages"])] == first["messages"]
    assert second["messages"][len(first["messages"]) :] == [
        {"role": "assistant", "content": '{"tool": "weather"}'},
        {"role": "user", "content": "Arguments of weather?"},
    ]
    assert (first["max_tokens"], second["max_tokens"]) == (256, 1000)
    assert not {"tools", "tool_choice"} & (first.keys() | second.keys())


async def test_the_answer_is_chosen_and_then_given_in_its_schema() -> None:
    async with asked_model(enforcing('{"tool": "answer"}', '{"a": 1}'), protocol="json-schema") as (model, server):
        history = (user_text("How is Bonn?"), called("weather"), returned("weather"))
        parts = await answer(model, asking(*history, tools=(WEATHER,), output=OUTPUT))
    assert parts[1:] == [
        TextChunk(text='{"a"'),
        TextChunk(text=": 1}"),
        UsageReport(usage=Usage(input_tokens=20, output_tokens=10)),
        STOP,
    ]
    assert formats(server) == [choice_of("weather", "answer"), OUTPUT.schema]
    # Each turn begins with what the server has already seen.
    first, second = (asked.body["messages"] for asked in server.asked)
    assert second[: len(first)] == first


@pytest.mark.parametrize(
    ("request_", "said", "schemas", "parts"),
    [
        # Nothing to choose from: one call, with or without a schema for the answer.
        (asking(), ["hello"], [None], [TextChunk(text="hell"), TextChunk(text="o"), REPORT, STOP]),
        (asking(output=OUTPUT), ["{ }"], [OUTPUT.schema], [TextChunk(text="{ }"), REPORT, STOP]),
        (
            asking(tools=(WEATHER, CLOCK), tool_choice="none", output=OUTPUT),
            ["{ }"],
            [OUTPUT.schema],
            [TextChunk(text="{ }"), REPORT, STOP],
        ),
        # One tool that has to be called.
        (
            asking(tools=(WEATHER,), tool_choice="required"),
            ["{ }"],
            [WEATHER.input_schema],
            [
                CallOpened(index=0, name="weather"),
                CallChunk(index=0, text="{ }"),
                REPORT,
                Finished(reason="tool-calls"),
            ],
        ),
        (
            asking(tools=(WEATHER, CLOCK), tool_choice=OneTool(name="clock")),
            ["{ }"],
            [{"type": "object"}],
            [CallOpened(index=0, name="clock"), CallChunk(index=0, text="{ }"), REPORT, Finished(reason="tool-calls")],
        ),
        # And nothing to say to it either.
        (
            asking(tools=(WEATHER, STOP_TIME), tool_choice=OneTool(name="stop_time")),
            [],
            [],
            [
                CallOpened(index=0, name="stop_time"),
                CallChunk(index=0, text="{}"),
                UsageReport(usage=Usage()),
                Finished(reason="tool-calls"),
            ],
        ),
        (
            asking(tools=(WEATHER, STOP_TIME), tool_choice="required"),
            ['{"tool": "stop_time"}'],
            [choice_of("weather", "stop_time")],
            [
                UsageReport(usage=Usage(input_tokens=10, output_tokens=5, at_least=True)),
                CallOpened(index=0, name="stop_time"),
                CallChunk(index=0, text="{}"),
                REPORT,
                Finished(reason="tool-calls"),
            ],
        ),
    ],
)
async def test_a_call_is_left_out_where_there_is_nothing_to_decide(
    request_: ModelRequest, said: list[str], schemas: list[Any], parts: list[ModelPart]
) -> None:
    async with asked_model(enforcing(*said), protocol="json-schema") as (model, server):
        assert await answer(model, request_) == parts
    assert formats(server) == schemas


async def test_a_tool_may_be_called_answer() -> None:
    tool = ToolDeclaration(name="answer", description="The phone.", input_schema={"type": "object"})
    async with asked_model(enforcing('{"tool": "answer_"}', "hello"), protocol="json-schema") as (model, server):
        parts = await answer(model, asking(tools=(tool, WEATHER)))
    assert formats(server) == [choice_of("answer", "weather", "answer_"), None]
    assert parts[1:3] == [TextChunk(text="hell"), TextChunk(text="o")]


@pytest.mark.parametrize("said", ["I would call the weather.", '{"tool": "sundial"}', '{"tool": 5}', "[]", ""])
async def test_a_server_that_enforces_nothing_is_found_out(said: str) -> None:
    async with asked_model(enforcing(said), protocol="json-schema") as (model, server):
        with pytest.raises(MalformedResponse, match="this server does not enforce response_format"):
            await answer(model, asking(tools=(WEATHER, CLOCK)))
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("stream", "end"),
    [
        (delta({"content": '{"tool": "weather"}'}, "length"), [Finished(reason="length")]),
        (delta({"content": '{"tool": "weather"}'}, "content_filter"), [Finished(reason="content-filter")]),
        (delta({"content": '{"tool": "weather"}'}), []),
    ],
)
async def test_a_choice_cut_short_calls_nothing(stream: bytes, end: list[ModelPart]) -> None:
    async with asked_model(saying(HEAD + stream + usage(3, 2)), protocol="json-schema") as (model, server):
        parts = await answer(model, asking(tools=(WEATHER, CLOCK)))
    assert parts == [UsageReport(usage=Usage(input_tokens=3, output_tokens=2, at_least=True)), *end]
    assert len(server.asked) == 1


async def test_arguments_cut_short_are_a_response_cut_short() -> None:
    stream = HEAD + delta({"content": '{"ci'}, "length") + DONE
    async with asked_model(saying(stream), protocol="json-schema") as (model, _):
        parts = await answer(model, asking(tools=(WEATHER,), tool_choice="required"))
    assert parts[-1] == Finished(reason="length")


async def test_native_calls_nobody_asked_for_are_refused() -> None:
    call = delta({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "clock", "arguments": "{}"}}]})
    for request in (asking(tools=(WEATHER, CLOCK)), asking(tools=(WEATHER,), tool_choice="required"), asking()):
        async with asked_model(saying(HEAD + call), protocol="json-schema") as (model, _):
            with pytest.raises(MalformedResponse, match="a native tool call, though none was asked for"):
                await answer(model, request)


async def test_usage_that_only_one_of_the_calls_reports_is_a_lower_bound() -> None:
    left = [delta({"content": '{"tool": "weather"}'}, "stop"), delta({"content": "{}"}, "stop") + usage(7, 1)]

    async def handler(_: Asked, stream: trio.SocketStream, server: ChatServer) -> None:
        await stream.send_all(HEAD + left.pop(0))

    async with asked_model(handler, protocol="json-schema") as (model, _):
        parts = await answer(model, asking(tools=(WEATHER, CLOCK)))
    reports = [part.usage for part in parts if isinstance(part, UsageReport)]
    assert reports[-1] == Usage(input_tokens=7, output_tokens=1, at_least=True)


async def test_worked_examples_are_shown_to_requests_that_declare_their_tools() -> None:
    call = WorkedCall(tool="weather", arguments={"city": "Bonn"}, result="rain")
    example = WorkedExample(question="How is Bonn?", calls=(call,), answer="wet")
    protocol = JsonSchema(examples=(example,), show_schemas=False)
    async with asked_model(enforcing("x", "y", "z"), protocol=protocol) as (model, server):
        for tools in ((WEATHER, CLOCK), (CLOCK,), ()):
            await answer(model, asking(tools=tools, tool_choice="none"))
    with_example, without, plain = ([said["content"] for said in asked.body["messages"]] for asked in server.asked)
    assert with_example[1:-3] == [
        "How is Bonn?",
        '{"tool": "weather"}',
        "Arguments of weather?",
        '{"city": "Bonn"}',
        "Result of weather: rain",
        '{"tool": "answer"}',
        "The answer?",
        "wet",
    ]
    assert with_example[-3:] == without[1:] == ["hello", '{"tool": "answer"}', "The answer?"]
    assert plain == ["Be brief.", "hello"]


# --- third-party stand-ins ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def llmock_server() -> Iterator[str]:
    with stand_in(LLMOCK) as address:
        yield address


@pytest.fixture
async def llmock(llmock_server: str) -> str:
    """A server without behaviours left and requests remembered."""
    await post(f"{llmock_server}/_llmock/reset", {})
    return llmock_server


@asynccontextmanager
async def model_at(address: str, **options: Any) -> AsyncGenerator[LanguageModel]:
    async with open_openai_compatible(
        base_url=f"{address}/v1", model="gpt-4o-mini", api_key="any", use_environment=False, **options
    ) as model:
        yield model


async def scenario(address: str, **behaviour: Any) -> None:
    await post(f"{address}/_llmock/scenario", {"behaviors": [behaviour]})


async def test_llmock_answers_and_calls_tools(llmock: str) -> None:
    async with model_at(llmock) as model:
        parts = await answer(model)
        assert any(isinstance(part, TextChunk) for part in parts)
        assert isinstance(parts[-2], UsageReport)
        assert parts[-1] == STOP

        calls = [{"name": "weather", "arguments": {"city": "Bonn"}}, {"name": "clock", "arguments": {}}]
        await scenario(llmock, type="reply", tool_calls=calls)
        parts = await answer(model, asking(tools=(WEATHER, CLOCK)))
        assert [part.name for part in parts if isinstance(part, CallOpened)] == ["weather", "clock"]
        said = {
            index: "".join(p.text for p in parts if isinstance(p, CallChunk) and p.index == index) for index in (0, 1)
        }
        assert {index: json.loads(text) for index, text in said.items()} == {0: {"city": "Bonn"}, 1: {}}
        assert parts[-1] == Finished(reason="tool-calls")

        # It takes back what the kernel would send: the calls under our own IDs, and their results.
        history = (user_text("How is Bonn?"), called("weather", "clock"), returned("weather", "clock"))
        parts = await answer(model, asking(*history, tools=(WEATHER, CLOCK), output=OUTPUT))
        assert parts[-1] == STOP


@pytest.mark.parametrize(
    ("behaviour", "kind", "facts"),
    [
        (
            {"type": "fail", "status": 429, "retry_after": 3},
            ModelUnavailable,
            {"reason": "rate-limited", "retry_after": 3.0},
        ),
        ({"type": "fail", "status": 500}, ModelUnavailable, {"reason": "transport"}),
        ({"type": "fail", "status": 503}, ModelUnavailable, {"reason": "overloaded"}),
        ({"type": "fail", "status": 401}, ModelRefused, {"reason": "authentication"}),
        ({"type": "fail", "status": 404}, ModelRefused, {"reason": "not-found"}),
        ({"type": "fail", "status": 400}, ModelRefused, {"reason": "bad-request"}),
        ({"type": "fail", "status": 400, "code": "context_length_exceeded"}, ContextTooLarge, {"status": 400}),
        ({"type": "stream_fault", "kind": "disconnect", "after_chunks": 2}, ModelUnavailable, {"reason": "transport"}),
        ({"type": "stream_fault", "kind": "malformed", "after_chunks": 2}, MalformedResponse, {}),
    ],
)
async def test_faults_of_llmock(llmock: str, behaviour: dict[str, Any], kind: type, facts: dict[str, Any]) -> None:
    await scenario(llmock, **behaviour)
    async with model_at(llmock) as model:
        with pytest.raises(TrioletError) as raised:
            await answer(model)
        assert type(raised.value) is kind
        assert {name: getattr(raised.value, name) for name in facts} == facts
        # Asked once, and the same model goes on.
        assert len((await get(f"{llmock}/_llmock/requests"))["requests"]) == 1
        assert (await answer(model))[-1] == STOP


async def test_a_stream_that_llmock_truncates_is_cut_short(llmock: str) -> None:
    await scenario(llmock, type="stream_fault", kind="truncate", after_chunks=3)
    async with model_at(llmock) as model:
        parts = await answer(model)
    assert parts
    assert not any(isinstance(part, Finished) for part in parts)


async def test_a_stream_that_llmock_stalls_times_out(llmock: str) -> None:
    await scenario(llmock, type="stream_fault", kind="stall", after_chunks=2, stall_seconds=300)
    async with model_at(llmock, timeouts=Timeouts(idle=0.05)) as model:
        with pytest.raises(ModelUnavailable, match="timeout"):
            await answer(model)


async def test_fakellm_streams_text_and_calls(tmp_path: Any) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(
        "rules:\n"
        "  - name: call\n"
        "    when: {turn: 1}\n"
        "    respond:\n"
        "      tool_calls: [{name: weather, arguments: {city: Bonn}}]\n"
        "  - name: answer\n"
        "    when: {turn: 2, tool_result_contains: blue}\n"
        "    respond: {content: The sky is blue.}\n"
    )
    environment = {"FAKELLM_CONFIG": str(rules)}
    with stand_in(FAKELLM, environment) as address:
        async with model_at(address) as model:
            parts = await answer(model, asking(user_text("How is Bonn?"), tools=(WEATHER,)))
            assert parts[0] == CallOpened(index=0, name="weather")
            said = "".join(part.text for part in parts if isinstance(part, CallChunk))
            assert json.loads(said) == {"city": "Bonn"}
            assert parts[-1] == Finished(reason="tool-calls")
            history = (user_text("How is Bonn?"), called("weather"), returned("weather"))
            parts = await answer(model, asking(*history, tools=(WEATHER,)))
            assert "".join(part.text for part in parts if isinstance(part, TextChunk)) == "The sky is blue."
            assert parts[-1] == STOP
