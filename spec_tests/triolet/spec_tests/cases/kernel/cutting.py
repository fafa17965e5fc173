"""Responses that are cut short or broken: nothing of them runs. RUN-004, DUR-008."""

from typing import Final

import attrs

from triolet.adapters.scripted_model import ScriptItem, Turn, call, turn
from triolet.kernel import Completed, Failed, Tool, tool
from triolet.ports.batch import encode_batch
from triolet.ports.language_model import ModelRequest, ModelUnavailable
from triolet.ports.messages import AssistantMessage, ToolCall
from triolet.ports.outcomes import ToolInvalidInput, ToolSuccess
from triolet.ports.records import ModelInterrupted, ModelResponded
from triolet.ports.strict_json import parse
from triolet.spec_tests.cases.kernel.setting import KernelSubject, ensure_whole, open_bench, text_agent
from triolet.spec_tests.claims import ensure, ensure_equal
from triolet.spec_tests.definition import case

_BROKEN: Final = ModelUnavailable(model="scripted", reason="transport")


def _counting_tool() -> tuple[Tool[object, str], list[str]]:
    ran: list[str] = []

    @tool
    async def write(text: str = "") -> str:
        ran.append(text)
        return "written"

    return write, ran


@case("RUN-004")
async def a_response_cut_by_length_runs_nothing(subject: KernelSubject) -> None:
    """Where the provider says that it stopped for length, no call runs, not even a whole one, and each says why."""
    write, ran = _counting_tool()
    cut = turn(call("write", {"text": "whole"}), call("write", '{"text": "ha'), finish="length")
    async with open_bench(subject, [cut, turn("done")], text_agent(write)) as bench:
        result = await bench.run()
    ensure_equal(ran, [], "handlers that ran for a cut response")
    ensure_equal(type(result), Completed, "the result of a run that saw a cut response")
    reasons = [each.reason if isinstance(each, ToolInvalidInput) else type(each).__name__ for each in bench.outcomes]
    ensure_equal(reasons, ["truncated", "truncated"], "how the calls of a cut response ended")
    _ensure_sendable(bench.requests[1])


@case("RUN-004")
async def a_response_cut_in_transport_runs_nothing(subject: KernelSubject) -> None:
    """A stream that ends or breaks before the provider says that it is complete is no response."""
    write, ran = _counting_tool()
    whole = turn("I will write.", call("write", {"text": "x"}))
    cuts: dict[str, ScriptItem] = {
        "a stream that just ends": whole.cut(),
        "a stream that breaks at its end": whole.cut(_BROKEN),
        "a stream that breaks in a call": whole.failing(_BROKEN, after=2),
        "a stream that breaks on opening": whole.failing(_BROKEN),
        "a stream that breaks behind its end": whole.failing(_BROKEN, after=4),
    }
    for name, cut in cuts.items():
        async with open_bench(subject, [cut], text_agent(write)) as bench:
            result = await bench.run()
        ensure_equal(ran, [], f"handlers that ran for {name}")
        code = result.error.failure.code if isinstance(result, Failed) else type(result).__name__
        ensure_equal(code, "model-unavailable", f"how the run ended for {name}")
        ensure_equal(bench.recorded(ModelResponded), [], f"responses on record for {name}")
        ensure_equal(len(bench.recorded(ModelInterrupted)), 1, f"interrupted calls on record for {name}")


@case("RUN-004")
async def arguments_that_are_no_json_stop_their_call_alone(subject: KernelSubject) -> None:
    """A call whose arguments are no JSON object does not run; a sibling does, and the run goes on."""
    broken = ['{"text": "ha', "text", '{"text": NaN}', '{"text": 1, "text": 2}', '["text"]', '"text"', "{'text': 1}"]
    write, ran = _counting_tool()
    calls = [call("write", arguments) for arguments in broken]
    script = [turn(*calls, call("write", {"text": "fine"})), turn("done")]
    async with open_bench(subject, script, text_agent(write)) as bench:
        result = await bench.run()
    ensure_equal(ran, ["fine"], "the calls that ran")
    ensure_equal(result.output, "done", "the run's answer")
    kinds = [each.reason if isinstance(each, ToolInvalidInput) else type(each).__name__ for each in bench.outcomes]
    due = ["not-json"] * 4 + ["not-object"] * 2 + ["not-json", ToolSuccess.__name__]
    ensure_equal(kinds, due, "how the calls ended")
    _ensure_sendable(bench.requests[1])


@case("DUR-008", "RUN-004")
async def partial_arguments_are_not_canonical(subject: KernelSubject) -> None:
    """What had arrived of a call when its response broke is in no record."""
    marker = "half-of-an-argument"
    write, ran = _counting_tool()
    whole: Turn = turn("Text so far.", call("write", f'{{"text": "{marker}'))
    async with open_bench(subject, [whole.cut(_BROKEN)], text_agent(write)) as bench:
        await bench.run()
    stored = "".join(encode_batch(batch).decode() for batch in bench.store.batches)
    ensure(marker not in stored, "partial arguments are on record")
    ensure_equal([record.text for record in bench.recorded(ModelInterrupted)], ["Text so far."], "text kept for audit")
    ensure_equal(ran, [], "handlers that ran")


def _ensure_sendable(request: ModelRequest) -> None:
    ensure_whole(request.messages, "the request after a broken response")
    calls: list[ToolCall] = [
        each for message in request.messages if isinstance(message, AssistantMessage) for each in message.calls
    ]
    for each in calls:
        ensure(isinstance(parse(each.arguments), dict), "the arguments that are sent back are no JSON object")
    spoilt = [each for each in calls if each.defect is not None]
    ensure(bool(spoilt), "no call in the request says that it is defective")
    ensure_equal({each.arguments for each in spoilt}, {"{}"}, "what is sent back for a defective call")
    ensure(all(attrs.has(type(each)) for each in spoilt), "a call in the request is no value of the vocabulary")


CUTTING = (
    a_response_cut_by_length_runs_nothing,
    a_response_cut_in_transport_runs_nothing,
    arguments_that_are_no_json_stop_their_call_alone,
    partial_arguments_are_not_canonical,
)
