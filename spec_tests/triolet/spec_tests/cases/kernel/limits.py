"""Limits: what a used-up one forbids, what it still allows, and that it never looks like success.

RUN-011, RUN-018, RUN-019, RUN-020.
"""

from typing import Any

import trio

from triolet.adapters.scripted_model import ScriptItem, call, turn
from triolet.kernel import (
    Aborted,
    BudgetExhaustedError,
    Completed,
    Failed,
    Policy,
    RunFailedError,
    RunResult,
    Suspended,
    Tool,
    ToolsForbiddenError,
    tool,
)
from triolet.ports.events import RunCompleted, RunFailed
from triolet.ports.language_model import ModelRequest
from triolet.ports.outcomes import ToolRejected, ToolSuccess
from triolet.ports.records import CallsDecided, ModelResponded, RunSettled, ToolPrepared, ToolSettled
from triolet.spec_tests.cases.kernel.setting import KernelSubject, ensure_whole, open_bench, text_agent
from triolet.spec_tests.claims import SpecViolation, ensure, ensure_equal
from triolet.spec_tests.definition import case


def _counted() -> tuple[Tool[Any, Any], list[int]]:
    ran: list[int] = []

    @tool(execution="readonly")
    async def work() -> int:
        ran.append(1)
        return len(ran)

    return work, ran


def _calls(count: int) -> ScriptItem:
    return turn(*[call("work")] * count)


@case("RUN-018")
async def a_batch_beyond_the_limit_never_runs(subject: KernelSubject) -> None:
    """Where a batch would pass the limit on tool calls, none of it runs and each call gets a visible rejection."""
    work, ran = _counted()
    agent = text_agent(work, policy=Policy(max_tool_calls=5))
    async with open_bench(subject, [_calls(2), _calls(4), turn("done")], agent) as bench:
        result = await bench.run()
    ensure_equal(len(ran), 2, "handlers that ran, where the third to sixth call pass a limit of 5")
    reasons = [each.reason if isinstance(each, ToolRejected) else type(each).__name__ for each in bench.outcomes]
    ensure_equal(reasons, ["ToolSuccess"] * 2 + ["budget"] * 4, "how the calls ended")
    ensure_equal(type(result), Completed, "the result under the default policy")
    _ensure_forbidden(bench.requests[2], "the request after a batch was rejected")
    ensure_whole(bench.requests[2].messages, "the request after a batch was rejected")


@case("RUN-018")
async def a_rejected_batch_is_never_pending(subject: KernelSubject) -> None:
    """The response and the rejection of all its calls are one batch of records; nothing was decided or prepared."""
    work, _ = _counted()
    agent = text_agent(work, policy=Policy(max_tool_calls=1))
    async with open_bench(subject, [_calls(3), turn("done")], agent) as bench:
        await bench.run()
    ensure_equal(bench.recorded(CallsDecided) + bench.recorded(ToolPrepared), [], "decisions about a rejected batch")
    for batch in bench.store.batches:
        responses = [each for each in batch.records if isinstance(each, ModelResponded) and each.message.calls]
        if responses:
            settled = [each for each in batch.records if isinstance(each, ToolSettled)]
            ensure_equal(len(settled), 3, "rejections in the batch that holds the response")
            return
    raise SpecViolation(problem="the response is not on record")


@case("RUN-018")
async def a_batch_up_to_the_limit_runs(subject: KernelSubject) -> None:
    """Calls up to the limit run, and using it up exactly forbids nothing by itself."""
    work, ran = _counted()
    agent = text_agent(work, policy=Policy(max_tool_calls=3))
    async with open_bench(subject, [_calls(2), _calls(1), turn("done")], agent) as bench:
        result = await bench.run()
    ensure_equal(len(ran), 3, "handlers that ran, where the limit is 3")
    ensure_equal([type(each) for each in bench.outcomes], [ToolSuccess] * 3, "how the calls ended")
    ensure_equal(_ending(result), ("completed", "stop", None), "how the run ended")


@case("RUN-019", "RUN-011")
async def used_up_turns_give_one_more_without_tools(subject: KernelSubject) -> None:
    """After the last ordinary turn the model is asked exactly once more, and offered no tool; the answer counts."""
    work, ran = _counted()
    agent = text_agent(work, policy=Policy(max_turns=3))
    script = [_calls(1), _calls(1), _calls(1), turn("enough"), turn("too much")]
    async with open_bench(subject, script, agent) as bench:
        result = await bench.run()
    ensure_equal((len(bench.requests), len(ran)), (4, 3), "requests and handlers, where 3 turns are allowed")
    for request in bench.requests[:3]:
        ensure(bool(request.tools), "an ordinary turn is offered no tool")
    _ensure_forbidden(bench.requests[3], "the request of the turn beyond the limit")
    ensure_equal(_ending(result), ("completed", "budget-exhausted", "turns"), "how the run ended")
    ensure_equal(result.output, "enough", "the answer of the turn beyond the limit")


@case("RUN-019", "RUN-011")
async def an_invalid_last_answer_gets_no_further_turn(subject: KernelSubject) -> None:
    """The one turn beyond the limit is the last, even if its answer does not decode: the run fails, typed."""
    agent = text_agent(output=int, policy=Policy(max_turns=1))
    async with open_bench(subject, [turn("one"), turn("two"), turn("3")], agent) as bench:
        result = await bench.run()
    ensure_equal(len(bench.requests), 2, "requests, where one turn is allowed")
    ensure_equal(_ending(result), ("failed", "output-invalid", "turns"), "how the run ended")


@case("RUN-011")
async def exhaustion_says_so_everywhere(subject: KernelSubject) -> None:
    """Result, event and settlement of a run that a limit ended name the limit; those of an ordinary one name none."""
    work, _ = _counted()
    for policy, script, due in (
        (Policy(), [_calls(1), turn("done")], ("completed", "stop", None)),
        (Policy(max_turns=1), [_calls(1), turn("enough")], ("completed", "budget-exhausted", "turns")),
        (Policy(max_tool_calls=0), [_calls(1), turn("enough")], ("completed", "budget-exhausted", "tool-calls")),
        (Policy(max_turns=1, exhaustion="fail"), [_calls(1)], ("failed", "budget-exhausted", "turns")),
        (Policy(max_tool_calls=0, exhaustion="fail"), [_calls(1)], ("failed", "budget-exhausted", "tool-calls")),
        (
            Policy(max_seconds=0.05),
            [turn("half").hanging(trio.Event(), after=1)],
            ("failed", "budget-exhausted", "duration"),
        ),
    ):
        async with open_bench(subject, script, text_agent(work, policy=policy)) as bench:
            events, result = await bench.observe()
        ensure_equal(_ending(result), due, f"the result under {policy}")
        last = events[-1]
        shown: tuple[str, str | None, str | None] = due
        if isinstance(last, RunCompleted):
            shown = ("completed", last.settlement.finish, last.exhausted)
        else:
            ensure(isinstance(last, RunFailed), "a run that a limit ended was neither completed nor failed")
            if isinstance(last, RunFailed):
                shown = ("failed", last.failure.code, last.failure.dimension)
        ensure_equal(shown, due, f"the terminal event under {policy}")
        (settled,) = bench.recorded(RunSettled)
        failure = settled.failure
        dimension = settled.exhausted if failure is None else failure.dimension
        ensure_equal((settled.status, dimension), (due[0], due[2]), f"the settlement under {policy}")


@case("RUN-011", "RUN-018")
async def the_policy_to_fail_fails_before_more_work(subject: KernelSubject) -> None:
    """Under `fail`, a used-up limit is a typed failure, with no further request and no handler beyond it."""
    for policy, requests, handlers in (
        (Policy(max_turns=2, exhaustion="fail"), 2, 2),
        (Policy(max_tool_calls=1, exhaustion="fail"), 2, 1),
    ):
        work, ran = _counted()
        async with open_bench(subject, [_calls(1)] * 5, text_agent(work, policy=policy)) as bench:
            result = await bench.run()
        error = result.error if isinstance(result, Failed) else None
        ensure_equal(type(error), BudgetExhaustedError, f"the failure under {policy}")
        ensure_equal((len(bench.requests), len(ran)), (requests, handlers), f"requests and handlers under {policy}")


@case("RUN-020")
async def a_call_where_tools_are_forbidden_fails_the_run(subject: KernelSubject) -> None:
    """A model that calls a tool although none was offered fails the run, typed; nothing runs and no call stays open."""
    work, ran = _counted()
    forbidding = (
        ("in the turn beyond the limit", text_agent(work, policy=Policy(max_turns=1)), [_calls(1), _calls(2)], 1),
        ("after a rejected batch", text_agent(work, policy=Policy(max_tool_calls=0)), [_calls(1), _calls(2)], 0),
        ("under tool_choice none", text_agent(work, tool_choice="none"), [_calls(2)], 0),
        ("without any tool", text_agent(), [_calls(2)], 0),
    )
    for name, agent, script, handlers in forbidding:
        ran.clear()
        async with open_bench(subject, [*script, turn("never")], agent) as bench:
            result = await bench.run()
        error: RunFailedError | None = result.error if isinstance(result, Failed) else None
        ensure_equal(type(error), ToolsForbiddenError, f"the failure of a run whose model called a tool {name}")
        ensure_equal(len(ran), handlers, f"handlers that ran, {name}")
        last = [each.reason if isinstance(each, ToolRejected) else type(each).__name__ for each in bench.outcomes[-2:]]
        ensure_equal(last, ["forbidden", "forbidden"], f"how the forbidden calls ended, {name}")
        ensure_equal(len(bench.requests), len(script), f"requests, {name}")


def _ensure_forbidden(request: ModelRequest, what: str) -> None:
    ensure_equal((request.tools, request.tool_choice), ((), "none"), f"{what}: what it offers")


def _ending(result: RunResult[Any]) -> tuple[str, str, str | None]:
    match result:
        case Completed():
            return "completed", result.finish, result.exhausted
        case Failed():
            return "failed", result.error.failure.code, result.error.failure.dimension
        case Aborted():
            return "aborted", result.reason, None
        case Suspended():
            return "suspended", "", None


LIMITS = (
    a_batch_beyond_the_limit_never_runs,
    a_rejected_batch_is_never_pending,
    a_batch_up_to_the_limit_runs,
    used_up_turns_give_one_more_without_tools,
    an_invalid_last_answer_gets_no_further_turn,
    exhaustion_says_so_everywhere,
    the_policy_to_fail_fails_before_more_work,
    a_call_where_tools_are_forbidden_fails_the_run,
)
