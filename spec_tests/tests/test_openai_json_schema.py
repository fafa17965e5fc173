"""The json-schema protocol: two calls for one response, against a server that says what it is told to."""

from typing import Any

import pytest
import trio

from tests.chat_samples import CLOCK, OUTPUT, WEATHER, asking, called, returned
from tests.chat_server import (
    DONE,
    HEAD,
    REPORT,
    STOP,
    Asked,
    ChatServer,
    Handler,
    answer,
    asked_model,
    delta,
    saying,
    text_answer,
    usage,
)
from triolet.adapters.openai_compatible import (
    JsonSchema,
    WorkedCall,
    WorkedExample,
)
from triolet.ports.language_model import (
    CallChunk,
    CallOpened,
    Finished,
    MalformedResponse,
    ModelPart,
    ModelRequest,
    ModelSettings,
    OneTool,
    TextChunk,
    ToolDeclaration,
    UsageReport,
)
from triolet.ports.messages import user_text
from triolet.ports.usage import Usage

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


BOTH = Usage(input_tokens=20, output_tokens=10, last_input_tokens=10, last_output_tokens=5)
"""What two calls used, of which each reports 10 and 5."""


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
        UsageReport(usage=BOTH),
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
        UsageReport(usage=BOTH),
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
    assert reports[-1] == Usage(
        input_tokens=7, output_tokens=1, last_input_tokens=7, last_output_tokens=1, at_least=True
    )


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
