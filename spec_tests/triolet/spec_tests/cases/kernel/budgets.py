"""Budgets: looked at before more work begins, announced once, told when they are reached, and only ever tightened.

RUN-011, RUN-021, RUN-025.
"""

from typing import Any

from triolet.adapters.estimators import ByteEstimator
from triolet.adapters.price_table import PriceTable, Rates
from triolet.adapters.scripted_model import ScriptItem, call, text, turn
from triolet.kernel import Allowance, BudgetExhaustedError, Completed, Failed, Policy, RetryPolicy, Tool, tool
from triolet.ports.events import BudgetExhausted, BudgetNearlyUsed
from triolet.ports.outcomes import ToolRejected
from triolet.ports.records import BudgetReached, BudgetWarned, RunStarted
from triolet.ports.usage import Usage
from triolet.spec_tests.cases.kernel.setting import KernelSubject, ensure_whole, open_bench, text_agent
from triolet.spec_tests.claims import ensure, ensure_equal
from triolet.spec_tests.definition import case

_ONCE = RetryPolicy(tries=1)
_PORTS: dict[str, Any] = {
    "estimator": ByteEstimator(),
    "prices": PriceTable({"scripted": Rates(input=1_000_000, output=1_000_000)}),
}


def _counted(*, execution: Any = "readonly", size: int = 1) -> tuple[Tool[Any, Any], list[int]]:
    ran: list[int] = []

    @tool(execution=execution)
    async def work() -> str:
        ran.append(1)
        return "x" * size

    return work, ran


def _spending(*parts: Any, tokens: int) -> ScriptItem:
    return turn(*parts, usage=Usage(input_tokens=tokens - 1, output_tokens=1))


@case("RUN-025", "RUN-011")
async def tokens_are_looked_at_before_more_work(subject: KernelSubject) -> None:
    """A response that uses the tokens up runs none of its calls; the model is asked once more, without tools."""
    work, ran = _counted()
    agent = text_agent(work, policy=Policy(max_tokens=1_000, retry=_ONCE))
    script = [_spending(call("work"), call("work"), tokens=1_000), _spending(text("enough"), tokens=9), turn("more")]
    async with open_bench(subject, script, agent, ports=_PORTS) as bench:
        result = await bench.run()
    ensure_equal(ran, [], "handlers that ran after the tokens were used up")
    reasons = [each.reason if isinstance(each, ToolRejected) else type(each).__name__ for each in bench.outcomes]
    ensure_equal(reasons, ["budget", "budget"], "how the calls ended")
    ensure_equal(len(bench.requests), 2, "requests")
    ensure_equal((bench.requests[1].tools, bench.requests[1].tool_choice), ((), "none"), "tools of the last request")
    ensure_whole(bench.requests[1].messages, "the last request")
    ensure(isinstance(result, Completed), "the run has no answer")
    if isinstance(result, Completed):
        ensure_equal(
            (result.output, result.finish, result.exhausted), ("enough", "budget-exhausted", "tokens"), "the end"
        )


@case("RUN-025", "RUN-011")
async def what_was_produced_is_kept(subject: KernelSubject) -> None:
    """An answer that passes the limit on tokens and decodes is the result; there is no further request."""
    agent = text_agent(policy=Policy(max_tokens=1_000, retry=_ONCE))
    async with open_bench(subject, [_spending(text("done"), tokens=2_000)], agent, ports=_PORTS) as bench:
        result = await bench.run()
    ensure(isinstance(result, Completed), "an answer that was paid for is withheld")
    if isinstance(result, Completed):
        ensure_equal((result.output, result.exhausted), ("done", "tokens"), "the answer and the limit")


@case("RUN-025", "RUN-011")
async def cost_is_hard(subject: KernelSubject) -> None:
    """A response with calls that uses the money up is the last one: no call runs, and nothing is asked for again."""
    work, ran = _counted()
    agent = text_agent(work, policy=Policy(max_cost=500, retry=_ONCE))
    script = [_spending(call("work"), tokens=500), _spending(text("more"), tokens=9)]
    async with open_bench(subject, script, agent, ports=_PORTS) as bench:
        result = await bench.run()
    ensure_equal((len(bench.requests), ran), (1, []), "requests and handlers")
    ensure(isinstance(result, Failed) and isinstance(result.error, BudgetExhaustedError), "the run did not fail typed")
    if isinstance(result, Failed):
        ensure_equal(result.error.failure.dimension, "cost", "the limit that is named")


@case("RUN-025")
async def a_request_that_would_pass_the_cost_is_not_made(subject: KernelSubject) -> None:
    """The estimate of a request is looked at before it is made."""
    work, _ = _counted(size=900)
    agent = text_agent(work, policy=Policy(max_cost=400, retry=_ONCE))
    script = [_spending(call("work"), tokens=120), _spending(text("more"), tokens=9)]
    async with open_bench(subject, script, agent, ports=_PORTS) as bench:
        result = await bench.run()
    ensure_equal(len(bench.requests), 1, "requests, where the second would cost more than is left")
    ensure(isinstance(result, Failed), "the run did not fail")


@case("RUN-025")
async def four_fifths_are_announced_once(subject: KernelSubject) -> None:
    """Crossing 80 % of a limit is one record and one event for each dimension, however often it is crossed."""
    work, _ = _counted()
    agent = text_agent(work, policy=Policy(max_turns=5, max_tool_calls=5, max_tokens=1_000, retry=_ONCE))
    script = [*[_spending(call("work"), tokens=200)] * 4, _spending(text("done"), tokens=10)]
    async with open_bench(subject, script, agent, ports=_PORTS) as bench:
        events, _ = await bench.observe()
    seen = [event.dimension for event in events if isinstance(event, BudgetNearlyUsed)]
    ensure_equal(sorted(seen), ["tokens", "tool-calls", "turns"], "dimensions that were announced")
    ensure_equal([record.dimension for record in bench.recorded(BudgetWarned)], seen, "records and events")


@case("RUN-011")
async def a_limit_is_told_when_it_is_reached(subject: KernelSubject) -> None:
    """The event of a reached limit comes while the run goes on, and says which one and by how much."""
    work, _ = _counted()
    agent = text_agent(work, policy=Policy(max_failures=2, retry=_ONCE))
    script = [turn(call("wrong")), turn(call("wrong")), turn("I give up."), turn("more")]
    async with open_bench(subject, script, agent) as bench:
        events, result = await bench.observe()
    told = [(each.dimension, each.used, each.limit) for each in events if isinstance(each, BudgetExhausted)]
    ensure_equal(told, [("failures", 2, 2)], "limits that were told")
    ensure_equal(len(bench.recorded(BudgetReached)), 1, "records of it")
    ensure(isinstance(result, Completed), "the run has no answer")
    if isinstance(result, Completed):
        ensure_equal((result.exhausted, len(bench.requests)), ("failures", 3), "the limit and the requests")


@case("RUN-011")
async def a_success_forgives_failures(subject: KernelSubject) -> None:
    """Failures are counted in a row."""
    work, _ = _counted()
    agent = text_agent(work, policy=Policy(max_failures=2, retry=_ONCE))
    script = [turn(call("wrong")), turn(call("work")), turn(call("wrong")), turn("done")]
    async with open_bench(subject, script, agent) as bench:
        result = await bench.run()
    ensure(isinstance(result, Completed) and result.exhausted is None, "failures with a success between them end a run")


@case("RUN-021")
async def an_allowance_only_tightens(subject: KernelSubject) -> None:
    """What a caller allows is taken where it is less than the definition's, and ignored where it is more."""
    for allowed, expected in ((1, 1), (2, 2), (9, 2)):
        work, ran = _counted()
        agent = text_agent(work, policy=Policy(max_turns=2, retry=_ONCE))
        script = [*[turn(call("work"))] * expected, turn("enough"), turn("more")]
        async with open_bench(subject, script, agent) as bench:
            await bench.kernel.run(agent, "go", allowance=Allowance(max_turns=allowed))
            ensure_equal(len(ran), expected, f"handlers, where the definition allows 2 turns and the caller {allowed}")
            [started] = bench.recorded(RunStarted)
            ensure_equal(started.limits.max_turns, expected, "the limit on record")


BUDGETS = (
    tokens_are_looked_at_before_more_work,
    what_was_produced_is_kept,
    cost_is_hard,
    a_request_that_would_pass_the_cost_is_not_made,
    four_fifths_are_announced_once,
    a_limit_is_told_when_it_is_reached,
    a_success_forgives_failures,
    an_allowance_only_tightens,
)
