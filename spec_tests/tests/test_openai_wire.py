"""What an OpenAI-compatible server is sent: bodies, turns, and what a turn costs. No server here."""

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.chat_samples import CLOCK, OUTPUT, SCHEMA, WEATHER, asking, called, returned
from triolet.adapters.openai_compatible import WorkedCall, WorkedExample
from triolet.adapters.openai_compatible.fragments import Fragments
from triolet.adapters.openai_compatible.native import Native
from triolet.adapters.openai_compatible.turns import encoded_turns, example_turns, history_turns, system_text
from triolet.adapters.openai_compatible.wire import Bodies, BodyOptions, encode_message, wire_id
from triolet.ports.identity import CallId
from triolet.ports.language_model import (
    ModelRefused,
    ModelRequest,
    ModelSettings,
    OneTool,
    ToolChoice,
    ToolDeclaration,
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
from triolet.ports.outcomes import ToolRejected
from triolet.ports.strict_json import JsonText


def bodies(defaults: ModelSettings | None = None, extra: Mapping[str, Any] | None = None) -> Bodies:
    return Bodies(
        BodyOptions(model="m", defaults=defaults or ModelSettings(), extra=extra or {}, max_tokens_name="max_tokens")
    )


def native(request: ModelRequest, made: Bodies | None = None) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(Native(made or bodies(), cache_bytes=10_000, strict=False).body(request))
    return body


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
