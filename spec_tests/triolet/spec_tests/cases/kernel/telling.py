"""Telemetry: what OpenTelemetry is told of a kernel's work, and that it is nobody's text.

CAP-013, SEC-002, SEC-006.
"""

from typing import Any, Final

import trio
from opentelemetry.trace import StatusCode

from triolet.adapters.scripted_model import call, turn
from triolet.kernel import Policy, RetryPolicy, Telemetry, tool
from triolet.ports.identity import Principal, TenantId
from triolet.spec_tests.cases.kernel.asking import Desk, open_office, yes
from triolet.spec_tests.cases.kernel.marked import CHANNELS, CONTENT, MAY_BE_TOLD, NEVER_TOLD, ONCE, Scenes
from triolet.spec_tests.cases.kernel.setting import KernelSubject, open_bench, text_agent
from triolet.spec_tests.claims import ensure, ensure_equal
from triolet.spec_tests.definition import case
from triolet.spec_tests.markers import Markers
from triolet.spec_tests.telemetry_recorder import RecordedSpan, Recorder

BOUND: Final = 256
"""Characters of an attribute that is no content."""
_ANN: Final = Principal(name="ann", tenant=TenantId("acme"))
_KINDS: Final = ("invoke_agent agent", "turn", "chat scripted", "execute_tool look", "triolet.conversations.append")


def _telemetry(recorder: Recorder, **options: Any) -> Telemetry:
    return Telemetry(tracer_provider=recorder.tracers, meter_provider=recorder.meters, **options)


async def _played(subject: KernelSubject, **options: Any) -> tuple[Recorder, Scenes]:
    recorder = Recorder()
    scenes = Scenes(subject=subject, telemetry=_telemetry(recorder, **options), markers=Markers(CHANNELS))
    await scenes.play()
    for kind in _KINDS:
        ensure(bool(recorder.named(kind)), f"no span {kind!r} was begun")
    open_ = sorted(span.name for span in recorder.spans if span.ends != 1)
    ensure_equal(open_, [], "spans that did not end exactly once")
    return recorder, scenes


@case("CAP-013")
async def nobody_s_text_is_told(subject: KernelSubject) -> None:
    """Without content, no text of a user, model, tool, approver or error is in a span, event, status or label."""
    recorder, scenes = await _played(subject)
    ensure_equal(dict(scenes.markers.scan(recorder.texts())), {}, "the texts that were told, and where")


@case("CAP-013")
async def content_is_told_where_it_belongs_and_redacted(subject: KernelSubject) -> None:
    """With content, what was said is in its attribute; what a tool redacts and what errors say is nowhere."""
    recorder, scenes = await _played(subject, content=True)
    found = scenes.markers.scan(recorder.texts())
    for channel, attribute in MAY_BE_TOLD.items():
        ensure(attribute in found.get(channel, ()), f"{channel} is not in {attribute}")
        ensure(found[channel] <= CONTENT, f"{channel} is told in {sorted(found[channel] - CONTENT)}")
    for channel in NEVER_TOLD:
        ensure_equal(sorted(found.get(channel, ())), [], f"where {channel} is told")


@case("CAP-013")
async def what_is_told_is_bounded(subject: KernelSubject) -> None:
    """Whatever is said, an attribute has a bound: content the one that was set, and everything else a small one."""

    @tool
    async def look(text: str) -> str:
        raise type("E" * 5_000, (Exception,), {})

    recorder = Recorder()
    long = "long " * 2_000
    who = Principal(name="ann", tenant=TenantId("t" * 5_000))
    script = [turn(long, call("look", {"text": long})), turn(long)]
    agent = text_agent(look, policy=ONCE, instructions=long)
    settings = _telemetry(recorder, content=True, content_limit=1_000)
    async with open_bench(subject, script, agent, options={"telemetry": settings}) as bench:
        await bench.kernel.run(agent, long, principal=who)
    told = [(key, value) for span in recorder.spans for key, value in _attributes(span)]
    for key, value in told:
        size = len(value) if isinstance(value, str) else len(repr(value))
        ensure(size <= (1_000 if key in CONTENT else BOUND), f"{key} has {size} characters")
    ensure(any(key in CONTENT and len(value) > BOUND for key, value in told), "no content was told")


@case("CAP-013")
async def each_operation_tells_what_it_is_and_how_it_ended(subject: KernelSubject) -> None:
    """Name, version, retries, run, conversation and outcome are told; cancelled is no failure, nor a status."""

    @tool(execution="readonly")
    async def look(text: str) -> str:
        began.set()
        await trio.sleep_forever()
        return ""

    began = trio.Event()
    recorder = Recorder()
    agent = text_agent(look, policy=Policy(retry=RetryPolicy(tries=1)))
    async with (
        open_bench(
            subject, [turn(call("look", {"text": "x"}))], agent, options={"telemetry": _telemetry(recorder)}
        ) as bench,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(bench.run)
        await began.wait()
        nursery.cancel_scope.cancel()
    for name in ("invoke_agent", "turn", "execute_tool"):
        (span,) = recorder.named(name)
        ensure_equal(span.attributes.get("triolet.outcome"), "cancelled", f"the outcome of {span.name}")
        ensure_equal(span.status, StatusCode.UNSET, f"the status of {span.name}")
    for span in recorder.spans:
        due = {"triolet.operation.version", "triolet.retry.count", "gen_ai.conversation.id", "triolet.outcome"}
        missing = sorted(due - span.attributes.keys())
        ensure_equal(missing, [], f"what {span.name} does not tell")
        ensure(span.parent is None or "triolet.run.id" in span.attributes, f"{span.name} does not tell its run")
    labels = [labels for name, _, labels in recorder.points if name == "triolet.failures"]
    ensure_equal(labels, [], "failures that were counted where a run was cancelled")


@case("SEC-002")
async def every_span_tells_its_tenant(subject: KernelSubject) -> None:
    """Whose work it is can be told from each span: of the run, and of every port that it used."""

    @tool(needs_approval=True)
    async def pay(text: str) -> str:
        return "paid"

    recorder = Recorder()
    agent = text_agent(pay, policy=ONCE)
    script = [turn(call("pay", {"text": "x"})), turn("done")]
    async with (
        open_office(subject, script, agent, desk=Desk(yes), telemetry=_telemetry(recorder)) as bench,
        bench.kernel.conversation("c1", principal=_ANN) as conversation,
    ):
        await conversation.run(agent, "go")
    ensure(bool(recorder.named("triolet.approval.request")), "no span of the approval was begun")
    for span in recorder.spans:
        ensure_equal(span.attributes.get("triolet.tenant"), "acme", f"the tenant of {span.name}")


@case("SEC-006")
async def a_secret_in_a_handler_goes_nowhere(subject: KernelSubject) -> None:
    """A value that a handler resolved, and an error that quotes it, are in no record and in no span, content or not."""
    recorder, scenes = await _played(subject, content=True)
    resolved = [span.attributes.get("triolet.resource.id") for span in recorder.named("triolet.secrets.resolve")]
    ensure_equal(resolved, ["token"], "the handles that were resolved, as told")
    found = scenes.markers.scan(recorder.texts())
    ensure_equal(sorted(found.get("secret", ())), [], "where a secret is told")
    written = "\n".join(scenes.stored)
    ensure(scenes.markers.of("tool-output") in written, "the scenes' records were not kept")
    ensure(scenes.markers.of("secret") not in written, "a secret is on record")


def _attributes(span: RecordedSpan) -> list[tuple[str, Any]]:
    events = [item for _, attributes in span.events for item in attributes.items()]
    return [("name", span.name), *span.attributes.items(), *events]


TELLING: Final = (
    nobody_s_text_is_told,
    content_is_told_where_it_belongs_and_redacted,
    what_is_told_is_bounded,
    each_operation_tells_what_it_is_and_how_it_ended,
    every_span_tells_its_tenant,
    a_secret_in_a_handler_goes_nowhere,
)
