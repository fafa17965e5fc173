"""The order of results, and what comes before any handler. CAP-005, RUN-006, TOOL-004, DUR-009."""

from functools import partial
from operator import contains

import attrs
import trio

from triolet.adapters.scripted_model import call, turn
from triolet.kernel import Policy, tool
from triolet.ports.messages import ToolMessage
from triolet.ports.outcomes import ToolDefect, ToolSuccess
from triolet.ports.records import CallsDecided, ModelResponded, ToolPrepared, ToolSettled
from triolet.spec_tests.cases.kernel.setting import Bench, KernelSubject, open_bench, text_agent, turns_pass
from triolet.spec_tests.claims import ensure, ensure_equal
from triolet.spec_tests.definition import case


@case("CAP-005", "RUN-006")
async def results_follow_declaration_order(subject: KernelSubject) -> None:
    """Calls that finish in the opposite order are recorded and shown in the order of declaration, each with its own."""
    gates = [trio.Event() for _ in range(4)]
    finished: list[int] = []

    @tool
    async def act(number: int) -> str:
        await gates[number].wait()
        finished.append(number)
        return f"result of {number}"

    script = [turn(*(call("act", {"number": number}) for number in range(4))), turn("done")]
    async with open_bench(subject, script, text_agent(act)) as bench, trio.open_nursery() as nursery:
        nursery.start_soon(bench.run)
        for number in (3, 1, 2, 0):
            gates[number].set()
            await turns_pass(partial(contains, finished, number), f"the end of call {number}")
    ensure_equal(finished, [3, 1, 2, 0], "the order in which the handlers ended")
    due = [ToolSuccess(output=act.output.encode_text(f"result of {number}")) for number in range(4)]
    (response,) = [record for record in bench.recorded(ModelResponded) if record.message.calls]
    settled = bench.recorded(ToolSettled)
    ensure_equal([record.outcome for record in settled], due, "the outcomes in the order of the records")
    ensure_equal(
        [record.call for record in settled], [each.id for each in response.message.calls], "the calls they are of"
    )
    (message,) = [each for each in bench.requests[1].messages if isinstance(each, ToolMessage)]
    ensure_equal([result.outcome for result in message.results], due, "the outcomes in the next request")


@case("CAP-005")
async def a_result_waits_for_those_before_it_only(subject: KernelSubject) -> None:
    """A result is on record as soon as all before it are, while later calls still run."""
    last = trio.Event()
    first_ended = trio.Event()

    @tool
    async def quick() -> str:
        first_ended.set()
        return "quick"

    @tool
    async def slow() -> str:
        await last.wait()
        return "slow"

    script = [turn(call("quick"), call("slow")), turn("done")]
    async with open_bench(subject, script, text_agent(quick, slow)) as bench, trio.open_nursery() as nursery:
        nursery.start_soon(bench.run)
        await first_ended.wait()
        await turns_pass(lambda: len(bench.recorded(ToolSettled)) == 1, "recording the first result by itself")
        last.set()
    ensure_equal(len(bench.recorded(ToolSettled)), 2, "results on record")


@case("CAP-005", "RUN-006")
async def a_failing_sibling_takes_nothing_with_it(subject: KernelSubject) -> None:
    """A call whose handler raises, first or last to end, is the only one to fail; the others keep their results."""
    for order in ((0, 2, 1), (1, 0, 2)):
        bench = await _one_raises(subject, order)
        kinds = [type(outcome) for outcome in bench.outcomes]
        ensure_equal(kinds, [ToolSuccess, ToolDefect, ToolSuccess], f"the outcomes where calls end as {order}")


async def _one_raises(subject: KernelSubject, order: tuple[int, ...]) -> Bench:
    gates = [trio.Event() for _ in order]
    ended: list[int] = []

    @tool
    async def act(number: int) -> int:
        await gates[number].wait()
        ended.append(number)
        if number == 1:
            raise RuntimeError("broken")
        return number

    script = [turn(*(call("act", {"number": number}) for number in range(3))), turn("done")]
    async with open_bench(subject, script, text_agent(act)) as bench, trio.open_nursery() as nursery:
        nursery.start_soon(bench.run)
        for number in order:
            gates[number].set()
            await turns_pass(partial(contains, ended, number), f"the end of call {number}")
    return bench


@case("TOOL-004")
async def every_call_is_decided_before_any_handler(subject: KernelSubject) -> None:
    """All inputs of a batch are decoded, and the decision is on record, before the first handler starts."""
    happened: list[str] = []

    @attrs.frozen
    class Traced:
        number: int

        def __attrs_post_init__(self) -> None:
            happened.append(f"decoded {self.number}")

    @tool
    async def act(value: Traced) -> int:
        happened.append(f"began {value.number}")
        await trio.lowlevel.checkpoint()
        return value.number

    script = [turn(*(call("act", {"number": number}) for number in range(3))), turn("done")]
    agent = text_agent(act, policy=Policy(concurrency=1))
    async with open_bench(subject, script, agent) as bench:
        await bench.run()
    ensure_equal(happened[:3], ["decoded 0", "decoded 1", "decoded 2"], "what happened before the first handler")
    ensure_equal(sorted(happened[3:]), ["began 0", "began 1", "began 2"], "what happened then")
    (decided,) = bench.recorded(CallsDecided)
    ensure_equal(len(decided.runnable), 3, "calls that the decision lets run")
    places = [place for place, record in enumerate(bench.records) if isinstance(record, ToolPrepared | ToolSettled)]
    ensure(bench.records.index(decided) < min(places), "a call was prepared or settled before the batch was decided")


@case("DUR-009")
async def an_effect_is_announced_before_it_can_happen(subject: KernelSubject) -> None:
    """When the handler of a call that may have an effect starts, its preparation is on record; readonly needs none."""
    on_record: dict[str, bool] = {}
    benches: list[Bench] = []

    def look(name: str) -> None:
        (response,) = benches[0].recorded(ModelResponded)
        own = next(each.id for each in response.message.calls if each.name == name)
        on_record[name] = any(own in record.calls for record in benches[0].recorded(ToolPrepared))

    @tool
    async def act() -> str:
        look("act")
        return "done"

    @tool(execution="idempotent")
    async def repeat() -> str:
        look("repeat")
        return "done"

    @tool(execution="readonly")
    async def read() -> str:
        look("read")
        return "done"

    script = [turn(call("act"), call("repeat"), call("read")), turn("done")]
    async with open_bench(subject, script, text_agent(act, repeat, read)) as bench:
        benches.append(bench)
        await bench.run()
    ensure_equal(on_record, {"act": True, "repeat": True, "read": False}, "whether each call was prepared")


ORDERING = (
    results_follow_declaration_order,
    a_result_waits_for_those_before_it_only,
    a_failing_sibling_takes_nothing_with_it,
    every_call_is_decided_before_any_handler,
    an_effect_is_announced_before_it_can_happen,
)
