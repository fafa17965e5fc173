"""Tool sources in a run: taken up at a seam, recorded, and never under a call's feet (CAP-009, F-014, F-038)."""

from typing import Any

import pytest
import trio

from tests.approval_world import AwayDesk
from tests.kernel_world import World, script, shown_outcomes, talker
from triolet.adapters.authorizers import RecordingAuthorizer
from triolet.adapters.held_tools import HeldTools
from triolet.adapters.memory import MemoryInbox
from triolet.adapters.scripted_model import call, turn
from triolet.kernel import (
    ApprovalPolicy,
    Completed,
    DuplicateSource,
    InvalidAgent,
    MissingCapabilities,
    Policy,
    Suspended,
    ToolNameClash,
    tool,
)
from triolet.ports.approval import Decision
from triolet.ports.events import ToolCatalogueTaken
from triolet.ports.identity import Principal
from triolet.ports.language_model import OneTool
from triolet.ports.outcomes import ToolDefect, ToolInvalidInput, ToolSuccess, ToolUnknownOutcome
from triolet.ports.records import ModelResponded, RunSettled, ToolCatalogueChanged
from triolet.ports.strict_json import JsonText
from triolet.ports.tool_context import OutcomeUnknown, ToolContext
from triolet.ports.tool_names import MAX_PUBLIC_NAME, public_name
from triolet.ports.tool_source import SetAside, ToolSourceUnavailable
from triolet.ports.tools import ExecutionClass, Tool, ToolOrigin


@tool(execution="readonly")
def look() -> str:
    """Look."""
    return "seen"


@tool(execution="readonly")
def listen() -> str:
    """Listen."""
    return "heard"


def succeeded(output: str) -> ToolSuccess:
    return ToolSuccess(output=JsonText(output))


def _bind(world: World, *sources: HeldTools) -> None:
    world.ports["tool_sources"] = sources


def _names(request: Any) -> list[str]:
    return [declaration.name for declaration in request.tools]


async def test_an_agent_is_offered_its_own_tools_and_those_of_its_sources(world: World) -> None:
    _bind(world, HeldTools("senses", [look, listen]), HeldTools("other", [look]))
    agent = talker(look, sources=("senses",))
    model = script(turn(call("senses__listen", {})), turn("Done."))
    async with world.kernel(agent, model=model) as kernel:
        assert isinstance(await kernel.run(agent, "go"), Completed)
    assert _names(model.requests[0]) == ["look", "senses__listen", "senses__look"]
    assert world.outcomes() == [succeeded('"heard"')]


async def test_what_a_source_offers_is_on_record_before_the_first_request(world: World) -> None:
    source = HeldTools("senses", [look], version="7", set_aside=[SetAside(name="smell", reason="no schema")])
    _bind(world, source)
    agent = talker(sources=("senses",))
    events: list[Any] = []
    async with world.kernel(agent, model=script(turn("Done."))) as kernel, kernel.stream(agent, "go") as run:
        events.extend([event async for event in run])
    [record] = world.of(ToolCatalogueChanged)
    assert (record.source, record.server, record.source_version, record.transport) == (
        "senses",
        "senses",
        "7",
        "memory",
    )
    assert (record.tools, record.set_aside) == (("senses__look",), 1)
    assert record.digest == (await source.snapshot()).digest
    records = [type(each) for each in world.records()]
    assert records.index(ToolCatalogueChanged) < records.index(ModelResponded)
    [taken] = [event for event in events if isinstance(event, ToolCatalogueTaken)]
    assert (taken.source, taken.tools, taken.set_aside) == ("senses", ("senses__look",), 1)


async def test_f014_a_change_during_a_call_is_taken_up_at_the_next_seam(world: World) -> None:
    source: HeldTools

    @tool(execution="readonly")
    def swap() -> str:
        """Change the catalogue while this runs."""
        source.hold([listen])
        return "swapped"

    source = HeldTools("senses", [swap, look])
    _bind(world, source)
    agent = talker(sources=("senses",))
    model = script(
        turn(call("senses__swap", {}), call("senses__look", {})), turn(call("senses__look", {})), turn("Done.")
    )
    async with world.kernel(agent, model=model) as kernel:
        assert isinstance(await kernel.run(agent, "go"), Completed)
    assert [_names(request) for request in model.requests] == [
        ["senses__look", "senses__swap"],
        ["senses__listen"],
        ["senses__listen"],
    ]
    swapped, looked, gone = world.outcomes()
    assert (swapped, looked) == (succeeded('"swapped"'), succeeded('"seen"'))
    assert isinstance(gone, ToolInvalidInput)
    assert gone.reason == "unknown-tool"
    assert [record.tools for record in world.of(ToolCatalogueChanged)] == [
        ("senses__look", "senses__swap"),
        ("senses__listen",),
    ]


async def test_f014_the_tools_of_a_request_are_the_same_while_nothing_changes(world: World) -> None:
    """Whatever order the other end lists its tools in, and however often it says that something has changed."""
    one, other = HeldTools("b", [look, listen]), HeldTools("a", [listen, look])
    _bind(world, one, other)

    @tool(execution="readonly")
    def shuffle() -> str:
        """List the same tools in another order."""
        one.hold([listen, look])
        other.hold([look, listen])
        return "shuffled"

    agent = talker(shuffle, sources=("b", "a"))
    model = script(turn(call("shuffle")), turn(call("shuffle")), turn("Done."))
    async with world.kernel(agent, model=model) as kernel:
        assert isinstance(await kernel.run(agent, "go"), Completed)
    assert len({repr(request.tools) for request in model.requests}) == 1
    assert _names(model.requests[0]) == ["shuffle", "a__listen", "a__look", "b__listen", "b__look"]
    assert len(world.of(ToolCatalogueChanged)) == 2


async def test_each_run_has_its_own_record_of_what_it_was_offered(world: World) -> None:
    _bind(world, HeldTools("senses", [look]))
    agent = talker(sources=("senses",))
    async with (
        world.kernel(agent, model=script(turn("One."), turn("Two."))) as kernel,
        kernel.conversation("c") as conversation,
    ):
        for _ in range(2):
            await conversation.run(agent, "go")
    assert len(world.of(ToolCatalogueChanged, "c")) == 2


class _Restless(HeldTools):
    """A source that always says that it has changed."""

    asked = 0

    def changed(self, since: Any) -> bool:
        return True

    async def snapshot(self) -> Any:
        self.asked += 1
        return await super().snapshot()


async def test_a_flood_of_notices_costs_one_look_a_turn(world: World) -> None:
    source = _Restless("senses", [look])
    _bind(world, source)
    agent = talker(sources=("senses",))
    model = script(turn(call("senses__look", {})), turn(call("senses__look", {})), turn("Done."))
    async with world.kernel(agent, model=model) as kernel:
        opened = source.asked
        assert isinstance(await kernel.run(agent, "go"), Completed)
    assert source.asked - opened == 3
    assert len(world.of(ToolCatalogueChanged)) == 1


async def test_a_source_that_cannot_be_asked_keeps_what_it_gave(world: World) -> None:
    source = HeldTools("senses", [look])
    _bind(world, source)

    @tool(execution="readonly")
    def cut() -> str:
        """Cut the line, after a change."""
        source.hold([listen])
        source.problem = "down"
        return "cut"

    agent = talker(cut, sources=("senses",))
    model = script(turn(call("cut")), turn(call("senses__look", {})), turn("Done."))
    async with world.kernel(agent, model=model) as kernel:
        assert isinstance(await kernel.run(agent, "go"), Completed)
    assert world.outcomes() == [succeeded('"cut"'), succeeded('"seen"')]


async def test_a_source_that_never_answered_ends_the_run_with_its_error(world: World) -> None:
    source = HeldTools("senses", [look])
    _bind(world, source)
    agent = talker(sources=("senses",))
    async with world.kernel(agent, model=script()) as kernel:
        source.problem = "down"
        with pytest.raises(ToolSourceUnavailable, match="down"):
            await kernel.run(agent, "go")
    assert world.settlement().status == "aborted"


async def test_a_source_that_is_down_is_said_when_the_kernel_is_opened(world: World) -> None:
    source = HeldTools("senses", [look])
    source.problem = "down"
    _bind(world, source)
    with pytest.raises(ToolSourceUnavailable, match="'senses' is unavailable: down"):
        async with world.kernel(talker(sources=("senses",)), model=script()):
            pytest.fail("it was opened")


async def test_a_missing_source_and_what_a_source_needs_are_named_at_assembly(world: World) -> None:
    _bind(world, HeldTools("senses", [look], requires=frozenset({"approval", "inbox"})))
    with pytest.raises(MissingCapabilities) as caught:
        async with world.kernel(talker(sources=("senses", "memory")), model=script()):
            pytest.fail("it was opened")
    assert caught.value.missing == (
        ("approval", "tool source senses"),
        ("inbox", "tool source senses"),
        ("tool source memory", "agent talker"),
    )


async def test_two_sources_of_one_name_are_refused(world: World) -> None:
    _bind(world, HeldTools("senses", [look]), HeldTools("senses", [listen]))
    with pytest.raises(DuplicateSource, match="'senses'"):
        async with world.kernel(talker(), model=script()):
            pytest.fail("it was opened")


async def test_f038_a_clash_is_refused_at_setup_with_both_owners(world: World) -> None:
    own = Tool(name="senses__look", description="", input=look.input, output=look.output, handler=look.handler)
    _bind(world, HeldTools("senses", [look]))
    with pytest.raises(ToolNameClash) as caught:
        async with world.kernel(talker(own, sources=("senses",)), model=script()):
            pytest.fail("it was opened")
    assert caught.value.tool == "senses__look"
    assert caught.value.owners == ("the agent's toolkit", "tool source senses")


async def test_f038_a_clash_that_comes_later_leaves_the_newcomer_out(world: World) -> None:
    own = Tool(
        name="senses__look", description="", input=look.input, output=look.output, handler=look.handler, threaded=True
    )
    source = HeldTools("senses", [listen])
    _bind(world, source)
    agent = talker(own, sources=("senses",))
    model = script(turn("Done."))
    async with world.kernel(agent, model=model) as kernel:
        source.hold([listen, look])
        assert isinstance(await kernel.run(agent, "go"), Completed)
    assert _names(model.requests[0]) == ["senses__look", "senses__listen"]
    [record] = world.of(ToolCatalogueChanged)
    assert (record.tools, record.set_aside) == (("senses__listen",), 1)


async def test_a_tool_that_needs_more_than_its_source_said_is_left_out(world: World) -> None:
    @tool(needs_approval=True)
    def spend() -> str:
        """Spend."""
        return "spent"

    _bind(world, HeldTools("purse", [spend, look]))
    agent = talker(sources=("purse",))
    model = script(turn("Done."))
    async with world.kernel(agent, model=model) as kernel:
        await kernel.run(agent, "go")
    assert _names(model.requests[0]) == ["purse__look"]
    assert world.of(ToolCatalogueChanged)[0].set_aside == 1


async def test_authority_is_told_which_source_a_tool_comes_from(world: World) -> None:
    authorizer = RecordingAuthorizer()
    world.ports["authorizer"] = authorizer
    _bind(world, HeldTools("senses", [look]))
    agent = talker(sources=("senses",))
    async with world.kernel(agent, model=script(turn(call("senses__look", {})), turn("Done."))) as kernel:
        await kernel.run(agent, "go")
    [(action, _)] = authorizer.asked
    assert getattr(action, "origin", None) == ToolOrigin(source="senses", name="look")


async def test_a_resumed_run_is_judged_by_what_the_source_offers_then(world: World) -> None:
    ran: list[str] = []

    @tool(needs_approval=True)
    def spend() -> str:
        """Spend."""
        ran.append("spend")
        return "spent"

    @tool(needs_approval=True)
    def lend() -> str:
        """Lend."""
        ran.append("lend")
        return "lent"

    source = HeldTools("purse", [spend, lend], requires=frozenset({"approval", "inbox"}))
    _bind(world, source)
    world.ports |= {"approval": AwayDesk(), "inbox": MemoryInbox()}
    policy = Policy(approval=ApprovalPolicy(silence="wait"))
    agent = talker(sources=("purse",), policy=policy)
    model = script(turn(call("purse__spend", {}), call("purse__lend", {})), turn("Done."))
    async with world.kernel(agent, model=model) as kernel, kernel.conversation("c") as conversation:
        suspended = await conversation.run(agent, "go")
        assert isinstance(suspended, Suspended)
        for request in suspended.requests:
            yes = Decision(verdict="approved", by=Principal(name="ann"), reason="", arguments=request.arguments)
            await kernel.answer(request.id, yes)
    source.hold([lend])
    async with world.kernel(agent, model=model) as kernel:
        assert isinstance(await kernel.resume(suspended), Completed)
    gone, lent = world.outcomes("c")
    assert isinstance(gone, ToolInvalidInput)
    assert lent == succeeded('"lent"')
    assert ran == ["lend"]
    assert [record.tools for record in world.of(ToolCatalogueChanged, "c")] == [
        ("purse__lend", "purse__spend"),
        ("purse__lend",),
    ]


@pytest.mark.parametrize(
    ("execution", "reason", "outcome"),
    [
        ("uncertain", "connection-lost", ToolUnknownOutcome(reason="connection-lost")),
        ("uncertain", "timeout", ToolUnknownOutcome(reason="timeout")),
        ("readonly", "timeout", ToolDefect(reason="timeout", effect_possible=False)),
        ("idempotent", "timeout", ToolDefect(reason="timeout", effect_possible=True)),
        ("readonly", "connection-lost", ToolDefect(reason="exception", type="OutcomeUnknown", effect_possible=False)),
    ],
)
async def test_f033_an_answer_that_never_comes_is_an_outcome(
    world: World, execution: ExecutionClass, reason: Any, outcome: object
) -> None:
    @tool(execution=execution)
    async def send(context: ToolContext) -> str:
        """Send."""
        raise OutcomeUnknown(reason=reason, problem="the line is down")

    agent = talker(send)
    model = script(turn(call("send")), turn("Done."))
    async with world.kernel(agent, model=model) as kernel:
        assert isinstance(await kernel.run(agent, "go"), Completed)
    assert world.outcomes() == [outcome] == shown_outcomes(model.requests[-1])


async def test_a_tool_choice_that_a_source_has_to_serve_is_looked_at_when_it_is_asked_for(world: World) -> None:
    source = HeldTools("senses", [look])
    _bind(world, source)
    agent = talker(sources=("senses",), tool_choice=OneTool(name="senses__look"))
    async with world.kernel(agent, model=script(turn("Done."))) as kernel:
        assert isinstance(await kernel.run(agent, "go"), Completed)
        source.hold([])
        with pytest.raises(InvalidAgent, match="tool_choice names a tool"):
            await kernel.run(agent, "go")
    with pytest.raises(InvalidAgent, match="distinct names"):
        talker(sources=("senses", "senses"))


async def test_a_run_that_is_cancelled_while_a_source_is_asked_is_sealed(world: World, autojump_clock: Any) -> None:
    class Slow(HeldTools):
        slow = False

        async def snapshot(self) -> Any:
            if self.slow:
                await trio.sleep_forever()
            return await super().snapshot()

    source = Slow("senses", [look])
    _bind(world, source)
    agent = talker(sources=("senses",))
    async with world.kernel(agent, model=script()) as kernel:
        source.slow = True
        with trio.move_on_after(3) as scope:
            await kernel.run(agent, "go")
    assert scope.cancelled_caught
    assert world.of(RunSettled)[0].reason == "cancelled"


def test_f038_public_names_are_legal_distinct_and_the_same_everywhere() -> None:
    pairs = [
        ("a.b", "run"),
        ("a_b", "run"),
        ("a", "b__run"),
        ("a__b", "run"),
        ("a_", "x"),
        ("a", "_x"),
        ("files", "x" * 70),
        ("files", "x" * 71),
        ("files", "naïve"),
        ("files", "na_ve"),
        ("ö", "run"),
        ("1", "run"),
        ("files", "run_0123456789"),
        ("files", ""),
        ("files", "\ud800"),
        ("s" * 100, "t" * 500),
    ]
    names = [public_name(*pair) for pair in pairs]
    assert len(set(names)) == len(pairs)
    assert all(len(name) <= MAX_PUBLIC_NAME for name in names)
    for name in names:
        Tool(name=name, description="", input=look.input, output=look.output, handler=look.handler)
    assert names == [public_name(*pair) for pair in reversed(pairs)][::-1]
    assert public_name("files", "read") == "files__read"
