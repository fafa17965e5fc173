"""The OpenAI-compatible adapter against third-party servers that imitate OpenAI's."""

import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.chat_samples import CLOCK, OUTPUT, WEATHER, asking, called, returned
from tests.chat_server import (
    STOP,
    answer,
)
from tests.stand_ins import FAKELLM, LLMOCK, get, post, stand_in
from triolet.adapters.openai_compatible import (
    Timeouts,
    open_openai_compatible,
)
from triolet.ports.errors import TrioletError
from triolet.ports.language_model import (
    CallChunk,
    CallOpened,
    ContextTooLarge,
    Finished,
    LanguageModel,
    MalformedResponse,
    ModelRefused,
    ModelUnavailable,
    TextChunk,
    UsageReport,
)
from triolet.ports.messages import user_text


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
