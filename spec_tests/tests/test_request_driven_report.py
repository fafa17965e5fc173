"""The request-driven model: what its final answers report, and the requests that it refuses."""

import json

import attrs
import pytest

from tests.request_samples import ADD, LIST, OUTPUT, answer, ask, called, results_of, said
from triolet.adapters.request_driven_model import (
    RequestDrivenModel,
    history_problem,
    instructions_digest,
    what_was_shown,
)
from triolet.ports.identity import CallId, RunId
from triolet.ports.language_model import (
    ModelRefused,
    ModelRequest,
    ModelSettings,
    OutputSchema,
)
from triolet.ports.messages import (
    AssistantMessage,
    Media,
    Message,
    Text,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
    user_text,
)
from triolet.ports.outcomes import ToolRejected, outcome_text
from triolet.ports.strict_json import JsonText

# --- the report ---------------------------------------------------------------------------------------


async def test_the_answer_reports_what_was_shown() -> None:
    rejected = ToolRejected(reason="denied", detail="no")
    call = ToolCall(id=CallId("run1-1-0"), name="add", arguments=JsonText("{}"))
    history: list[Message] = [
        UserMessage(parts=(Text(text="one"), Media(media_type="image/png", base64="AAAA"), Text(text="two"))),
        AssistantMessage(text="", reasoning="", calls=(call,)),
        ToolMessage(results=(ToolResult(call=call.id, name="add", outcome=rejected),)),
        said("fine"),
        user_text("three"),
    ]
    request = ask(history, tools=(LIST, ADD), instructions="Be kind.")
    got = await answer(request)
    assert got.finish == "stop"
    assert got.reasoning == ""
    assert got.report == what_was_shown(request)
    assert got.report == {
        "instructions": instructions_digest("Be kind."),
        "messages": 5,
        "output": None,
        "results": [outcome_text(rejected)],
        "tools": ["list", "add"],
        "users": ["one\ntwo", "three"],
    }


CHANGES: list[ModelRequest] = [
    ask("hello!"),
    ask("hello", instructions="Be brief"),
    ask("hello", tools=(ADD,)),
    ask("hello", tools=(LIST, ADD)),
    ask("hello", tools=()),
    ask([user_text("hello"), said("hi"), user_text("hello")]),
    ask([user_text("hello"), *called(("add", "{}"))]),
    ask("hello", output=OUTPUT),
]


@pytest.mark.parametrize("changed", CHANGES)
async def test_every_change_of_what_is_shown_changes_the_answer(changed: ModelRequest) -> None:
    assert await answer(changed) != await answer(ask("hello"))


async def test_nothing_that_a_provider_would_not_see_changes_the_answer() -> None:
    request = ask("hello call add {}")
    other = attrs.evolve(request, run=RunId("run9"), turn=7, attempt=3, settings=ModelSettings(temperature=1.0, seed=4))
    assert await answer(other) == await answer(request)


async def test_an_output_schema_dictates_the_text_and_the_report_becomes_the_reasoning() -> None:
    request = ask("hello", output=OUTPUT)
    got = await answer(request)
    assert got.text == '{"a":0,"b":3}'
    assert json.loads(got.reasoning) == what_was_shown(request)
    assert json.loads(got.reasoning)["output"] == "Count"
    assert (await answer(ask("call add {}", output=OUTPUT))).calls == (("add", "{}"),)


async def test_an_output_schema_without_a_value_is_refused() -> None:
    endless = OutputSchema(
        name="Endless",
        schema={
            "$defs": {"N": {"type": "object", "required": ["n"], "properties": {"n": {"$ref": "#/$defs/N"}}}},
            "$ref": "#/$defs/N",
        },
    )
    with pytest.raises(ModelRefused, match="no value can be derived"):
        await answer(ask("hello", output=endless))


async def test_usage_grows_with_what_is_shown() -> None:
    small, large = (await answer(ask("hello"))).usage, (await answer(ask("hello" * 100))).usage
    assert large.input_tokens - small.input_tokens == pytest.approx(99 * 5 / 4, abs=1)
    assert small.problem() is None
    assert small.output_tokens > 0


async def test_nothing_is_kept_between_requests() -> None:
    request = ask("call add {}\ncall list {}")
    assert [await answer(request) for _ in range(3)] == [await answer(request)] * 3
    assert not hasattr(RequestDrivenModel(), "__dict__")


# --- histories that no provider accepts ---------------------------------------------------------------

CALL_A = ToolCall(id=CallId("a"), name="add", arguments=JsonText("{}"))
CALL_B = ToolCall(id=CallId("b"), name="list", arguments=JsonText("{}"))
BOTH = AssistantMessage(text="", reasoning="", calls=(CALL_A, CALL_B))
HELLO = user_text("hello")


@pytest.mark.parametrize(
    ("history", "problem"),
    [
        ([], "there is nothing to answer"),
        ([HELLO, said("hi")], "there is nothing to answer"),
        ([HELLO, BOTH], "the last calls have no results"),
        ([HELLO, BOTH, HELLO], "message 2: calls before it have no results"),
        ([HELLO, BOTH, said("hi"), HELLO], "message 2: calls before it have no results"),
        ([HELLO, BOTH, results_of([CALL_A])], "message 2: the results are not those"),
        ([HELLO, BOTH, results_of([CALL_B, CALL_A])], "message 2: the results are not those"),
        ([HELLO, BOTH, results_of([CALL_A, CALL_B, CALL_B])], "message 2: the results are not those"),
        ([HELLO, BOTH, results_of([CALL_A, attrs.evolve(CALL_B, name="add")])], "message 2: the results"),
        ([HELLO, BOTH, results_of([CALL_A, CALL_B]), results_of([CALL_A, CALL_B])], "message 3: the results"),
        ([results_of([CALL_A])], "message 0: the results"),
        ([HELLO, ToolMessage(results=())], "message 1: the results"),
        ([HELLO, attrs.evolve(BOTH, calls=(CALL_A, CALL_A)), results_of([CALL_A, CALL_A])], "twice"),
        ([HELLO, *[BOTH, results_of([CALL_A, CALL_B])] * 2], "message 3: a call identity is there twice"),
    ],
)
async def test_an_invalid_history_is_refused(history: list[Message], problem: str) -> None:
    assert problem in str(history_problem(history))
    with pytest.raises(ModelRefused, match=problem):
        await answer(ask(history))


async def test_a_valid_history_is_answered() -> None:
    history: list[Message] = [HELLO, BOTH, results_of([CALL_A, CALL_B]), said("hi"), HELLO, HELLO]
    assert history_problem(history) is None
    assert (await answer(ask(history))).report["messages"] == 6
