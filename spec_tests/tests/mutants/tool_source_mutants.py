"""Wrong tool sources, each right but for one thing."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio

from tests.mutants.mutant import Mutant
from triolet.ports.canonical import digest
from triolet.ports.errors import UnrenderableSchema
from triolet.ports.schema import Codec, raw_codec
from triolet.ports.strict_json import JsonValue
from triolet.ports.text import repair
from triolet.ports.tool_context import OutcomeUnknown, ToolContext
from triolet.ports.tool_names import public_name
from triolet.ports.tool_source import (
    MAX_SNAPSHOT_TOOLS,
    Provenance,
    SetAside,
    ToolSnapshot,
    ToolSourceUnavailable,
    snapshot_of,
)
from triolet.ports.tools import Tool, ToolOrigin
from triolet.spec_tests.cases.tool_source import TOOL_SOURCE, Definition, ToolSourceSubject
from triolet.spec_tests.subject import Maker

TOOL_SOURCE_MUTANTS: list[Mutant] = []

_ANYTHING: dict[str, JsonValue] = {}


class Rack:
    """Tools on a rack: the other end is this object."""

    name = "rack"
    requires: frozenset[str] = frozenset()

    def __init__(self) -> None:
        self.definitions: list[Definition] = [Definition(name="first")]
        self.called: list[str] = []
        self.news = 0
        self.taken = -1
        self.latest: ToolSnapshot | None = None
        self.down = self.lost = self.held = False

    # What the other end is made to do.

    async def offer(self, definitions: Sequence[Definition]) -> None:
        self.definitions = list(definitions)
        self.news += 1

    async def lose_next(self) -> None:
        self.lost = True

    async def hold(self) -> None:
        self.held = True

    async def go_down(self) -> None:
        self.down = True

    # The port.

    def changed(self, since: ToolSnapshot) -> bool:
        return since is not self.latest or self.news != self.taken

    async def snapshot(self) -> ToolSnapshot:
        await trio.lowlevel.checkpoint()
        if self.down:
            raise ToolSourceUnavailable(source=self.name, problem="down")
        if self.latest is None or self.news != self.taken:
            self.latest, self.taken = self.made(), self.news
        return self.latest

    # How a snapshot is made.

    def made(self) -> ToolSnapshot:
        tools: list[Tool[Any, Any]] = []
        aside: list[SetAside] = []
        for definition in self.definitions:
            if len(tools) == MAX_SNAPSHOT_TOOLS:
                aside.append(SetAside(name=definition.name, reason="too many"))
                continue
            try:
                tools.append(self.tool(definition))
            except UnrenderableSchema as error:
                aside.append(SetAside(name=definition.name, reason=error.message))
        return snapshot_of(self.provenance(), tools, aside)

    def provenance(self) -> Provenance:
        return Provenance(source=self.name, server="the rack", version="1", transport="memory")

    def public(self, own: str) -> str:
        return public_name(self.name, own)

    def description(self, definition: Definition) -> str:
        return repair(definition.description)[:1_000]

    def input(self, definition: Definition) -> Codec[JsonValue]:
        schema = definition.input
        if not isinstance(schema, dict) or schema.get("type") != "object":
            raise UnrenderableSchema(type_name=definition.name, place="its top", reason="is no object")
        return raw_codec(schema, definition.name)

    def tool(self, definition: Definition) -> Tool[Any, Any]:
        own = definition.name

        async def handler(arguments: JsonValue, context: ToolContext) -> JsonValue:
            return await self.call(own)

        return Tool(
            name=self.public(own),
            description=self.description(definition),
            input=self.input(definition),
            output=raw_codec(_ANYTHING, own),
            handler=handler,
            origin=ToolOrigin(source=self.name, name=own),
        )

    async def call(self, own: str) -> JsonValue:
        await trio.lowlevel.checkpoint()
        self.called.append(own)
        if self.lost:
            self.lost = False
            raise OutcomeUnknown(reason="connection-lost", problem="cut")
        if self.held:
            await trio.sleep_forever()
        return {}


def tool_source_maker_of(rack: type[Rack]) -> Maker:
    """A maker of such sources, with every lever."""

    @asynccontextmanager
    async def maker() -> AsyncGenerator[ToolSourceSubject]:
        opened = rack()
        yield ToolSourceSubject(
            port=opened,
            offer=opened.offer,
            called=lambda: opened.called,
            lose_next=opened.lose_next,
            hold=opened.hold,
            down=opened.go_down,
        )

    return maker


def _breaks(*violates: str) -> Any:
    def decorate(rack: type[Rack]) -> type[Rack]:
        why = (rack.__doc__ or "").partition("\n")[0].rstrip(".")
        TOOL_SOURCE_MUTANTS.append(
            Mutant(name=rack.__name__, why=why, violates=violates, suite=TOOL_SOURCE, open=tool_source_maker_of(rack))
        )
        return rack

    return decorate


@_breaks("CAP-009")
class ForgetsWhoItIs(Rack):
    """The provenance names another source."""

    def provenance(self) -> Provenance:
        return attrs.evolve(super().provenance(), source="somebody")

    def made(self) -> ToolSnapshot:
        made = Rack.made(_Renamed(self))
        return attrs.evolve(made, provenance=self.provenance())


class _Renamed(Rack):
    """The same tools under the right name."""

    def __init__(self, rack: Rack) -> None:
        super().__init__()
        self.definitions = rack.definitions
        self.called = rack.called


@_breaks("CAP-009")
class NobodyIsThere(Rack):
    """The provenance does not say who is at the other end."""

    def provenance(self) -> Provenance:
        return attrs.evolve(super().provenance(), server="")


@_breaks("CAP-009")
class MakesUpADigest(Rack):
    """The digest is of the names alone."""

    def made(self) -> ToolSnapshot:
        made = super().made()
        names = " ".join(tool.name for tool in made.tools)
        return attrs.evolve(made, digest=digest("triolet.names", names.encode()))


@_breaks("CAP-009")
class KeepsTheirOrder(Rack):
    """Tools come in the order in which the other end has them."""

    def made(self) -> ToolSnapshot:
        made = super().made()
        by_own = {tool.origin.name: tool for tool in made.tools if tool.origin is not None}
        tools = tuple(by_own[each.name] for each in self.definitions if each.name in by_own)
        described = "".join(tool.name for tool in tools)
        return attrs.evolve(made, tools=tools, digest=digest("triolet.tools", described.encode()))


@_breaks("CAP-009")
class CutsNames(Rack):
    """A long name is cut, and may then be another tool's."""

    def public(self, own: str) -> str:
        return public_name(self.name, own[:70])

    def made(self) -> ToolSnapshot:
        seen: dict[str, Definition] = {}
        for definition in self.definitions:
            seen.setdefault(self.public(definition.name), definition)
        kept, self.definitions = self.definitions, [*seen.values()]
        try:
            return super().made()
        finally:
            self.definitions = kept


@_breaks("CAP-009")
class NumbersNames(Rack):
    """A public name is a number in a row, so it depends on the others."""

    def public(self, own: str) -> str:
        return f"t{[each.name for each in self.definitions].index(own)}"


@_breaks("CAP-009")
class CallsByPublicName(Rack):
    """What goes to the other end is the public name."""

    async def call(self, own: str) -> JsonValue:
        return await super().call(self.public(own))


@_breaks("CAP-009")
class BelievesDescriptions(Rack):
    """A tool that says that it only reads is readonly."""

    def tool(self, definition: Definition) -> Tool[Any, Any]:
        made = super().tool(definition)
        return attrs.evolve(made, execution="readonly") if "Only reads" in definition.description else made


@_breaks("CAP-004")
class FlattensSchemas(Rack):
    """References are taken out of schemas."""

    def input(self, definition: Definition) -> Codec[JsonValue]:
        schema = super().input(definition).schema
        return raw_codec({key: value for key, value in schema.items() if key == "type"}, definition.name)


@_breaks("CAP-004")
class HoldsNoInput(Rack):
    """Input is not held to its schema."""

    def input(self, definition: Definition) -> Codec[JsonValue]:
        right = super().input(definition)
        loose = raw_codec(_ANYTHING, definition.name)
        loose.schema = right.schema
        return loose


@_breaks("CAP-004")
class GivesUpOnOne(Rack):
    """One definition that cannot serve takes all the others with it."""

    def made(self) -> ToolSnapshot:
        made = super().made()
        return snapshot_of(self.provenance(), (), made.set_aside) if made.set_aside else made


@_breaks("CAP-004")
class SaysNothing(Rack):
    """What cannot serve is left out without a word."""

    def made(self) -> ToolSnapshot:
        return attrs.evolve(super().made(), set_aside=())


@_breaks("SEC-013")
class HasNoBound(Rack):
    """A snapshot holds whatever there is."""

    def made(self) -> ToolSnapshot:
        tools = tuple(self.tool(each) for each in self.definitions)
        return ToolSnapshot(
            provenance=self.provenance(), tools=tools, set_aside=(), digest=digest("triolet.tools", b"")
        )


@_breaks("SEC-013")
class DropsTheRest(Rack):
    """What is too much is left out and not said."""

    def made(self) -> ToolSnapshot:
        made = super().made()
        return attrs.evolve(made, set_aside=()) if len(made.set_aside) > 10 else made


@_breaks("SEC-013")
class KeepsEveryWord(Rack):
    """A description is as long as it came."""

    def description(self, definition: Definition) -> str:
        return repair(definition.description)


@_breaks("SEC-013")
class KeepsBrokenText(Rack):
    """A description is as it came, up to a length."""

    def description(self, definition: Definition) -> str:
        return definition.description[:1_000]


@_breaks("CAP-009")
class AlwaysNews(Rack):
    """There is always something new."""

    def changed(self, since: ToolSnapshot) -> bool:
        return True


@_breaks("CAP-009")
class NeverNews(Rack):
    """There is never anything new."""

    def changed(self, since: ToolSnapshot) -> bool:
        return False


@_breaks("CAP-009")
class CountsSnapshots(Rack):
    """Each snapshot has a digest of its own."""

    count = 0

    async def snapshot(self) -> ToolSnapshot:
        made = await super().snapshot()
        self.count += 1
        self.latest = attrs.evolve(made, digest=digest("triolet.tools", str(self.count).encode()))
        return self.latest


@_breaks("CAP-009")
class KeepsTheFirst(Rack):
    """What was listed once stays."""

    async def snapshot(self) -> ToolSnapshot:
        if self.latest is None:
            return await super().snapshot()
        self.taken = self.news
        return self.latest


@_breaks("CAP-009")
class ForgetsOldOnes(Rack):
    """Tools of an older snapshot cannot be called any more."""

    def tool(self, definition: Definition) -> Tool[Any, Any]:
        made, generation = super().tool(definition), self.news
        right: Any = made.handler

        async def handler(arguments: JsonValue, context: ToolContext) -> JsonValue:
            if generation != self.news:
                raise LookupError("an old tool")
            answer: JsonValue = await right(arguments, context)
            return answer

        return attrs.evolve(made, handler=handler)


@_breaks("CAP-009", "RUN-013")
class AsksAgain(Rack):
    """A call whose answer is lost is made once more."""

    async def call(self, own: str) -> JsonValue:
        try:
            return await super().call(own)
        except OutcomeUnknown:
            return await super().call(own)


@_breaks("CAP-009", "RUN-013")
class SaysItFailed(Rack):
    """A lost answer is an ordinary error."""

    async def call(self, own: str) -> JsonValue:
        try:
            return await super().call(own)
        except OutcomeUnknown as error:
            raise RuntimeError("it failed") from error


@_breaks("CAP-001")
class WaitsForAnswers(Rack):
    """Whoever is cancelled waits for the answer all the same."""

    async def call(self, own: str) -> JsonValue:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 5):
            return await super().call(own)
        return {}


@_breaks("CAP-001")
class SharesOneAsking(Rack):
    """Who asks at the same time hangs on whoever asked first."""

    asking: trio.Event | None = None
    failed = False

    async def snapshot(self) -> ToolSnapshot:
        if self.asking is not None and not self.asking.is_set():
            await self.asking.wait()
            if self.failed:
                raise ToolSourceUnavailable(source=self.name, problem="the other one went")
        self.asking = trio.Event()
        try:
            await trio.lowlevel.checkpoint()
            return await super().snapshot()
        except trio.Cancelled:
            self.failed = True
            raise
        finally:
            self.asking.set()


@_breaks("CAP-001")
class ServesTheOldOne(Rack):
    """What cannot be reached offers what it last had."""

    async def snapshot(self) -> ToolSnapshot:
        if self.down and self.latest is not None:
            return self.latest
        return await super().snapshot()


@_breaks("CAP-001")
class BlamesAnother(Rack):
    """What cannot be reached says so in another's name."""

    async def snapshot(self) -> ToolSnapshot:
        if self.down:
            raise ToolSourceUnavailable(source="somebody", problem="down")
        return await super().snapshot()


@_breaks("CAP-001")
class LeavesATask(Rack):
    """Each snapshot starts a task that outlives the source."""

    async def snapshot(self) -> ToolSnapshot:
        trio.lowlevel.spawn_system_task(trio.sleep_forever)
        return await super().snapshot()
