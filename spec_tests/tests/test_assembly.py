"""Assembly: everything that is missing is named at once and before anything happens, and an agent is what it says."""

from typing import Any

import attrs
import pytest
import trio
import trio.testing

from tests.kernel_world import World, one_agent, script, talker
from triolet.adapters.memory import in_memory
from triolet.adapters.scripted_model import call, turn
from triolet.kernel import (
    Agent,
    Capabilities,
    DuplicateAgent,
    InvalidAgent,
    InvalidInstructions,
    MissingCapabilities,
    Policy,
    Tool,
    ToolContext,
    Toolkit,
    UnknownAgent,
    open_kernel,
    tool,
)
from triolet.ports.errors import InvalidJson, Misuse, UnrenderableSchema
from triolet.ports.schema import codec_for


@tool(requires=["artifacts", "model"], group="disk")
async def store(text: str) -> str:
    """Store."""
    return text


@tool(needs_approval=True, group="net")
async def send(context: ToolContext, text: str) -> str:
    """Send."""
    return text


@tool
async def act() -> str:
    """Act."""
    return "acted"


# --- CAP-002 ------------------------------------------------------------------------------------------


async def test_cap_002_everything_that_is_missing_is_named_at_once() -> None:
    agents = [talker(store, id="one"), talker(send, store, id="two"), talker(id="three", model=script(turn("x")))]
    with pytest.raises(MissingCapabilities) as caught:
        async with open_kernel(agents=agents, capabilities=Capabilities(), groups={"net": 1}):
            raise AssertionError("it cannot be opened")
    assert caught.value.missing == (
        ("approval", "tool send"),
        ("artifacts", "tool store"),
        ("clock", "every run"),
        ("conversations", "every run"),
        ("group disk", "tool store"),
        ("ids", "every run"),
        ("inbox", "tool send"),
        ("model", "agent one"),
        ("model", "agent two"),
        ("model", "tool store"),
    )
    assert all(port in str(caught.value) for port, _ in caught.value.missing)
    assert isinstance(caught.value, Misuse)


@pytest.mark.parametrize("port", ["conversations", "clock", "ids"])
async def test_each_port_that_every_run_needs(port: str) -> None:
    capabilities = attrs.evolve(in_memory(model=script()), **{port: None})
    with pytest.raises(MissingCapabilities) as caught:
        async with open_kernel(agents=[talker()], capabilities=capabilities):
            raise AssertionError("it cannot be opened")
    assert caught.value.missing == ((port, "every run"),)


async def test_an_agent_with_a_model_of_its_own_needs_no_other(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    agent = talker(model=script(turn("mine")))
    async with world.kernel(agent, model=None) as kernel:
        assert (await kernel.run(agent, "x")).output == "mine"


async def test_a_complete_assembly_opens(world: World, autojump_clock: trio.testing.MockClock) -> None:
    needy = talker(attrs.evolve(store, requires=frozenset({"model", "clock"})))
    async with world.kernel(needy, model=script(turn("x")), groups={"disk": 2}) as kernel:
        assert (await kernel.run(needy, "x")).output == "x"


# --- agents of a kernel -------------------------------------------------------------------------------


async def test_two_agents_of_one_id_are_refused(world: World) -> None:
    for agents in ([talker(), talker()], [talker()] * 2):
        with pytest.raises(DuplicateAgent):
            async with world.kernel(*agents, model=script()):
                raise AssertionError("it cannot be opened")


async def test_an_agent_that_the_kernel_does_not_know_runs_nowhere(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    # Preflight has not seen it: its tools may need what is not there.
    stranger, namesake = talker(send, id="stranger"), talker(send, id="talker")
    agent = talker()
    async with one_agent(world, agent) as (kernel, _):
        for unknown in (stranger, namesake):
            with pytest.raises(UnknownAgent) as caught:
                await kernel.run(unknown, "x")
            assert caught.value.near == ("talker",)
            with pytest.raises(UnknownAgent):
                async with kernel.stream(unknown, "x"):
                    raise AssertionError("no run")
        assert not world.store.logs
        async with kernel.conversation("c") as conversation:
            for unknown in (stranger, namesake):
                with pytest.raises(UnknownAgent):
                    await conversation.run(unknown, "x")
                with pytest.raises(UnknownAgent):
                    async with conversation.stream(unknown, "x"):
                        raise AssertionError("no run")
    assert [record.kind for record in world.records("c")] == ["conversation_created"]


# --- agents -------------------------------------------------------------------------------------------


@attrs.frozen
class Pair:
    a: int
    b: int


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        (str, "as it is", "as it is"),
        (Pair, Pair(1, 2), '{"a":1,"b":2}'),
        (int, 5, "5"),
        (list[str], ["a"], '["a"]'),
        (codec_for(Pair), Pair(1, 2), '{"a":1,"b":2}'),
        (codec_for(str | None), None, "null"),
    ],
    ids=range(6),
)
async def test_input_and_output_of_every_kind(
    world: World, autojump_clock: trio.testing.MockClock, kind: Any, value: Any, shown: str
) -> None:
    agent: Agent[Any, Any] = Agent(id="any", input=kind, output=kind)
    async with one_agent(world, agent, turn(shown)) as (kernel, model):
        result = await kernel.run(agent, value)
    assert result.output == value
    assert model.requests[0].messages[0].parts[0].text == shown  # type: ignore[union-attr]
    assert (model.requests[0].output is None) == (kind is str)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"id": ""}, InvalidAgent),
        ({"id": "x" * 101}, InvalidAgent),
        ({"id": "a\ud800"}, InvalidJson),
        ({"input": object}, UnrenderableSchema),
        ({"output": dict}, UnrenderableSchema),
        ({"instructions": "a\ud800"}, InvalidJson),
    ],
)
def test_an_agent_that_contradicts_itself_cannot_be_made(fields: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        given: dict[str, Any] = {"id": "a", "input": str, "output": str, **fields}
        Agent(**given)


def _boss(_: str) -> str:
    return "Do it."


def _other_boss(_: str) -> str:
    return "Do it."


def test_the_definition_changes_with_what_a_model_is_asked_or_allowed_and_with_nothing_else() -> None:
    def made(**fields: Any) -> str:
        return talker(*fields.pop("tools", (act,)), **fields).definition

    same = [
        made(),
        made(model=script()),
        made(tools=(attrs.evolve(act, handler=store.handler),)),
    ]
    assert len(set(same)) == 1
    others = [
        made(id="another"),
        made(version="2"),
        made(instructions="Be brief."),
        made(instructions=_boss),
        made(instructions=_other_boss),
        made(tools=()),
        made(tools=(act, store)),
        made(tools=(attrs.evolve(act, description="Another."),)),
        made(tools=(attrs.evolve(act, execution="readonly"),)),
        made(policy=Policy(max_turns=11)),
        made(policy=Policy(max_seconds=None)),
        made(tool_choice="none"),
        made(output=int),
        made(input=int),
    ]
    assert len({same[0], *others}) == 1 + len(others)


@pytest.mark.parametrize("given", [5, None, b"bytes", "a\ud800", "a\0", "x" * (1024 * 1024 + 1)])
async def test_instructions_that_are_no_text_leave_no_trace(
    world: World, autojump_clock: trio.testing.MockClock, given: Any
) -> None:
    agent = talker(instructions=lambda _: given)
    async with one_agent(world, agent) as (kernel, _), kernel.conversation("c") as conversation:
        with pytest.raises(Misuse) as caught:
            await conversation.run(agent, "x")
        assert (
            isinstance(caught.value, InvalidInstructions)
            or "surrogate" in str(caught.value)
            or "0000" in str(caught.value)
        )
        assert len(str(caught.value)) < 500
    assert [record.kind for record in world.records("c")] == ["conversation_created"]


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_instructions_that_raise_are_seen_as_they_are(
    world: World, autojump_clock: trio.testing.MockClock, asynchronous: bool
) -> None:
    def fail(_: str) -> str:
        raise LookupError("no template")

    async def fail_later(_: str) -> str:
        await trio.lowlevel.checkpoint()
        raise LookupError("no template")

    agent = talker(instructions=fail_later if asynchronous else fail)
    async with one_agent(world, agent) as (kernel, _), kernel.conversation("c") as conversation:
        with pytest.raises(LookupError, match="no template"):
            await conversation.run(agent, "x")
        with pytest.raises(LookupError):
            await kernel.run(agent, "x")
    assert [record.kind for record in world.records("c")] == ["conversation_created"]
    assert world.store.alive() == ["c"]


async def test_instructions_that_take_their_time_can_be_cancelled(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    async def ponder(_: str) -> str:
        await trio.sleep_forever()
        raise AssertionError("unreachable")

    agent = talker(instructions=ponder)
    async with one_agent(world, agent) as (kernel, _):
        with trio.move_on_after(5) as scope:
            await kernel.run(agent, "x")
        assert scope.cancelled_caught
    assert world.store.alive() == []


async def test_a_tool_made_by_hand_runs_like_one_from_a_function(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    async def handler(pair: Pair, context: ToolContext) -> int:
        return pair.a + pair.b

    by_hand = Tool(name="sum", description="Add.", input=codec_for(Pair), output=codec_for(int), handler=handler)
    agent = talker(by_hand)
    assert list(agent.toolkit) == [by_hand] == list(Toolkit([by_hand]))
    async with one_agent(world, agent, turn(call("sum", {"a": 1, "b": 2})), turn("3")) as (kernel, _):
        assert (await kernel.run(agent, "x")).output == "3"
    assert [getattr(outcome, "output", None) for outcome in world.outcomes()] == ["3"]
