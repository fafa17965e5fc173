"""The leak scan: whatever goes wrong, nobody's text is exported or logged unless the host asks for it (F-055).

The scenes and their markers are the suite's own; here they meet a real SDK, whose exporters and log records are read
like the spans. (CAP-013, SEC-006)
"""

import logging
from typing import Any

import pytest
from opentelemetry.trace import Status, StatusCode

from tests.kernel_world import World, script, talker
from tests.telemetry_world import Exported, told
from triolet.adapters.estimators import ByteEstimator
from triolet.adapters.scripted_model import call, turn
from triolet.kernel import Completed, Policy, RetryPolicy, Telemetry, open_kernel, tool
from triolet.spec_tests.cases.kernel import KernelSubject
from triolet.spec_tests.cases.kernel.marked import CHANNELS, CONTENT, MAY_BE_TOLD, NEVER_TOLD, Scenes
from triolet.spec_tests.claims import SpecViolation
from triolet.spec_tests.markers import Markers
from triolet.spec_tests.telemetry_recorder import Recorder


@pytest.fixture
def exported() -> Exported:
    return Exported()


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Every log record of every library, whatever its level."""
    caplog.set_level(logging.DEBUG)
    return caplog


def _log_texts(logged: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [("log", f"{record.getMessage()} {record.__dict__!r}") for record in logged.records]


async def _scan(exported: Exported, logged: pytest.LogCaptureFixture, log_watch: Any, **options: Any) -> dict[str, Any]:
    log_watch.open_runs_are_fine = True  # a store that is down keeps a run from being settled
    markers = Markers(CHANNELS)
    logging.getLogger("host").debug("the host logs too")
    scenes = Scenes(subject=KernelSubject(port=open_kernel), telemetry=exported.telemetry(**options), markers=markers)
    await scenes.play()
    assert exported.watch.open == {}
    assert len(exported.spans) == exported.watch.started > 100
    assert logged.records
    return dict(markers.scan([*exported.texts(), *_log_texts(logged)]))


async def test_f055_without_content_no_text_leaves(
    exported: Exported, logged: pytest.LogCaptureFixture, log_watch: Any, autojump_clock: Any
) -> None:
    assert await _scan(exported, logged, log_watch) == {}


async def test_f055_with_content_each_channel_is_where_it_is_documented(
    exported: Exported, logged: pytest.LogCaptureFixture, log_watch: Any, autojump_clock: Any
) -> None:
    """The positive control: the same scan finds what it looks for when it is there."""
    found = await _scan(exported, logged, log_watch, content=True)
    assert {channel: MAY_BE_TOLD[channel] in places for channel, places in found.items()} == dict.fromkeys(
        MAY_BE_TOLD, True
    )
    assert set().union(*found.values()) <= CONTENT
    assert found.keys().isdisjoint(NEVER_TOLD)


async def test_f055_an_exception_in_a_thread_is_a_type(
    world: World, exported: Exported, logged: pytest.LogCaptureFixture
) -> None:
    """On the real clock: a mocked one jumps over threads."""
    markers = Markers(["thread"])

    @tool
    def block() -> str:
        """Break in a thread."""
        raise RuntimeError(markers.passes("thread")) from KeyError(markers.of("thread"))

    agent = talker(block)
    model = script(turn(call("block")), turn("Done."))
    async with world.kernel(agent, model=model, telemetry=exported.telemetry(content=True)) as kernel:
        assert isinstance(await kernel.run(agent, "go"), Completed)
    assert exported.one("execute_tool block")
    assert markers.scan([*exported.texts(), *_log_texts(logged)]) == {}


@pytest.mark.parametrize("content", [False, True])
async def test_f055_a_summary_is_content(
    world: World, exported: Exported, logged: pytest.LogCaptureFixture, content: bool
) -> None:
    markers = Markers(["summary", "covered"])
    policy = Policy(context_tokens=700, retry=RetryPolicy(tries=1))
    agent = talker(policy=policy)
    world.ports["estimator"] = ByteEstimator()
    long = markers.passes("covered") + " and so on" * 100
    model = script(turn(long), turn(long), turn(markers.passes("summary")), turn("Done."))
    async with (
        world.kernel(agent, model=model, telemetry=exported.telemetry(content=content)) as kernel,
        kernel.conversation("c") as conversation,
    ):
        for _ in range(3):
            assert isinstance(await conversation.run(agent, "go"), Completed)
        await conversation.compact(agent, model=script(turn(markers.of("summary") + " again")), rebuild=True)
    assert [request.purpose for request in model.requests] == ["response", "response", "summary", "response"]
    compaction, between = exported.named("triolet.compaction")
    assert (told(compaction, "triolet.turn"), told(between, "triolet.turn")) == (1, 0)
    assert between.parent is None
    below = [span for span in exported.named("chat scripted") if span.parent == between.context]
    assert [told(span, "gen_ai.conversation.id") for span in below] == ["c"]
    assert [told(span, "triolet.outcome") for span in (compaction, between)] == ["ok", "ok"]
    found = markers.scan([*exported.texts(), *_log_texts(logged)])
    assert set(found) == ({"summary", "covered"} if content else set())
    assert set().union(*found.values()) <= CONTENT


def test_a_channel_that_was_never_written_to_fails_the_scan() -> None:
    markers = Markers(["prompt", "secret"])
    markers.passes("prompt")
    with pytest.raises(SpecViolation, match="nobody wrote to secret"):
        markers.scan([("name", "x")])


def test_a_scan_of_nothing_fails() -> None:
    markers = Markers(["prompt"])
    markers.passes("prompt")
    with pytest.raises(SpecViolation, match="nothing was told"):
        markers.scan([])


async def test_f055_the_scan_finds_what_the_api_s_own_recording_would_tell(
    exported: Exported, logged: pytest.LogCaptureFixture
) -> None:
    """What the kernel leaves off is shown to leak: in the SDK's span, in the suite's recorder, and in a log."""
    markers = Markers(["exception", "cause"])
    recorder = Recorder()
    for provider in (exported.tracers, recorder.tracers):
        span = provider.get_tracer("host").start_span("careless")
        try:
            raise RuntimeError(markers.passes("exception")) from KeyError(markers.passes("cause"))
        except RuntimeError as error:
            span.record_exception(error)
            span.set_status(Status(StatusCode.ERROR, str(error)))
            logging.getLogger("host").debug("it broke", exc_info=error)
        span.end()
    assert set(markers.scan(exported.texts())) == {"exception", "cause"}
    assert set(markers.scan(recorder.texts())) == {"exception", "cause"}
    assert set(markers.scan(_log_texts(logged))) == {"exception", "cause"}


async def test_the_sdk_is_not_needed_to_tell_the_same(exported: Exported) -> None:
    """The suite's recorder and the SDK are told the same spans by the same run."""
    recorder = Recorder()
    own = Telemetry(tracer_provider=recorder.tracers, meter_provider=recorder.meters)
    for telemetry in (exported.telemetry(), own):
        world = World()
        agent = talker()
        async with world.kernel(agent, model=script(turn("Done.")), telemetry=telemetry) as kernel:
            await kernel.run(agent, "go")
    spans = sorted((span.name, sorted(span.attributes or {})) for span in exported.spans)
    assert spans == sorted((span.name, sorted(span.attributes)) for span in recorder.spans)
    assert len(spans) > 5
