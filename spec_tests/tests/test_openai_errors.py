"""What answers that are errors mean, and which options are refused."""

import json
from typing import Any

import pytest
import trio

from tests.chat_server import (
    Asked,
    ChatServer,
    answer,
    answering,
    chat_server,
    failure,
    saying,
)
from triolet.adapters.openai_compatible import (
    InvalidOption,
    Timeouts,
    open_openai_compatible,
)
from triolet.adapters.openai_compatible.errors import LONGEST_ADVICE, answer_error, retry_after
from triolet.ports.language_model import (
    ContextTooLarge,
    ModelRefused,
    ModelUnavailable,
)


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
        ({"base_url": "http://☃.com/v1"}, "base_url"),
        ({"base_url": "http://localhost/" + "v" * 70_000}, "base_url"),
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
