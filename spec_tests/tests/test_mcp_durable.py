"""Accepted work that uses a server's tools: a lost answer waits for a person, a lost server costs time and no work.

DUR-009, DUR-014, DUR-017, RUN-013, CAP-009.
"""

from typing import Any

import pytest
import trio

from tests.durable_world import BOSS, TALK, WORKERS, DurableWorld
from tests.kernel_world import talker
from triolet.adapters.mcp import McpTimes, open_mcp
from triolet.adapters.scripted_model import Turn, call, turn
from triolet.kernel import Completed, Policy, RetryPolicy
from triolet.ports.language_model import ModelRequest
from triolet.ports.ledger import UnknownWait
from triolet.ports.messages import ToolMessage
from triolet.ports.outcomes import ToolSuccess
from triolet.ports.records import ToolCatalogueChanged, ToolResolved, ToolUnknown
from triolet.ports.strict_json import JsonText
from triolet.spec_tests.stand_ins.mcp_server import McpStandIn


@pytest.fixture
def server() -> McpStandIn:
    made = McpStandIn()
    made.definitions = [{"name": "send", "inputSchema": {"type": "object"}}]
    return made


def _respond(request: ModelRequest) -> Turn:
    return turn("Done.") if isinstance(request.messages[-1], ToolMessage) else turn(call("s__send", {}))


def _agent() -> Any:
    return talker(sources=("s",), policy=Policy(bounded=True, retry=RetryPolicy(tries=1)))


async def test_a_lost_answer_waits_for_a_person_and_the_call_is_made_once(
    server: McpStandIn, autojump_clock: Any
) -> None:
    world, agent = DurableWorld(shared=True, remembers=False), _agent()
    server.cuts_next = True
    async with open_mcp(server.server, name="s") as source:
        world.ports["tool_sources"] = (source,)
        async with world.life(agent, _respond) as kernel:
            receipt = await kernel.submit(agent, "go", conversation=TALK.conversation, key="one")
            async with kernel.workers(name="worker", policy=WORKERS):
                waits: tuple[Any, ...] = ()
                while not waits:
                    await trio.sleep(1)
                    waits = tuple(wait for standing in await world.ledger.scan() for wait in standing.waits)
                [wait] = waits
                assert isinstance(wait, UnknownWait)
                assert wait.unknown.reason == "connection-lost"
                done = ToolSuccess(output=JsonText('{"content":[]}'))
                await kernel.resolve(wait.unknown.call, done, by=BOSS, reason="it had arrived")
                result = await kernel.settlement(receipt)
    assert isinstance(result, Completed)
    assert [name for name, _ in server.called] == ["send"]
    records = await world.records()
    assert [type(each) for each in records].count(ToolUnknown) == 1
    assert [type(each) for each in records].count(ToolResolved) == 1


async def test_a_server_that_is_down_delays_accepted_work_and_loses_none(
    server: McpStandIn, autojump_clock: Any
) -> None:
    world, agent = DurableWorld(shared=True, remembers=False), _agent()
    async with open_mcp(server.server, name="s", times=McpTimes(tries=1, connect=2)) as source:
        world.ports["tool_sources"] = (source,)
        async with world.life(agent, _respond) as kernel:
            # After a notice nobody knows any more what it offers, and it cannot be asked.
            await server.offer(server.definitions)
            await trio.testing.wait_all_tasks_blocked()
            server.down = True
            server.break_lines()
            receipt = await kernel.submit(agent, "go", conversation=TALK.conversation, key="one")
            async with kernel.workers(name="worker", policy=WORKERS):
                await trio.sleep(5)
                assert server.called == []
                assert len(await world.ledger.scan()) == 1
                server.down = False
                result = await kernel.settlement(receipt)
    assert isinstance(result, Completed)
    assert [name for name, _ in server.called] == ["send"]


async def test_work_that_goes_on_in_another_process_has_the_tools_that_are_there_then(
    server: McpStandIn, log_watch: Any, autojump_clock: Any
) -> None:
    """The first life ends in the middle of a call; the second finds another catalogue, and records it."""
    log_watch.open_runs_are_fine = True  # what the first life leaves open
    world, agent = DurableWorld(shared=True, remembers=False), _agent()
    server.holds_calls = True
    async with open_mcp(server.server, name="s") as source:
        world.ports["tool_sources"] = (source,)
        async with world.life(agent, _respond) as kernel:
            receipt = await kernel.submit(agent, "go", conversation=TALK.conversation, key="one")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_work_until_cancelled, kernel)
                await trio.testing.wait_all_tasks_blocked()
                assert server.called
                nursery.cancel_scope.cancel()
    world.restart()
    server.holds_calls = False
    server.definitions = [{"name": "fetch", "inputSchema": {"type": "object"}}]
    async with open_mcp(server.server, name="s") as source:
        world.ports["tool_sources"] = (source,)
        async with world.life(agent, _respond) as kernel, kernel.workers(name="worker", policy=WORKERS):
            waits: tuple[Any, ...] = ()
            while not waits:
                await trio.sleep(1)
                waits = tuple(wait for standing in await world.ledger.scan() for wait in standing.waits)
            done = ToolSuccess(output=JsonText('{"content":[]}'))
            await kernel.resolve(waits[0].unknown.call, done, by=BOSS, reason="it had arrived")
            result = await kernel.settlement(receipt)
    assert isinstance(result, Completed)
    assert [name for name, _ in server.called] == ["send"]
    changed = [record.tools for record in await world.records() if isinstance(record, ToolCatalogueChanged)]
    assert changed == [("s__send",), ("s__fetch",)]


async def _work_until_cancelled(kernel: Any) -> None:
    async with kernel.workers(name="worker", policy=WORKERS):
        await trio.sleep_forever()
