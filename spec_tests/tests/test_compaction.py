"""Compaction: what a model is shown shrinks, what is on record stays, and a request that fits nothing is not made."""

import pytest
import trio
import trio.testing

from tests.compaction_world import BAD_SUMMARIES, LONG, answers, reads, shown_text, small
from tests.kernel_world import World, one_agent
from triolet.adapters.estimators import ByteEstimator
from triolet.adapters.scripted_model import Turn, call, text, turn
from triolet.kernel import (
    Completed,
    Failed,
    history_problem,
)
from triolet.ports.language_model import ContextTooLarge, ModelRequest
from triolet.ports.messages import UserMessage
from triolet.ports.records import CompactionCreated, CompactionFailed, OverflowRetried
from triolet.ports.usage import Usage

# --- clearing -----------------------------------------------------------------------------------------


async def test_run_026_old_results_are_cleared_first(estimating: World) -> None:
    agent = small(5_000)
    async with one_agent(estimating, agent, *[answers] * 7) as (kernel, model):
        result = await kernel.run(agent, "go")
    assert isinstance(result, Completed)
    assert {record.form for record in estimating.of(CompactionCreated)} == {"clear-tool-results"}
    estimator = ByteEstimator()
    for request in model.requests:
        assert sum(estimator.message(message) for message in request.messages) <= 5_000
        assert history_problem(request.messages) is None
        assert "go" in shown_text(request.messages[:1])
    # The newest two results are whole.
    assert shown_text(model.requests[-1].messages).count(LONG) >= 2


async def test_cap_007_the_history_keeps_everything(estimating: World) -> None:
    agent = small()
    async with one_agent(estimating, agent, *[answers] * 20) as (kernel, _model), kernel.conversation() as talk:
        await talk.run(agent, "go")
        assert shown_text(talk.history).count(LONG) == 6
        assert shown_text(talk.context).count(LONG) < 6
        assert next(m for m in talk.history if isinstance(m, UserMessage)).parts[0].text == "go"  # type: ignore[union-attr]
    assert estimating.of(CompactionCreated)


# --- summaries ----------------------------------------------------------------------------------------


async def test_run_026_a_summary_takes_the_place_of_old_turns(estimating: World) -> None:
    agent = small(1_600)
    async with one_agent(estimating, agent, *[answers] * 30) as (kernel, model):
        result = await kernel.run(agent, "go")
    assert isinstance(result, Completed)
    made = [record for record in estimating.of(CompactionCreated) if record.form == "summarize"]
    assert made
    assert all(record.summary == "SUMMARY of it all" for record in made)
    asked = [request for request in model.requests if request.purpose == "summary"]
    assert len(asked) == len(made)
    assert all((request.tools, request.tool_choice, request.output) == ((), "none", None) for request in asked)
    # Metered: what summaries took is among the run's usage (RUN-023).
    assert result.usage.input_tokens >= 50 * len(made)
    last = model.requests[-1]
    assert "SUMMARY of it all" in shown_text(last.messages[:1])
    assert history_problem(last.messages) is None


@pytest.mark.parametrize("tokens", range(1_100, 5_000, 300))
@pytest.mark.parametrize("wide", [1, 3])
async def test_f_030_no_cut_parts_a_call_from_its_result(estimating: World, tokens: int, wide: int) -> None:
    agent = small(tokens)

    def respond(request: ModelRequest) -> Turn:
        if request.purpose == "summary":
            return turn("SUMMARY")
        assert history_problem(request.messages) is None
        if request.turn > 8:
            return turn("done")
        calls = [call("read" if request.turn % 3 == 0 and not n else "think", {"n": n}) for n in range(wide)]
        return turn(*calls)

    async with one_agent(estimating, agent, *[respond] * 60) as (kernel, model):
        result = await kernel.run(agent, "the task")
    assert isinstance(result, Completed | Failed)
    if isinstance(result, Failed):
        assert result.error.failure.code == "context-too-large"
    for request in model.requests:
        assert history_problem(request.messages) is None


async def test_f_032_a_fixed_part_over_the_limit_is_refused_without_a_request(estimating: World) -> None:
    agent = small(500, instructions=LONG)
    async with one_agent(estimating, agent, turn("x")) as (kernel, model):
        result = await kernel.run(agent, "go")
    assert isinstance(result, Failed)
    assert result.error.failure.code == "context-too-large"
    assert "500" in result.error.failure.detail
    assert list(model.requests) == []


async def test_f_032_one_attempt_and_then_the_typed_end(estimating: World) -> None:
    agent = small(1_000, summarise="model")
    async with (
        one_agent(estimating, agent, reads(1), answers, turn("never")) as (kernel, model),
        kernel.conversation() as talk,
    ):
        result = await talk.run(agent, "go " * 100)
    assert isinstance(result, Failed)
    assert result.error.failure.code == "context-too-large"
    assert [request.purpose for request in model.requests].count("summary") <= 1


@pytest.mark.parametrize("why", BAD_SUMMARIES)
async def test_f_032_a_failed_summary_leaves_everything_as_it_was(estimating: World, why: str) -> None:
    agent = small(2_500)

    def respond(request: ModelRequest) -> Turn:
        return BAD_SUMMARIES[why] if request.purpose == "summary" else turn(text("words " * 500))

    async with one_agent(estimating, agent, *[respond] * 9) as (kernel, _model), kernel.conversation() as talk:
        results = [await talk.run(agent, f"question {n}") for n in range(4)]
        shown = list(talk.context)
        assert shown == list(talk.history)
    failed = [result for result in results if isinstance(result, Failed)]
    assert failed
    assert all(result.error.failure.code == "context-too-large" for result in failed)
    assert {record.reason for record in estimating.of(CompactionFailed)} == {why}
    assert estimating.of(CompactionCreated) == []


async def test_a_summary_that_is_cancelled_is_charged_and_leaves_the_history(
    estimating: World, autojump_clock: trio.testing.MockClock
) -> None:
    agent = small(1_600, max_seconds=5)
    never = trio.Event()

    def respond(request: ModelRequest) -> Turn:
        if request.purpose == "summary":
            return turn(text("half"), usage=Usage(input_tokens=50, output_tokens=5)).gated(never)
        return reads(request.turn)

    async with one_agent(estimating, agent, *[respond] * 9) as (kernel, _):
        result = await kernel.run(agent, "go")
    assert isinstance(result, Failed)
    assert result.error.failure.dimension == "duration"
    [failed] = estimating.of(CompactionFailed)
    assert failed.reason == "cancelled"
    assert failed.usage.at_least


# --- secrets ------------------------------------------------------------------------------------------


async def test_secrets_that_policy_excludes_never_get_into_a_summary(estimating: World) -> None:
    agent = small(1_600, redact_summary=lambda words: words.replace("s3cret", "[hidden]"))

    def respond(request: ModelRequest) -> Turn:
        if request.purpose == "summary":
            assert "s3cret" not in shown_text(request.messages)
            return turn(text(f"it was s3cret, and {shown_text(request.messages)[:40]}"))
        return turn("done") if request.turn > 4 else reads(request.turn)

    async with one_agent(estimating, agent, *[respond] * 20) as (kernel, _):
        await kernel.run(agent, "my password is s3cret")
    made = [record for record in estimating.of(CompactionCreated) if record.summary is not None]
    assert made
    assert all("s3cret" not in (record.summary or "") for record in made)
    assert all("[hidden]" in (record.summary or "") for record in made)


# --- overflow (RUN-027) -------------------------------------------------------------------------------


def too_large(request: ModelRequest) -> Turn:
    return turn("x").failing(ContextTooLarge(model="m"), after=0)


async def test_run_027_a_refused_length_is_made_smaller_and_tried_once(estimating: World) -> None:
    agent = small(None)
    script = (reads(1), reads(2), reads(3), too_large, turn("done"))
    async with one_agent(estimating, agent, *script) as (kernel, model):
        result = await kernel.run(agent, "go")
    assert isinstance(result, Completed)
    assert [record.turn for record in estimating.of(OverflowRetried)] == [4]
    before, after = model.requests[3], model.requests[4]
    assert (before.turn, before.attempt, after.turn, after.attempt) == (4, 1, 4, 2)
    assert len(shown_text(after.messages)) < len(shown_text(before.messages))


async def test_run_027_at_most_once(estimating: World) -> None:
    agent = small(None)
    script = (reads(1), reads(2), reads(3), too_large, too_large)
    async with one_agent(estimating, agent, *script) as (kernel, model):
        result = await kernel.run(agent, "go")
    assert isinstance(result, Failed)
    assert (result.error.failure.code, len(model.requests)) == ("context-too-large", 5)


async def test_run_027_nothing_to_take_away_is_the_end(estimating: World) -> None:
    agent = small(None)
    async with one_agent(estimating, agent, too_large) as (kernel, model):
        result = await kernel.run(agent, "go")
    assert isinstance(result, Failed)
    assert (result.error.failure.code, len(model.requests)) == ("context-too-large", 1)
