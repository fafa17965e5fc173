"""The table of outcomes, row by row: what happened, and what it is called. TOOL-003."""

import math
import threading
from collections.abc import Sequence
from typing import Any, Final, cast, get_args

import attrs
import trio

from triolet.adapters.scripted_model import call, turn
from triolet.kernel import Policy, Tool, tool
from triolet.ports.outcomes import (
    Outcome,
    ToolDefect,
    ToolFailure,
    ToolInvalidInput,
    ToolSuccess,
    ToolUnknownOutcome,
    outcome_text,
)
from triolet.ports.strict_json import JsonText, JsonValue
from triolet.ports.tools import ExecutionClass
from triolet.spec_tests.cases.kernel.setting import Bench, KernelSubject, open_bench, text_agent, turns_pass
from triolet.spec_tests.claims import ensure, ensure_equal
from triolet.spec_tests.definition import case

_CLASSES: Final[tuple[ExecutionClass, ...]] = get_args(ExecutionClass)
_EFFECT: Final = {"readonly": False, "idempotent": True, "durable": True, "uncertain": True}


@attrs.define
class OutOfPaper(Exception):
    """A declared failure."""

    pages: int


@case("TOOL-003")
async def returning_and_declared_failures(subject: KernelSubject) -> None:
    """A declared output is a success, a declared failure is a failure with its fields."""

    @tool(failures=(OutOfPaper,))
    async def print_it(pages: int) -> int:
        if pages > 1:
            raise OutOfPaper(pages)
        return pages

    calls = [call("print_it", {"pages": pages}) for pages in (1, 2)]
    bench = await _run(subject, [print_it], calls)
    due = [
        ToolSuccess(output=JsonText("1")),
        ToolFailure(type="OutOfPaper", payload=JsonText('{"pages":2}')),
    ]
    ensure_equal(bench.outcomes, due, "the outcomes")


@case("TOOL-003")
async def an_unknown_tool_is_a_result(subject: KernelSubject) -> None:
    """A call to no tool is that call's invalid input, with near names, and siblings run."""

    @tool(execution="readonly")
    async def get_weather() -> str:
        return "sunny"

    bench = await _run(subject, [get_weather], [call("get_whether"), call("get_weather"), call("Get_Weather")])
    kinds = [each.reason if isinstance(each, ToolInvalidInput) else type(each).__name__ for each in bench.outcomes]
    ensure_equal(kinds, ["unknown-tool", "ToolSuccess", "unknown-tool"], "the outcomes")
    unknown = bench.outcomes[0]
    near = unknown.near if isinstance(unknown, ToolInvalidInput) else ()
    ensure_equal(near, ("get_weather",), "the names that are offered instead")
    text = outcome_text(unknown)
    ensure("get_weather" in text, "what the model reads does not offer the near name")
    ensure("denied" not in text and "approv" not in text, "what the model reads sounds like a denial")


@case("TOOL-003")
async def a_handler_that_breaks_is_a_defect(subject: KernelSubject) -> None:
    """An undeclared exception, and output that breaks its schema, are defects that say if an effect is possible."""
    tools = [*(_raising(execution) for execution in _CLASSES), *(_lying(execution) for execution in _CLASSES)]
    bench = await _run(subject, tools, [call(each.name) for each in tools])
    raised: list[Outcome] = [
        ToolDefect(reason="exception", type="KeyError", effect_possible=_EFFECT[execution]) for execution in _CLASSES
    ]
    ensure_equal(bench.outcomes[:4], raised, "the outcomes of handlers that raise")
    lied = [
        (each.reason, each.effect_possible) if isinstance(each, ToolDefect) else type(each).__name__
        for each in bench.outcomes[4:]
    ]
    due = [("output", _EFFECT[execution]) for execution in _CLASSES]
    ensure_equal(lied, due, "the outcomes of handlers whose output breaks its schema")


@case("TOOL-003")
async def running_out_of_time_depends_on_the_class(subject: KernelSubject) -> None:
    """A handler that outlives its time is a defect, or an unknown outcome if its effect is uncertain."""
    tools = [_hanging(execution) for execution in _CLASSES]
    bench = await _run(subject, tools, [call(each.name) for each in tools], policy=Policy(tool_seconds=0.05))
    ensure_equal(bench.outcomes, _stopped("timeout"), "the outcomes")


@case("TOOL-003")
async def being_cancelled_depends_on_the_class(subject: KernelSubject) -> None:
    """A handler that is cancelled is a defect, or an unknown outcome if its effect is uncertain."""
    began: list[str] = []
    tools = [_hanging(execution, began) for execution in _CLASSES]
    script = [turn(*(call(each.name) for each in tools))]
    async with open_bench(subject, script, text_agent(*tools)) as bench, trio.open_nursery() as nursery:
        nursery.start_soon(bench.run)
        await turns_pass(lambda: len(began) == len(tools), "the start of all handlers")
        nursery.cancel_scope.cancel()
    ensure_equal(bench.outcomes, _stopped("cancelled"), "the outcomes")


@case("TOOL-003")
async def what_never_started_had_no_effect(subject: KernelSubject) -> None:
    """A call that was cancelled before its handler started is a defect without an effect, whatever its class."""
    began: list[str] = []
    first = _hanging("readonly", began)
    waiting = [_hanging(execution) for execution in _CLASSES if execution != "readonly"]
    script = [turn(*(call(each.name) for each in (first, *waiting)))]
    agent = text_agent(first, *waiting, policy=Policy(concurrency=1))
    async with open_bench(subject, script, agent) as bench, trio.open_nursery() as nursery:
        nursery.start_soon(bench.run)
        await turns_pass(lambda: bool(began), "the start of the first handler")
        nursery.cancel_scope.cancel()
    due = ToolDefect(reason="cancelled", effect_possible=False)
    ensure_equal(bench.outcomes, [due] * 4, "the outcomes")


@case("TOOL-003")
async def output_that_is_no_json_is_that_calls_defect(subject: KernelSubject) -> None:
    """Values that strict JSON has no place for are a defect of their call, never of the run."""
    loop: list[object] = []
    loop.append(loop)
    values: list[Any] = [math.nan, -math.inf, b"bytes", {1, 2}, {1: "a"}, loop, object(), 2**60]

    @tool(execution="readonly")
    async def give(place: int) -> JsonValue:
        return cast("JsonValue", values[place])

    bench = await _run(subject, [give], [call("give", {"place": place}) for place in range(len(values))])
    kinds = [each.reason if isinstance(each, ToolDefect) else type(each).__name__ for each in bench.outcomes]
    ensure_equal(kinds, ["output"] * len(values), "the outcomes")


@case("TOOL-003")
async def broken_text_is_made_whole(subject: KernelSubject) -> None:
    """Text with half a character or a NUL in it is a success whose bad characters are replaced."""

    @tool(execution="readonly")
    async def give() -> str:
        return "a\ud800b\0c"

    bench = await _run(subject, [give], [call("give")])
    ensure_equal(bench.outcomes, [ToolSuccess(output=JsonText('"a\ufffdb\ufffdc"'))], "the outcomes")


@case("TOOL-003")
async def a_plain_function_blocks_nobody(subject: KernelSubject) -> None:
    """A synchronous handler runs beside the event loop; when its time is up, a late value changes nothing."""
    release = threading.Event()
    began = threading.Event()

    @tool
    def block() -> str:
        began.set()
        release.wait(2)
        return "too late"

    agent = text_agent(block, policy=Policy(tool_seconds=0.05))
    try:
        async with open_bench(subject, [turn(call("block")), turn("done")], agent) as bench:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(bench.run)
                for _ in range(2_000):
                    # Never idle, so that no clock jumps before the thread is there.
                    await trio.lowlevel.checkpoint()
                    if began.wait(0.001):
                        break
            before = len(bench.records)
            release.set()
            for _ in range(50):
                await trio.lowlevel.checkpoint()
            ensure_equal(bench.outcomes, [ToolUnknownOutcome(reason="timeout")], "the outcomes")
            ensure_equal(len(bench.records), before, "records after a late value arrived")
    finally:
        release.set()
    ensure(began.is_set(), "a synchronous handler never started")


async def _run(
    subject: KernelSubject, tools: Sequence[Tool[Any, Any]], calls: Sequence[Any], policy: Policy | None = None
) -> Bench:
    async with open_bench(subject, [turn(*calls), turn("done")], text_agent(*tools, policy=policy)) as bench:
        result = await bench.run()
    ensure_equal(result.output, "done", "the run's answer")
    return bench


def _stopped(reason: Any) -> list[Outcome]:
    return [
        ToolUnknownOutcome(reason=reason)
        if execution == "uncertain"
        else ToolDefect(reason=reason, effect_possible=_EFFECT[execution])
        for execution in _CLASSES
    ]


def _hanging(execution: ExecutionClass, began: list[str] | None = None) -> Tool[Any, Any]:
    @tool(name=f"hang_{execution}", execution=execution)
    async def hang() -> str:
        if began is not None:
            began.append(execution)
        await trio.sleep_forever()
        return ""

    return hang


def _raising(execution: ExecutionClass) -> Tool[Any, Any]:
    @tool(name=f"raise_{execution}", execution=execution)
    async def raises() -> str:
        raise KeyError("key")

    return raises


def _lying(execution: ExecutionClass) -> Tool[Any, Any]:
    @tool(name=f"lie_{execution}", execution=execution)
    async def lies() -> int:
        return "no number"  # type: ignore[return-value]  # the very fault that the case is about

    return lies


OUTCOMES = (
    returning_and_declared_failures,
    an_unknown_tool_is_a_result,
    a_handler_that_breaks_is_a_defect,
    running_out_of_time_depends_on_the_class,
    being_cancelled_depends_on_the_class,
    what_never_started_had_no_effect,
    output_that_is_no_json_is_that_calls_defect,
    broken_text_is_made_whole,
    a_plain_function_blocks_nobody,
)
