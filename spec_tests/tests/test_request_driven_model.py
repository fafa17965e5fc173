"""The request-driven model: which tools it calls, and when it calls none."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.request_samples import ADD, LIST, answer, ask, called, ended, results_of, said
from triolet.adapters.request_driven_model.call_lines import calls_in
from triolet.ports.identity import CallId
from triolet.ports.language_model import (
    ModelRefused,
    OneTool,
    ToolChoice,
    ToolDeclaration,
)
from triolet.ports.messages import (
    AssistantMessage,
    CallDefect,
    Message,
    ToolCall,
    user_text,
)
from triolet.ports.strict_json import JsonText

# --- calling ------------------------------------------------------------------------------------------


async def test_lines_are_turns_and_a_line_is_a_call_batch() -> None:
    batches, final = await ended(
        [user_text('First call add {"a":1, "b":2} and call list.\nThank you.\nThen call list {"of": "call add"}!')]
    )
    assert batches == [(("add", '{"a":1, "b":2}'), ("list", "{}")), (("list", '{"of": "call add"}'),)]
    assert final.report["results"] == ['{"a":1, "b":2}', "{}", '{"of": "call add"}']


@pytest.mark.parametrize(
    ("line", "calls"),
    [
        ("nothing to do", []),
        ("recall add {}", []),
        ("call  add", [("add", "{}")]),
        ("call add,", [("add", "{}")]),
        ('call add{"a":{"b":"}"}} call list', [("add", '{"a":{"b":"}"}}'), ("list", "{}")]),
        ('call add {"a": 1', [("add", '{"a": 1')]),
        ('call add {broken} call list {"x":1}', [("add", '{broken} call list {"x":1}')]),
        ('call add {"a":NaN}', [("add", '{"a":NaN}')]),
        ("call add " + '{"a":' * 20_000, [("add", '{"a":' * 20_000)]),
        ("call 7up {}", []),
    ],
)
def test_the_syntax_of_calls(line: str, calls: list[tuple[str, str]]) -> None:
    assert list(calls_in(line)) == calls


async def test_tools_that_are_not_offered_are_ignored() -> None:
    batches, final = await ended([user_text("call gone {}\ncall add {} call gone {}\ncall gone {}\ncall list {}")])
    assert batches == [(("add", "{}"),), (("list", "{}"),)]
    assert final.report["tools"] == ["add", "list"]
    assert (await ended([user_text("call add {}")], tools=()))[0] == []


async def test_what_is_offered_may_change_between_turns() -> None:
    text = user_text("call add {}\ncall list {}\ncall add {}")
    history: list[Message] = [text, *called(("add", "{}"))]
    assert (await answer(ask(history, tools=(LIST,)))).calls == (("list", "{}"),)
    assert (await answer(ask(history, tools=(ADD,)))).calls == (("add", "{}"),)
    assert (await answer(ask(history, tools=()))).calls == ()
    # Behind the last line that was called nothing is open, whatever was skipped before it.
    assert (await answer(ask([text, *called(("list", "{}"))]))).calls == (("add", "{}"),)


async def test_only_lines_since_the_last_final_answer_are_open() -> None:
    history: list[Message] = [
        user_text("call add {}\ncall list {}"),
        *called(("add", "{}")),
        said("done"),
        user_text("thanks"),
    ]
    assert (await answer(ask(history))).calls == ()
    assert (await answer(ask([*history, user_text("call add {}")]))).calls == (("add", "{}"),)


async def test_steering_adds_lines_to_the_end() -> None:
    history: list[Message] = [
        user_text("call add {}\ncall list {}"),
        *called(("add", "{}")),
        user_text('also call add {"a":2}'),
    ]
    assert (await answer(ask(history))).calls == (("list", "{}"),)
    history += called(("list", "{}"), turn=2)
    assert (await answer(ask(history))).calls == (("add", '{"a":2}'),)


async def test_a_defective_call_counts_as_made() -> None:
    [asked] = (await answer(ask('call add {"a": 1'))).calls
    assert asked == ("add", '{"a": 1')
    defect = CallDefect(reason="not-json", raw='{"a"')
    call = ToolCall(id=CallId("run1-1-0"), name="add", arguments=JsonText("{}"), defect=defect)
    history: list[Message] = [
        user_text('call add {"a": 1'),
        AssistantMessage(text="", reasoning="", calls=(call,)),
        results_of([call]),
    ]
    assert (await answer(ask(history))).calls == ()


async def test_calls_that_nobody_asked_for_close_no_line() -> None:
    history: list[Message] = [user_text("call add {}"), *called(("list", "{}"))]
    assert (await answer(ask(history))).calls == (("add", "{}"),)


# --- tool_choice --------------------------------------------------------------------------------------


async def test_no_call_is_made_where_none_is_allowed() -> None:
    got = await answer(ask("call add {}", choice="none"))
    assert got.calls == ()
    assert got.report["tools"] == ["add", "list"]


async def test_a_chosen_tool_is_called_alone() -> None:
    text = 'call list {} call add {"a":1}\ncall add {"a":2}'
    assert (await answer(ask(text, choice=OneTool(name="add")))).calls == (("add", '{"a":1}'),)
    assert (await answer(ask("hello", choice=OneTool(name="add")))).calls == (("add", '{"a":0,"b":3}'),)
    assert (await answer(ask("call list {}", choice=OneTool(name="add")))).calls == (("add", '{"a":0,"b":3}'),)


async def test_a_required_call_is_made_up_if_need_be() -> None:
    assert (await answer(ask("call list {}", choice="required"))).calls == (("list", "{}"),)
    assert (await answer(ask("hello", choice="required"))).calls == (("add", '{"a":0,"b":3}'),)
    assert (await answer(ask("call gone {}", choice="required", tools=(LIST,)))).calls == (("list", "{}"),)


@pytest.mark.parametrize(
    ("choice", "tools", "problem"),
    [
        (OneTool(name="gone"), (ADD,), "the chosen tool is not offered"),
        ("required", (), "a call is required and no tool is offered"),
        ("auto", (ADD, ADD), "two tools of one name"),
    ],
)
async def test_an_impossible_choice_is_refused(
    choice: ToolChoice, tools: tuple[ToolDeclaration, ...], problem: str
) -> None:
    with pytest.raises(ModelRefused, match=problem) as raised:
        await answer(ask("hello", choice=choice, tools=tools))
    assert raised.value.reason == "bad-request"


# --- generated conversations --------------------------------------------------------------------------

NAMES = ("add", "list", "gone")
LINES = st.lists(
    st.lists(
        st.tuples(st.sampled_from(NAMES), st.dictionaries(st.sampled_from("ab"), st.integers(0, 3)).map(json.dumps)),
        max_size=4,
    ),
    max_size=5,
)


@given(LINES, st.sets(st.sampled_from(NAMES)))
async def test_generated_lines_are_called_once_in_order(lines: list[list[tuple[str, str]]], offered: set[str]) -> None:
    text = "\n".join(" and ".join(f"call {name} {arguments}" for name, arguments in line) for line in lines)
    tools = tuple(
        ToolDeclaration(name=name, description="", input_schema={"type": "object"}) for name in sorted(offered)
    )
    expected = [tuple(asked for asked in line if asked[0] in offered) for line in lines]
    batches, final = await ended([user_text(text)], tools=tools)
    wanted = [calls for calls in expected if calls]
    assert batches == wanted
    assert final.report["results"] == [arguments for calls in wanted for _, arguments in calls]


async def test_a_long_text_asks_for_many_calls() -> None:
    assert (await answer(ask("call add {}" * 100_000))).calls[99_999] == ("add", "{}")
