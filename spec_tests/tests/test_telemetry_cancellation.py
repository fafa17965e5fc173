"""Whatever is interrupted where: every span that was begun has ended, once, and the context is as it was.

Each scenario is run once for each step that any of its tasks takes, and is interrupted there. (F-001, CAP-013)
"""

from functools import partial
from typing import Any, Literal

import pytest
import trio
from opentelemetry import trace

from tests.approval_world import Office, desk_that, yes
from tests.kernel_world import Paced, talker
from tests.task_steps import AtStep, sweep
from tests.telemetry_world import Exported, is_error, told
from triolet.adapters.clocks import TrioClock
from triolet.adapters.scripted_model import call, turn
from triolet.kernel import Policy, RetryPolicy, Tool, tool
from triolet.ports.identity import Instant

How = Literal["outside", "handle", "deadline"]
SECONDS = 1_000.0


def _tools() -> tuple[Tool[Any, Any], ...]:
    @tool(execution="readonly")
    async def look() -> str:
        """Look."""
        await trio.sleep(1)
        return "seen"

    @tool(needs_approval=True)
    async def pay() -> str:
        """Pay."""
        await trio.sleep(2)
        return "paid"

    return look, pay


@pytest.mark.parametrize("how", ["outside", "handle", "deadline"])
@pytest.mark.parametrize("approval", [False, True])
def test_f001_every_span_ends_wherever_a_run_is_interrupted(how: How, approval: bool) -> None:
    endings: set[tuple[str, str]] = set()
    desk = desk_that(lambda request, patience: yes(request))

    async def scenario(at: AtStep) -> None:
        exported = Exported()
        office = Office()
        office.clock = TrioClock(Instant(1_000_000))
        office.store.pauses = office.store.pauses_after = trio.lowlevel.checkpoint
        office.leave_open()
        agent = talker(
            *_tools(),
            policy=Policy(retry=RetryPolicy(tries=1), max_seconds=SECONDS if how == "deadline" else None),
        )
        calls = turn(call("look"), call("pay")) if approval else turn(call("look"), call("look"))
        model = Paced(calls, turn("Done."))
        scope = trio.CancelScope()
        clock: Any = trio.lowlevel.current_clock()
        at.act = partial(clock.jump, SECONDS + 1) if how == "deadline" else scope.cancel
        before = trace.get_current_span()
        async with office.kernel(agent, model=model, desk=desk, telemetry=exported.telemetry(content=True)) as kernel:
            with scope:
                at.armed = True
                async with kernel.stream(agent, "go") as handle:
                    if how == "handle":
                        at.act = handle.cancel
                    async for _ in handle:
                        pass
                    await handle.result()
            at.armed = False
            assert trace.get_current_span() is before
        assert exported.watch.open == {}
        assert exported.watch.started == len(exported.spans)
        for span in exported.spans:
            outcome = told(span, "triolet.outcome")
            assert is_error(span) == (outcome == "failed"), span.name
            endings.add((span.name, outcome))

    steps = list(sweep(scenario))
    assert len(steps) > 20
    # It did interrupt each kind of work. A run that is out of time has failed, and so has its turn.
    for name in ("chat scripted", "execute_tool look", "triolet.conversations.append"):
        assert {(name, "ok"), (name, "cancelled")} <= endings
    for name in ("turn", "invoke_agent talker"):
        assert {(name, "ok"), (name, "failed" if how == "deadline" else "cancelled")} <= endings
