"""Code Mode: what may be on its list, and what leaves a pass. CAP-014, CAP-016.

Programs are a substitute's: the cases are about what stands around a program, and the CodeExecutor's own suite is about
the cage.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

import attrs

from triolet.adapters.scripted_model import call, turn
from triolet.adapters.substitute_executor import Running, SubstituteExecutor, SubstituteProgram, Thrown
from triolet.kernel import NameCollision, code_mode, tool
from triolet.ports.errors import UnrenderableSchema
from triolet.ports.outcomes import ToolFailure, ToolSuccess
from triolet.ports.schema import raw_codec
from triolet.ports.strict_json import JsonValue
from triolet.ports.tools import InvalidTool
from triolet.spec_tests.cases.kernel.setting import Bench, KernelSubject, open_bench, text_agent
from triolet.spec_tests.claims import ensure, ensure_equal, ensure_raises
from triolet.spec_tests.definition import case

_MARK: Final = "unmistakable-secret"
_BUDGET: Final = 1_000
_OVERHEAD: Final = 300
"""What a report has around the three parts that its budget is about."""


@tool(execution="readonly")
async def look(name: str) -> str:
    """Look at something."""
    return f"{_MARK} {name}"


@asynccontextmanager
async def _passing(subject: KernelSubject, program: SubstituteProgram, **options: Any) -> AsyncGenerator[Bench]:
    outer = code_mode("run_program", {"things": [look]}, trusted_programs=True, **options)
    script = [turn(call("run_program", {"code": "program"})), turn("done")]
    ports = {"code": SubstituteExecutor({"program": program})}
    async with open_bench(subject, script, text_agent(outer), ports=ports) as bench:
        yield bench


@case("CAP-014")
async def only_what_reads_may_be_listed(subject: KernelSubject) -> None:
    """A tool that does more than read, one that needs a yes, no tool at all: refused when Code Mode is made."""
    for wrong in (
        attrs.evolve(look, execution="uncertain"),
        attrs.evolve(look, execution="idempotent"),
        attrs.evolve(look, needs_approval=True),
    ):
        with ensure_raises(InvalidTool, f"{wrong.execution}, needs approval: {wrong.needs_approval}"):
            code_mode("run_program", {"things": [wrong]})
    with ensure_raises(InvalidTool, "an empty list"):
        code_mode("run_program", {"things": []})


@case("CAP-014")
async def names_that_collide_are_refused(subject: KernelSubject) -> None:
    """Two tools under one name are refused; two names that would look alike are told apart."""
    other = attrs.evolve(look, description="Another.")
    with ensure_raises(NameCollision, "two tools under one name"):
        code_mode("run_program", {"things": [look], "others": [other]})
    alike = [attrs.evolve(look, name="list-it"), attrs.evolve(look, name="list_it")]
    first = code_mode("run_program", {"things": alike}).description
    ensure("  list_it(input" in first and first.count("  list_it") == 2, "two alike names are not told apart")


@case("CAP-014")
async def what_cannot_be_declared_is_refused(subject: KernelSubject) -> None:
    """A schema that no declaration can say is refused, for input and for output."""
    unsayable = raw_codec({"type": "object", "patternProperties": {"^a": {"type": "string"}}}, "unsayable")
    changes: tuple[dict[str, Any], ...] = ({"input": unsayable}, {"output": unsayable})
    for changed in changes:
        with ensure_raises(UnrenderableSchema, f"an unsayable {next(iter(changed))}"):
            code_mode("run_program", {"things": [attrs.evolve(look, **changed)]})


@case("CAP-014")
async def a_model_sees_the_outer_tool_alone(subject: KernelSubject) -> None:
    """A model is offered the one tool; what is on its list runs from inside of it only."""

    async def play(running: Running) -> JsonValue:
        return await running.call("things", "look", {"name": "a"})

    async with _passing(subject, play) as bench:
        await bench.run()
    ensure_equal([each.name for each in bench.requests[0].tools], ["run_program"], "the tools that a model is offered")
    outcome = bench.outcomes[0]
    ensure(isinstance(outcome, ToolSuccess) and _MARK in outcome.output, f"the listed tool was not reached: {outcome}")
    ensure_equal(len(bench.outcomes), 1, "results on record")


@case("CAP-016")
async def value_logs_and_what_is_thrown_share_a_budget(subject: KernelSubject) -> None:
    """Whatever a program says, and in which way, no more leaves a pass than its budget."""

    async def returns_and_logs(running: Running) -> JsonValue:
        for _ in range(50):
            running.log("l" * 100)
        return "v" * 900

    async def throws_and_logs(running: Running) -> JsonValue:
        for _ in range(50):
            running.log("l" * 100)
        raise Thrown("t" * 5_000)

    async def returns_too_much(_: Running) -> JsonValue:
        return "v" * 5_000

    for program in (returns_and_logs, throws_and_logs, returns_too_much):
        async with _passing(subject, program, egress_bytes=_BUDGET) as bench:
            await bench.run()
        outcome = bench.outcomes[0]
        said = outcome.output if isinstance(outcome, ToolSuccess) else getattr(outcome, "payload", "")
        ensure(0 < len(said) <= _BUDGET + _OVERHEAD, f"{len(said)} bytes leave a pass whose budget is {_BUDGET}")


@case("CAP-016")
async def value_logs_and_what_is_thrown_share_a_redaction(subject: KernelSubject) -> None:
    """One redaction sees all that leaves, before anything is cut."""

    async def returns(running: Running) -> JsonValue:
        running.log(f"log {_MARK}")
        return {"value": _MARK}

    async def throws(running: Running) -> JsonValue:
        running.log(f"log {_MARK}")
        # Cut in the middle of the mark, if anything is cut before it is redacted.
        raise Thrown("t" * (_BUDGET // 2 - 10) + _MARK + "t" * _BUDGET)

    for program, kind in ((returns, ToolSuccess), (throws, ToolFailure)):
        async with _passing(subject, program, egress_bytes=_BUDGET, redact=_redacted) as bench:
            await bench.run()
        outcome = bench.outcomes[0]
        ensure(isinstance(outcome, kind), f"the outcome is {outcome}")
        ensure(_MARK[:9] not in bench.stored_text, "what should have been redacted left the pass")


@case("CAP-016")
async def intermediate_results_stay_inside(subject: KernelSubject) -> None:
    """What tools told a program is on no record and in no event, unless the program says it."""

    async def counts(running: Running) -> JsonValue:
        return len(str(await running.call("things", "look", {"name": "a"})))

    async def fails(running: Running) -> JsonValue:
        await running.call("things", "look", {"name": "a"})
        raise Thrown("no more")

    for program in (counts, fails):
        async with _passing(subject, program) as bench:
            events, _ = await bench.observe()
        ensure(_MARK not in bench.stored_text, "an intermediate result is on record")
        ensure(_MARK not in repr(events), "an intermediate result is in an event")


def _redacted(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return value.replace(_MARK, "[redacted]")
    if isinstance(value, list):
        return [_redacted(each) for each in value]
    return {key: _redacted(each) for key, each in value.items()} if isinstance(value, dict) else value


GENERATING: Final = (
    only_what_reads_may_be_listed,
    names_that_collide_are_refused,
    what_cannot_be_declared_is_refused,
    a_model_sees_the_outer_tool_alone,
    value_logs_and_what_is_thrown_share_a_budget,
    value_logs_and_what_is_thrown_share_a_redaction,
    intermediate_results_stay_inside,
)
