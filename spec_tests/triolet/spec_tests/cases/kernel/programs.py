"""Programs: how a running handler calls other tools, and what it cannot get around by that.

RUN-016, RUN-017.
"""

from typing import Any

import attrs
import trio
import trio.testing

from triolet.adapters.scripted_model import call, turn
from triolet.kernel import Policy, Tool, ToolContext, Toolkit, tool
from triolet.ports.authorizer import Action, Allow, CallTool, Deny, NeedsApproval, Verdict
from triolet.ports.identity import Principal
from triolet.ports.outcomes import Outcome, ToolDefect, ToolInvalidInput, ToolRejected, ToolSuccess
from triolet.ports.records import ToolSettled
from triolet.ports.strict_json import JsonText
from triolet.ports.tool_context import CallRefused
from triolet.spec_tests.cases.kernel.setting import KernelSubject, open_bench, text_agent
from triolet.spec_tests.claims import ensure, ensure_equal
from triolet.spec_tests.definition import case


def _inner(seen: list[tuple[str, int]]) -> Tool[Any, Any]:
    @tool(execution="readonly")
    async def double(n: int, context: ToolContext) -> int:
        seen.append((context.call, n))
        return 2 * n

    return double


def _program(inner: Tool[Any, Any], *wanted: tuple[str, str]) -> tuple[Tool[Any, Any], list[Outcome]]:
    outcomes: list[Outcome] = []

    async def play(context: ToolContext) -> int:
        for name, arguments in wanted:
            outcomes.append(await context.call_tool(name, arguments))
        return len(outcomes)

    return attrs.evolve(tool(execution="readonly")(play), calls=Toolkit([inner])), outcomes


@case("RUN-016")
async def an_inner_call_takes_the_way_of_a_direct_one(subject: KernelSubject) -> None:
    """Its arguments are decoded or refused as a direct call's are, and its result is encoded as one."""
    seen: list[tuple[str, int]] = []
    wanted = (("double", '{"n": 4}'), ("double", '{"n": "4"}'), ("double", "{"), ("twice", "{}"))
    outer, outcomes = _program(_inner(seen), *wanted)
    async with open_bench(subject, [turn(call("play")), turn("done")], text_agent(outer)) as bench:
        await bench.run()
    ensure_equal(outcomes[:1], [ToolSuccess(output=JsonText("8"))], "the first outcome")
    reasons = [each.reason for each in outcomes[1:] if isinstance(each, ToolInvalidInput)]
    ensure_equal(reasons, ["schema", "not-json", "unknown-tool"], "why the others were refused")
    ensure_equal([number for _, number in seen], [4], "inputs that handlers saw")


@case("RUN-016")
async def inner_calls_are_numbered_under_the_outer_one(subject: KernelSubject) -> None:
    """An inner call's identity is the outer call's and an index; it leaves no record, and the outer one counts it."""
    seen: list[tuple[str, int]] = []
    outer, _ = _program(_inner(seen), ("double", '{"n": 1}'), ("double", '{"n": 2}'))
    async with open_bench(subject, [turn(call("play")), turn("done")], text_agent(outer)) as bench:
        await bench.run()
    settled = bench.recorded(ToolSettled)
    ensure_equal(len(settled), 1, "results on record")
    ensure_equal([identity for identity, _ in seen], [f"{settled[0].call}/0", f"{settled[0].call}/1"], "identities")
    ensure_equal(settled[0].programmatic, 2, "inner calls that the record counts")


@case("RUN-016")
async def one_inner_call_at_a_time(subject: KernelSubject) -> None:
    """A second call while the first is under way is refused, typed, and starts nothing."""
    gate, started, refused = trio.Event(), list[int](), list[str]()

    @tool(execution="readonly")
    async def slow() -> int:
        started.append(1)
        await gate.wait()
        return 1

    async def play(context: ToolContext) -> int:
        async def second() -> None:
            try:
                await context.call_tool("slow", "{}")
            except CallRefused:
                refused.append("refused")
            gate.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(context.call_tool, "slow", "{}")
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(second)
        return 1

    outer = attrs.evolve(tool(execution="readonly")(play), calls=Toolkit([slow]))
    async with open_bench(subject, [turn(call("play")), turn("done")], text_agent(outer)) as bench:
        await bench.run()
    ensure_equal((len(started), refused), (1, ["refused"]), "handlers that started, and refusals")


@attrs.define
class _Gate:
    answer: Verdict

    async def authorize(self, action: Action, principal: Principal) -> Verdict:
        inner = isinstance(action, CallTool) and action.tool == "double"
        return self.answer if inner else Allow()


@case("RUN-016")
async def authority_is_asked_about_inner_calls(subject: KernelSubject) -> None:
    """A call that authority denies, or wants asked about, is rejected where it is made, and the program goes on."""
    for answer in (Deny(reason="not here"), NeedsApproval(reason="ask first")):
        seen: list[tuple[str, int]] = []
        outer, outcomes = _program(_inner(seen), ("double", '{"n": 1}'), ("double", '{"n": 2}'))
        ports = {"authorizer": _Gate(answer)}
        async with open_bench(subject, [turn(call("play")), turn("done")], text_agent(outer), ports=ports) as bench:
            await bench.run()
        ensure_equal([type(each) for each in outcomes], [ToolRejected] * 2, "how the inner calls ended")
        ensure_equal(seen, [], "inputs that handlers saw")
        ensure_equal([type(each) for each in bench.outcomes], [ToolSuccess], "how the outer call ended")


@case("RUN-017")
async def an_inner_call_is_paid_for_first(subject: KernelSubject) -> None:
    """Inner calls count among the run's tool calls: what is not paid for does not start, and what was is gone."""
    seen: list[tuple[str, int]] = []
    outer, outcomes = _program(_inner(seen), *[("double", '{"n": 1}')] * 4)
    agent = text_agent(outer, policy=Policy(max_tool_calls=3))
    async with open_bench(subject, [turn(call("play")), turn(call("play")), turn("done")], agent) as bench:
        await bench.run()
    ensure_equal(len(seen), 2, "inner handlers that ran, where 3 calls are allowed and the outer is one")
    reasons = [each.reason for each in outcomes if isinstance(each, ToolRejected)]
    ensure_equal(reasons, ["budget", "budget"], "how the others ended")
    ensure_equal([type(each) for each in bench.outcomes], [ToolSuccess, ToolRejected], "how the outer calls ended")


@case("RUN-017")
async def an_inner_call_has_its_own_time(subject: KernelSubject) -> None:
    """An inner call ends at its own deadline, and the program goes on."""

    @tool(execution="readonly", timeout=0.05)
    async def stall() -> int:
        await trio.sleep_forever()
        return 1

    outer, outcomes = _program(stall, ("stall", "{}"))
    began = trio.current_time()
    async with open_bench(subject, [turn(call("play")), turn("done")], text_agent(outer)) as bench:
        await bench.run()
    ensure_equal(outcomes, [ToolDefect(reason="timeout", effect_possible=False)], "how the inner call ended")
    ensure(trio.current_time() - began < 30, "the outer call's time was used up")
    ensure_equal([type(each) for each in bench.outcomes], [ToolSuccess], "how the outer call ended")


PROGRAMS = (
    an_inner_call_takes_the_way_of_a_direct_one,
    inner_calls_are_numbered_under_the_outer_one,
    one_inner_call_at_a_time,
    authority_is_asked_about_inner_calls,
    an_inner_call_is_paid_for_first,
    an_inner_call_has_its_own_time,
)
