"""Assembly, and who runs tools: what is missing is named before anything starts, and only the kernel calls a handler.

CAP-002, CAP-003.
"""

import trio

from triolet.adapters.ids import SequentialIds
from triolet.adapters.scripted_model import ScriptedModel, call, turn
from triolet.kernel import Capabilities, MissingCapabilities, Policy, ToolContext, UnknownAgent, tool
from triolet.ports.language_model import ToolDeclaration
from triolet.spec_tests.cases.kernel.setting import (
    KeepingStore,
    KernelSubject,
    StillClock,
    open_bench,
    text_agent,
    turns_pass,
)
from triolet.spec_tests.claims import ensure, ensure_equal, ensure_raises
from triolet.spec_tests.definition import case


@case("CAP-002")
async def all_that_is_missing_is_named_at_once(subject: KernelSubject) -> None:
    """Opening names every port, group, desk and inbox that an agent or a tool needs, and has called nothing."""

    @tool(requires=("sandbox",), group="printer", needs_approval=True)
    async def print_it() -> str:
        return "printed"

    @tool(requires=("artifacts",), needs_approval=lambda _: False)
    async def keep_it() -> str:
        return "kept"

    store = KeepingStore()
    agent = text_agent(print_it, keep_it)
    with ensure_raises(MissingCapabilities, "opening an assembly that lacks almost everything") as caught:
        async with subject.port(agents=[agent], capabilities=Capabilities(conversations=store)):
            pass
    missing = {port for port, _ in caught.error.missing}
    due = {"model", "clock", "ids", "sandbox", "artifacts", "approval", "inbox", "group printer"}
    ensure_equal(missing, due, "the ports that are said to be missing")
    for port in due:
        ensure(port in caught.error.message, f"the message does not name {port}")
    ensure_equal(store.calls, 0, "calls of a port before the assembly was known to be complete")


@case("CAP-002")
async def a_complete_assembly_opens(subject: KernelSubject) -> None:
    """What an agent brings itself is not missing, and a tool gets the very port that it declared."""
    seen: list[object] = []

    @tool(requires=("clock",), group="printer", execution="readonly")
    async def look(context: ToolContext) -> str:
        seen.append(context.port("clock"))
        return "seen"

    model = ScriptedModel([turn(call("look")), turn("done")])
    clock, store = StillClock(), KeepingStore()
    agent = text_agent(look, model=model)
    capabilities = Capabilities(conversations=store, clock=clock, ids=SequentialIds())
    async with subject.port(agents=[agent], capabilities=capabilities, groups={"printer": 1}) as kernel:
        result = await kernel.run(agent, "go")
    ensure_equal(result.output, "done", "the answer of an agent that brings its own model")
    ensure(len(seen) == 1 and seen[0] is clock, "the handler was not given the port that it declared")


@case("CAP-002")
async def a_stranger_is_refused_before_anything(subject: KernelSubject) -> None:
    """A run of an agent that the kernel was not opened with is refused, and nothing is recorded."""
    async with open_bench(subject, [turn("never")]) as bench:
        with ensure_raises(UnknownAgent, "a run of an agent that the kernel does not know"):
            await bench.kernel.run(text_agent(id="stranger"), "go")
    ensure_equal((bench.store.calls, len(bench.requests)), (0, 0), "calls of ports for a run that was refused")


@case("CAP-003")
async def a_model_is_given_declarations_only(subject: KernelSubject) -> None:
    """A request holds each tool's name, description and schema, in order, and nothing that could be run."""

    @tool
    async def first(number: int) -> int:
        """The first."""
        return number

    @tool
    async def second() -> str:
        """The second."""
        return ""

    async with open_bench(subject, [turn("done")], text_agent(first, second)) as bench:
        await bench.run()
    (request,) = bench.requests
    due = [
        ToolDeclaration(name=each.name, description=each.description, input_schema=each.input.schema)
        for each in (first, second)
    ]
    ensure_equal([type(each) for each in request.tools], [ToolDeclaration] * 2, "what a request offers")
    ensure_equal(list(request.tools), due, "the declarations that a request offers")


@case("CAP-003", "RUN-004")
async def a_handler_waits_for_the_whole_response(subject: KernelSubject) -> None:
    """However complete a call looks, its handler does not start before the response has ended."""
    started: list[str] = []

    @tool
    async def act() -> str:
        started.append("act")
        return "done"

    ended = trio.Event()
    answer = turn(call("act")).gated(ended, after=2)
    async with open_bench(subject, [answer, turn("done")], text_agent(act)) as bench, trio.open_nursery() as nursery:
        nursery.start_soon(bench.run)
        await turns_pass(lambda: len(bench.requests) == 1, "the first request")
        for _ in range(50):
            await trio.lowlevel.checkpoint()
        early = list(started)
        ended.set()
    ensure_equal(early, [], "handlers that started while the response was under way")
    ensure_equal(started, ["act"], "handlers that started in all")


@case("CAP-003")
async def each_call_runs_once(subject: KernelSubject) -> None:
    """The kernel calls the handler of each runnable call exactly once, in a task of its own."""
    ran: list[int] = []

    @tool
    async def act(number: int) -> int:
        ran.append(number)
        await trio.lowlevel.checkpoint()
        return number

    calls = [call("act", {"number": number}) for number in range(6)]
    agent = text_agent(act, policy=Policy(concurrency=3))
    async with open_bench(subject, [turn(*calls), turn("done")], agent) as bench:
        await bench.run()
    ensure_equal(sorted(ran), [0, 1, 2, 3, 4, 5], "the calls whose handlers ran")


ASSEMBLING = (
    all_that_is_missing_is_named_at_once,
    a_complete_assembly_opens,
    a_stranger_is_refused_before_anything,
    a_model_is_given_declarations_only,
    a_handler_waits_for_the_whole_response,
    each_call_runs_once,
)
