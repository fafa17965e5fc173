"""Contexts: what a model is shown when there is more than fits, what stays on record, and when nothing helps.

CAP-007, RUN-026, RUN-027, RUN-029.
"""

from collections.abc import Sequence
from typing import Any

from triolet.adapters.estimators import ByteEstimator
from triolet.adapters.scripted_model import ScriptItem, Turn, call, text, turn
from triolet.kernel import Completed, Disposition, Failed, Policy, RetryPolicy, tool
from triolet.ports.language_model import ContextTooLarge, ModelRequest
from triolet.ports.messages import Message, ToolMessage
from triolet.ports.records import CompactionCreated, CompactionFailed, OverflowRetried, RunSettled
from triolet.ports.usage import Usage
from triolet.spec_tests.cases.kernel.setting import KernelSubject, ensure_whole, open_bench, text_agent
from triolet.spec_tests.claims import ensure, ensure_equal
from triolet.spec_tests.definition import case

_PORTS: dict[str, Any] = {"estimator": ByteEstimator()}
_LONG = "x" * 3_000


@tool(execution="readonly")
async def read(n: int) -> str:
    """Read a thousand tokens."""
    return f"{n}:{_LONG}"


def _policy(tokens: int | None, **fields: Any) -> Policy:
    return Policy(context_tokens=tokens, max_turns=30, retry=RetryPolicy(tries=1), **fields)


def _reading(request: ModelRequest) -> Turn:
    if request.purpose == "summary":
        return turn(text("in short"), usage=Usage(input_tokens=50, output_tokens=5))
    return turn("done") if request.turn > 6 else turn(call("read", {"n": request.turn}))


def _results(messages: Sequence[Message]) -> str:
    return repr([message for message in messages if isinstance(message, ToolMessage)])


def _size(messages: Sequence[Message]) -> int:
    estimator = ByteEstimator()
    return sum(estimator.message(message) for message in messages)


@case("RUN-026")
async def old_results_go_before_the_limit_is_passed(subject: KernelSubject) -> None:
    """No request is larger than the limit; the newest results are whole, and no call is parted from its result."""
    agent = text_agent(read, policy=_policy(5_000))
    async with open_bench(subject, [_reading] * 8, agent, ports=_PORTS) as bench:
        result = await bench.run()
    ensure(isinstance(result, Completed), "the run has no answer")
    for request in bench.requests:
        ensure(_size(request.messages) <= 5_000, f"a request takes {_size(request.messages)} tokens of 5,000")
        ensure_whole(request.messages, "a compacted request")
    ensure(_LONG in _results(bench.requests[-1].messages), "the newest result is cleared")
    ensure(bench.recorded(CompactionCreated) != [], "nothing of it is on record")


@case("RUN-026")
async def a_summary_stands_for_old_turns(subject: KernelSubject) -> None:
    """Where clearing is not enough, one metered request without tools makes a summary, and the next request has it."""
    agent = text_agent(read, policy=_policy(1_600))
    async with open_bench(subject, [_reading] * 30, agent, ports=_PORTS) as bench:
        result = await bench.run()
    ensure(isinstance(result, Completed), "the run has no answer")
    asked = [request for request in bench.requests if request.purpose == "summary"]
    made = [record for record in bench.recorded(CompactionCreated) if record.form == "summarize"]
    ensure_equal(len(asked), len(made), "summaries asked for, and made")
    ensure(made != [], "no summary was made")
    for request in asked:
        ensure_equal((request.tools, request.tool_choice), ((), "none"), "tools of a request for a summary")
    for request in bench.requests:
        ensure_whole(request.messages, "a compacted request")
    ensure("in short" in repr(bench.requests[-1].messages[0]), "the summary is not in the next request")
    ensure(result.usage.input_tokens >= 50 * len(made), "summaries are not metered")


@case("RUN-026")
async def what_cannot_be_made_to_fit_is_not_asked(subject: KernelSubject) -> None:
    """A request that stays too large is not made, and one attempt at a summary is all there is: a typed failure."""
    agent = text_agent(read, instructions=_LONG, policy=_policy(600))
    async with open_bench(subject, [_reading] * 5, agent, ports=_PORTS) as bench:
        result = await bench.run()
    ensure_equal(list(bench.requests), [], "requests")
    ensure(isinstance(result, Failed) and result.error.failure.code == "context-too-large", "the failure is not typed")


@case("CAP-007")
async def compaction_changes_no_history(subject: KernelSubject) -> None:
    """What was compacted is still on record, message by message, and a summary that failed leaves no trace in it."""
    agent = text_agent(read, policy=_policy(1_600))
    async with (
        open_bench(subject, [_reading] * 30, agent, ports=_PORTS) as bench,
        bench.kernel.conversation() as talk,
    ):
        await talk.run(agent, "go")
        ensure_equal(_results(talk.history).count(_LONG), 6, "whole results in the history")
        ensure(_results(talk.context).count(_LONG) < 6, "nothing was compacted")
    ensure_equal(bench.stored_text.count(_LONG), 6, "whole results on record")


@case("CAP-007")
async def a_failed_summary_leaves_the_history(subject: KernelSubject) -> None:
    """An empty answer is no summary: what a model is shown stays as it was, and the attempt is charged."""

    def empty(request: ModelRequest) -> Turn:
        if request.purpose == "summary":
            return turn(text(" "), usage=Usage(input_tokens=40, output_tokens=1))
        return turn(text("words " * 500), usage=Usage(input_tokens=1, output_tokens=1))

    agent = text_agent(policy=_policy(1_900))
    async with (
        open_bench(subject, [empty] * 9, agent, ports=_PORTS) as bench,
        bench.kernel.conversation() as talk,
    ):
        await talk.run(agent, "one")
        await talk.run(agent, "two")
        before = list(talk.context)
        result = await talk.run(agent, "three")
        ensure(isinstance(result, Failed), "a context that is too large was asked about")
        ensure_equal(list(talk.context)[: len(before)], before, "what a model is shown")
        ensure_equal(result.usage.input_tokens, 40, "what the attempt took")
    ensure_equal(len(bench.recorded(CompactionFailed)), 1, "attempts on record")


@case("RUN-027")
async def a_refused_length_is_tried_once_more_and_smaller(subject: KernelSubject) -> None:
    """After a provider's refusal the same turn is asked again with less; a second refusal is the end."""
    refuses = turn("x").failing(ContextTooLarge(model="m"), after=0)
    for second, expected in ((turn("done"), Completed), (refuses, Failed)):
        agent = text_agent(read, policy=_policy(None))
        script: list[ScriptItem] = [_reading, _reading, _reading, refuses, second, turn("late")]
        async with open_bench(subject, script, agent, ports=_PORTS) as bench:
            result = await bench.run()
        ensure_equal(type(result), expected, "the result")
        ensure_equal([request.turn for request in bench.requests], [1, 2, 3, 4, 4], "turns that were asked for")
        sizes = [_size(request.messages) for request in bench.requests]
        ensure(sizes[4] < sizes[3], "the second try is no smaller than the first")
        ensure_equal(len(bench.recorded(OverflowRetried)), 1, "second tries on record")


@case("RUN-029")
async def an_ordinary_completion_has_a_disposition(subject: KernelSubject) -> None:
    """The declared selector's value is beside an ordinary answer, on record and decoded, and beside no other end."""
    disposition = Disposition(type=int, select=len)
    for policy, script, expected in (
        (Policy(), [turn("four")], 4),
        (Policy(max_turns=1), [turn(call("read", {"n": 1})), turn("four")], None),
    ):
        agent = text_agent(read, policy=policy, disposition=disposition)
        async with open_bench(subject, script, agent) as bench:
            result = await bench.run()
        ensure(isinstance(result, Completed), "the run has no answer")
        if isinstance(result, Completed):
            ensure_equal(result.disposition, expected, "the disposition")
        [settled] = bench.recorded(RunSettled)
        ensure_equal(settled.disposition, None if expected is None else str(expected), "the disposition on record")


CONTEXTS = (
    old_results_go_before_the_limit_is_passed,
    a_summary_stands_for_old_turns,
    what_cannot_be_made_to_fit_is_not_asked,
    compaction_changes_no_history,
    a_failed_summary_leaves_the_history,
    a_refused_length_is_tried_once_more_and_smaller,
    an_ordinary_completion_has_a_disposition,
)
