"""Compaction: what a model is shown shrinks, what is on record stays, and a request that fits nothing is not made."""

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from tests.kernel_world import World, one_agent, talker
from triolet.adapters.estimators import ByteEstimator
from triolet.adapters.scripted_model import Turn, call, text, turn
from triolet.kernel import (
    Agent,
    Completed,
    ConversationBusy,
    Failed,
    NotCompacted,
    Policy,
    RetryPolicy,
    history_problem,
    tool,
)
from triolet.kernel.summary import source_digest
from triolet.ports.canonical import GENESIS
from triolet.ports.compactor import CompactionArtifact, CompactionRange, CompactorUnavailable
from triolet.ports.identity import SequenceNumber
from triolet.ports.language_model import ContextTooLarge, ModelRequest, ModelUnavailable
from triolet.ports.messages import Message, ToolMessage, UserMessage
from triolet.ports.outcomes import outcome_text
from triolet.ports.records import CompactionCreated, CompactionFailed, OverflowRetried
from triolet.ports.usage import Usage

LONG = "x" * 3_000
"""About a thousand tokens."""


@tool(execution="readonly")
async def read(n: int) -> str:
    """Read something long."""
    return f"{n}:{LONG}"


@tool(execution="readonly")
async def think(n: int) -> int:
    """Return a number."""
    return n


@pytest.fixture
async def estimating(world: World) -> World:
    world.ports["estimator"] = ByteEstimator()
    return world


def small(tokens: int | None = 3_000, **fields: Any) -> Agent[str, str]:
    options = {key: fields.pop(key) for key in ("redact_summary", "instructions") if key in fields}
    policy = Policy(context_tokens=tokens, max_turns=40, retry=RetryPolicy(tries=1), **fields)
    return talker(read, think, policy=policy, **options)


def reads(n: int) -> Turn:
    return turn(call("read", {"n": n}))


def shown_text(messages: Sequence[Message]) -> str:
    pieces: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            pieces.extend(outcome_text(result.outcome) for result in message.results)
        elif isinstance(message, UserMessage):
            pieces.extend(part.text for part in message.parts if part.kind == "text")
        else:
            pieces.append(message.text)
    return "\n".join(pieces)


def answers(request: ModelRequest) -> Turn:
    """Read until told otherwise; write a summary when asked for one."""
    if request.purpose == "summary":
        return turn(text("SUMMARY of it all"), usage=Usage(input_tokens=50, output_tokens=5))
    return turn("done") if request.turn > 6 else reads(request.turn)


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


BAD_SUMMARIES: dict[str, Turn] = {
    "empty": turn(text(" \n")),
    "no-smaller": turn(text("y" * 60_000)),
    "model-failed": turn("x").failing(ModelUnavailable(model="m", reason="timeout"), after=0),
}


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


# --- the host's compactor -----------------------------------------------------------------------------


@attrs.define
class Host:
    """A compactor whose artifact may be spoilt on its way."""

    spoil: Callable[[CompactionArtifact], CompactionArtifact] = lambda artifact: artifact
    version: str = "notes/7"
    asked: list[CompactionRange] = attrs.field(factory=list[CompactionRange])

    async def compact(self, source: CompactionRange) -> CompactionArtifact:
        self.asked.append(source)
        artifact = CompactionArtifact(
            covers_through=source.covers_through,
            summary="what the host says",
            retained_facts=("the sky is blue",),
            token_estimate=9,
            source_digest=source.digest,
            compactor_version=self.version,
        )
        return self.spoil(artifact)


async def test_a_host_artifact_is_bound_to_its_range(estimating: World) -> None:
    host = Host()
    estimating.ports["compactor"] = host
    agent = small(1_600, summarise="host")
    async with one_agent(estimating, agent, *[answers] * 20) as (kernel, model):
        result = await kernel.run(agent, "go")
    assert isinstance(result, Completed)
    made = [record for record in estimating.of(CompactionCreated) if record.form == "summarize"]
    assert [record.covers_through for record in made] == [source.covers_through for source in host.asked]
    assert all(source.digest == source_digest(source.messages) for source in host.asked)
    assert made[0].compactor_version == "notes/7"
    assert "the sky is blue" in shown_text(model.requests[-1].messages[:1])
    assert all(request.purpose == "response" for request in model.requests)


SPOILT: dict[str, Callable[[CompactionArtifact], CompactionArtifact]] = {
    "another range": lambda a: attrs.evolve(a, covers_through=SequenceNumber(a.covers_through - 1)),
    "another content": lambda a: attrs.evolve(a, source_digest=GENESIS),
    "another version": lambda a: attrs.evolve(a, compactor_version="notes/8"),
    "a summary without end": lambda a: attrs.evolve(a, summary="x" * 70_000),
    "facts without end": lambda a: attrs.evolve(a, retained_facts=("x",) * 101),
    "no estimate": lambda a: attrs.evolve(a, token_estimate=-1),
}


@pytest.mark.parametrize("how", SPOILT)
async def test_a_spoilt_artifact_is_refused_and_history_stands(estimating: World, how: str) -> None:
    estimating.ports["compactor"] = Host(SPOILT[how])
    agent = small(1_600, summarise="host")
    async with one_agent(estimating, agent, *[answers] * 20) as (kernel, _), kernel.conversation() as talk:
        result = await talk.run(agent, "go")
    assert isinstance(result, Failed)
    assert [record.reason for record in estimating.of(CompactionFailed)] == ["artifact-refused"]
    assert all(record.form != "summarize" for record in estimating.of(CompactionCreated))


async def test_a_compactor_that_does_not_answer_is_no_summary(estimating: World) -> None:
    def unavailable(artifact: CompactionArtifact) -> CompactionArtifact:
        raise CompactorUnavailable(problem="gone")

    estimating.ports["compactor"] = Host(unavailable)
    agent = small(1_600, summarise="host")
    async with one_agent(estimating, agent, *[answers] * 20) as (kernel, _):
        result = await kernel.run(agent, "go")
    assert isinstance(result, Failed)
    assert [record.reason for record in estimating.of(CompactionFailed)] == ["compactor-failed"]


# --- between runs -------------------------------------------------------------------------------------


async def test_a_host_may_compact_between_runs_and_rebuild_from_the_log(estimating: World) -> None:
    agent = small(None)
    asked: list[ModelRequest] = []

    def respond(request: ModelRequest) -> Turn:
        asked.append(request)
        return turn(f"summary {len(asked)}") if request.purpose == "summary" else turn("words " * 50)

    async with one_agent(estimating, agent, *[respond] * 9) as (kernel, _), kernel.conversation("talk") as talk:
        for n in range(3):
            await talk.run(agent, f"question {n}")
        history = list(talk.history)
        await talk.compact(agent)
        assert list(talk.history) == history
        assert len(talk.context) == 2
        assert "summary 4" in shown_text(talk.context)
        with pytest.raises(NotCompacted):
            await talk.compact(agent)
        await talk.compact(agent, rebuild=True)
        # Again from the log, not from the first summary.
        assert "summary 4" not in shown_text(asked[-1].messages)
        assert "question 0" in shown_text(asked[-1].messages)
        assert "summary 5" in shown_text(talk.context)
        await talk.run(agent, "and now?")
        assert "summary 5" in shown_text(asked[-1].messages[:1])
    async with one_agent(estimating, agent, *[respond] * 3) as (kernel, _), kernel.conversation("talk") as again:
        assert "summary 5" in shown_text(again.context)


async def test_f_032_one_summariser_call_however_many_ask(estimating: World) -> None:
    agent = small(None)
    gate = trio.Event()

    def respond(request: ModelRequest) -> Turn:
        return turn("short").gated(gate) if request.purpose == "summary" else turn("words " * 50)

    async with one_agent(estimating, agent, *[respond] * 9) as (kernel, model), kernel.conversation() as talk:
        await talk.run(agent, "one")
        await talk.run(agent, "two")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(talk.compact, agent)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(ConversationBusy):
                await talk.compact(agent)
            with pytest.raises(ConversationBusy):
                await talk.run(agent, "three")
            gate.set()
    assert [request.purpose for request in model.requests].count("summary") == 1


@pytest.mark.parametrize("why", BAD_SUMMARIES)
async def test_a_failed_compaction_between_runs_is_told_and_changes_nothing(estimating: World, why: str) -> None:
    agent = small(None)

    def respond(request: ModelRequest) -> Turn:
        return BAD_SUMMARIES[why] if request.purpose == "summary" else turn("words " * 50)

    async with one_agent(estimating, agent, *[respond] * 9) as (kernel, _), kernel.conversation() as talk:
        await talk.run(agent, "one")
        await talk.run(agent, "two")
        before = len(estimating.records())
        with pytest.raises(NotCompacted) as caught:
            await talk.compact(agent)
        assert caught.value.reason == why
        assert len(estimating.records()) == before
        assert list(talk.context) == list(talk.history)
