"""What the chunks and figures of an OpenAI-compatible server are read as. No server here."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triolet.adapters.openai_compatible.bounds import Limits
from triolet.adapters.openai_compatible.chunks import FINISH_REASONS, ChunkReader
from triolet.adapters.openai_compatible.usage import add_usage, read_usage
from triolet.ports.language_model import (
    CallChunk,
    CallOpened,
    Finished,
    MalformedResponse,
    ModelPart,
    ModelRefused,
    ModelUnavailable,
    ReasoningChunk,
    TextChunk,
    UsageReport,
)
from triolet.ports.usage import Usage


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
