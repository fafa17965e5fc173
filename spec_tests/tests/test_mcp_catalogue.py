"""What a server lists: each definition for itself, within bounds, the same in every order (F-013, F-014, F-038)."""

import random
from typing import Any

import pytest

from tests.kernel_world import World, script, talker
from tests.mcp_peer import SERVER, Handle, Peer, call, definition, peer_in_place, public_names, tool_named
from triolet.adapters.mcp import McpLimits, McpPolicy, McpTimes, McpUnavailable, open_mcp
from triolet.adapters.mcp.messages import JsonObject
from triolet.adapters.scripted_model import call as calls
from triolet.adapters.scripted_model import turn
from triolet.kernel import Completed, tool
from triolet.ports.errors import InvalidValue
from triolet.ports.outcomes import ToolDefect, ToolFailure, ToolInvalidInput, ToolSuccess, ToolUnknownOutcome
from triolet.ports.records import ToolCatalogueChanged
from triolet.ports.strict_json import parse


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> Peer:
    return peer_in_place(monkeypatch)


_TREE = {
    "type": "object",
    "properties": {"node": {"$ref": "#/$defs/node"}},
    "required": ["node"],
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"value": {"type": "integer"}, "below": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
            "required": ["value"],
        }
    },
}
_TIGHT = {
    "type": "object",
    "properties": {"mood": {"type": ["string", "null"], "enum": ["good", "bad", None]}},
    "additionalProperties": False,
}


def _deep() -> Any:
    schema: Any = {"type": "object"}
    for _ in range(400):
        schema = {"not": schema}
    return schema


F013 = [
    definition("good", inputSchema=_TIGHT),
    definition("text", inputSchema={"type": "string"}),
    definition("any", inputSchema={"anyOf": [{"type": "object"}, {"type": "object", "properties": {}}]}),
    definition("lost", inputSchema={"type": "object", "properties": {"a": {"$ref": "#/$defs/nowhere"}}}),
    definition("unused", inputSchema={"type": "object", "$defs": {"a": {"$ref": "#/$defs/nowhere"}}}),
    definition("tree", inputSchema=_TREE),
    definition("misplaced", inputSchema={"type": "object", "properties": {"a": {}, "required": ["a"]}}),
    definition("remote", inputSchema={"type": "object", "properties": {"a": {"$ref": "https://test.invalid/x"}}}),
    definition("slow", inputSchema={"type": "object", "properties": {"a": {"type": "string", "pattern": r"(a)\1"}}}),
    {"name": "none"},
    {"inputSchema": {"type": "object"}},
    definition("", inputSchema={"type": "object"}),
    definition("n" * 501),
    definition("out", outputSchema={"type": "array"}),
    definition("dangling", outputSchema={"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}}),
    "no definition at all",
    definition("deep", inputSchema={"type": "object", "properties": {"a": _deep()}}),
    definition("nan", inputSchema={"type": "object", "properties": {"a": {"default": float("nan")}}}),
    definition("task", execution={"taskSupport": "required"}),
    definition("number", inputSchema={"type": "object", "properties": {"a": {"maximum": 2**60}}}),
]


async def test_f013_each_definition_is_judged_for_itself(peer: Peer, world: World) -> None:
    peer.tools = F013
    async with open_mcp(SERVER, name="s") as source:
        snapshot = await source.snapshot()
        assert public_names(snapshot.tools) == ["s__good", "s__tree"]
        reasons = {each.name: each.reason for each in snapshot.set_aside}
        assert reasons.keys() == {
            *("text", "any", "lost", "unused", "misplaced", "remote", "slow", "none", "(no name)", "", "out"),
            *("dangling", "number", "task", "deep", "nan", f"{'n' * 200}… (501 characters)"),
        }
        assert "only anyOf" in reasons["any"]
        assert "type 'string'" in reasons["text"]
        assert all(reasons.values())
        world.ports["tool_sources"] = (source,)
        agent = talker(sources=("s",))
        nested = {"node": {"value": 1, "below": [{"value": 2, "below": []}]}}
        broken = {"node": {"value": 1, "below": [{"value": "two"}]}}
        model = script(
            turn(calls("s__tree", nested), calls("s__tree", broken), calls("s__good", {"mood": None})), turn("Done.")
        )
        async with world.kernel(agent, model=model) as kernel:
            assert isinstance(await kernel.run(agent, "go"), Completed)
    first, second, third = world.outcomes()
    assert isinstance(first, ToolSuccess)
    assert isinstance(second, ToolInvalidInput)
    assert isinstance(third, ToolSuccess)
    assert sorted(peer.called()) == ["good", "tree"]
    assert [declared.input_schema for declared in model.requests[0].tools] == [_TIGHT, _TREE]
    assert world.of(ToolCatalogueChanged)[0].set_aside == 18


async def test_f014_the_snapshot_is_the_same_in_whatever_order_they_come(peer: Peer) -> None:
    peer.tools = [definition(f"t{number}") for number in range(30)]
    async with open_mcp(SERVER, name="s") as source:
        digests = set[str]()
        for _ in range(5):
            random.Random(len(digests)).shuffle(peer.tools)
            await peer.wire.notice("notifications/tools/list_changed")
            await call(source, "t1")
            snapshot = await source.snapshot()
            assert public_names(snapshot.tools) == sorted(public_names(snapshot.tools))
            digests.add(snapshot.digest)
        assert len(digests) == 1
        assert peer.listings > 3


async def test_f014_a_notice_during_a_call_is_taken_up_at_the_next_seam(peer: Peer, world: World) -> None:
    peer.tools = [definition("swap"), definition("old")]

    async def swaps(wire: Any, message: JsonObject) -> None:
        if message["params"]["name"] == "swap":
            peer.tools = [definition("new"), definition("swap", description="Changed.")]
            await wire.notice("notifications/tools/list_changed")
        await wire.answer(message, content=[{"type": "text", "text": "ended normally"}])

    peer.calls = swaps
    async with open_mcp(SERVER, name="s") as source:
        world.ports["tool_sources"] = (source,)
        agent = talker(sources=("s",))
        model = script(turn(calls("s__swap", {}), calls("s__old", {})), turn(calls("s__old", {})), turn("Done."))
        async with world.kernel(agent, model=model) as kernel:
            assert isinstance(await kernel.run(agent, "go"), Completed)
    shown = [[declared.name for declared in request.tools] for request in model.requests]
    assert shown == [["s__old", "s__swap"], ["s__new", "s__swap"], ["s__new", "s__swap"]]
    swapped, old, gone = world.outcomes()
    assert isinstance(swapped, ToolSuccess)
    assert isinstance(old, ToolSuccess)
    assert isinstance(gone, ToolInvalidInput)
    assert gone.reason == "unknown-tool"


async def test_f038_two_servers_and_a_local_tool_of_one_name(peer: Peer, world: World) -> None:
    @tool(execution="readonly")
    def run() -> str:
        """Run here."""
        return "local"

    long, foreign = "x" * 70, "größe"
    peer.tools = [definition("run"), definition(long), definition(foreign)]
    names: list[list[str]] = []
    for order in (("a.b", "a_b"), ("a_b", "a.b")):
        async with open_mcp(SERVER, name=order[0]) as one, open_mcp(SERVER, name=order[1]) as other:
            snapshots = [await source.snapshot() for source in sorted((one, other), key=lambda each: each.name)]
            names.append([name for snapshot in snapshots for name in public_names(snapshot.tools)])
            world.ports["tool_sources"] = (one, other)
            agent = talker(run, sources=order)
            wanted = [*names[-1], "run"]
            model = script(turn(*(calls(name, {}) for name in wanted)), turn("Done."))
            async with world.kernel(agent, model=model) as kernel:
                assert isinstance(await kernel.run(agent, "go"), Completed)
    assert names[0] == names[1]
    assert len({*names[0], "run"}) == 7
    assert "a_b__run" in names[0]
    assert sorted(peer.called()) == sorted([*("run", long, foreign) * 4])
    assert world.of(ToolCatalogueChanged, next(iter(world.store.logs)).conversation)


async def test_the_original_name_goes_to_the_server(peer: Peer) -> None:
    peer.tools = [definition("get weather/now")]
    async with open_mcp(SERVER, name="s") as source:
        found = await tool_named(source, "get weather/now")
        assert found.name.startswith("s__get_weather_now_")
        await call(source, "get weather/now")
    assert peer.called() == ["get weather/now"]


async def test_duplicate_names_are_one_tool_or_none(peer: Peer) -> None:
    peer.tools = [definition("same"), definition("same"), definition("other"), definition("other", description="Else.")]
    async with open_mcp(SERVER, name="s") as source:
        snapshot = await source.snapshot()
    assert public_names(snapshot.tools) == ["s__same"]
    assert [(each.name, each.reason) for each in snapshot.set_aside] == [
        ("other", "it is listed twice, and not the same")
    ]


async def test_a_thousand_tools_on_many_pages_and_the_rest_set_aside(peer: Peer) -> None:
    everything = [definition(f"t{number:04}") for number in range(1_200)]

    def pages(cursor: str | None) -> JsonObject:
        start = int(cursor or 0)
        following = {"nextCursor": str(start + 50)} if start + 50 < len(everything) else {}
        return {"tools": everything[start : start + 50], **following}

    peer.pages = pages
    async with open_mcp(SERVER, name="s") as source:
        snapshot = await source.snapshot()
    assert len(snapshot.tools) == 1_000
    assert len(snapshot.set_aside) == 200
    assert "which is the limit" in snapshot.set_aside[0].reason
    assert peer.listings == 24


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        ({"tools": [], "nextCursor": "again"}, "protocol"),
        ({"tools": "many"}, "protocol"),
        ({"tools": [definition("t", description="x" * 3_000)]}, "too-large"),
    ],
)
async def test_a_catalogue_that_cannot_be_read_is_a_typed_error(peer: Peer, page: JsonObject, reason: str) -> None:
    peer.pages = lambda _: page
    with pytest.raises(McpUnavailable) as caught:
        async with open_mcp(SERVER, name="s", limits=McpLimits(catalogue_bytes=2_000)):
            pytest.fail("it was opened")
    assert caught.value.reason == reason
    assert peer.open == 0


async def test_a_catalogue_without_an_end_is_given_up(peer: Peer) -> None:
    peer.pages = lambda cursor: {"tools": [], "nextCursor": f"{cursor}+"}
    with pytest.raises(McpUnavailable, match="more than 7 pages"):
        async with open_mcp(SERVER, name="s", limits=McpLimits(pages=7)):
            pytest.fail("it was opened")
    assert peer.listings == 7


async def test_a_listing_that_never_ends_is_given_up_in_time(peer: Peer, autojump_clock: Any) -> None:
    peer.never_lists = True
    with pytest.raises(McpUnavailable, match="not listed within 4 s"):
        async with open_mcp(SERVER, name="s", times=McpTimes(listing=4)):
            pytest.fail("it was opened")


async def test_a_server_without_tools_has_an_empty_catalogue(peer: Peer) -> None:
    peer.capabilities = {"resources": {}, "prompts": {}}
    async with open_mcp(SERVER, name="s") as source:
        snapshot = await source.snapshot()
    assert snapshot.tools == ()
    assert snapshot.provenance.capabilities == ("prompts", "resources")
    assert peer.listings == 0


async def test_the_provenance_is_what_the_server_says_it_is(peer: Peer) -> None:
    peer.name, peer.version = "A \ud800 server" + "x" * 300, "2\x00"
    async with open_mcp(SERVER, name="mine") as source:
        provenance = (await source.snapshot()).provenance
    assert provenance.source == "mine"
    assert provenance.server.startswith("A \ufffd server")
    assert len(provenance.server) < 250
    assert (provenance.version, provenance.protocol) == ("2\ufffd", "2025-11-25")
    assert (provenance.transport, provenance.capabilities) == ("streamable-http", ("tools",))


_HINTS = [
    definition("read", annotations={"readOnlyHint": True}),
    definition("again", annotations={"idempotentHint": True, "readOnlyHint": False}),
    definition("both", annotations={"idempotentHint": True, "readOnlyHint": True}),
    definition("plain"),
    definition("odd", annotations={"readOnlyHint": "yes"}),
    definition("liar", annotations=["readOnlyHint"]),
]


@pytest.mark.parametrize(
    ("trusted", "expected"),
    [
        ((), dict.fromkeys(("read", "again", "both", "plain", "odd", "liar"), "uncertain")),
        (
            ("*",),
            {
                "read": "readonly",
                "again": "idempotent",
                "both": "readonly",
                "plain": "uncertain",
                "odd": "uncertain",
                "liar": "uncertain",
            },
        ),
        (
            ("r*",),
            {
                "read": "readonly",
                **dict.fromkeys(("again", "both", "plain", "odd", "liar"), "uncertain"),
            },
        ),
    ],
)
async def test_a_tool_is_uncertain_unless_server_and_host_say_otherwise(
    peer: Peer, trusted: tuple[str, ...], expected: dict[str, str]
) -> None:
    peer.tools = _HINTS
    async with open_mcp(SERVER, name="s", policy=McpPolicy(trust_hints=trusted)) as source:
        snapshot = await source.snapshot()
    assert {each.origin.name: each.execution for each in snapshot.tools if each.origin} == expected


async def test_the_hosts_policy_sets_aside_asks_and_redacts(peer: Peer) -> None:
    peer.tools = [definition(name) for name in ("read", "write", "wipe")]
    policy = McpPolicy(allow=("read", "w*"), deny=("wi*",), ask=("write",), risk="high", redact=lambda _: "gone")
    async with open_mcp(SERVER, name="s", policy=policy) as source:
        snapshot = await source.snapshot()
        assert source.requires == {"approval", "inbox"}
    assert public_names(snapshot.tools) == ["s__read", "s__write"]
    assert [each.name for each in snapshot.set_aside] == ["wipe"]
    assert [each.needs_approval for each in snapshot.tools] == [False, True]
    assert {each.risk for each in snapshot.tools} == {"high"}
    assert snapshot.tools[0].redact is policy.redact


async def test_structured_data_are_held_to_the_tools_schema_at_the_boundary(peer: Peer, world: World) -> None:
    output = {
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/t"}},
        "required": ["tree"],
        "$defs": {"t": {"type": "object", "properties": {"n": {"type": "integer"}, "t": {"$ref": "#/$defs/t"}}}},
    }
    peer.tools = [definition("tree", outputSchema=output)]
    structured: list[Any] = [{"tree": {"n": 1, "t": {"n": 2}}}, {"tree": {"n": 1, "t": {"n": "two"}}}, {}, None]

    async def answers(wire: Any, message: JsonObject) -> None:
        found = structured.pop(0)
        more = {} if found is None else {"structuredContent": found}
        await wire.answer(message, content=[], **more)

    peer.calls = answers
    async with open_mcp(SERVER, name="s") as source:
        world.ports["tool_sources"] = (source,)
        agent = talker(sources=("s",))
        model = script(*(turn(calls("s__tree", {})) for _ in range(4)), turn("Done."))
        async with world.kernel(agent, model=model) as kernel:
            assert isinstance(await kernel.run(agent, "go"), Completed)
    good, *bad = world.outcomes()
    assert isinstance(good, ToolSuccess)
    assert parse(good.output) == {"content": [], "structured": {"tree": {"n": 1, "t": {"n": 2}}}}
    assert bad == [ToolDefect(reason="output", type="InvalidValue", effect_possible=True)] * 3


async def test_calls_of_a_run_end_in_the_six_outcomes(peer: Peer, world: World, autojump_clock: Any) -> None:
    async def answers(wire: Any, message: JsonObject) -> None:
        match message["params"]["arguments"]["how"]:
            case "well":
                await wire.answer(message, content=[{"type": "text", "text": "\ud800 well \x00"}])
            case "badly":
                await wire.answer(message, content=[{"type": "text", "text": "no"}], isError=True)
            case "refused":
                await wire.refuse(message, -32602, "wrong")
            case "lost":
                await wire.break_off()
            case _:
                pass

    peer.calls = answers
    asked = ("well", "badly", "refused", "late", "lost")
    async with open_mcp(SERVER, name="s", times=McpTimes(call=9)) as source:
        world.ports["tool_sources"] = (source,)
        agent = talker(sources=("s",))
        model = script(*(turn(calls("s__echo", {"how": how})) for how in asked), turn("Done."))
        async with world.kernel(agent, model=model) as kernel:
            assert isinstance(await kernel.run(agent, "go"), Completed)
    well, badly, refused, late, lost = world.outcomes()
    assert isinstance(well, ToolSuccess)
    assert parse(well.output) == {"content": [{"type": "text", "text": "\ufffd well \ufffd"}]}
    assert isinstance(badly, ToolFailure)
    assert badly.type == "McpToolFailed"
    assert parse(badly.payload) == {"content": [{"type": "text", "text": "no"}], "structured": None}
    assert isinstance(refused, ToolFailure)
    assert parse(refused.payload) == {"code": -32602, "problem": "wrong"}
    assert late == ToolUnknownOutcome(reason="timeout")
    assert lost == ToolUnknownOutcome(reason="connection-lost")
    assert peer.called() == ["echo"] * 5


async def test_a_snapshot_outlives_its_connection_and_its_tools_find_the_next_one(peer: Peer) -> None:
    async with open_mcp(SERVER, name="s") as source:
        old = await tool_named(source, "echo")
        await peer.wire.break_off()
        peer.tools = []
        handler: Any = old.handler
        assert (await handler({}, Handle()))["content"]
        assert (await source.snapshot()).tools == ()


async def test_input_that_the_schema_refuses_never_reaches_the_server(peer: Peer) -> None:
    peer.tools = [definition("good", inputSchema=_TIGHT)]
    async with open_mcp(SERVER, name="s") as source:
        with pytest.raises(InvalidValue):
            await call(source, "good", mood="sour")
    assert peer.called() == []
