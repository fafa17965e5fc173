"""Requests, messages and tools for the tests of the OpenAI-compatible adapter."""

from types import MappingProxyType

from triolet.ports.identity import CallId, RunId
from triolet.ports.language_model import (
    ModelRequest,
    ModelSettings,
    OutputSchema,
    ToolChoice,
    ToolDeclaration,
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

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = ToolDeclaration(name="weather", description="Look outside.", input_schema=SCHEMA)
CLOCK = ToolDeclaration(name="clock", description="What time it is.", input_schema=MappingProxyType({"type": "object"}))
OUTPUT = OutputSchema(name="answer", schema={"type": "object"})


def called(*names: str, text: str = "") -> AssistantMessage:
    calls = tuple(
        ToolCall(id=CallId(f"run1-1-{index}"), name=name, arguments=JsonText('{"city": "Bonn"}'))
        for index, name in enumerate(names)
    )
    return AssistantMessage(text=text, reasoning="hidden", calls=calls, opaque=JsonText('{"hidden":1}'))


def returned(*names: str) -> ToolMessage:
    return ToolMessage(
        results=tuple(
            ToolResult(
                call=CallId(f"run1-1-{index}"), name=name, outcome=ToolSuccess(output=JsonText('{"sky":"blue"}'))
            )
            for index, name in enumerate(names)
        )
    )


def asking(
    *messages: Message,
    tools: tuple[ToolDeclaration, ...] = (),
    tool_choice: ToolChoice = "auto",
    output: OutputSchema | None = None,
    settings: ModelSettings | None = None,
    instructions: str = "Be brief.",
) -> ModelRequest:
    return ModelRequest(
        run=RunId("run1"),
        turn=1,
        attempt=1,
        instructions=instructions,
        messages=messages or (user_text("hello"),),
        tools=tools,
        tool_choice=tool_choice,
        output=output,
        settings=settings or ModelSettings(),
    )
