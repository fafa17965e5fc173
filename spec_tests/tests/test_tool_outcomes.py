"""What becomes of a tool call: the one table of outcomes, whatever a model sends and whatever a handler does."""

import datetime as dt
import json
from collections.abc import Callable
from typing import Annotated, Any

import attrs
import pytest
import trio
import trio.testing

from tests.kernel_world import World, one_agent, talker
from tests.tool_outcome_of import SECRET, Full, outcome_of
from triolet.adapters.scripted_model import call, raw, turn
from triolet.kernel import Policy, ToolContext, tool
from triolet.kernel.machine.outcome_table import stopped
from triolet.ports.language_model import CallOpened, Finished
from triolet.ports.outcomes import (
    ToolDefect,
    ToolFailure,
    ToolInvalidInput,
    ToolSuccess,
    ToolUnknownOutcome,
    outcome_text,
)
from triolet.ports.schema import Ge
from triolet.ports.strict_json import JsonText, JsonValue
from triolet.ports.tools import ExecutionClass

RAN: list[Any] = []


CLASSES: tuple[ExecutionClass, ...] = ("readonly", "idempotent", "durable", "uncertain")


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    RAN.clear()


@tool(failures=[Full])
async def act(what: str, n: Annotated[int, Ge(0)] = 0) -> int:
    """Act."""
    RAN.append((what, n))
    match what:
        case "fail":
            raise Full(free=n, note=SECRET)
        case "subclass":
            raise Fuller(free=n, note=SECRET)
        case "bad failure":
            raise Full(free="none")  # type: ignore[arg-type]  # that is the point
        case "break":
            raise ValueError(SECRET)
        case "lie":
            return "text"  # type: ignore[return-value]  # that is the point
        case "group":
            raise ExceptionGroup(SECRET, [ValueError(SECRET)])
        case "stop":
            raise StopIteration(SECRET)
        case _:
            return n


@attrs.define(kw_only=True)
class Fuller(Full):
    """Not declared itself."""


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("work", "success"),
        ("fail", "failure"),
        ("subclass", "failure"),
        ("bad failure", "defect"),
        ("break", "defect"),
        ("lie", "defect"),
        ("group", "defect"),
        ("stop", "defect"),
    ],
)
async def test_a_handlers_ending_becomes_its_outcome(
    world: World, autojump_clock: trio.testing.MockClock, what: str, expected: str
) -> None:
    outcome = await outcome_of(world, act, {"what": what, "n": 7})
    assert outcome.kind == expected
    match outcome:
        case ToolSuccess():
            assert outcome == ToolSuccess(output=JsonText("7"))
        case ToolFailure():
            assert (outcome.type, json.loads(outcome.payload)) == ("Full", {"free": 7, "note": SECRET})
        case ToolDefect():
            assert outcome.reason == ("output" if what == "lie" else "exception")
            assert outcome.effect_possible
            # A type and nothing else: neither a text nor a trace of one.
            assert SECRET not in str(outcome)
        case _:
            raise AssertionError(outcome)


@pytest.mark.parametrize("execution", CLASSES)
async def test_a_defect_says_whether_an_effect_is_possible(
    world: World, autojump_clock: trio.testing.MockClock, execution: ExecutionClass
) -> None:
    used = attrs.evolve(act, execution=execution)
    outcome = await outcome_of(world, used, {"what": "break"})
    assert outcome == ToolDefect(reason="exception", type="ValueError", effect_possible=execution != "readonly")


@pytest.mark.parametrize("execution", CLASSES)
async def test_a_timeout_after_the_start(
    world: World, autojump_clock: trio.testing.MockClock, execution: ExecutionClass
) -> None:
    @tool(timeout=3, execution=execution)
    async def wait() -> None:
        """Wait."""
        await trio.sleep_forever()

    outcome = await outcome_of(world, wait)
    assert trio.current_time() == 3
    assert outcome == (
        ToolUnknownOutcome(reason="timeout")
        if execution == "uncertain"
        else ToolDefect(reason="timeout", effect_possible=execution != "readonly")
    )


async def test_the_policys_time_holds_where_a_tool_has_none(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    seen: list[Any] = []

    @tool
    async def wait(context: ToolContext) -> None:
        """Wait."""
        seen.append(context.deadline)
        await trio.sleep_forever()

    outcome = await outcome_of(world, wait, policy=Policy(tool_seconds=11))
    assert trio.current_time() == 11
    assert seen == [world.clock.now()]
    assert outcome == ToolUnknownOutcome(reason="timeout")


@pytest.mark.parametrize("execution", [*CLASSES, None])
@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("why", ["cancelled", "timeout", "crashed"])
def test_the_table_of_stopped_calls(execution: ExecutionClass | None, started: bool, why: Any) -> None:
    outcome = stopped(why, execution, started=started)
    if started and execution == "uncertain":
        assert outcome == ToolUnknownOutcome(reason=why)
    else:
        assert isinstance(outcome, ToolDefect)
        assert outcome.effect_possible == (started and execution in ("idempotent", "durable"))


async def test_a_handler_that_ends_in_spite_of_its_deadline_has_its_result(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    @tool(timeout=3)
    async def finish() -> str:
        """Finish."""
        with trio.CancelScope(shield=True):
            await trio.sleep(10)
        return "finished"

    assert await outcome_of(world, finish) == ToolSuccess(output=JsonText('"finished"'))


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("{", "not-json"),
        ('{"what": "a', "not-json"),
        ('{"what": NaN}', "not-json"),
        ('{"what": "a", "what": "b"}', "not-json"),
        ('{"what": "\\ud800"}', "not-json"),
        ('{"what": "a", "n": 9007199254740992}', "not-json"),
        ("[" * 10_000 + "]" * 10_000, "not-json"),
        ('{"what": ' * 10_000 + '"a"' + "}" * 10_000, "not-json"),
        ("[]", "not-object"),
        ("null", "not-object"),
        ("{}", "schema"),
        ("", "schema"),
        ('{"what": 5}', "schema"),
        ('{"what": "a", "n": "5"}', "schema"),
        ('{"what": "a", "n": 5.0}', "schema"),
        ('{"what": "a", "n": true}', "schema"),
        ('{"what": "a", "n": null}', "schema"),
        ('{"what": "a", "n": -1}', "schema"),
        ('{"what": "a", "extra": 1}', "schema"),
        ('{"what": ' + "[" * 120 + "]" * 120 + "}", "schema"),
        (json.dumps({"k" * 1_000_000: 1}), "schema"),
        (json.dumps({"what": "a", "\0\x1b": 1}), "schema"),
    ],
    ids=range(22),
)
async def test_arguments_that_are_wrong_never_reach_the_handler(
    world: World, autojump_clock: trio.testing.MockClock, arguments: str, reason: str
) -> None:
    outcome = await outcome_of(world, act, arguments)
    assert isinstance(outcome, ToolInvalidInput)
    assert outcome.reason == reason
    assert RAN == []
    # The model is told where, in bounds and in clean text, and never its own value again.
    assert len(outcome_text(outcome)) < 2_000
    assert "\0" not in outcome.detail


async def test_the_place_of_a_wrong_argument_is_named(world: World, autojump_clock: trio.testing.MockClock) -> None:
    outcome = await outcome_of(world, act, {"what": SECRET, "n": -5})
    assert "/n" in outcome_text(outcome)
    assert SECRET not in outcome_text(outcome)


async def test_f_005_an_unknown_tool_names_its_neighbours_and_its_siblings_run(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    others = [attrs.evolve(act, name=name) for name in ("list_files", "read_file", "count_words", "search")]
    agent = talker(act, *others)
    calls = turn(call("read_fiel", {"what": "x"}), call("act", {"what": "work"}))
    async with one_agent(world, agent, calls, turn("Done.")) as (kernel, _):
        await kernel.run(agent, "go")
    unknown, known = world.outcomes()
    assert isinstance(unknown, ToolInvalidInput)
    assert unknown.reason == "unknown-tool"
    assert unknown.near[0] == "read_file"
    assert "search" not in unknown.near
    told = outcome_text(unknown)
    assert "no tool named 'read_fiel'" in told
    assert not any(word in told.lower() for word in ("approv", "permission", "denied"))
    assert isinstance(known, ToolSuccess)


@pytest.mark.parametrize("name", ["", "x" * 100_000, "\ud800", "a\0b", "Act", " act", "act\n", "\u0430ct"])
async def test_a_name_that_is_no_tools_is_an_ordinary_result(
    world: World, autojump_clock: trio.testing.MockClock, name: str
) -> None:
    agent = talker(act)
    strange = raw(CallOpened(index=0, name=name), Finished(reason="tool-calls"))
    async with one_agent(world, agent, strange, turn("Done.")) as (kernel, _):
        result = await kernel.run(agent, "go")
    assert result.output == "Done."
    [outcome] = world.outcomes()
    assert isinstance(outcome, ToolInvalidInput)
    assert (outcome.reason, outcome.near) == ("unknown-tool", ("act",))
    assert len(outcome.detail) < 500


async def test_ten_megabytes_of_arguments_that_fit_a_response_are_judged_like_any(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    assert isinstance(await outcome_of(world, act, {"what": "x" * 2_000_000}), ToolSuccess)
    assert len(RAN[0][0]) == 2_000_000


@attrs.frozen
class Node:
    name: str


def _cycle() -> Any:
    looped: list[Any] = []
    looped.append(looped)
    return looped


def _double_cycle() -> Any:
    looped: list[Any] = []
    looped.extend([looped, {"again": looped}])
    return looped


def _deep() -> Any:
    nested: Any = 1
    for _ in range(10_000):
        nested = [nested]
    return nested


BAD_VALUES: dict[str, Callable[[], Any]] = {
    "NaN": lambda: float("nan"),
    "minus infinity": lambda: float("-inf"),
    "NaN inside": lambda: {"a": [1, float("nan")]},
    "bytes": lambda: b"bytes",
    "a set": lambda: {1, 2},
    "a date": lambda: dt.date(2024, 1, 1),
    "itself": _cycle,
    "itself twice": _double_cycle,
    "too deep": _deep,
    "keys of another type": lambda: {1: "one"},
    "2^53": lambda: 2**53,
    "10^40 inside": lambda: [10**40],
    "a tuple": lambda: (1, 2),
    "an object": object,
    "an attrs value": lambda: Node("x"),
    "a class": lambda: Node,
    "a coroutine function": lambda: trio.sleep,
    "an exception": lambda: ValueError(SECRET),
}


@pytest.mark.parametrize("name", BAD_VALUES)
async def test_f_006_a_value_that_is_no_json_is_that_calls_defect(
    world: World, autojump_clock: trio.testing.MockClock, name: str
) -> None:
    @tool
    async def give() -> JsonValue:
        """Give."""
        return BAD_VALUES[name]()  # type: ignore[no-any-return]

    outcome = await outcome_of(world, give)
    assert isinstance(outcome, ToolDefect)
    assert (outcome.reason, outcome.effect_possible) == ("output", True)


@pytest.mark.parametrize("value", ["a\ud800b", {"k\ud800": 1}, ["x\0y"], {"deep": [{"a\0": "\udfff"}]}])
async def test_broken_text_of_a_handler_is_repaired_and_its_result_kept(
    world: World, autojump_clock: trio.testing.MockClock, value: Any
) -> None:
    @tool
    async def give() -> JsonValue:
        """Give."""
        return value  # type: ignore[no-any-return]

    outcome = await outcome_of(world, give)
    assert isinstance(outcome, ToolSuccess)
    assert "\ufffd" in outcome.output
    assert "\\u0000" not in outcome.output


@pytest.mark.parametrize("value", [Node("wrong class"), {"name": "x"}, None, Node(name=5)])  # type: ignore[arg-type]
async def test_an_output_that_breaks_its_schema_is_a_defect(
    world: World, autojump_clock: trio.testing.MockClock, value: Any
) -> None:
    @attrs.frozen
    class Other:
        name: str

    @tool
    async def give() -> Node:
        """Give."""
        return Other("wrong class") if value == Node("wrong class") else value  # type: ignore[return-value]

    outcome = await outcome_of(world, give)
    assert isinstance(outcome, ToolDefect)
    assert outcome.reason == "output"
