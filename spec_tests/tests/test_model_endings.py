"""How a model call can end otherwise than with an answer: each way is typed, charged, on record, and nothing runs."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from tests.kernel_world import World, one_agent, talker
from triolet.adapters.scripted_model import ScriptExhausted, Turn, call, opaque, raw, reasoning, text, turn
from triolet.kernel import Agent, Completed, Failed, ModelFailedError, Policy, tool
from triolet.kernel.machine.reduction import MAX_CALLS, MAX_CHARACTERS
from triolet.ports.language_model import (
    CallChunk,
    CallOpened,
    ContextTooLarge,
    Finished,
    MalformedResponse,
    ModelIdentity,
    ModelPart,
    ModelRefused,
    ModelRequest,
    ModelUnavailable,
    TextChunk,
    UsageReport,
)
from triolet.ports.messages import AssistantMessage
from triolet.ports.records import ModelInterrupted, ModelResponded
from triolet.ports.usage import Usage

RAN: list[str] = []


@tool
async def act() -> str:
    """Act."""
    RAN.append("act")
    return "acted"


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    RAN.clear()


AGENT = talker(act)
DOWN = ModelUnavailable(model="m", reason="overloaded", status=503)
REFUSED = ModelRefused(model="m", reason="authentication")
TOO_LARGE = ContextTooLarge(model="m")
GARBLED = MalformedResponse(problem="an event that is no JSON")
CALLING = turn("Let me ", "act.", call("act", "{}"))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (DOWN, "model-unavailable"),
        (REFUSED, "model-refused"),
        (TOO_LARGE, "context-too-large"),
        (GARBLED, "malformed-response"),
    ],
)
@pytest.mark.parametrize("after", [None, 0, 1, 2, 4, 6])
async def test_an_error_anywhere_in_the_stream_fails_the_run_and_nothing_runs(
    world: World, autojump_clock: trio.testing.MockClock, error: Exception, code: str, after: int | None
) -> None:
    # Six parts: two of text, two of the call, the finish, the usage report.
    async with one_agent(world, AGENT, CALLING.failing(error, after=after)) as (kernel, _):
        result = await kernel.run(AGENT, "go")
    assert isinstance(result, Failed)
    assert isinstance(result.error, ModelFailedError)
    assert result.error.failure.code == code
    assert RAN == []
    assert not world.of(ModelResponded)
    [interrupted] = world.of(ModelInterrupted)
    # What had arrived is there for audit; what it cost is charged, from below.
    assert (
        interrupted.text
        == ["", "", "Let me ", "Let me act."][min(after or 0, 2) if after is None else min(after, 2) + 1]
    )
    assert interrupted.usage.at_least
    assert result.usage.at_least
    assert (interrupted.usage.input_tokens > 0) == (after == 6)
    assert result.usage.calls == 1


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        (raw(CallChunk(index=0, text="{}"), Finished(reason="stop")), "not opened"),
        (raw(CallOpened(index=0, name="act"), CallOpened(index=0, name="act")), "twice"),
        (raw(Finished(reason="stop"), TextChunk(text="more")), "after the end"),
        (raw(UsageReport(usage=Usage(output_tokens=-1))), "token count"),
        (turn(opaque("{"), "x"), "opaque"),
        (raw(*(CallOpened(index=n, name="act") for n in range(MAX_CALLS + 1))), "calls"),
        (turn("x" * (MAX_CHARACTERS + 1)), "characters"),
        (turn(call("act", '{"a": "' + "x" * 10_000_000 + '"}')), "characters"),
    ],
    ids=range(8),
)
async def test_a_malformed_response_fails_the_run_typed(
    world: World, autojump_clock: trio.testing.MockClock, script: Turn, problem: str
) -> None:
    async with one_agent(world, AGENT, script) as (kernel, _):
        result = await kernel.run(AGENT, "go")
    assert isinstance(result, Failed)
    assert isinstance(result.error, ModelFailedError)
    assert result.error.failure.code == "malformed-response"
    assert problem in result.error.failure.detail
    assert len(result.error.failure.detail) < 200
    assert RAN == []


@pytest.mark.parametrize("cut", [CALLING.cut(), CALLING.cut(DOWN), raw(), raw(TextChunk(text="x"))])
async def test_run_004_a_stream_that_just_ends_is_a_cut_response(
    world: World, autojump_clock: trio.testing.MockClock, cut: Turn
) -> None:
    async with one_agent(world, AGENT, cut) as (kernel, _):
        result = await kernel.run(AGENT, "go")
    assert isinstance(result, Failed)
    assert result.error.failure.code == "model-unavailable"
    assert RAN == []


@pytest.mark.parametrize("reason", ["length", "content-filter"])
async def test_run_004_no_call_of_a_cut_response_runs_and_the_model_is_told(
    world: World, autojump_clock: trio.testing.MockClock, reason: Any
) -> None:
    cut = turn("I will", call("act", "{}"), call("act", "{"), finish=reason)
    async with one_agent(world, AGENT, cut, turn("Sorry.")) as (kernel, model):
        result = await kernel.run(AGENT, "go")
    assert isinstance(result, Completed)
    assert RAN == []
    assert [getattr(outcome, "reason", None) for outcome in world.outcomes()] == ["truncated", "truncated"]
    # F-004: what is sent back is well formed.
    [said] = [m for m in model.requests[1].messages if isinstance(m, AssistantMessage)]
    assert [shown.arguments for shown in said.calls] == ["{}", "{}"]


async def test_an_answer_that_the_provider_filtered_is_no_success(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    async with one_agent(world, AGENT, turn("Half a sent", finish="content-filter")) as (kernel, _):
        result = await kernel.run(AGENT, "go")
    assert isinstance(result, Failed)
    assert result.error.failure.code == "model-refused"


async def test_a_failed_run_leaves_a_conversation_that_goes_on(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    turns = (CALLING, CALLING.failing(DOWN, after=3), turn("Back again."))
    async with one_agent(world, AGENT, *turns) as (kernel, model), kernel.conversation("c") as conversation:
        assert isinstance(await conversation.run(AGENT, "go"), Failed)
        result = await conversation.run(AGENT, "still there?")
    assert result.output == "Back again."
    # The interrupted text is in the log, and in no request (DUR-008).
    shown = [m.text for m in model.requests[-1].messages if isinstance(m, AssistantMessage)]
    assert shown == ["Let me act."]


@pytest.mark.parametrize("after", [None, 0, 2, 4])
async def test_a_hanging_model_is_ended_by_the_run_time(
    world: World, autojump_clock: trio.testing.MockClock, after: int | None
) -> None:
    agent = talker(act, policy=Policy(max_seconds=10))
    began = trio.Event()
    async with one_agent(world, agent, CALLING.hanging(began, after=after)) as (kernel, _):
        result = await kernel.run(agent, "go")
    assert began.is_set()
    assert isinstance(result, Failed)
    assert result.error.failure.dimension == "duration"
    assert trio.current_time() == 10
    assert world.of(ModelInterrupted)[0].reason == "deadline"
    assert RAN == []


# --- what is nobody's answer --------------------------------------------------------------------------


async def test_a_host_error_in_a_model_is_seen_as_it_is_and_the_run_is_sealed(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    async with one_agent(world, AGENT, CALLING) as (kernel, _):
        with pytest.raises(ScriptExhausted):
            await kernel.run(AGENT, "go")
        with pytest.raises(ScriptExhausted):
            async with kernel.stream(AGENT, "go") as handle:
                await handle.result()
    for conversation in ("conversation1", "conversation2"):
        assert world.settlement(conversation).reason == "crashed"


@attrs.frozen
class _Odd:
    """A model that yields whatever it is given; with a nursery it does so from inside one, as network code would."""

    parts: tuple[Any, ...]
    nursery: bool = False
    entering: Callable[[], Any] = lambda: None

    @property
    def identity(self) -> ModelIdentity:
        return ModelIdentity(provider="odd", name="odd")

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelPart]]:
        async with aclosing(self._parts()) as parts:
            if not self.nursery:
                self.entering()
                yield parts
                return
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.sleep_forever)
                self.entering()
                yield parts
                nursery.cancel_scope.cancel()

    async def _parts(self) -> AsyncGenerator[Any]:
        for part in self.parts:
            await trio.lowlevel.checkpoint()
            if isinstance(part, Exception):
                raise part
            yield part


async def _failed_with(world: World, model: Any) -> str:
    async with world.kernel(AGENT, model=model) as kernel:
        result = await kernel.run(AGENT, "go")
    assert isinstance(result, Failed)
    return result.error.failure.code


@pytest.mark.parametrize("part", [None, "text", {"delta": "x"}, Finished(reason="eos")])  # type: ignore[arg-type]
async def test_what_is_no_part_is_malformed(world: World, autojump_clock: trio.testing.MockClock, part: Any) -> None:
    assert await _failed_with(world, _Odd((part, Finished(reason="stop")))) == "malformed-response"


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ((DOWN,), "model-unavailable"),
        ((TextChunk(text="x"), DOWN), "model-unavailable"),
        ((Finished(reason="stop"), TextChunk(text="x")), "malformed-response"),
    ],
)
async def test_an_error_that_passed_a_nursery_of_the_model_is_still_that_error(
    world: World, autojump_clock: trio.testing.MockClock, parts: tuple[Any, ...], code: str
) -> None:
    assert await _failed_with(world, _Odd(parts, nursery=True)) == code


async def test_text_of_an_adapter_cannot_spoil_the_record_of_its_failure(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    bad = "said \ud800\0" + "x" * 100_000
    refused = ModelRefused(model=bad, reason="content", detail=bad)
    assert await _failed_with(world, _Odd((refused,))) == "model-refused"
    garbled = World()
    assert await _failed_with(garbled, _Odd((MalformedResponse(problem=bad),))) == "malformed-response"
    for each in (world, garbled):
        failure = each.settlement().failure
        assert failure is not None
        assert len(failure.detail) < 1_000
        assert "\0" not in failure.detail


async def test_usage_is_charged_over_all_turns(world: World, autojump_clock: trio.testing.MockClock) -> None:
    first = turn(call("act"), usage=Usage(input_tokens=100, output_tokens=10, cache_read_tokens=40))
    second = turn(reasoning("so"), text("Done."), usage=Usage(input_tokens=200, output_tokens=20, reasoning_tokens=5))
    async with one_agent(world, AGENT, first, second) as (kernel, _):
        result = await kernel.run(AGENT, "go")
    usage = result.usage
    assert (usage.calls, usage.input_tokens, usage.output_tokens) == (2, 300, 30)
    assert (usage.cache_read_tokens, usage.reasoning_tokens) == (40, 5)
    assert (usage.last_input_tokens, usage.last_output_tokens) == (200, 20)
    assert not usage.at_least


async def test_an_agents_model_is_asked_before_the_kernels_and_the_runs_before_both(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    answer = (TextChunk(text="x"), Finished(reason="stop"))
    asked: list[str] = []

    def model(name: str) -> Any:
        return _Odd(answer, entering=lambda: asked.append(name))

    plain: Agent[str, str] = talker(id="plain")
    own: Agent[str, str] = talker(id="own", model=model("agent's"))
    async with world.kernel(plain, own, model=model("kernel's")) as kernel:
        await kernel.run(plain, "go")
        await kernel.run(own, "go")
        await kernel.run(own, "go", model=model("run's"))
        async with kernel.stream(plain, "go", model=model("run's")) as handle:
            await handle.result()
        async with kernel.conversation() as conversation:
            await conversation.run(own, "go", model=model("run's"))
            await conversation.run(own, "go")
    assert asked == ["kernel's", "agent's", "run's", "run's", "run's", "agent's"]
