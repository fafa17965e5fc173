"""What a source offers: whose it is, under which names, by which schemas, and within which bounds. CAP-009, CAP-004."""

import re

from triolet.ports.errors import Misuse
from triolet.ports.strict_json import JsonValue
from triolet.ports.tool_source import MAX_IDENTITY, MAX_SNAPSHOT_TOOLS, ToolSourceUnavailable, snapshot_of
from triolet.spec_tests.cases.tool_source.setting import Definition, ToolSourceSubject, run_tool, tools_of
from triolet.spec_tests.claims import ensure, ensure_equal, ensure_raises, lever
from triolet.spec_tests.definition import case

_LEGAL = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}\Z")
_TREE: dict[str, JsonValue] = {
    "type": "object",
    "properties": {"node": {"$ref": "#/$defs/node"}},
    "required": ["node"],
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"n": {"type": "integer"}, "below": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
            "required": ["n"],
        }
    },
}


@case("CAP-009")
async def a_snapshot_says_whose_it_is(subject: ToolSourceSubject) -> None:
    """The provenance names the source and what is at the other end, and every tool says that it comes from there."""
    source = subject.port
    snapshot = await source.snapshot()
    ensure_equal(snapshot.provenance.source, source.name, "the source in the provenance")
    ensure(bool(snapshot.provenance.server), "the provenance does not say who is at the other end")
    ensure(bool(snapshot.tools), "the source offers no tool, though it is said to have one")
    for tool in snapshot.tools:
        ensure(tool.origin is not None and tool.origin.source == source.name, "a tool does not say where it comes from")


@case("CAP-009")
async def a_digest_covers_what_is_offered(subject: ToolSourceSubject) -> None:
    """A snapshot is sorted, and its digest is the one of its tools."""
    snapshot = await subject.port.snapshot()
    names = [tool.name for tool in snapshot.tools]
    ensure_equal(names, sorted(names), "the order of the tools")
    again = snapshot_of(snapshot.provenance, reversed(snapshot.tools), snapshot.set_aside)
    ensure_equal(snapshot.digest, again.digest, "the digest")


@case("CAP-009", needs=("offer", "called"))
async def names_are_legal_distinct_and_one_to_one(subject: ToolSourceSubject) -> None:
    """Whatever tools are called at the other end, they have legal, distinct names here, and each reaches its own."""
    own = ("plain", "with space", "with.dot", "with_dot", "ünïcode", "x" * 70, "x" * 71, "1st", "__proto__")
    await lever(subject.offer, "offer")([Definition(name=name) for name in own])
    tools = await tools_of(subject.port)
    ensure_equal(sorted(tools), sorted(own), "the tools that are offered, by their own names")
    names = [tool.name for tool in tools.values()]
    ensure(all(_LEGAL.match(name) for name in names), "a public name is not legal")
    ensure_equal(len(set(names)), len(own), "how many public names there are")
    for name, tool in tools.items():
        await run_tool(tool)
        ensure_equal(lever(subject.called, "called")()[-1], name, "the tool that was reached at the other end")


@case("CAP-009", needs=("offer",))
async def names_do_not_depend_on_who_else_is_there(subject: ToolSourceSubject) -> None:
    """A tool has the same public name beside others, in another order, and alone."""
    offer = lever(subject.offer, "offer")
    own = ("with.dot", "with_dot", "with dot")
    await offer([Definition(name=name) for name in own])
    together = {name: tool.name for name, tool in (await tools_of(subject.port)).items()}
    for name in own:
        await offer([Definition(name=name)])
        alone = (await tools_of(subject.port))[name].name
        ensure_equal(alone, together[name], f"the public name of {name!r}")


@case("CAP-009", needs=("offer",))
async def nothing_is_taken_for_repeatable(subject: ToolSourceSubject) -> None:
    """A tool of which nobody has said that it may be repeated is uncertain."""
    await lever(subject.offer, "offer")([Definition(name="get_thing", description="Only reads. Safe to repeat.")])
    for tool in (await tools_of(subject.port)).values():
        ensure_equal(tool.execution, "uncertain", "the execution class")


@case("CAP-004", needs=("offer",))
async def a_schema_is_kept_as_it_is(subject: ToolSourceSubject) -> None:
    """The input's schema is the advertised one, recursion included, and holds what is called with."""
    await lever(subject.offer, "offer")([Definition(name="tree", input=_TREE)])
    tool = (await tools_of(subject.port))["tree"]
    ensure_equal(tool.input.schema, _TREE, "the schema of the input")
    good: JsonValue = {"node": {"n": 1, "below": [{"n": 2}]}}
    await run_tool(tool, good)
    wrong: tuple[JsonValue, ...] = ({"node": {"n": 1, "below": [{"n": "two"}]}}, {}, [])
    for bad in wrong:
        with ensure_raises(Misuse, "input that the schema refuses"):
            tool.input.decode(bad)


@case("CAP-004", needs=("offer",))
async def what_cannot_serve_is_set_aside_alone(subject: ToolSourceSubject) -> None:
    """A definition that cannot serve is set aside with a reason, and the others are offered."""
    dangling: JsonValue = {"type": "object", "properties": {"a": {"$ref": "#/$defs/nowhere"}}}
    wrong = (
        Definition(name="text", input={"type": "string"}),
        Definition(name="dangling", input=dangling),
        Definition(name="misplaced", input={"type": "object", "properties": {"a": {}, "required": ["a"]}}),
    )
    await lever(subject.offer, "offer")([Definition(name="good"), *wrong, Definition(name="better")])
    snapshot = await subject.port.snapshot()
    offered = sorted(tool.origin.name for tool in snapshot.tools if tool.origin is not None)
    ensure_equal(offered, ["better", "good"], "what is offered")
    reasons = {each.name: each.reason for each in snapshot.set_aside}
    ensure_equal(sorted(reasons), ["dangling", "misplaced", "text"], "what is set aside")
    ensure(all(reasons.values()), "something is set aside without a reason")


@case("SEC-013", needs=("offer",))
async def a_catalogue_is_bounded(subject: ToolSourceSubject) -> None:
    """Of more tools than a snapshot may hold, no more are offered, and the rest is said to be set aside."""
    count = MAX_SNAPSHOT_TOOLS + 50
    await lever(subject.offer, "offer")([Definition(name=f"t{number}") for number in range(count)])
    try:
        snapshot = await subject.port.snapshot()
    except ToolSourceUnavailable:
        return  # to refuse all of it is a bound, too
    ensure(len(snapshot.tools) <= MAX_SNAPSHOT_TOOLS, "a snapshot holds more than it may")
    ensure(bool(snapshot.tools), "nothing is offered because there was too much")
    ensure_equal(len(snapshot.tools) + len(snapshot.set_aside), count, "what is offered and what is set aside")


@case("SEC-013", needs=("offer",))
async def texts_are_clean_and_bounded(subject: ToolSourceSubject) -> None:
    """Whatever the other end says of its tools can be stored, and is not endless."""
    await lever(subject.offer, "offer")([Definition(name="talks", description="a\x00b" + "x" * 200_000)])
    snapshot = await subject.port.snapshot()
    texts = [tool.description for tool in snapshot.tools] + [each.reason for each in snapshot.set_aside]
    ensure(not any("\x00" in text for text in texts), "a text holds U+0000, which not every store takes")
    ensure(all(len(text) < 100_000 for text in texts), "a description is as long as it came")
    provenance = snapshot.provenance
    for text in (provenance.server, provenance.version, provenance.protocol, provenance.transport):
        ensure(len(text) <= MAX_IDENTITY + 30, "an identity is as long as it came")


OFFERING = (
    a_snapshot_says_whose_it_is,
    a_digest_covers_what_is_offered,
    names_are_legal_distinct_and_one_to_one,
    names_do_not_depend_on_who_else_is_there,
    nothing_is_taken_for_repeatable,
    a_schema_is_kept_as_it_is,
    what_cannot_serve_is_set_aside_alone,
    a_catalogue_is_bounded,
    texts_are_clean_and_bounded,
)
