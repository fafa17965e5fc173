"""What a request carries beside the history, what usage says, and whose types records hold.

RUN-012, RUN-028, CAP-017.
"""

from collections.abc import Iterable, Iterator
from typing import Any, cast

import attrs

from triolet.adapters.scripted_model import call, raw, turn
from triolet.kernel import Failed, Policy, tool
from triolet.ports.events import RunCompleted, TurnEnded
from triolet.ports.language_model import (
    CallChunk,
    CallOpened,
    Finished,
    FinishReason,
    ModelUnavailable,
    OutputSchema,
    ReasoningChunk,
    TextChunk,
    UsageReport,
)
from triolet.ports.messages import UserMessage
from triolet.ports.records import ModelInterrupted, ModelResponded, RunSettled
from triolet.ports.usage import Usage, UsageTotals
from triolet.spec_tests.cases.kernel.setting import KernelSubject, open_bench, text_agent
from triolet.spec_tests.claims import ensure, ensure_equal
from triolet.spec_tests.definition import case


@attrs.frozen(kw_only=True)
class Verdict:
    """An answer whose schema has a name that stands nowhere else."""

    unmistakable_field_of_the_verdict: int


@tool(execution="readonly")
async def look() -> str:
    """Look."""
    return "seen"


_FIRST = Usage(input_tokens=100, output_tokens=20, cache_read_tokens=60, cache_write_tokens=30, reasoning_tokens=5)
_SECOND = Usage(input_tokens=150, output_tokens=10, cache_read_tokens=120)
_TOTALS = UsageTotals(
    calls=2,
    input_tokens=250,
    output_tokens=30,
    cache_read_tokens=180,
    cache_write_tokens=30,
    reasoning_tokens=5,
    last_input_tokens=150,
    last_output_tokens=10,
)


@case("RUN-028")
async def every_request_carries_the_output_schema(subject: KernelSubject) -> None:
    """Ordinary turns, the turn after a correction and the turn beyond the limit all carry the agent's output schema."""
    agent = text_agent(look, output=Verdict, policy=Policy(max_turns=2))
    answer = '{"unmistakable_field_of_the_verdict": 1}'
    script = [turn(call("look")), turn("no json"), turn(answer)]
    async with open_bench(subject, script, agent) as bench:
        result = await bench.run()
    ensure_equal(result.output, Verdict(unmistakable_field_of_the_verdict=1), "the decoded answer")
    codec = agent.output_codec
    due = OutputSchema(name=codec.name, schema=codec.schema)
    ensure_equal([request.output for request in bench.requests], [due] * 3, "the output schemas of three requests")


@case("RUN-028")
async def the_output_schema_stands_outside_the_history(subject: KernelSubject) -> None:
    """Neither messages nor records hold the schema, and an agent without one sends none."""
    agent = text_agent(look, output=Verdict)
    answer = '{"unmistakable_field_of_the_verdict": 1}'
    async with open_bench(subject, [turn(call("look")), turn(answer)], agent) as bench:
        await bench.run()
    for request in bench.requests:
        shown = repr(tuple(request.messages)) + request.instructions
        ensure("unmistakable" not in shown, "the output schema stands in the history or the instructions")
        users = [message for message in request.messages if isinstance(message, UserMessage)]
        ensure_equal(len(users), 1, "user messages")
    before_the_answer = bench.stored_text.partition("model_responded")[0]
    ensure("unmistakable" not in before_the_answer, "the output schema is on record")
    async with open_bench(subject, [turn("done")], text_agent(look)) as bench:
        await bench.run()
    ensure_equal([request.output for request in bench.requests], [None], "the output schema of a text agent")


@case("CAP-017")
async def usage_keeps_its_parts_apart(subject: KernelSubject) -> None:
    """Totals add up with cache reads and writes apart, beside the last call's figures; each call keeps its own."""
    script = [turn(call("look"), usage=_FIRST), turn("done", usage=_SECOND)]
    async with open_bench(subject, script, text_agent(look)) as bench:
        events, result = await bench.observe()
    ensure_equal(result.usage, _TOTALS, "the totals of the result")
    (settled,) = bench.recorded(RunSettled)
    ensure_equal(settled.usage, _TOTALS, "the totals on record")
    ensure_equal([event.usage for event in events if isinstance(event, RunCompleted)], [_TOTALS], "the totals shown")
    ensure_equal([record.usage for record in bench.recorded(ModelResponded)], [_FIRST, _SECOND], "each call's usage")
    shown = [event.usage for event in events if isinstance(event, TurnEnded)]
    ensure_equal(shown, [_FIRST, _SECOND], "each call's usage as observers see it")


@case("CAP-017")
async def a_broken_call_is_charged_from_below(subject: KernelSubject) -> None:
    """A model call that breaks off is charged what was reported before, marked as a bound from below."""
    broken = ModelUnavailable(model="scripted", reason="transport")
    script = [raw(TextChunk(text="half"), UsageReport(usage=_FIRST), TextChunk(text="more")).failing(broken, after=3)]
    async with open_bench(subject, script) as bench:
        result = await bench.run()
    (interrupted,) = bench.recorded(ModelInterrupted)
    ensure_equal(interrupted.usage, attrs.evolve(_FIRST, at_least=True), "what a broken call is charged")
    totals = (result.usage.calls, result.usage.input_tokens, result.usage.cache_read_tokens, result.usage.at_least)
    ensure_equal(totals, (1, 100, 60, True), "the totals after a broken call")


class _SdkText(str):
    """What a provider's library might give in place of text."""

    __slots__ = ()


class _SdkCount(int):
    """What a provider's library might give in place of a number."""

    __slots__ = ()


@case("RUN-012")
async def records_hold_the_vocabulary_only(subject: KernelSubject) -> None:
    """Whatever types a model adapter lets slip through, records are made of the ports' values and plain types."""
    counts = Usage(input_tokens=_SdkCount(3), output_tokens=_SdkCount(2))
    answers = {
        "text": raw(ReasoningChunk(text=_SdkText("so")), TextChunk(text=_SdkText("a")), Finished(reason="stop")),
        "names and arguments of calls": raw(
            CallOpened(index=0, name=_SdkText("look")),
            CallChunk(index=0, text=_SdkText("{}")),
            CallOpened(index=1, name=_SdkText("nope")),
            CallChunk(index=1, text=_SdkText("{")),
            Finished(reason="tool-calls"),
        ),
        "a reason to finish": raw(TextChunk(text="a"), Finished(reason=cast("FinishReason", _SdkText("stop")))),
        "figures": raw(TextChunk(text="a"), UsageReport(usage=counts), Finished(reason="stop")),
    }
    for what, answer in answers.items():
        async with open_bench(subject, [answer, turn("done")], text_agent(look)) as bench:
            result = await bench.run()
        # To refuse such an answer is as good as to make plain values of it; to leave the run open is not.
        if isinstance(result, Failed):
            ensure_equal(result.error.failure.code, "malformed-response", f"how a run failed over {what}")
        ensure_equal(len(bench.recorded(RunSettled)), 1, f"settlements of a run that met {what}")
        strangers = {kind for batch in bench.store.batches for kind in _kinds_in(batch) if not _is_vocabulary(kind)}
        ensure_equal(strangers, set[type[object]](), f"foreign types in records after {what}")


def _kinds_in(value: object) -> Iterator[type[object]]:
    kind: type[Any] = type(value)
    yield kind
    if attrs.has(kind):
        for field in attrs.fields(kind):
            yield from _kinds_in(getattr(value, field.name))
    elif isinstance(value, tuple | list):
        for item in cast("Iterable[object]", value):
            yield from _kinds_in(item)
    elif isinstance(value, dict):
        for pair in cast("dict[object, object]", value).items():
            yield from _kinds_in(pair)


def _is_vocabulary(kind: type[object]) -> bool:
    plain = kind in {str, int, bool, float, type(None), tuple, dict}
    return plain or kind.__module__.startswith("triolet.ports.")


SHOWING = (
    every_request_carries_the_output_schema,
    the_output_schema_stands_outside_the_history,
    usage_keeps_its_parts_apart,
    a_broken_call_is_charged_from_below,
    records_hold_the_vocabulary_only,
)
