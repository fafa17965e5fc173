"""What a host's OpenTelemetry sees of a run: the tree of spans, how each of them ended, and the metrics.

(CAP-013, SEC-002, RUN-007)
"""

from functools import partial
from typing import Any

import attrs
import pytest
import trio
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from tests.approval_world import BOSS, AwayDesk, Office, asker, desk_that, suspension, yes
from tests.kernel_world import World, one_agent, script, talker
from tests.telemetry_world import Exported, is_error, told
from triolet.adapters.scripted_model import ScriptedModel, call, turn
from triolet.kernel import (
    Aborted,
    Completed,
    Failed,
    Kernel,
    Policy,
    RetryPolicy,
    Telemetry,
    tool,
)
from triolet.kernel.telemetry.model import ObservedModel
from triolet.ports.identity import Principal, RunId, TenantId
from triolet.ports.language_model import ModelRequest, ModelUnavailable


@attrs.define(kw_only=True)
class SoldOut(Exception):
    """A declared failure."""

    left: int


@tool(execution="readonly")
async def look() -> str:
    """Look."""
    await trio.sleep(1)
    return "seen"


@tool(failures=(SoldOut,))
async def buy() -> str:
    """Buy."""
    raise SoldOut(left=0)


@tool
async def crash() -> str:
    """Break."""
    raise KeyError("nothing that anybody may see")


@pytest.fixture
def exported() -> Exported:
    return Exported()


async def test_a_run_is_a_tree_of_turns_requests_and_calls(
    world: World, exported: Exported, autojump_clock: Any
) -> None:
    agent = talker(look, buy, crash)
    turns = turn("Let me.", call("look"), call("buy")), turn(call("crash"), call("nope")), turn("Done.")
    async with one_agent(world, agent, *turns, telemetry=exported.telemetry()) as (kernel, _):
        result = await kernel.run(agent, "go", principal=Principal(name="ann", tenant=TenantId("acme")))
    assert isinstance(result, Completed)
    calls = sorted(["execute_tool look", "execute_tool buy"])
    (root, below), *rest = exported.tree()
    first, second, third = below
    assert (root, rest) == ("invoke_agent talker", [])
    assert (first[0], first[1][0], sorted(first[1][1:])) == ("turn", "chat scripted", calls)
    assert second == ("turn", ["chat scripted", "execute_tool crash"])
    assert third == ("turn", ["chat scripted"])
    for span in exported.spans:
        assert told(span, "triolet.tenant") == "acme"
        assert told(span, "gen_ai.conversation.id") == result.conversation
        assert told(span, "triolet.operation.version") == 1
        assert told(span, "triolet.retry.count") == 0
        assert span.events == () or span.name == "turn"
    inside = [span for span in exported.spans if span.parent is not None]
    assert {told(span, "triolet.run.id") for span in inside} == {result.run}
    [refused] = exported.named("turn")[1].events
    assert refused.name == "triolet.call.refused"
    assert dict(refused.attributes or {}) == {
        "gen_ai.tool.call.id": f"{result.run}-2-1",
        "triolet.tool.outcome": "invalid-input",
        "triolet.tool.reason": "unknown-tool",
    }
    assert exported.watch.open == {}


async def test_how_a_call_ended_is_told_by_type_alone(world: World, exported: Exported, autojump_clock: Any) -> None:
    agent = talker(look, buy, crash)
    turns = turn(call("look"), call("buy"), call("crash")), turn("Done.")
    async with one_agent(world, agent, *turns, telemetry=exported.telemetry()) as (kernel, _):
        await kernel.run(agent, "go")
    seen = {
        span.name: (is_error(span), told(span, "triolet.outcome"), told(span, "error.type"))
        for span in exported.spans
        if span.name.startswith("execute_tool")
    }
    assert seen == {
        "execute_tool look": (False, "ok", None),
        "execute_tool buy": (True, "failed", "SoldOut"),
        "execute_tool crash": (True, "failed", "KeyError"),
    }
    look_span = exported.one("execute_tool look")
    assert (look_span.end_time or 0) > (look_span.start_time or 0)
    assert told(exported.one("execute_tool buy"), "triolet.error.family") == "tool-failure"


async def test_a_request_tells_model_tokens_and_tries(world: World, exported: Exported, autojump_clock: Any) -> None:
    agent = talker(policy=Policy(retry=RetryPolicy(tries=2)))
    down = ModelUnavailable(model="scripted", reason="overloaded", status=529)
    turns = turn("never").failing(down), turn("Done.")
    async with one_agent(world, agent, *turns, telemetry=exported.telemetry()) as (kernel, _):
        assert isinstance(await kernel.run(agent, "go"), Completed)
    broken, fine = exported.named("chat scripted")
    assert (is_error(broken), told(broken, "error.type")) == (True, "ModelUnavailable")
    assert told(broken, "triolet.error.family") == "unavailable"
    assert (told(broken, "triolet.retry.count"), told(fine, "triolet.retry.count")) == (0, 1)
    assert told(fine, "gen_ai.usage.input_tokens") == 20
    assert told(fine, "gen_ai.response.finish_reasons") == ("stop",)
    points = [(name, labels) for name, labels, _ in exported.points()]
    tokens = [labels["gen_ai.token.type"] for name, labels in points if name == "gen_ai.client.token.usage"]
    assert sorted(tokens) == ["input", "output"]
    assert [labels["gen_ai.request.model"] for name, labels in points if name == "triolet.retries"] == ["scripted"]
    failures = [labels["error.type"] for name, labels in points if name == "triolet.failures"]
    assert failures == ["unavailable"]


async def test_a_response_that_was_cut_is_a_failure(world: World, exported: Exported) -> None:
    agent = talker()
    async with one_agent(world, agent, turn("never").cut(), telemetry=exported.telemetry()) as (kernel, _):
        assert isinstance(await kernel.run(agent, "go"), Failed)
    chat, root = exported.one("chat scripted"), exported.one("invoke_agent talker")
    assert (is_error(chat), told(chat, "error.type")) == (True, "cut-short")
    assert (is_error(root), told(root, "error.type")) == (True, "model-unavailable")
    assert told(root, "triolet.run.status") == "failed"


async def test_cancelled_is_no_failure(world: World, exported: Exported, autojump_clock: Any) -> None:
    agent = talker(look)
    async with one_agent(world, agent, turn(call("look")), telemetry=exported.telemetry()) as (kernel, _):
        with trio.move_on_after(0.5) as scope:
            await kernel.run(agent, "go")
        assert scope.cancelled_caught
    stopped = [exported.one(name) for name in ("invoke_agent talker", "turn", "execute_tool look")]
    assert [(told(span, "triolet.outcome"), is_error(span)) for span in stopped] == [("cancelled", False)] * 3
    assert [labels for name, labels, _ in exported.points() if name == "triolet.failures"] == []
    assert exported.watch.open == {}


async def test_a_handle_that_cancels_tells_so(world: World, exported: Exported, autojump_clock: Any) -> None:
    agent = talker(look)
    async with one_agent(world, agent, turn(call("look")), telemetry=exported.telemetry()) as (kernel, _):
        async with kernel.stream(agent, "go") as handle:
            handle.cancel()
            assert isinstance(await handle.result(), Aborted)
    root = exported.one("invoke_agent talker")
    assert (told(root, "triolet.outcome"), told(root, "triolet.abort.reason")) == ("cancelled", "requested")
    assert exported.watch.open == {}


async def test_a_run_out_of_time_failed(world: World, exported: Exported, autojump_clock: Any) -> None:
    agent = talker(look, policy=Policy(max_seconds=0.5))
    async with one_agent(world, agent, turn(call("look")), telemetry=exported.telemetry()) as (kernel, _):
        assert isinstance(await kernel.run(agent, "go"), Failed)
    root = exported.one("invoke_agent talker")
    assert (told(root, "error.type"), told(root, "triolet.budget.dimension")) == ("budget-exhausted", "duration")


async def test_approval_and_suspension_are_told(exported: Exported) -> None:
    office = Office()
    agent = asker(office.counted())
    model = ScriptedModel([turn(call("pay")), turn("Paid.")])
    settings = exported.telemetry()
    async with office.kernel(agent, model=model, desk=AwayDesk(), telemetry=settings) as kernel:
        left = suspension(await kernel.run(agent, "go"))
        await kernel.answer(left.requests[0].id, yes(left.requests[0], reason="since I say so"))
        assert isinstance(await kernel.resume(left), Completed)
    first, second = exported.named("invoke_agent talker")
    assert (told(first, "triolet.run.status"), told(first, "triolet.outcome")) == ("suspended", "ok")
    assert told(second, "triolet.run.status") == "completed"
    assert told(first, "triolet.run.id") == told(second, "triolet.run.id") == left.run
    assert (told(first, "triolet.epoch"), told(second, "triolet.epoch")) == (1, 2)
    asked = exported.named("triolet.approval.request")
    assert {told(span, "triolet.approval.verdict") for span in asked} == {"pending"}
    assert {told(span, "gen_ai.tool.name") for span in asked} == {"pay"}
    assert {told(span, "triolet.resource.id") for span in asked} == {left.requests[0].id}
    assert [name for name in ("post", "take", "discard") if not exported.named(f"triolet.inbox.{name}")] == []
    assert exported.watch.open == {}


async def test_a_decision_tells_its_verdict(exported: Exported) -> None:
    office = Office()
    agent = asker(office.counted())
    model = ScriptedModel([turn(call("pay")), turn("Paid.")])
    desk = desk_that(lambda request, _: yes(request))
    async with office.kernel(agent, model=model, desk=desk, telemetry=exported.telemetry()) as kernel:
        await kernel.run(agent, "go", principal=BOSS)
    assert told(exported.one("triolet.approval.request"), "triolet.approval.verdict") == "approved"


async def test_the_host_s_span_is_above_and_a_handler_s_below(world: World, exported: Exported) -> None:
    tracer = exported.tracers.get_tracer("host")

    def mark(name: str) -> None:
        tracer.start_span(name).end()

    @tool
    async def here() -> str:
        """In a task."""
        mark("in the task")
        async with trio.open_nursery() as nursery:

            async def child() -> None:
                mark("in its child")

            nursery.start_soon(child)
        return ""

    @tool
    def there() -> str:
        """In a thread."""
        mark("in the thread")
        return ""

    agent = talker(here, there)
    async with one_agent(
        world, agent, turn(call("here"), call("there")), turn("Done."), telemetry=exported.telemetry()
    ) as (
        kernel,
        _,
    ):
        with tracer.start_as_current_span("the host's") as host:
            async with kernel.stream(agent, "go") as handle:
                await handle.result()
            assert trace.get_current_span() is host
    (name, below), *rest = exported.tree()
    assert (name, rest) == ("the host's", [])
    (root, turns), *others = below
    assert (root, others) == ("invoke_agent talker", [])
    assert sorted(map(str, turns[0][1][1:])) == sorted(
        map(
            str,
            [("execute_tool here", ["in the task", "in its child"]), ("execute_tool there", ["in the thread"])],
        )
    )
    assert turns[1] == ("turn", ["chat scripted"])


async def test_the_consumer_of_a_response_is_not_inside_its_span(exported: Exported) -> None:
    """A scope that streams may be held anywhere, also in a generator: nothing of it stays current meanwhile."""
    settings = exported.telemetry()
    world = World()
    agent = talker()
    async with world.kernel(agent, model=script(turn("Hello.")), telemetry=settings) as kernel:
        model: Any = kernel._runtime.model_for(agent, None)
        assert isinstance(model, ObservedModel)
        assert kernel._runtime.model_for(agent, model) is model
        before = trace.get_current_span()
        request = ModelRequest(run=RunId("r"), turn=1, attempt=1, instructions="", messages=())
        async with model.stream(request) as parts:
            assert trace.get_current_span() is before
            async for _ in parts:
                assert trace.get_current_span() is before
    assert exported.watch.open == {}


async def test_labels_are_few_whatever_is_run(world: World, exported: Exported, autojump_clock: Any) -> None:
    """Names of tools, agents and models, never an id; types of errors do not multiply them either."""
    kinds = [type(f"Error{n}", (Exception,), {}) for n in range(20)]
    raised = iter(kinds)

    @tool
    async def fail() -> str:
        """Fail."""
        raise next(raised)

    agent = talker(fail)
    settings = exported.telemetry()
    async with world.kernel(agent, model=script(), telemetry=settings) as kernel:
        for _ in kinds:
            await kernel.run(agent, "go", model=script(turn(call("fail")), turn("Done.")))
    series = [(name, tuple(sorted(labels.items()))) for name, labels, _ in exported.points()]
    assert len(series) == len(set(series)) == 10
    told_of = {key for _, labels in series for key, _ in labels}
    assert told_of == {
        "error.type",
        "gen_ai.agent.name",
        "gen_ai.operation.name",
        "gen_ai.provider.name",
        "gen_ai.request.model",
        "gen_ai.token.type",
        "gen_ai.tool.name",
        "triolet.operation.name",
        "triolet.outcome",
    }
    assert {told(span, "error.type") for span in exported.named("execute_tool fail")} == {k.__name__ for k in kinds}


async def test_without_a_provider_nothing_is_wrapped(world: World) -> None:
    agent = talker()
    async with one_agent(world, agent, turn("Done.")) as (kernel, model):
        assert _bound(kernel) is world.store
        assert kernel._runtime.model_for(agent, None) is model


async def test_disabled_is_disabled(world: World, exported: Exported) -> None:
    agent = talker()
    settings = attrs.evolve(exported.telemetry(), enabled=False)
    async with one_agent(world, agent, turn("Done."), telemetry=settings) as (kernel, _):
        await kernel.run(agent, "go")
        assert _bound(kernel) is world.store
    assert exported.watch.started == 0


async def test_the_process_s_own_providers_are_the_default(
    world: World, exported: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: exported.tracers)
    agent = talker()
    async with one_agent(world, agent, turn("Done.")) as (kernel, _):
        await kernel.run(agent, "go")
    assert exported.named("invoke_agent talker")


async def test_what_a_sampler_leaves_out_costs_no_content(world: World, exported: Exported) -> None:
    unsampled = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
    settings = Telemetry(tracer_provider=unsampled, meter_provider=exported.meters, content=True)
    agent = talker(look)
    async with one_agent(world, agent, turn("Done."), telemetry=settings) as (kernel, _):
        assert isinstance(await kernel.run(agent, "go"), Completed)
    assert [name for name, _, _ in exported.points() if name == "gen_ai.client.operation.duration"]


async def test_an_append_that_is_tried_again_says_so(world: World, exported: Exported, autojump_clock: Any) -> None:
    """A run is cancelled while the store writes; sealing it appends the very same batch again."""
    agent = talker()
    async with one_agent(world, agent, turn("Done."), telemetry=exported.telemetry()) as (kernel, _):
        world.store.pauses_after = partial(trio.sleep, 1)
        with trio.move_on_after(0.5):
            await kernel.run(agent, "go")
    first, again, *_ = exported.named("triolet.conversations.append")
    assert told(first, "triolet.outcome") == "cancelled"
    assert told(again, "triolet.resource.id") == told(first, "triolet.resource.id")
    assert (told(again, "triolet.retry.count"), told(again, "triolet.replayed")) == (1, True)


def _bound(kernel: Kernel) -> object:
    return kernel._runtime.conversations


async def test_a_failing_port_tells_its_family(exported: Exported) -> None:
    world = World()
    agent = talker()

    async def gone() -> None:
        raise RuntimeError("a secret sentence")

    world.store.pauses = gone
    with pytest.raises(RuntimeError):
        async with one_agent(world, agent, turn("Done."), telemetry=exported.telemetry()) as (kernel, _):
            await kernel.run(agent, "go")
    span = exported.named("triolet.conversations.append")[0]
    assert (is_error(span), told(span, "error.type"), told(span, "triolet.error.family")) == (
        True,
        "RuntimeError",
        "foreign",
    )
    assert is_error(exported.one("invoke_agent talker"))
    assert exported.watch.open == {}
