"""Artifacts of the host, and compaction between runs: bound to their range, and never twice at once."""

from collections.abc import Callable

import attrs
import pytest
import trio
import trio.testing
from trio.testing import MockClock

from tests.approval_world import Office, yes
from tests.compaction_world import BAD_SUMMARIES, answers, read, reads, shown_text, small
from tests.kernel_world import World, one_agent, talker
from triolet.adapters.estimators import ByteEstimator
from triolet.adapters.scripted_model import ScriptedModel, Turn, call, turn
from triolet.kernel import (
    ApprovalPolicy,
    Completed,
    ConversationBusy,
    Failed,
    NotCompacted,
    Policy,
    RetryPolicy,
    RunHandle,
    Suspended,
    history_problem,
)
from triolet.kernel.summary import source_digest
from triolet.ports.canonical import GENESIS
from triolet.ports.compactor import CompactionArtifact, CompactionRange, CompactorUnavailable
from triolet.ports.identity import SequenceNumber
from triolet.ports.language_model import ModelRequest
from triolet.ports.records import CompactionCreated, CompactionFailed

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


# --- together with what else a run does -----------------------------------------------------------------


async def test_a_run_that_was_compacted_is_suspended_and_goes_on(office: Office, autojump_clock: MockClock) -> None:
    office.ports["estimator"] = ByteEstimator()
    pay = office.counted()
    waiting = ApprovalPolicy(seconds=5, silence="wait")
    policy = Policy(context_tokens=1_600, max_turns=40, approval=waiting, retry=RetryPolicy(tries=1))
    agent = talker(read, pay, policy=policy)

    def respond(request: ModelRequest) -> Turn:
        assert history_problem(request.messages) is None
        if request.purpose == "summary":
            return turn("SUMMARY")
        if request.turn == 5:
            return turn(call("pay"))
        return turn("done") if request.turn > 8 else reads(request.turn)

    model = ScriptedModel([respond] * 40)
    async with office.kernel(agent, model=model) as kernel, kernel.conversation("c") as talk:
        suspended = await talk.run(agent, "go")
    assert isinstance(suspended, Suspended)
    compactions = len(office.of(CompactionCreated))
    assert compactions > 0
    async with office.kernel(agent, model=model) as kernel:
        await kernel.answer(suspended.requests[0].id, yes(suspended.requests[0]))
        result = await kernel.resume(suspended)
    assert isinstance(result, Completed)
    assert office.ran == [("pay", 1)]
    assert len(office.of(CompactionCreated)) > compactions
    assert result.usage.calls == len(model.requests)


async def test_steering_enters_before_a_compaction_and_is_shown(office: Office, autojump_clock: MockClock) -> None:
    office.ports["estimator"] = ByteEstimator()
    agent = talker(read, policy=Policy(context_tokens=1_600, max_turns=40, retry=RetryPolicy(tries=1)))
    handles: list[RunHandle[str]] = []
    steered: list[int] = []

    async def steer() -> None:
        await handles[0].steer("mind the gap")

    def respond(request: ModelRequest) -> Turn:
        if request.purpose == "summary":
            return turn("SUMMARY")
        if "mind the gap" in shown_text(request.messages):
            steered.append(request.turn)
        return turn("done") if request.turn > 6 else reads(request.turn)

    async with office.kernel(agent, model=ScriptedModel([respond] * 40)) as kernel:
        async with kernel.stream(agent, "go") as run:
            handles.append(run)
            async for event in run.events():
                if event.kind == "turn-ended" and event.turn == 3:
                    await steer()
            assert isinstance(await run.result(), Completed)
    assert steered[0] in (4, 5)
