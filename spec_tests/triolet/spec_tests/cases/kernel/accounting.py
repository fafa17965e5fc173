"""Accounting: what a run has used, how often its model was tried, how long it may last, and what its model is told.

RUN-013, RUN-023, RUN-024, RUN-030, CAP-017.
"""

from typing import Any

import attrs
import trio

from triolet.adapters.scripted_model import call, text, turn
from triolet.kernel import Completed, Failed, Policy, RetryPolicy, RunResult, Tool, tool
from triolet.ports.batch import Batch
from triolet.ports.conversation_store import Address
from triolet.ports.errors import Corrupt
from triolet.ports.identity import DEFAULT_TENANT, BatchId, ConversationId, Epoch, Instant, RunId
from triolet.ports.language_model import ModelUnavailable
from triolet.ports.messages import UserMessage
from triolet.ports.records import ModelInterrupted, ModelResponded, RunSettled, RunStarted
from triolet.ports.usage import Usage
from triolet.spec_tests.cases.kernel.setting import KernelSubject, open_bench, text_agent
from triolet.spec_tests.claims import SpecViolation, ensure, ensure_equal
from triolet.spec_tests.definition import case

_ONCE = RetryPolicy(tries=1)


def _worker(ran: list[int], *, execution: Any = "readonly") -> Tool[Any, Any]:
    @tool(execution=execution)
    async def work() -> str:
        ran.append(1)
        return "done"

    return work


@case("RUN-024")
async def the_run_status_is_shown_and_never_recorded(subject: KernelSubject) -> None:
    """With the status on, each request ends with it; no record and no later request holds an earlier one."""
    work = _worker([])
    agent = text_agent(work, policy=Policy(run_status=True, max_turns=7, retry=_ONCE))
    async with open_bench(subject, [turn(call("work")), turn("done")], agent) as bench:
        await bench.run()
    for number, request in enumerate(bench.requests, start=1):
        last = request.messages[-1]
        ensure(isinstance(last, UserMessage) and f"turn {number} of 7" in repr(last), "the request has no status")
        ensure_equal(repr(tuple(request.messages)).count("of 7"), 1, "statuses in one request")
    ensure("of 7" not in bench.stored_text, "the status is on record")


@case("RUN-024")
async def without_it_nothing_is_added(subject: KernelSubject) -> None:
    """With the status off, a request ends with the history."""
    async with open_bench(subject, [turn("done")], text_agent(policy=Policy(retry=_ONCE))) as bench:
        await bench.run()
    ensure_equal(len(bench.requests[0].messages), 1, "messages of the first request")


@case("RUN-013")
async def only_the_model_is_asked_again(subject: KernelSubject) -> None:
    """A model that fails is tried again within its tries; a handler that may have had an effect never is."""
    ran: list[int] = []
    work = _worker(ran, execution="uncertain")

    @tool
    async def charge() -> str:
        ran.append(2)
        raise ConnectionError

    agent = text_agent(work, charge, policy=Policy(retry=RetryPolicy(tries=3, seconds=0, most_seconds=0)))
    down = turn("x").failing(ModelUnavailable(model="m", reason="overloaded"), after=0)
    script = [turn(call("work"), call("charge")), down, down, turn("done")]
    async with open_bench(subject, script, agent) as bench:
        result = await bench.run()
    ensure(isinstance(result, Completed), "a model that came back did not save the run")
    ensure_equal(sorted(ran), [1, 2], "handlers that ran")
    ensure_equal([request.attempt for request in bench.requests], [1, 1, 2, 3], "tries, by request")
    ensure_equal(len(bench.recorded(ModelInterrupted)), 2, "tries on record")


@case("RUN-013")
async def tries_have_an_end(subject: KernelSubject) -> None:
    """As many requests as there are tries, and then the run fails, typed."""
    down = turn("x").failing(ModelUnavailable(model="m", reason="overloaded"), after=0)
    agent = text_agent(policy=Policy(retry=RetryPolicy(tries=3, seconds=0, most_seconds=0)))
    async with open_bench(subject, [*[down] * 3, turn("late")], agent) as bench:
        result = await bench.run()
    ensure_equal(len(bench.requests), 3, "requests, where a turn has 3 tries")
    ensure(isinstance(result, Failed), "the run did not fail")


@case("RUN-023")
async def a_wrong_sum_stops_recovery_before_any_work(subject: KernelSubject) -> None:
    """A log whose usage cannot be right is corrupt: nobody is asked anything on the strength of it."""
    async with open_bench(subject, [turn("one"), turn("two")]) as bench:
        async with bench.kernel.conversation("talk") as talk:
            await talk.run(bench.agent, "go")
        address = Address(tenant=DEFAULT_TENANT, conversation=ConversationId("talk"))
        writer = await bench.store.open_writer(address, None)
        [response] = bench.recorded(ModelResponded)
        spoilt = attrs.evolve(response, usage=Usage(input_tokens=1, cache_read_tokens=5))
        records = tuple(
            attrs.evolve(record, run=RunId("other")) if isinstance(record, RunStarted) else record
            for record in bench.records
            if not isinstance(record, ModelResponded | RunSettled)
        )[1:]
        batch = Batch(
            id=BatchId("spoilt"), run=None, epoch=Epoch(writer.epoch), at=Instant(0), records=(*records, spoilt)
        )
        await bench.store.append(writer, batch, expected=writer.tail)
        asked = len(bench.requests)
        try:
            async with bench.kernel.conversation("talk") as talk:
                await talk.run(bench.agent, "go on")
        except Corrupt:
            ensure_equal(len(bench.requests), asked, "requests on the strength of a wrong sum")
            return
    raise SpecViolation(problem="a log with a wrong sum is read as if it were right")


@case("RUN-023", "CAP-017")
async def every_call_is_in_the_sums(subject: KernelSubject) -> None:
    """Totals are sums of what each call reported, cache reads and writes apart, and keep the last call's figures."""
    first = Usage(input_tokens=100, output_tokens=10, cache_read_tokens=30, cache_write_tokens=20)
    last = Usage(input_tokens=7, output_tokens=3, last_input_tokens=4, last_output_tokens=2)
    work = _worker([])
    script = [turn(call("work"), usage=first), turn(text("done"), usage=last)]
    async with open_bench(subject, script, text_agent(work)) as bench:
        result = await bench.run()
    usage = result.usage
    ensure_equal((usage.calls, usage.input_tokens, usage.output_tokens), (2, 107, 13), "the sums")
    ensure_equal((usage.cache_read_tokens, usage.cache_write_tokens), (30, 20), "cached input")
    ensure_equal((usage.last_input_tokens, usage.last_output_tokens), (4, 2), "the last call")


@case("RUN-030")
async def one_clock_for_the_whole_run(subject: KernelSubject) -> None:
    """The time is fixed when the run starts, and an explicit absence means none."""
    for seconds in (0.05, None):
        agent = text_agent(policy=Policy(max_seconds=seconds, retry=_ONCE))
        async with open_bench(subject, [turn("late").gated(trio.Event())], agent) as bench:
            result: RunResult[Any] | None = None
            with trio.move_on_after(0.5):
                result = await bench.run()
            ensure_equal(result is None, seconds is None, "whether the run outlasted its time")
            if result is not None:
                dimension = result.error.failure.dimension if isinstance(result, Failed) else None
                ensure_equal(dimension, "duration", "the limit that is named")
            [started] = bench.recorded(RunStarted)
            ensure_equal(started.deadline is None, seconds is None, "whether no deadline is on record")


ACCOUNTING = (
    the_run_status_is_shown_and_never_recorded,
    without_it_nothing_is_added,
    only_the_model_is_asked_again,
    tries_have_an_end,
    a_wrong_sum_stops_recovery_before_any_work,
    every_call_is_in_the_sums,
    one_clock_for_the_whole_run,
)
