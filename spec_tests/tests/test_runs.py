"""Runs: one interpreter whether observed or not, structured answers, their correction, and the grace turn."""

from collections.abc import Callable
from typing import Annotated, Any

import attrs
import pytest
import trio.testing

from tests.kernel_world import START, World, one_agent, script, shown_outcomes, talker
from triolet.adapters.request_driven_model import RequestDrivenModel
from triolet.adapters.scripted_model import Turn, call, reasoning, text, turn
from triolet.kernel import (
    Agent,
    Completed,
    Failed,
    OutputInvalidError,
    Policy,
    RetryPolicy,
    Toolkit,
    tool,
)
from triolet.ports.errors import BrokenText, InvalidValue
from triolet.ports.events import Event, RunSuspended, SemanticEvent, TerminalEvent
from triolet.ports.language_model import ModelRequest, ModelUnavailable
from triolet.ports.messages import Text, UserMessage
from triolet.ports.records import InputTaken, ModelResponded, RunStarted
from triolet.ports.schema import Ge


@attrs.frozen(kw_only=True)
class Question:
    text: str
    limit: Annotated[int, Ge(1)] = 3


@attrs.frozen(kw_only=True)
class Answer:
    words: Annotated[int, Ge(0)]
    sure: bool = True


@tool(execution="readonly")
async def count(text: str) -> int:
    """Count words."""
    return len(text.split())


@tool
async def fail() -> int:
    """Fail."""
    raise ValueError


def asker(**fields: Any) -> Agent[Question, Answer]:
    """An agent with a schema on both sides."""
    given: dict[str, Any] = {
        "id": "asker",
        "input": Question,
        "output": Answer,
        "toolkit": Toolkit([count, fail]),
        "policy": Policy(retry=RetryPolicy(tries=1)),
        **fields,
    }
    return Agent(**given)


QUESTION = Question(text="how many?")
COUNTS = turn(call("count", {"text": "a b c"}), call("count", {"text": 5}), call("fail"), reasoning("hm"))
SCRIPTS: dict[str, tuple[Turn, ...]] = {
    "an answer": (turn(text('{"words": 3}', chunks=4)),),
    "tools, then an answer": (COUNTS, turn('{"words": 3, "sure": false}')),
    "a correction": (turn("three"), COUNTS, turn('{"words": "3"}'), turn('{"words": 3}')),
    "no valid answer": tuple(turn("three") for _ in range(11)),
    "a model that fails": (COUNTS, turn("x", "y").failing(ModelUnavailable(model="m", reason="overloaded"), after=1)),
    "a malformed response": (COUNTS, turn(call("count", "{}"), finish="stop").cut()),
    "a cut response": (turn(call("count", '{"text": "a'), finish="length"), turn('{"words": 0}')),
}


# --- RUN-001 ------------------------------------------------------------------------------------------


async def _observed(world: World, agent: Agent[Any, Any], *turns: Turn) -> tuple[Any, list[Event]]:
    async with one_agent(world, agent, *turns) as (kernel, _), kernel.stream(agent, QUESTION) as handle:
        events = [event async for event in handle]
        return await handle.result(), events


@pytest.mark.parametrize("name", SCRIPTS)
async def test_run_and_stream_are_one_interpreter(
    world: World, autojump_clock: trio.testing.MockClock, name: str
) -> None:
    agent = asker()
    streamed = World()
    async with one_agent(world, agent, *SCRIPTS[name]) as (kernel, _):
        result = await kernel.run(agent, QUESTION)
    observed, events = await _observed(streamed, agent, *SCRIPTS[name])
    # F-015: the same records in the same batches, and the result that they give.
    assert world.batches() == streamed.batches()
    assert attrs.asdict(result, recurse=False, filter=_no_error) == attrs.asdict(
        observed, recurse=False, filter=_no_error
    )
    assert type(result) is type(observed)
    if isinstance(result, Failed):
        assert isinstance(observed, Failed)
        assert (type(result.error), result.error.failure) == (type(observed.error), observed.error.failure)
    [terminal] = [event for event in events if isinstance(event, TerminalEvent)]
    assert events[-1] is terminal
    assert not isinstance(terminal, RunSuspended)
    assert terminal.settlement == world.settlement()
    # What observers see of the past is what the records say.
    shown = [event.kind for event in events if isinstance(event, SemanticEvent)]
    kinds = {
        "run_started": "run-began",
        "input_taken": "input-entered",
        "model_responded": "turn-ended",
        "model_interrupted": "turn-interrupted",
        "tool_settled": "call-ended",
        "budget_warned": "budget-nearly-used",
    }
    assert shown == [kinds[record.kind] for record in world.records() if record.kind in kinds]
    streamed.check()


def _no_error(attribute: Any, _: Any) -> bool:
    return bool(attribute.name != "error")


async def test_the_result_can_be_asked_for_again(world: World, autojump_clock: trio.testing.MockClock) -> None:
    agent = asker()
    async with one_agent(world, agent, *SCRIPTS["an answer"]) as (kernel, _), kernel.stream(agent, QUESTION) as handle:
        first = await handle.result()
        assert await handle.result() == first
        assert handle.run == "run1"
        assert handle.conversation == first.conversation
    assert await handle.result() == first


# --- structured answers -------------------------------------------------------------------------------


async def test_a_structured_answer_is_decoded_and_its_schema_is_in_every_request(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    agent = asker()
    async with one_agent(world, agent, *SCRIPTS["tools, then an answer"]) as (kernel, model):
        result = await kernel.run(agent, QUESTION)
    assert isinstance(result, Completed)
    assert result.output == Answer(words=3, sure=False)
    assert result.turns == 2
    assert result.usage.calls == 2
    assert world.settlement().output == '{"sure":false,"words":3}'
    for request in model.requests:
        assert request.output is not None
        assert request.output.schema == agent.output_codec.schema
    # RUN-028: outside the recorded history.
    assert "additionalProperties" not in str(world.records())


async def test_input_crosses_as_json_and_text_as_it_is(world: World, autojump_clock: trio.testing.MockClock) -> None:
    agent = asker()
    async with one_agent(world, agent, *SCRIPTS["an answer"]) as (kernel, model):
        await kernel.run(agent, QUESTION)
        assert model.requests[0].messages[0] == UserMessage(parts=(Text(text='{"limit":3,"text":"how many?"}'),))
    plain = talker()
    async with one_agent(World(), plain, turn("ok")) as (kernel, model):
        await kernel.run(plain, "{ as it is }\n")
        assert model.requests[0].messages[0] == UserMessage(parts=(Text(text="{ as it is }\n"),))
        assert model.requests[0].output is None


async def test_an_answer_that_does_not_decode_is_corrected_once_told(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    agent = asker()
    async with one_agent(world, agent, turn('{"words": -1}'), turn('{"words": 1}')) as (kernel, model):
        result = await kernel.run(agent, QUESTION)
    assert result.output == Answer(words=1)
    correction = world.of(InputTaken)[1]
    assert (correction.source, correction.author) == ("correction", "kernel")
    [told] = correction.parts
    assert isinstance(told, Text)
    assert "/words" in told.text
    # The rejected answer stays in the history, and the reason follows it.
    assert [type(message).__name__ for message in model.requests[1].messages] == [
        "UserMessage",
        "AssistantMessage",
        "UserMessage",
    ]


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "three",
        "{}",
        '{"words": 1.0}',
        '{"words": 9007199254740993}',
        '{"words": 1, "words": 2}',
        "[" * 10000,
        '{"words": 1, "extra": 0}',
        '{"words": NaN}',
        '```json\n{"words": 1}\n```',
        '"\\ud800"',
    ],
)
async def test_no_invalid_answer_becomes_success(
    world: World, autojump_clock: trio.testing.MockClock, bad: str
) -> None:
    agent = asker(policy=Policy(max_turns=1))
    async with one_agent(world, agent, turn(bad), turn(bad)) as (kernel, model):
        result = await kernel.run(agent, QUESTION)
    # One ordinary turn, one grace turn to say it right, and then the typed end.
    assert len(model.requests) == 2
    assert isinstance(result, Failed)
    assert isinstance(result.error, OutputInvalidError)
    assert result.error.failure.dimension == "turns"
    with pytest.raises(OutputInvalidError):
        result.output  # noqa: B018


async def test_the_grace_turn_may_give_the_right_answer(world: World, autojump_clock: trio.testing.MockClock) -> None:
    agent = asker(policy=Policy(max_turns=1))
    async with one_agent(world, agent, turn("three"), turn('{"words": 3}')) as (kernel, _):
        result = await kernel.run(agent, QUESTION)
    assert isinstance(result, Completed)
    assert (result.output, result.finish, result.exhausted) == (Answer(words=3), "budget-exhausted", "turns")


async def test_a_length_cut_answer_says_so(world: World, autojump_clock: trio.testing.MockClock) -> None:
    agent = talker()
    async with one_agent(world, agent, turn("Once upon", finish="length")) as (kernel, _):
        result = await kernel.run(agent, "tell")
    assert isinstance(result, Completed)
    assert (result.output, result.finish, result.exhausted) == ("Once upon", "length", None)


# --- the largest texts --------------------------------------------------------------------------------


@pytest.mark.parametrize("character", ["x", "\x01", "é", "語", "\U0001f600", '"', "\\"])
async def test_the_longest_answer_of_any_script_comes_back_whole(
    world: World, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch, character: str
) -> None:
    # Everything is a thousandth of what it is, in proportion: how text is spelt on disk is what matters.
    from triolet.kernel.machine import reduction
    from triolet.ports import batch, strict_json

    small = strict_json.JsonLimits(max_bytes=strict_json.DEFAULT_LIMITS.max_bytes // 1024)
    monkeypatch.setattr(strict_json.parse, "__defaults__", (small,))
    monkeypatch.setattr(
        batch, "BATCH_LIMITS", strict_json.JsonLimits(max_bytes=batch.BATCH_LIMITS.max_bytes // 1024, max_depth=32)
    )
    monkeypatch.setattr(reduction, "MAX_CHARACTERS", reduction.MAX_CHARACTERS // 1024)
    longest = character * reduction.MAX_CHARACTERS
    agent = talker(policy=Policy(max_turns=1))
    async with one_agent(world, agent, turn(longest)) as (kernel, _):
        result = await kernel.run(agent, "tell")
    assert result.output == longest


# --- what runs are told -------------------------------------------------------------------------------


async def _later(value: str) -> str:
    await trio.lowlevel.checkpoint()
    return f"Answer {value} later."


@pytest.mark.parametrize(
    ("instructions", "told"),
    [
        ("Be brief.", "Be brief."),
        (lambda value: f"Answer {value}.", "Answer hello."),
        (_later, "Answer hello later."),
    ],
)
async def test_instructions_are_rendered_once_and_recorded(
    world: World, autojump_clock: trio.testing.MockClock, instructions: Any, told: str
) -> None:
    calls: list[str] = []

    def counted(value: str) -> Any:
        calls.append(value)
        return instructions(value)

    agent = talker(count, instructions=counted if callable(instructions) else instructions)
    async with one_agent(world, agent, turn(call("count", {"text": "x"})), turn("done")) as (kernel, model):
        await kernel.run(agent, "hello")
    assert [request.instructions for request in model.requests] == [told, told]
    assert world.of(RunStarted)[0].instructions == told
    assert len(calls) == callable(instructions)


async def test_the_run_is_told_who_asks_and_until_when(world: World, autojump_clock: trio.testing.MockClock) -> None:
    agent = talker(policy=Policy(max_seconds=90))
    async with one_agent(world, agent, turn("ok")) as (kernel, _):
        await kernel.run(agent, "hello", author="Ada")
    [started] = world.of(RunStarted)
    assert started.deadline == START + 90_000_000
    assert started.principal.name == "anonymous"
    assert world.of(InputTaken)[0].author == "Ada"
    assert world.of(ModelResponded)[0].model == "scripted"


@pytest.mark.parametrize(
    ("agent", "value", "error"),
    [
        (talker(), 5, InvalidValue),
        (talker(), "a\ud800", BrokenText),
        (talker(), "a\0", BrokenText),
        (talker(), "x" * (4 * 1024 * 1024 + 1), InvalidValue),
        (talker(), "é" * (2 * 1024 * 1024 + 1), InvalidValue),
        (asker(), "text", InvalidValue),
        (asker(), Question(text="x", limit=0), InvalidValue),
        (asker(), Question(text="a\ud800"), InvalidValue),
        (asker(), Question(text="x", limit=2**53), InvalidValue),
        (asker(), Question(text=None), InvalidValue),  # type: ignore[arg-type]  # that is the point
    ],
)
async def test_bad_input_is_refused_and_leaves_no_trace(
    world: World, autojump_clock: trio.testing.MockClock, agent: Agent[Any, Any], value: object, error: type[Exception]
) -> None:
    model = script()
    async with world.kernel(agent, model=model) as kernel, kernel.conversation("c") as conversation:
        with pytest.raises(error) as caught:
            await conversation.run(agent, value)
        assert len(str(caught.value)) < 1_000
        with pytest.raises(error):
            async with conversation.stream(agent, value):
                raise AssertionError("a run that cannot begin has no handle")
    assert [record.kind for record in world.records("c")] == ["conversation_created"]
    assert not model.requests


# --- another model ------------------------------------------------------------------------------------


@pytest.mark.parametrize("structured", [False, True])
async def test_a_model_that_knows_only_the_request_runs_to_the_end(
    world: World, autojump_clock: trio.testing.MockClock, structured: bool
) -> None:
    agent: Agent[Any, Any] = asker() if structured else talker(count, fail)
    line = 'call count {"text": "a b c"}'
    value: Any = Question(text=line) if structured else line
    async with world.kernel(agent, model=RequestDrivenModel()) as kernel:
        result = await kernel.run(agent, value)
    assert isinstance(result, Completed)


Look = Callable[[ModelRequest], Turn]


async def test_the_next_request_shows_each_call_with_its_result(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    agent = talker(count, fail)
    async with one_agent(world, agent, COUNTS, turn("done")) as (kernel, model):
        await kernel.run(agent, "go")
    assert not shown_outcomes(model.requests[0])
    assert [outcome.kind for outcome in shown_outcomes(model.requests[1])] == ["success", "invalid-input", "defect"]
    assert [declaration.name for declaration in model.requests[1].tools] == ["count", "fail"]
