"""Requests for the request-driven model, and its answers put together in the plainest way."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from triolet.adapters.request_driven_model import (
    RequestDrivenModel,
)
from triolet.ports.identity import CallId, RunId
from triolet.ports.language_model import (
    CallChunk,
    CallOpened,
    Finished,
    LanguageModel,
    ModelRequest,
    OutputSchema,
    ReasoningChunk,
    TextChunk,
    ToolChoice,
    ToolDeclaration,
    UsageReport,
)
from triolet.ports.messages import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolMessage,
    ToolResult,
    user_text,
)
from triolet.ports.outcomes import ToolSuccess
from triolet.ports.strict_json import JsonText
from triolet.ports.usage import Usage

ADD_INPUT: Mapping[str, object] = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "minimum": 3}},
    "required": ["a", "b"],
    "additionalProperties": False,
}
ADD = ToolDeclaration(name="add", description="adds", input_schema=ADD_INPUT)
LIST = ToolDeclaration(name="list", description="lists", input_schema={"type": "object"})
OUTPUT = OutputSchema(name="Count", schema=ADD_INPUT)


def ask(
    messages: Sequence[Message] | str,
    tools: tuple[ToolDeclaration, ...] = (ADD, LIST),
    choice: ToolChoice = "auto",
    output: OutputSchema | None = None,
    instructions: str = "Be brief.",
) -> ModelRequest:
    return ModelRequest(
        run=RunId("run1"),
        turn=1,
        attempt=1,
        instructions=instructions,
        messages=(user_text(messages),) if isinstance(messages, str) else messages,
        tools=tools,
        tool_choice=choice,
        output=output,
    )


@attrs.frozen
class Answer:
    text: str
    reasoning: str
    calls: tuple[tuple[str, str], ...]
    finish: str
    usage: Usage

    @property
    def report(self) -> Any:
        return json.loads(self.text)


async def answer(request: ModelRequest) -> Answer:
    """What a reducer would make of the parts, in the plainest way."""
    said, thought = "", ""
    names: dict[int, str] = {}
    arguments: dict[int, str] = {}
    finish, usage = "", Usage()
    model: LanguageModel = RequestDrivenModel()
    async with model.stream(request) as parts:
        async for part in parts:
            match part:
                case TextChunk(text=text):
                    said += text
                case ReasoningChunk(text=text):
                    thought += text
                case CallOpened(index=index, name=name):
                    assert index == len(names)
                    names[index], arguments[index] = name, ""
                case CallChunk(index=index, text=text):
                    arguments[index] += text
                case Finished(reason=reason):
                    assert not finish
                    finish = reason
                case UsageReport(usage=usage):
                    pass
                case _:
                    raise AssertionError(part)
    assert (finish == "tool-calls") == bool(names)
    calls = tuple((names[index], arguments[index]) for index in names)
    return Answer(text=said, reasoning=thought, calls=calls, finish=finish, usage=usage)


async def ended(messages: Sequence[Message], **options: Any) -> tuple[list[tuple[tuple[str, str], ...]], Answer]:
    """Play a run: answer every call with its own arguments, until the model makes none."""
    history = list(messages)
    batches: list[tuple[tuple[str, str], ...]] = []
    for turn in range(1, 20):
        got = await answer(ask(tuple(history), **options))
        if not got.calls:
            return batches, got
        batches.append(got.calls)
        calls = tuple(
            ToolCall(id=CallId(f"run1-{turn}-{index}"), name=name, arguments=JsonText(arguments))
            for index, (name, arguments) in enumerate(got.calls)
        )
        history.append(AssistantMessage(text=got.text, reasoning="", calls=calls))
        history.append(results_of(calls))
    raise AssertionError("the model never came to an end")


def results_of(calls: Sequence[ToolCall]) -> ToolMessage:
    return ToolMessage(
        results=tuple(
            ToolResult(call=made.id, name=made.name, outcome=ToolSuccess(output=made.arguments)) for made in calls
        )
    )


def said(text: str) -> AssistantMessage:
    return AssistantMessage(text=text, reasoning="", calls=())


def called(*asked: tuple[str, str], turn: int = 1) -> list[Message]:
    calls = tuple(
        ToolCall(id=CallId(f"run1-{turn}-{index}"), name=name, arguments=JsonText(arguments))
        for index, (name, arguments) in enumerate(asked)
    )
    return [AssistantMessage(text="", reasoning="", calls=calls), results_of(calls)]
