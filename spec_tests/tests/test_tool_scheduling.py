"""When tools run: after the whole batch is decided, within their limits, in any order; results in declaration order."""

from itertools import permutations
from typing import Any

import pytest
import trio
import trio.testing

from tests.kernel_world import World, one_agent, shown_outcomes, talker
from tests.tool_stage import all_permits_return, limiters
from triolet.adapters.scripted_model import call, turn
from triolet.kernel import Policy, tool
from triolet.ports.outcomes import ToolDefect, ToolSuccess
from triolet.ports.records import CallsDecided, ModelResponded, ToolPrepared, ToolSettled
from triolet.ports.tools import ExecutionClass, Tool


class Gates:
    """Tools whose handlers wait for the test, and a count of how many are under way."""

    def __init__(self) -> None:
        self.gates: dict[int, trio.Event] = {}
        self.began: list[int] = []
        self.under_way = 0
        self.most = 0

    def tool(self, name: str = "gated", **fields: Any) -> Tool[Any, Any]:
        @tool(name=name, **fields)
        async def gated(n: int) -> int:
            """Wait for the test."""
            self.began.append(n)
            self.under_way += 1
            self.most = max(self.most, self.under_way)
            try:
                await self.gate(n).wait()
            finally:
                self.under_way -= 1
            if n < 0:
                raise ValueError
            return n

        return gated

    def gate(self, n: int) -> trio.Event:
        return self.gates.setdefault(n, trio.Event())


def calls(*numbers: int, name: str = "gated") -> Any:
    return turn(*(call(name, {"n": n}) for n in numbers))


@pytest.fixture
def gates() -> Gates:
    return Gates()


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
@pytest.mark.parametrize("execution", ["readonly", "uncertain"])
async def test_results_are_recorded_in_declaration_order_whatever_ends_first(
    world: World,
    gates: Gates,
    autojump_clock: trio.testing.MockClock,
    order: tuple[int, ...],
    execution: ExecutionClass,
) -> None:
    agent = talker(gates.tool(execution=execution))
    async with one_agent(world, agent, calls(0, 1, 2), turn("Done.")) as (kernel, model):
        async with kernel.stream(agent, "go") as handle:
            await trio.testing.wait_all_tasks_blocked()
            assert gates.under_way == 3
            ended: set[int] = set()
            for n in order:
                gates.gate(n).set()
                await trio.testing.wait_all_tasks_blocked()
                ended.add(n)
                # Each as soon as all before it are done, and not later.
                ready = next(k for k in range(4) if k not in ended)
                assert len(world.outcomes()) == ready
                assert len(model.requests) == (2 if ready == 3 else 1)
            await handle.result()
    assert [getattr(outcome, "output", None) for outcome in shown_outcomes(model.requests[1])] == ["0", "1", "2"]


@pytest.mark.parametrize("order", list(permutations((0, -1, 2))), ids=str)
async def test_f_002_a_handler_that_raises_costs_its_siblings_nothing(
    world: World, gates: Gates, autojump_clock: trio.testing.MockClock, order: tuple[int, ...]
) -> None:
    agent = talker(gates.tool())
    async with one_agent(world, agent, calls(0, -1, 2), turn("Done.")) as (kernel, _):
        async with kernel.stream(agent, "go") as handle:
            for n in order:
                await trio.testing.wait_all_tasks_blocked()
                gates.gate(n).set()
            await handle.result()
    first, middle, last = world.of(ToolSettled)
    assert (first.outcome, last.outcome) == (ToolSuccess(output="0"), ToolSuccess(output="2"))  # type: ignore[arg-type]
    assert middle.call == "run1-1-1"
    assert middle.outcome == ToolDefect(reason="exception", type="ValueError", effect_possible=True)


async def test_tool_004_no_handler_starts_before_the_whole_batch_is_decided_and_prepared(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    seen: list[list[str]] = []

    @tool
    async def act() -> None:
        """Act."""
        seen.append([record.kind for record in world.records()])

    agent = talker(act)
    async with one_agent(world, agent, turn(call("act"), call("nope"), call("act")), turn("Done.")) as (kernel, _):
        world.store.pauses = trio.lowlevel.checkpoint
        await kernel.run(agent, "go")
    for kinds in seen:
        assert kinds.count("calls_decided") == 1
        assert kinds.count("tool_prepared") == 1
    [decided] = world.of(CallsDecided)
    assert [row.call for row in decided.runnable] == ["run1-1-0", "run1-1-2"]
    assert world.of(ToolPrepared)[0].calls == ("run1-1-0", "run1-1-2")


async def test_readonly_calls_need_no_preparation_on_record(
    world: World, gates: Gates, autojump_clock: trio.testing.MockClock
) -> None:
    agent = talker(gates.tool("look", execution="readonly"), gates.tool("act"))
    gates.gate(1).set()
    script = turn(call("look", {"n": 1}), call("act", {"n": 1}), call("look", {"n": 1}))
    async with one_agent(world, agent, script, turn("Done.")) as (kernel, _):
        await kernel.run(agent, "go")
    assert [record.calls for record in world.of(ToolPrepared)] == [("run1-1-1",)]
    # The response, the decisions and the preparation are one commit: nothing was waited for between them.
    [together] = [b for b in world.batches() if any(isinstance(r, ToolPrepared) for r in b.records)]
    assert [type(r) for r in together.records] == [ModelResponded, CallsDecided, ToolPrepared]


@pytest.mark.parametrize("concurrency", [1, 2, 3])
async def test_run_009_a_runs_concurrency_is_bounded_and_used(
    world: World, gates: Gates, autojump_clock: trio.testing.MockClock, concurrency: int
) -> None:
    agent = talker(gates.tool(), policy=Policy(concurrency=concurrency))
    async with one_agent(world, agent, calls(*range(6)), turn("Done.")) as (kernel, _):
        async with kernel.stream(agent, "go") as handle:
            for n in range(6):
                await trio.testing.wait_all_tasks_blocked()
                assert gates.under_way == min(concurrency, 6 - n)
                gates.gate(gates.began[n]).set()
            await handle.result()
    assert sorted(gates.began) == list(range(6))
    assert gates.most == concurrency
    assert [call_id for record in world.of(ToolPrepared) for call_id in record.calls] == [
        f"run1-1-{n}" for n in range(6)
    ]


async def test_a_slow_first_call_does_not_hold_up_the_others(
    world: World, gates: Gates, autojump_clock: trio.testing.MockClock
) -> None:
    agent = talker(gates.tool(), policy=Policy(concurrency=2))
    async with one_agent(world, agent, calls(*range(5)), turn("Done.")) as (kernel, _):
        async with kernel.stream(agent, "go") as handle:
            for n in range(1, 5):
                await trio.testing.wait_all_tasks_blocked()
                assert sorted(gates.began) == list(range(n + 1))
                gates.gate(n).set()
            await trio.testing.wait_all_tasks_blocked()
            assert world.outcomes() == []
            gates.gate(0).set()
            await handle.result()
    assert len(world.outcomes()) == 5


async def test_run_009_a_group_bounds_all_runs_together(
    world: World, gates: Gates, autojump_clock: trio.testing.MockClock
) -> None:
    agent = talker(gates.tool(group="disk"), gates.tool("free"))
    turns = [turn(call("gated", {"n": 10 * n + 1}), call("gated", {"n": 10 * n + 2})) for n in range(3)]
    async with one_agent(world, agent, *turns, *[turn("Done.")] * 3, groups={"disk": 2}) as (kernel, _):
        async with all_permits_return(kernel), trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(kernel.run, agent, "go")
            for _ in range(6):
                await trio.testing.wait_all_tasks_blocked()
                assert gates.under_way <= 2
                gates.gate(gates.began[-1]).set()
                gates.gate(gates.began[-2] if len(gates.began) > 1 else 0).set()
    assert gates.most == 2
    assert len(gates.began) == 6


async def test_a_call_that_waits_for_its_group_is_not_yet_prepared(
    world: World, gates: Gates, autojump_clock: trio.testing.MockClock
) -> None:
    agent = talker(gates.tool(group="disk"))
    async with one_agent(world, agent, calls(1, 2), turn("Done."), groups={"disk": 1}) as (kernel, _):
        async with all_permits_return(kernel), kernel.stream(agent, "go") as handle:
            await trio.testing.wait_all_tasks_blocked()
            assert [record.calls for record in world.of(ToolPrepared)] == [("run1-1-0",)]
            gates.gate(1).set()
            await trio.testing.wait_all_tasks_blocked()
            assert [record.calls for record in world.of(ToolPrepared)] == [("run1-1-0",), ("run1-1-1",)]
            gates.gate(2).set()
            await handle.result()


@pytest.mark.parametrize("end", ["cancel", "deadline", "timeout", "crash"])
async def test_permits_return_on_every_exit(
    world: World, gates: Gates, autojump_clock: trio.testing.MockClock, end: str
) -> None:
    policy = Policy(max_seconds=5 if end == "deadline" else None, tool_seconds=9, concurrency=3)
    agent = talker(gates.tool(group="disk"), policy=policy)
    script = (calls(1, 2, 3, 4), turn("Done."), calls(5, 6), turn("Done."))
    async with one_agent(world, agent, *script, groups={"disk": 2}) as (kernel, _), all_permits_return(kernel):
        if end == "crash":

            async def broken() -> None:
                if gates.under_way:
                    raise OSError("no disk")

            world.store.pauses = broken
            gates.gate(1).set()
            world.open_runs_are_fine = True
            with pytest.raises(OSError, match="no disk"):
                await kernel.run(agent, "go")
            world.store.pauses = None
        elif end == "cancel":
            with trio.move_on_after(1):
                await kernel.run(agent, "go")
        else:
            await kernel.run(agent, "go")
            assert trio.current_time() == (5 if end == "deadline" else 18)
        assert [limiter.borrowed_tokens for limiter in limiters(kernel)] == [0, 0]
