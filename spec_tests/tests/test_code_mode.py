"""Code Mode in a run: the way of every call, bounded reports, and who may bind it."""

from collections.abc import AsyncIterator
from typing import Any

import attrs
import pytest
import trio

from tests.approval_world import AwayDesk
from tests.kernel_world import World, one_agent, talker
from triolet.adapters.memory import MemoryInbox
from triolet.adapters.quickjs_wasm import QuickJsWasm, open_quickjs_wasm
from triolet.adapters.scripted_model import call, turn
from triolet.adapters.substitute_executor import Rejected, Running, SubstituteExecutor, Thrown
from triolet.kernel import (
    MissingCapabilities,
    NameCollision,
    Policy,
    Tool,
    ToolContext,
    code_mode,
    tool,
)
from triolet.kernel.programs.host import envelope_of
from triolet.kernel.programs.report import MAX_TOLD_CALLS, Egress
from triolet.ports.authorizer import Allow, CallTool, NeedsApproval
from triolet.ports.code_executor import CodeLimits
from triolet.ports.outcomes import (
    Outcome,
    ToolDefect,
    ToolFailure,
    ToolInvalidInput,
    ToolRejected,
    ToolSuccess,
    ToolUnknownOutcome,
)
from triolet.ports.records import ToolSettled
from triolet.ports.strict_json import JsonText, JsonValue, parse
from triolet.ports.tools import InvalidTool

SEEN: list[tuple[str, str]] = []


@attrs.define(kw_only=True)
class Gone(Exception):
    """There is no such thing."""

    name: str


@tool(execution="readonly", failures=[Gone])
async def look(name: str, context: ToolContext) -> str:
    """Look at something."""
    SEEN.append((context.call, name))
    if name == "gone":
        raise Gone(name=name)
    if name == "broken":
        raise ValueError("unmistakable text of an exception")
    return f"saw {name}"


@tool(execution="readonly")
async def secret(context: ToolContext) -> str:
    """Something that a host gates."""
    SEEN.append((context.call, "secret"))
    return "secret"


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    SEEN.clear()


@pytest.fixture
async def quickjs() -> AsyncIterator[QuickJsWasm]:
    async with open_quickjs_wasm() as executor:
        yield executor


def program(code: str) -> Any:
    return turn(call("run_program", {"code": code}))


def told(outcome: Outcome) -> Any:
    """What a report or a failure says."""
    assert isinstance(outcome, ToolSuccess | ToolFailure), outcome
    return parse(outcome.output if isinstance(outcome, ToolSuccess) else outcome.payload)


async def test_a_program_calls_tools_and_its_report_is_the_result(world: World, quickjs: QuickJsWasm) -> None:
    world.ports["code"] = quickjs
    agent = talker(code_mode("run_program", {"things": [look]}))
    source = """async () => {
      const got = [];
      for (const name of ['a', 'gone', 'broken', 7])
        try { got.push(await things.look({name})) } catch (e) { got.push([e.tag, e.envelope.type, e.envelope.payload]) }
      console.log('said', got.length);
      return got;
    }"""
    async with one_agent(world, agent, program(source), turn("done")) as (kernel, _):
        await kernel.run(agent, "go")
    [outcome] = world.outcomes()
    expected = [
        "saw a",
        ["failure", "Gone", {"name": "gone"}],
        ["defect", "ValueError", None],
        ["invalid-input", None, None],
    ]
    assert told(outcome) == {"calls": 4, "logs": "said 4\n", "result": expected}
    [settled] = world.of(ToolSettled)
    assert settled.programmatic == 3, "what could not be understood is not paid for"
    assert [identity for identity, _ in SEEN] == [f"{settled.call}/{n}" for n in range(3)]
    assert "unmistakable" not in repr(world.records())


@pytest.mark.parametrize("arguments", [{"name": "a"}, {"name": "gone"}, {"name": "broken"}, {"name": 7}, {}])
async def test_direct_and_programmatic_calls_are_the_same(
    world: World, quickjs: QuickJsWasm, arguments: dict[str, JsonValue]
) -> None:
    """One tool, called by the model and by a program: the same input, handler, result and failure."""
    world.ports["code"] = quickjs
    agent = talker(code_mode("run_program", {"things": [look]}), look)
    given = JsonText(str(arguments).replace("'", '"'))
    source = f"async () => {{ try {{ return [await things.look({given})] }} catch (e) {{ return e.envelope }} }}"
    direct = turn(call("look", arguments))
    async with one_agent(world, agent, program(source), direct, turn("done")) as (kernel, _):
        await kernel.run(agent, "go")
    inner, outer = world.outcomes()
    seen = told(inner)["result"]
    if isinstance(outer, ToolSuccess):
        assert seen == [parse(outer.output)]
    else:
        assert seen == attrs.asdict(envelope_of(outer))
    assert len({name for _, name in SEEN}) <= 1


async def test_f048_a_gated_call_rejects_in_the_program_and_its_handler_never_runs(
    world: World, quickjs: QuickJsWasm
) -> None:
    def by_name(action: CallTool) -> Any:
        return NeedsApproval(reason="the host gates it") if action.tool == "secret" else None

    rules = _Rules(by_name)
    world.ports.update(code=quickjs, authorizer=rules)
    agent = talker(code_mode("run_program", {"things": [look, secret]}))
    source = """async () => {
      const got = [await things.look({name: 'a'})];
      try { await things.secret({}) } catch (e) { got.push([e.tag, e.envelope.reason]) }
      got.push(await things.look({name: 'b'}));
      return got;
    }"""
    async with one_agent(world, agent, program(source), turn("done")) as (kernel, _):
        await kernel.run(agent, "go")
    [outcome] = world.outcomes()
    assert told(outcome)["result"] == ["saw a", ["rejected", "denied"], "saw b"]
    assert [name for _, name in SEEN] == ["a", "b"]
    assert [action.tool for action in rules.asked] == ["run_program", "look", "secret", "look"]
    [settled] = world.of(ToolSettled)
    assert settled.programmatic == 2
    assert len([record for record in world.records() if type(record).__name__.startswith("Approval")]) == 0


class _Rules:
    def __init__(self, rule: Any) -> None:
        self.rule = rule
        self.asked: list[Any] = []

    async def authorize(self, action: Any, principal: Any) -> Any:
        self.asked.append(action)
        return self.rule(action) or Allow()


async def test_f048_a_predicate_rejects_in_the_program(world: World) -> None:
    asks = attrs.evolve(look, needs_approval=lambda given: given.name == "b")
    got: list[str] = []

    async def play(running: Running) -> JsonValue:
        for name in ("a", "b"):
            try:
                got.append(str(await running.call("things", "look", {"name": name})))
            except Rejected as rejected:
                got.append(rejected.envelope)
        return None

    # The desk is bound because the tool could ask when it is called directly; here nobody is asked.
    desk = AwayDesk()
    world.ports.update(code=SubstituteExecutor({"p": play}), approval=desk, inbox=MemoryInbox())
    agent = talker(code_mode("run_program", {"things": [asks]}, trusted_programs=True))
    async with one_agent(world, agent, program("p"), turn("done")) as (kernel, _):
        await kernel.run(agent, "go")
    assert got[0] == "saw a"
    assert '"tag":"rejected"' in got[1]
    assert [name for _, name in SEEN] == ["a"]


async def test_run_017_a_program_pays_for_its_calls(world: World, quickjs: QuickJsWasm) -> None:
    world.ports["code"] = quickjs
    agent = talker(code_mode("run_program", {"things": [look]}), policy=Policy(max_tool_calls=3))
    source = """async () => { let n = 0;
      try { for (;;) { await things.look({name: 'a'}); n++ } } catch (e) { return [n, e.tag, e.envelope.reason] } }"""
    async with one_agent(world, agent, program(source), turn("done")) as (kernel, _):
        await kernel.run(agent, "go")
    assert told(world.outcomes()[0])["result"] == [2, "rejected", "budget"]
    assert len(SEEN) == 2


async def test_what_ran_before_a_failure_is_told_and_bounded(world: World, quickjs: QuickJsWasm) -> None:
    world.ports["code"] = quickjs
    limits = CodeLimits(cpu_seconds=0.2)
    agent = talker(code_mode("run_program", {"things": [look]}, limits=limits), policy=Policy(max_tool_calls=90))
    source = """async () => {
      for (let n = 0; n < 30; n++) try { await things.look({name: n % 2 ? 'a' : 'gone'}) } catch (e) {}
      console.log('before'); for (;;); }"""
    async with one_agent(world, agent, program(source), turn("done")) as (kernel, _):
        await kernel.run(agent, "go")
    [outcome] = world.outcomes()
    assert isinstance(outcome, ToolFailure)
    said = told(outcome)
    assert (said["stop"], said["detail"], said["logs"]) == ("limit", "cpu-seconds", "before\n")
    assert said["ran"][:2] == ["things.look: failure", "things.look: success"]
    assert (len(said["ran"]), said["more"]) == (MAX_TOLD_CALLS, 30 - MAX_TOLD_CALLS)


STOPS = {
    "syntax": "async ( => 1",
    "not-async-function": "() => 1",
    "threw": "async () => { throw new Error('no') }",
    "unsettled": "async () => { await new Promise(() => {}) }",
    "not-json": "async () => 10n",
    "limit": "async () => 'x'.repeat(100000)",
}


@pytest.mark.parametrize("stop", STOPS)
async def test_every_way_to_fail_is_told(world: World, quickjs: QuickJsWasm, stop: str) -> None:
    world.ports["code"] = quickjs
    agent = talker(code_mode("run_program", {"things": [look]}))
    async with one_agent(world, agent, program(STOPS[stop]), turn("done")) as (kernel, _):
        await kernel.run(agent, "go")
    [outcome] = world.outcomes()
    assert isinstance(outcome, ToolFailure)
    assert (outcome.type, told(outcome)["stop"]) == ("ProgramFailed", stop)


async def test_cap_002_an_assembly_names_the_executor_that_is_missing_or_does_not_isolate(world: World) -> None:
    agent = talker(code_mode("run_program", {"things": [look]}))
    with pytest.raises(MissingCapabilities) as missing:
        async with one_agent(world, agent):
            pass
    assert ("code", "tool run_program") in missing.value.missing
    world.ports["code"] = SubstituteExecutor({})
    with pytest.raises(MissingCapabilities, match="unisolated"):
        async with one_agent(world, agent):
            pass


async def test_cancelling_a_run_ends_its_program(world: World, quickjs: QuickJsWasm) -> None:
    world.ports["code"] = quickjs
    world.open_runs_are_fine = False
    agent = talker(code_mode("run_program", {"things": [look]}, limits=CodeLimits(cpu_seconds=30, wall_seconds=30)))
    async with one_agent(world, agent, program("async () => { for (;;); }"), turn("done")) as (kernel, _):
        with trio.move_on_after(0.3) as scope:
            await kernel.run(agent, "go")
    assert scope.cancelled_caught
    [outcome] = world.outcomes()
    assert isinstance(outcome, ToolDefect)
    assert (outcome.reason, outcome.effect_possible) == ("cancelled", False)


def test_f046_all_names_are_callable_and_declared() -> None:
    names = ["list-issues", "list_issues", "class", "await", "constructor", "console", "then"]
    tools = [attrs.evolve(look, name=name) for name in names]
    made = code_mode("run_program", {"class": tools, "console": [secret]})
    again = code_mode("run_program", {"console": [secret], "class": tools[::-1]})
    assert "declare const class_: {" in made.description
    assert "declare const console_: {" in made.description
    for shown in ("list_issues(", "list_issues_", "class_(", "await_(", "constructor_(", "then_("):
        assert f"  {shown}" in made.description, shown
    lines = {line for line in made.description.splitlines() if "(input" in line}
    assert lines == {line for line in again.description.splitlines() if "(input" in line}


async def test_f046_each_identifier_reaches_its_own_tool(world: World, quickjs: QuickJsWasm) -> None:
    world.ports["code"] = quickjs
    names = ["list-issues", "list_issues", "class", "await", "constructor", "console", "then"]

    def named(name: str) -> Tool[Any, Any]:
        @tool(name=name, execution="readonly")
        async def say() -> str:
            """Say which."""
            return name

        return say

    agent = talker(code_mode("run_program", {"n": [named(name) for name in names]}))
    source = """async () => { const got = {};
      for (const [key, f] of Object.entries(n)) got[key] = await f({});
      return [got, Object.getPrototypeOf(n), await n.await_({})] }"""
    async with one_agent(world, agent, program(source), turn("done")) as (kernel, _):
        await kernel.run(agent, "go")
    got, prototype, awaited = told(world.outcomes()[0])["result"]
    assert sorted(got.values()) == sorted(names)
    assert (got["list_issues"], got["class_"], prototype, awaited) == ("list_issues", "class", None, "await")


def test_cap_014_construction_fails_closed() -> None:
    for wrong in (attrs.evolve(look, execution="durable"), attrs.evolve(look, needs_approval=True)):
        with pytest.raises(InvalidTool):
            code_mode("run_program", {"a": [wrong]})
    with pytest.raises(InvalidTool, match="no Tool"):
        code_mode("run_program", {"a": ["look"]})  # type: ignore[list-item]  # what an untyped caller may do
    with pytest.raises(NameCollision):
        code_mode("run_program", {"a": [look], "b": [attrs.evolve(look, description="x")]})
    with pytest.raises(InvalidTool, match="256"):
        code_mode("run_program", {"a": [look]}, egress_bytes=10)
    same = code_mode("run_program", {"a": [look], "b": [look]})
    assert same.calls is not None
    assert same.calls.names == ("look",)
    assert (same.execution, same.only_ephemeral, same.requires) == ("readonly", True, frozenset({"code"}))


@pytest.mark.parametrize("budget", [256, 300, 1_000])
def test_cap_016_no_report_is_beyond_its_budget(budget: int) -> None:
    egress = Egress(budget=budget, redact=None)
    for value, logs in (('"é"', "é\n" * 500), ('"' + "v" * (budget - 10) + '"', "l" * 500), ("1", "")):
        report = egress.returned(JsonText(value), logs, 7, 1)
        assert report is not None
        assert len(value.encode()) + len(report.logs.encode()) <= budget
    assert egress.returned(JsonText('"' + "v" * budget + '"'), "", 0, 0) is None
    failed = egress.failed("threw", "t" * 5_000, "l\n" * 5_000, 3, ["x"] * 25)
    assert len(failed.detail.encode()) + len(failed.logs.encode()) <= budget
    assert "characters cut" in failed.logs
    assert (len(failed.ran), failed.more) == (20, 5)


def test_envelopes_carry_the_frameworks_tags() -> None:
    for outcome, tag, reason in (
        (ToolRejected(reason="budget", detail="d"), "rejected", "budget"),
        (ToolInvalidInput(reason="schema", detail="d"), "invalid-input", "schema"),
        (ToolFailure(type="Gone", payload=JsonText('{"a":1}')), "failure", "declared"),
        (ToolDefect(reason="timeout", effect_possible=False), "defect", "timeout"),
        (ToolUnknownOutcome(reason="crashed"), "unknown", "crashed"),
    ):
        envelope = envelope_of(outcome)
        assert (envelope.tag, envelope.reason) == (tag, reason)
        assert envelope.message


async def test_a_substitute_program_keeps_its_limits(world: World) -> None:
    async def burns(running: Running) -> JsonValue:
        running.log("in")
        running.use(cpu_seconds=100.0)
        return None

    async def throws(_: Running) -> JsonValue:
        raise Thrown("no")

    world.ports["code"] = SubstituteExecutor({"burns": burns, "throws": throws})
    agent = talker(code_mode("run_program", {"things": [look]}, trusted_programs=True))
    turns = (program("burns"), program("throws"), program("else"), turn("done"))
    async with one_agent(world, agent, *turns) as (kernel, _):
        await kernel.run(agent, "go")
    assert [told(outcome)["stop"] for outcome in world.outcomes()] == ["limit", "threw", "syntax"]
