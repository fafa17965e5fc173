"""Tools of sources in a run: who offers them is on record, and they change between turns only.

CAP-009, CAP-002, RUN-013.
"""

from triolet.adapters.held_tools import HeldTools
from triolet.adapters.scripted_model import call, turn
from triolet.kernel import MissingCapabilities, tool
from triolet.ports.outcomes import ToolDefect, ToolInvalidInput, ToolSuccess, ToolUnknownOutcome
from triolet.ports.records import ModelResponded, ToolCatalogueChanged
from triolet.ports.strict_json import JsonText
from triolet.ports.tool_context import OutcomeUnknown
from triolet.ports.tool_source import SetAside
from triolet.spec_tests.cases.kernel.setting import KernelSubject, open_bench, text_agent
from triolet.spec_tests.claims import ensure, ensure_equal, ensure_raises
from triolet.spec_tests.definition import case


@tool(execution="readonly")
async def look() -> str:
    """Look."""
    return "seen"


@tool(execution="readonly")
async def listen() -> str:
    """Listen."""
    return "heard"


@case("CAP-009")
async def who_offers_tools_is_on_record_before_a_model_sees_them(subject: KernelSubject) -> None:
    """A run records each source's identity, version, digest and tools before its first response."""
    source = HeldTools("senses", [look], version="7", set_aside=[SetAside(name="smell", reason="no schema")])
    agent = text_agent(sources=("senses",))
    async with open_bench(subject, [turn("done")], agent, ports={"tool_sources": (source,)}) as bench:
        await bench.run()
    [record] = bench.recorded(ToolCatalogueChanged)
    told = (record.source, record.server, record.source_version, record.transport, record.tools, record.set_aside)
    ensure_equal(told, ("senses", "senses", "7", "memory", ("senses__look",), 1), "what is on record of the source")
    ensure_equal(record.digest, (await source.snapshot()).digest, "the digest on record")
    families = [type(each) for each in bench.records]
    ensure(
        families.index(ToolCatalogueChanged) < families.index(ModelResponded),
        "the record comes after the response that it was needed for",
    )
    ensure_equal([each.name for each in bench.requests[0].tools], ["senses__look"], "what the model was offered")


@case("CAP-009")
async def tools_change_between_turns_and_never_under_a_call(subject: KernelSubject) -> None:
    """A change during a call is taken up before the next request; calls of the same batch keep their tools."""
    source: HeldTools

    @tool(execution="readonly")
    async def swap() -> str:
        """Offer something else from now on."""
        source.hold([listen])
        return "swapped"

    source = HeldTools("senses", [swap, look])
    agent = text_agent(sources=("senses",))
    script = [turn(call("senses__swap"), call("senses__look")), turn(call("senses__look")), turn("done")]
    async with open_bench(subject, script, agent, ports={"tool_sources": (source,)}) as bench:
        await bench.run()
    offered = [[each.name for each in request.tools] for request in bench.requests]
    later = ["senses__listen"]
    ensure_equal(offered, [["senses__look", "senses__swap"], later, later], "what the model was offered, by turn")
    done = ToolSuccess(output=JsonText('"seen"'))
    ensure_equal(bench.outcomes[1], done, "the outcome of a call that the change came under")
    gone = bench.outcomes[2]
    ensure(
        isinstance(gone, ToolInvalidInput) and gone.reason == "unknown-tool",
        "a tool that its source took back can still be called",
    )
    on_record = [record.tools for record in bench.recorded(ToolCatalogueChanged)]
    ensure_equal(on_record, [("senses__look", "senses__swap"), ("senses__listen",)], "the catalogues on record")


@case("CAP-009")
async def an_unchanged_catalogue_is_the_same_in_every_request(subject: KernelSubject) -> None:
    """Whatever order a source lists its tools in, the requests of a run offer the same, and it is recorded once."""
    source = HeldTools("senses", [look, listen])

    @tool(execution="readonly")
    async def shuffle() -> str:
        """List the same tools in another order."""
        source.hold([listen, look])
        return "shuffled"

    agent = text_agent(shuffle, sources=("senses",))
    script = [turn(call("shuffle")), turn(call("shuffle")), turn("done")]
    async with open_bench(subject, script, agent, ports={"tool_sources": (source,)}) as bench:
        await bench.run()
    offered = {repr(request.tools) for request in bench.requests}
    ensure_equal(len(offered), 1, "how many different sets of tools were offered")
    ensure_equal(len(bench.recorded(ToolCatalogueChanged)), 1, "how often the catalogue was recorded")


@case("CAP-009", "RUN-013")
async def an_answer_that_is_lost_is_never_taken_for_a_failure(subject: KernelSubject) -> None:
    """A lost answer is unknown for an uncertain tool and a defect for a readonly one; neither is called again."""
    ran: list[str] = []

    @tool
    async def send() -> str:
        ran.append("send")
        raise OutcomeUnknown(reason="connection-lost", problem="cut")

    @tool(execution="readonly")
    async def read() -> str:
        ran.append("read")
        raise OutcomeUnknown(reason="connection-lost", problem="cut")

    script = [turn(call("send"), call("read")), turn("done")]
    async with open_bench(subject, script, text_agent(send, read)) as bench:
        await bench.run()
    sent, read_again = bench.outcomes
    ensure_equal(sent, ToolUnknownOutcome(reason="connection-lost"), "the outcome of an uncertain call")
    ensure(
        isinstance(read_again, ToolDefect) and not read_again.effect_possible,
        "a readonly call that lost its answer is no plain defect",
    )
    ensure_equal(sorted(ran), ["read", "send"], "the handlers that ran")


@case("CAP-002")
async def a_missing_source_is_named_at_assembly(subject: KernelSubject) -> None:
    """Opening names each source that an agent wants and nobody has bound, and what the bound ones need."""
    source = HeldTools("senses", [look], requires=frozenset({"approval"}))
    agent = text_agent(sources=("senses", "memory"))
    with ensure_raises(MissingCapabilities, "opening without a source") as caught:
        async with open_bench(subject, [], agent, ports={"tool_sources": (source,)}):
            pass
    due = {("tool source memory", "agent agent"), ("approval", "tool source senses")}
    ensure_equal({*caught.error.missing}, due, "what is said to be missing")


SOURCING = (
    who_offers_tools_is_on_record_before_a_model_sees_them,
    tools_change_between_turns_and_never_under_a_call,
    an_unchanged_catalogue_is_the_same_in_every_request,
    an_answer_that_is_lost_is_never_taken_for_a_failure,
    a_missing_source_is_named_at_assembly,
)
