"""What the cases of the LanguageModel share: requests to ask, and answers read to their end."""

from collections.abc import Sequence
from typing import Any, TypeVar

import attrs
import trio

from triolet.kernel import tool
from triolet.ports.identity import RunId, call_id
from triolet.ports.language_model import (
    CallChunk,
    CallOpened,
    Finished,
    LanguageModel,
    ModelPart,
    ModelRequest,
    OutputSchema,
    ReasoningChunk,
    TextChunk,
    ToolDeclaration,
    UsageReport,
)
from triolet.ports.messages import AssistantMessage, Message, ToolCall, ToolMessage, ToolResult, user_text
from triolet.ports.outcomes import Outcome, ToolRejected, ToolSuccess
from triolet.ports.schema import codec_for
from triolet.ports.strict_json import JsonText
from triolet.spec_tests.cases.language_model.provider import ModelSubject, Provider
from triolet.spec_tests.claims import lever

P = TypeVar("P", bound=ModelPart)

RUN = RunId("run1")


@attrs.frozen(kw_only=True)
class Forecast:
    """What the weather will be."""

    unmistakable_degrees: int


@tool(execution="readonly")
async def get_weather(unmistakable_city: str) -> str:
    """Tell the unmistakable weather."""
    return unmistakable_city


DECLARATION: ToolDeclaration = get_weather.declaration


def question(*messages: Message, tools: bool = False, output: bool = False, **fields: Any) -> ModelRequest:
    """A request, by default with one user message."""
    codec = codec_for(Forecast)
    return ModelRequest(
        run=RUN,
        turn=1,
        attempt=1,
        instructions="Unmistakable instructions.",
        messages=messages or (user_text("What is the weather?"),),
        tools=(DECLARATION,) if tools else (),
        output=OutputSchema(name="forecast", schema=codec.schema) if output else None,
        **fields,
    )


def history_with_calls() -> tuple[Message, ...]:
    """A conversation with a whole call batch in it, every text of which is recognisable."""
    calls = tuple(
        ToolCall(
            id=call_id(RUN, 1, index), name="get_weather", arguments=JsonText(f'{{"unmistakable_city":"city-{index}"}}')
        )
        for index in range(2)
    )
    outcomes: tuple[Outcome, ...] = (
        ToolSuccess(output=JsonText('"result-zero"')),
        ToolRejected(reason="denied", detail="result-one"),
    )
    results = tuple(
        ToolResult(call=each.id, name=each.name, outcome=outcome) for each, outcome in zip(calls, outcomes, strict=True)
    )
    return (
        user_text("question-one"),
        AssistantMessage(text="said-between", reasoning="", calls=calls),
        ToolMessage(results=results),
        user_text("question-two"),
    )


def provider_of(subject: ModelSubject) -> Provider:
    """The lever."""
    return lever(subject.provider, "provider")


async def read(model: LanguageModel, request: ModelRequest) -> list[ModelPart]:
    """Every part of the answer. What the model raises passes."""
    async with model.stream(request) as parts:
        return [part async for part in parts]


def of(parts: Sequence[ModelPart], kind: type[P]) -> list[P]:
    """The parts of one kind."""
    return [part for part in parts if isinstance(part, kind)]


def text_of(parts: Sequence[ModelPart]) -> str:
    """The answer's text."""
    return "".join(part.text for part in of(parts, TextChunk))


def reasoning_of(parts: Sequence[ModelPart]) -> str:
    """The answer's visible reasoning."""
    return "".join(part.text for part in of(parts, ReasoningChunk))


def calls_of(parts: Sequence[ModelPart]) -> list[tuple[str, str]]:
    """The calls as name and argument text, in the order in which they were opened."""
    texts = {part.index: "" for part in of(parts, CallOpened)}
    for part in of(parts, CallChunk):
        texts[part.index] += part.text
    return [(part.name, texts[part.index]) for part in of(parts, CallOpened)]


def last_usage(parts: Sequence[ModelPart]) -> UsageReport | None:
    """The last usage report, which is the one that counts."""
    reports = of(parts, UsageReport)
    return reports[-1] if reports else None


def finish_of(parts: Sequence[ModelPart]) -> list[str]:
    """Why the provider stopped, as often as it said so."""
    return [part.reason for part in of(parts, Finished)]


async def until_idle(provider: Provider) -> bool:
    """Whether the provider holds no answer any more, after at most a second for the news to reach it."""
    with trio.move_on_after(1):
        while provider.answering:  # noqa: ASYNC110 -- a provider outside has no event to wait for
            await trio.sleep(0.005)
    return provider.answering == 0
