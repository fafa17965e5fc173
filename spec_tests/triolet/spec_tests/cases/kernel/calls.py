"""Whose calls these are, and what of a result may be seen. TOOL-001, TOOL-002, RUN-022."""

from typing import Any, Final, cast

import attrs
import trio

from triolet.adapters.scripted_model import call, raw, turn
from triolet.kernel import Policy, ToolContext, tool
from triolet.ports.events import CallBegan, CallEnded, CallProgressed, TurnEnded
from triolet.ports.language_model import CallChunk, CallOpened, Finished
from triolet.ports.messages import ToolMessage
from triolet.ports.outcomes import ToolDefect, ToolFailure, ToolSuccess
from triolet.ports.records import CallsDecided, ModelResponded, ToolPrepared, ToolSettled
from triolet.ports.strict_json import JsonValue, parse
from triolet.spec_tests.cases.kernel.setting import Bench, KernelSubject, open_bench, text_agent
from triolet.spec_tests.claims import ensure, ensure_equal
from triolet.spec_tests.definition import case

_SECRET: Final = "what-must-not-be-seen"


@attrs.define
class Closed(Exception):
    """A declared failure that carries something private."""

    why: str


@case("TOOL-001")
async def a_call_has_one_identity_everywhere(subject: KernelSubject) -> None:
    """Records, events, the handler's context, its operation key and the next request name a call alike."""
    seen: list[tuple[str, str]] = []

    @tool
    async def act(context: ToolContext) -> str:
        seen.append((context.call, context.operation_key))
        context.progress("half")
        await trio.lowlevel.checkpoint()
        return "done"

    script = [turn(call("act"), call("act")), turn("done")]
    async with open_bench(subject, script, text_agent(act)) as bench:
        events, _ = await bench.observe()
    ids = [each.id for each in bench.recorded(ModelResponded)[0].message.calls]
    ensure_equal(len(set(ids)), 2, "distinct identities of two calls")
    ensure_equal(sorted(seen), [(each, each) for each in sorted(ids)], "the identities that handlers were given")
    (decided,) = bench.recorded(CallsDecided)
    ensure_equal([row.call for row in decided.runnable], ids, "the identities that were decided on")
    prepared = [each for record in bench.recorded(ToolPrepared) for each in record.calls]
    ensure_equal(sorted(prepared), sorted(ids), "the identities that were prepared")
    ensure_equal([record.call for record in bench.recorded(ToolSettled)], ids, "the identities that were settled")
    turns = [[each.id for each in event.calls] for event in events if isinstance(event, TurnEnded)]
    ensure_equal(turns, [ids, []], "the identities that the turns' events show")
    for kind in (CallBegan, CallProgressed, CallEnded):
        shown = [event.call for event in events if isinstance(event, kind)]
        ensure_equal(sorted(shown), sorted(ids), f"the identities that {kind.__name__} shows")
    results = [
        each for message in bench.requests[1].messages if isinstance(message, ToolMessage) for each in message.results
    ]
    ensure_equal([result.call for result in results], ids, "the identities in the next request")


@case("TOOL-001")
async def a_call_is_not_named_by_its_provider(subject: KernelSubject) -> None:
    """Calls that a provider numbers alike in every turn, or oddly within one, stay distinct, over turns and runs."""

    @tool(execution="readonly")
    async def act(number: int) -> int:
        return number

    def answer(first: int, second: int) -> Any:
        return raw(
            CallOpened(index=first, name="act"),
            CallOpened(index=second, name="act"),
            CallChunk(index=second, text='{"number":2}'),
            CallChunk(index=first, text='{"number":1}'),
            Finished(reason="tool-calls"),
        )

    script = [answer(0, 1), answer(7, 3), turn("done"), answer(0, 1), turn("done")]
    async with open_bench(subject, script, text_agent(act)) as bench:
        await bench.run()
        await bench.run()
    responses = [record.message.calls for record in bench.recorded(ModelResponded) if record.message.calls]
    ids = [each.id for calls in responses for each in calls]
    ensure_equal(len(set(ids)), 6, "distinct identities of six calls")
    due = [ToolSuccess(output=act.output.encode_text(number)) for number in (1, 2)] * 3
    ensure_equal(bench.outcomes, due, "the outcomes, in the order in which the calls were opened")


@case("TOOL-002")
async def a_result_is_redacted_before_anybody_sees_it(subject: KernelSubject) -> None:
    """What a tool's redaction takes out of its output or failure is in no record, event or request."""

    def redact(value: JsonValue) -> JsonValue:
        return "redacted" if isinstance(value, str) else {"why": "redacted"}

    @tool(redact=redact)
    async def tell() -> str:
        return _SECRET

    @tool(redact=redact, failures=(Closed,))
    async def fail() -> str:
        raise Closed(_SECRET)

    async with open_bench(subject, [turn(call("tell"), call("fail")), turn("done")], text_agent(tell, fail)) as bench:
        await _ensure_unseen(bench)
    success, failure = bench.outcomes
    ensure_equal(success, ToolSuccess(output=tell.output.encode_text("redacted")), "the redacted result")
    ensure(isinstance(failure, ToolFailure), "a declared failure is no failure once it is redacted")


@case("TOOL-002")
async def an_exception_gives_its_type_and_no_text(subject: KernelSubject) -> None:
    """The text of an undeclared exception, of its cause and of its notes is in no record, event or request."""

    @tool
    async def fail() -> str:
        error = RuntimeError(_SECRET)
        error.add_note(_SECRET)
        raise error from ValueError(_SECRET)

    async with open_bench(subject, [turn(call("fail")), turn("done")], text_agent(fail)) as bench:
        await _ensure_unseen(bench)
    due = ToolDefect(reason="exception", type="RuntimeError", effect_possible=True)
    ensure_equal(bench.outcomes, [due], "what an exception becomes")


@case("TOOL-002", "RUN-022")
async def a_result_is_bounded_before_anybody_sees_it(subject: KernelSubject) -> None:
    """An output or failure beyond the bound becomes an envelope with head, tail and size, within the bound."""
    limit = 1_000
    middle = "middle-of-it"
    whole = "head " + "é" * 5_000 + middle + "é" * 5_000 + " tail"

    @tool
    async def tell() -> str:
        return whole

    @tool(failures=(Closed,))
    async def fail() -> str:
        raise Closed(whole)

    @tool
    async def short() -> str:
        return "x" * 998

    agent = text_agent(tell, fail, short, policy=Policy(result_bytes=limit))
    script = [turn(call("tell"), call("fail"), call("short")), turn("done")]
    async with open_bench(subject, script, agent) as bench:
        events, _ = await bench.observe()
    shown = [bench.stored_text, bench.shown(1), repr(events)]
    for where, text in zip(("record", "request", "event"), shown, strict=True):
        ensure(middle not in text, f"a {where} holds more of an oversized result than its ends")
    told, failed, fitting = bench.outcomes
    ensure(isinstance(fitting, ToolSuccess) and fitting.size is None, "a result of exactly the bound was cut")
    for what, text in (
        ("output", told.output if isinstance(told, ToolSuccess) else ""),
        ("failure", failed.payload if isinstance(failed, ToolFailure) else ""),
    ):
        ensure(0 < len(text.encode()) <= limit, f"an oversized {what} is {len(text.encode())} bytes in the end")
        envelope = cast("dict[str, Any]", parse(text))
        ensure("head" in str(envelope.get("head")), f"the envelope of an oversized {what} has not its beginning")
        ensure("tail" in str(envelope.get("tail")), f"the envelope of an oversized {what} has not its end")
        size = envelope.get("size")
        ensure(isinstance(size, int) and size > 20_000, f"the envelope of an oversized {what} has not its size")


async def _ensure_unseen(bench: Bench) -> None:
    events, _ = await bench.observe()
    ensure(_SECRET not in bench.stored_text, "it is on record")
    ensure(_SECRET not in repr(events), "an event shows it")
    ensure(all(_SECRET not in bench.shown(place) for place in range(len(bench.requests))), "the model is shown it")


CALLS = (
    a_call_has_one_identity_everywhere,
    a_call_is_not_named_by_its_provider,
    a_result_is_redacted_before_anybody_sees_it,
    an_exception_gives_its_type_and_no_text,
    a_result_is_bounded_before_anybody_sees_it,
)
