"""What an OpenAI-compatible server is sent, and what its chunks and figures are read as. No server here."""

import itertools
import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triolet.adapters.openai_compatible import WorkedCall, WorkedExample
from triolet.adapters.openai_compatible.bounds import Limits
from triolet.adapters.openai_compatible.chunks import FINISH_REASONS, ChunkReader
from triolet.adapters.openai_compatible.fragments import Fragments
from triolet.adapters.openai_compatible.native import Native
from triolet.adapters.openai_compatible.turns import encoded_turns, example_turns, history_turns, system_text
from triolet.adapters.openai_compatible.usage import add_usage, read_usage
from triolet.adapters.openai_compatible.wire import Bodies, BodyOptions, encode_message, wire_id
from triolet.ports.identity import CallId, RunId
from triolet.ports.language_model import (
    CallChunk,
    CallOpened,
    Finished,
    MalformedResponse,
    ModelPart,
    ModelRefused,
    ModelRequest,
    ModelSettings,
    ModelUnavailable,
    OneTool,
    OutputSchema,
    ReasoningChunk,
    TextChunk,
    ToolChoice,
    ToolDeclaration,
    UsageReport,
)
from triolet.ports.messages import (
    AssistantMessage,
    CallDefect,
    Media,
    Message,
    Part,
    Text,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
    user_text,
)
from triolet.ports.outcomes import ToolRejected, ToolSuccess
from triolet.ports.strict_json import JsonText
from triolet.ports.usage import Usage

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


def bodies(defaults: ModelSettings | None = None, extra: Mapping[str, Any] | None = None) -> Bodies:
    return Bodies(
        BodyOptions(model="m", defaults=defaults or ModelSettings(), extra=extra or {}, max_tokens_name="max_tokens")
    )


def native(request: ModelRequest, made: Bodies | None = None) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(Native(made or bodies(), cache_bytes=10_000, strict=False).body(request))
    return body


# --- requests -------------------------------------------------------------------------------------------------------


def test_the_whole_of_a_small_native_request() -> None:
    request = asking(
        user_text("How is Bonn?"),
        called("weather", "clock"),
        returned("weather", "clock"),
        tools=(WEATHER, CLOCK),
        output=OUTPUT,
        settings=ModelSettings(temperature=0.5, max_output_tokens=9, seed=3),
    )
    assert native(request) == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.5,
        "seed": 3,
        "max_tokens": 9,
        "tools": [
            {
                "type": "function",
                "function": {"name": "weather", "description": "Look outside.", "parameters": SCHEMA},
            },
            {
                "type": "function",
                "function": {"name": "clock", "description": "What time it is.", "parameters": {"type": "object"}},
            },
        ],
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object"}}},
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "How is Bonn?"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "run1-1-0",
                        "type": "function",
                        "function": {"name": "weather", "arguments": '{"city": "Bonn"}'},
                    },
                    {
                        "id": "run1-1-1",
                        "type": "function",
                        "function": {"name": "clock", "arguments": '{"city": "Bonn"}'},
                    },
                ],
            },
            {"role": "tool", "tool_call_id": "run1-1-0", "content": '{"sky":"blue"}'},
            {"role": "tool", "tool_call_id": "run1-1-1", "content": '{"sky":"blue"}'},
        ],
    }


def test_a_request_without_anything_optional() -> None:
    assert native(asking(instructions="")) == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [{"role": "user", "content": "hello"}],
    }


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", None),
        ("none", "none"),
        ("required", "required"),
        (OneTool(name="clock"), {"type": "function", "function": {"name": "clock"}}),
    ],
)
def test_tool_choice(choice: ToolChoice, sent: object) -> None:
    body = native(asking(tools=(WEATHER, CLOCK), tool_choice=choice))
    assert body.get("tool_choice") == sent
    assert len(body["tools"]) == 2


@pytest.mark.parametrize(
    ("choice", "tools"), [("required", ()), (OneTool(name="clock"), ()), (OneTool(name="sundial"), (WEATHER, CLOCK))]
)
def test_a_choice_that_no_tool_meets_is_refused(choice: ToolChoice, tools: tuple[ToolDeclaration, ...]) -> None:
    with pytest.raises(ModelRefused, match="a tool that the request does not declare"):
        native(asking(tools=tools, tool_choice=choice))


def test_settings_of_the_request_go_before_defaults_and_extra_is_added() -> None:
    made = bodies(ModelSettings(temperature=0.0, max_output_tokens=100), {"top_p": 0.9})
    body = native(asking(settings=ModelSettings(max_output_tokens=7)), made)
    assert (body["temperature"], body["max_tokens"], body["top_p"]) == (0.0, 7, 0.9)
    assert "seed" not in body


def test_images_are_data_urls_and_other_media_are_refused_unseen() -> None:
    image = UserMessage(parts=(Text(text="see"), Media(media_type="image/png", base64="AAAA")))
    (_, sent) = native(asking(image))["messages"]
    assert sent["content"] == [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    ]
    for bad in ("application/pdf", "image/png;x", "image/", 'image/"'):
        with pytest.raises(ModelRefused) as refused:
            native(asking(UserMessage(parts=(Media(media_type=bad, base64="AAAA"),))))
        assert bad not in str(refused.value)


def test_call_ids_are_the_kernels_unless_a_provider_could_not_take_them() -> None:
    assert wire_id(CallId("run-1-0")) == "run-1-0"
    assert wire_id(CallId("a" * 40)) == "a" * 40
    shortened = {wire_id(CallId(id_)) for id_ in ("a" * 41, "run/1/0", "run 1", "")}
    assert len(shortened) == 4
    assert all(len(id_) <= 40 and id_.startswith("call_") for id_ in shortened)


def test_a_call_that_could_not_be_used_is_echoed_without_what_was_sent() -> None:
    call = ToolCall(
        id=CallId("c"),
        name="weather",
        arguments=JsonText("{}"),
        defect=CallDefect(reason="not-json", raw="{broken"),
    )
    sent = encode_message(AssistantMessage(text="", reasoning="", calls=(call,)), "m")
    assert b"broken" not in sent
    refused = ToolResult(call=call.id, name="weather", outcome=ToolRejected(reason="denied", detail="not today"))
    assert b"Not run (denied): not today" in encode_message(ToolMessage(results=(refused,)), "m")


# --- the cost of a turn ---------------------------------------------------------------------------------------------


def test_a_message_is_encoded_once_for_all_its_turns() -> None:
    encoded: list[str] = []

    def encode(text: str) -> bytes:
        encoded.append(text)
        return text.encode()

    kept: Fragments[str, bytes] = Fragments(encode, len, 10_000)
    history: list[str] = []
    for turn in range(10):
        history.append(f"message {turn}")
        assert [kept.of(text) for text in history] == [text.encode() for text in history]
    assert encoded == history


def test_what_is_kept_is_bounded_and_the_least_used_goes_first() -> None:
    made: list[int] = []

    def encode(value: list[int]) -> bytes:
        made.append(value[0])
        return b"x" * 1000

    kept: Fragments[list[int], bytes] = Fragments(encode, len, 3 * 1600)
    values = [[number] for number in range(5)]
    for value in values[:3]:
        kept.of(value)
    kept.of(values[0])
    kept.of(values[3])  # number 1 goes
    assert len(kept) == 3
    kept.of(values[0])
    assert made == [0, 1, 2, 3]
    kept.of(values[1])
    assert made == [0, 1, 2, 3, 1]
    tiny: Fragments[list[int], bytes] = Fragments(encode, len, 10)
    assert tiny.of([7]) == b"x" * 1000
    assert len(tiny) == 0


def test_equal_messages_that_are_not_the_same_are_not_mixed_up() -> None:
    kept: Fragments[Message, bytes] = Fragments(lambda message: encode_message(message, "m"), len, 100_000)
    for number in range(100):
        # Each is garbage at once; its address is likely to be used again by the next.
        assert f'"{number}"'.encode() in kept.of(user_text(str(number)))


# --- turns of the json-schema protocol ------------------------------------------------------------------------------


def shown(turns: Sequence[Any]) -> list[tuple[str, Any]]:
    return [(said["role"], said["content"]) for said in map(json.loads, encoded_turns(turns))]


def test_history_reads_as_it_was_spoken() -> None:
    answered = AssistantMessage(text='{"sky": "blue"}', reasoning="", calls=())
    history: list[Message] = [user_text("How is Bonn?"), called("weather"), returned("weather"), answered]
    history.append(user_text("And now?"))
    turns = [turn for message in history for turn in history_turns(message, "answer", "m")]
    assert shown(turns) == [
        ("user", "How is Bonn?"),
        ("assistant", '{"tool": "weather"}'),
        ("user", "Arguments of weather?"),
        ("assistant", '{"city": "Bonn"}'),
        ("user", 'Result of weather: {"sky":"blue"}'),
        ("assistant", '{"tool": "answer"}'),
        ("user", "The answer?"),
        ("assistant", '{"sky": "blue"}'),
        ("user", "And now?"),
    ]


def test_a_worked_example_reads_like_history() -> None:
    call = WorkedCall(tool="weather", arguments={"city": "Bonn"}, result={"sky": "blue"})
    example = WorkedExample(question="How is Bonn?", calls=(call,), answer={"sky": "blue"})
    answered = AssistantMessage(text='{"sky": "blue"}', reasoning="", calls=())
    history: list[Message] = [user_text("How is Bonn?"), called("weather"), returned("weather"), answered]
    turns = [turn for message in history for turn in history_turns(message, "answer", "m")]
    assert shown(example_turns(example, "answer")) == shown(turns)


def test_calls_of_a_batch_and_text_beside_them() -> None:
    turns = [
        turn
        for message in (
            user_text("Well?"),
            called("weather", "clock", text="Let me see."),
            returned("weather", "clock"),
        )
        for turn in history_turns(message, "answer", "m")
    ]
    assert [said for _, said in shown(turns)] == [
        "Well?",
        'Let me see.\n\n{"tool": "weather"}',
        "Arguments of weather?",
        '{"city": "Bonn"}',
        "What next?",
        '{"tool": "clock"}',
        "Arguments of clock?",
        '{"city": "Bonn"}',
        'Result of weather: {"sky":"blue"}\n\nResult of clock: {"sky":"blue"}',
    ]


def test_turns_with_pictures_are_joined_part_by_part() -> None:
    picture = UserMessage(parts=(Media(media_type="image/png", base64="AAAA"),))
    turns = [turn for message in (user_text("see"), picture) for turn in history_turns(message, None, "m")]
    ((role, content),) = shown(turns)
    assert role == "user"
    assert [part["type"] for part in content] == ["text", "image_url"]


some_parts: list[Part] = [Text(text="x"), Media(media_type="image/png", base64="AAAA")]
some_calls = st.lists(st.sampled_from(["weather", "clock"]), min_size=1, max_size=3)
some_history = st.lists(
    st.one_of(
        st.lists(st.sampled_from(some_parts), max_size=2).map(lambda parts: [UserMessage(parts=tuple(parts))]),
        some_calls.map(lambda names: [called(*names), returned(*names)]),
        st.text(max_size=3).map(lambda text: [AssistantMessage(text=text, reasoning="", calls=())]),
    ),
    max_size=8,
).map(lambda exchanges: [message for exchange in exchanges for message in exchange])


@given(some_history, st.sampled_from(["answer", None]))
def test_roles_take_turns_whatever_the_history(history: list[Message], answer: str | None) -> None:
    turns = [turn for message in history for turn in history_turns(message, answer, "m")]
    roles = [role for role, _ in shown(turns)]
    assert all(first != second for first, second in itertools.pairwise(roles))


def test_the_system_message_lists_what_there_is_to_choose_from() -> None:
    assert system_text("Be brief.", (WEATHER, CLOCK), "answer", OUTPUT, schemas=False) == (
        "Be brief.\n\nTools:\n- weather: Look outside.\n- clock: What time it is.\n- answer: give the final answer."
    )
    with_schemas = system_text("", (CLOCK,), "answer", OUTPUT, schemas=True)
    assert with_schemas == (
        'Tools:\n- clock: What time it is. JSON Schema: {"type":"object"}\n'
        '- answer: give the final answer. JSON Schema: {"type":"object"}'
    )
    assert system_text("Be brief.", (), "answer", None, schemas=True) == "Be brief."


# --- chunks ---------------------------------------------------------------------------------------------------------


def parts_of(*chunks: object, limits: Limits | None = None) -> list[ModelPart]:
    reader = ChunkReader("m", limits or Limits())
    parts = [part for chunk in chunks for part in reader.read(chunk if isinstance(chunk, str) else json.dumps(chunk))]
    return parts + reader.finish()


def choice(delta: object = None, finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}]}


def call_delta(index: object, name: str | None = None, arguments: str | None = None, id_: str | None = None) -> object:
    function = {"name": name, "arguments": arguments}
    return choice({"tool_calls": [{"index": index, "id": id_, "type": "function", "function": function}]})


def test_text_reasoning_usage_and_end() -> None:
    assert parts_of(
        choice({"role": "assistant", "content": None}),
        choice({"reasoning_content": "hm"}),
        choice({"reasoning": "m", "content": ""}),
        choice({"content": "he"}),
        choice({}),
        {"choices": []},
        choice({"content": "llo"}, "stop"),
        choice({}, "stop"),
        {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}},
    ) == [
        ReasoningChunk(text="hm"),
        ReasoningChunk(text="m"),
        TextChunk(text="he"),
        TextChunk(text="llo"),
        UsageReport(usage=Usage(input_tokens=3, output_tokens=2)),
        Finished(reason="stop"),
    ]


def test_interleaved_calls_keep_their_own_text() -> None:
    assert parts_of(
        call_delta(0, "weather", "", "a"),
        call_delta(1, "clock", "{", "b"),
        call_delta(0, None, '{"c'),
        call_delta(1, "clock", "}", "b"),
        call_delta(0, None, '":1}'),
        choice(finish="tool_calls"),
    ) == [
        CallOpened(index=0, name="weather"),
        CallOpened(index=1, name="clock"),
        CallChunk(index=1, text="{"),
        CallChunk(index=0, text='{"c'),
        CallChunk(index=1, text="}"),
        CallChunk(index=0, text='":1}'),
        Finished(reason="tool-calls"),
    ]


def test_whole_calls_under_one_number_are_told_apart_by_their_ids() -> None:
    opened = [
        CallOpened(index=0, name="weather"),
        CallChunk(index=0, text="{}"),
        CallOpened(index=1, name="weather"),
        CallChunk(index=1, text="{}"),
    ]
    for index in (0, None):
        assert parts_of(call_delta(index, "weather", "{}", "a"), call_delta(index, "weather", "{}", "b")) == opened


def test_the_call_of_old() -> None:
    assert parts_of(
        choice({"function_call": {"name": "clock", "arguments": ""}}),
        choice({"function_call": {"arguments": "{}"}}),
        choice(finish="function_call"),
    ) == [CallOpened(index=0, name="clock"), CallChunk(index=0, text="{}"), Finished(reason="tool-calls")]


def test_arguments_are_passed_on_as_sent_but_for_broken_text() -> None:
    sent = '{"a": 1,,\t "b'
    assert parts_of(call_delta(0, "clock", sent, "a"))[1] == CallChunk(index=0, text=sent)
    halves = [call_delta(0, "clock", "\ud83d"), call_delta(0, None, "\ude00"), call_delta(0, None, "\ud800")]
    assert parts_of(*halves)[1:] == [CallChunk(index=0, text="😀"), CallChunk(index=0, text="\ufffd")]


def test_a_character_cut_in_two_is_put_together_again() -> None:
    assert parts_of(
        '{"choices":[{"delta":{"content":"a\\ud83d"}}]}', '{"choices":[{"delta":{"content":"\\ude00"}}]}'
    ) == [
        TextChunk(text="a"),
        TextChunk(text="😀"),
    ]


@pytest.mark.parametrize("reason", FINISH_REASONS)
def test_finish_reasons(reason: str) -> None:
    assert parts_of(choice({"content": "x"}, reason))[-1] == Finished(reason=FINISH_REASONS[reason])


def test_a_refusal_is_text_that_ends_filtered() -> None:
    assert parts_of(choice({"refusal": "No."}), choice(finish="stop")) == [
        TextChunk(text="No."),
        Finished(reason="content-filter"),
    ]


def test_without_a_finish_reason_there_is_no_end() -> None:
    assert parts_of(choice({"content": "x"})) == [TextChunk(text="x")]
    assert parts_of(choice({"content": "x"}, "")) == [TextChunk(text="x")]


@pytest.mark.parametrize(
    ("chunks", "problem"),
    [
        (["{"], "an event that is not JSON"),
        (["[" * 100_000], "an event that is not JSON"),
        (["[1]"], "an event that is no JSON object"),
        ([{"choices": 5}], "choices is no list"),
        ([{"choices": [5]}], "a choice is no object"),
        ([{"choices": [{"delta": 5}]}], "a delta is no object"),
        ([choice({"content": ["x"]})], "content of a delta is no text"),
        ([choice({"tool_calls": {"x": 1}})], "tool_calls is no list"),
        ([choice({"tool_calls": [5]})], "a tool call is no object"),
        ([choice({"function_call": 5})], "function_call is no object"),
        ([call_delta(0, None, "{}")], "arguments of a tool call that has no name"),
        ([call_delta(0, "a", "", "x"), call_delta(0, "b", "", "x")], "a tool call changes its name"),
        ([choice({"tool_calls": [{"function": {"name": 5}}]})], "name of a tool call is no text"),
        (
            [choice({"tool_calls": [{"function": {"name": "a", "arguments": {}}}]})],
            "arguments of a tool call is no text",
        ),
        ([choice(finish="eaten by a grue")], "a finish reason that is not known"),
        ([choice(finish="stop"), choice(finish="length")], "two different finish reasons"),
        ([call_delta(number, "a", "", str(number)) for number in range(3)], "more than 2 tool calls"),
    ],
)
def test_what_no_chunk_can_be(chunks: list[object], problem: str) -> None:
    with pytest.raises(MalformedResponse, match=problem):
        parts_of(*chunks, limits=Limits(calls=2))


def test_an_error_inside_the_stream() -> None:
    with pytest.raises(ModelUnavailable) as raised:
        parts_of({"error": {"message": "secret", "code": 503}})
    assert raised.value.reason == "overloaded"
    assert "secret" not in str(raised.value)
    with pytest.raises(ModelRefused):
        parts_of({"object": "error", "message": "secret", "code": 400})
    with pytest.raises(ModelUnavailable):
        parts_of(choice(finish="insufficient_system_resource"))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "index",
                    "delta",
                    "finish_reason",
                    "content",
                    "tool_calls",
                    "function",
                    "name",
                    "arguments",
                    "id",
                    "usage",
                    "prompt_tokens",
                    "completion_tokens",
                    "reasoning",
                    "refusal",
                    "function_call",
                    "error",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.lists(json_values, max_size=4))
def test_no_chunk_whatever_crashes_the_reader(values: list[Any]) -> None:
    reader = ChunkReader("m", Limits())
    for value in values:
        for wrapped in (value, {"choices": [{"index": 0, "delta": value}]}):
            try:
                parts = reader.read(json.dumps(wrapped))
            except (MalformedResponse, ModelUnavailable, ModelRefused):
                return
            for part in parts:
                if isinstance(part, UsageReport):
                    assert part.usage.problem() is None
    reader.finish()


# --- usage ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("figures", "usage"),
    [
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 5,
                "total_tokens": 15,
                "prompt_tokens_details": {"cached_tokens": 4},
                "completion_tokens_details": {"reasoning_tokens": 2},
            },
            Usage(input_tokens=10, output_tokens=5, cache_read_tokens=4, reasoning_tokens=2),
        ),
        ({"prompt_tokens": 10, "completion_tokens": 0}, Usage(input_tokens=10)),
        ({"prompt_tokens": 10}, Usage(input_tokens=10, at_least=True)),
        ({"completion_tokens": 5, "prompt_tokens": -1}, Usage(output_tokens=5, at_least=True)),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 5,
                "prompt_cache_hit_tokens": 3,
                "cache_creation_input_tokens": 2,
            },
            Usage(input_tokens=10, output_tokens=5, cache_read_tokens=3, cache_write_tokens=2),
        ),
        # Reasoning counted beside the output, as the total says.
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 5,
                "total_tokens": 18,
                "completion_tokens_details": {"reasoning_tokens": 3},
            },
            Usage(input_tokens=10, output_tokens=8, reasoning_tokens=3),
        ),
        # A part larger than its whole was counted beside it.
        (
            {"prompt_tokens": 10, "completion_tokens": 5, "completion_tokens_details": {"reasoning_tokens": 9}},
            Usage(input_tokens=10, output_tokens=14, reasoning_tokens=9),
        ),
        (
            {"prompt_tokens": 1, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 90}},
            Usage(input_tokens=91, output_tokens=5, cache_read_tokens=90),
        ),
        ({"prompt_tokens": "10", "completion_tokens": True}, None),
        ({"prompt_tokens": 2**70, "completion_tokens": 1.5}, None),
        ({}, None),
    ],
)
def test_usage(figures: dict[str, Any], usage: Usage | None) -> None:
    assert read_usage(figures) == usage


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "prompt_tokens": json_values | st.integers(0, 50),
            "completion_tokens": json_values | st.integers(0, 50),
            "total_tokens": json_values | st.integers(0, 50),
            "prompt_cache_hit_tokens": json_values | st.integers(0, 50),
            "prompt_tokens_details": st.fixed_dictionaries({"cached_tokens": st.integers(-5, 99)}) | json_values,
            "completion_tokens_details": st.fixed_dictionaries({"reasoning_tokens": st.integers(-5, 99)}) | json_values,
        },
    )
)
def test_usage_is_possible_whatever_is_claimed(figures: dict[str, Any]) -> None:
    usage = read_usage(figures)
    if usage is not None:
        assert usage.problem() is None
        assert add_usage(usage, usage).problem() is None
