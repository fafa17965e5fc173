"""The response reducer: one complete response, or one typed error, and never a runnable call out of a cut response."""

import itertools
import json
from typing import Any, get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from triolet.kernel.machine import reduction as reducer
from triolet.kernel.machine.reduction import Reduced, Reduction
from triolet.ports.errors import InvalidJson
from triolet.ports.identity import RunId
from triolet.ports.language_model import (
    CallChunk,
    CallOpened,
    Finished,
    FinishReason,
    MalformedResponse,
    ModelPart,
    OpaqueDetail,
    ReasoningChunk,
    TextChunk,
    UsageReport,
)
from triolet.ports.strict_json import MAX_INTEGER, parse
from triolet.ports.text import repair
from triolet.ports.usage import Usage, UsageTotals

RUN = RunId("run1")
STOP = Finished(reason="stop")
CALLS = Finished(reason="tool-calls")
REASONS = get_args(FinishReason)


def reduced(*parts: ModelPart) -> Reduced:
    reduction = Reduction()
    for part in parts:
        reduction.feed(part)
    return reduction.close(RUN, 3)


def called(*chunks: str, finish: ModelPart = CALLS, name: str = "add") -> Any:
    [call] = reduced(
        CallOpened(index=0, name=name), *(CallChunk(index=0, text=chunk) for chunk in chunks), finish
    ).message.calls
    return call


# --- complete responses -------------------------------------------------------------------------------


def test_everything_that_a_response_can_hold() -> None:
    usage = Usage(input_tokens=9, output_tokens=5, reasoning_tokens=2)
    response = reduced(
        ReasoningChunk(text="Let me "),
        TextChunk(text="I will "),
        UsageReport(usage=Usage(input_tokens=1)),
        CallOpened(index=4, name="add"),
        ReasoningChunk(text="see."),
        CallChunk(index=4, text='{"a":'),
        CallOpened(index=2, name="list"),
        CallChunk(index=2, text="{}"),
        CallChunk(index=4, text="1}"),
        TextChunk(text="add."),
        OpaqueDetail(json='{"x": [1]}'),
        CALLS,
        UsageReport(usage=usage),
    )
    assert response.message.text == "I will add."
    assert response.message.reasoning == "Let me see."
    assert response.message.opaque == '{"x": [1]}'
    # In the order in which they were opened, under identities of the kernel's own (TOOL-001).
    assert [(c.id, c.name, c.arguments, c.defect) for c in response.message.calls] == [
        ("run1-3-0", "add", '{"a":1}', None),
        ("run1-3-1", "list", "{}", None),
    ]
    assert (response.finish, response.usage) == ("tool-calls", usage)


def test_an_empty_answer_is_an_answer() -> None:
    response = reduced(STOP)
    assert (response.message.text, response.message.calls) == ("", ())


def test_no_usage_report_is_an_estimate_from_below() -> None:
    assert reduced(STOP).usage == Usage(at_least=True)


@pytest.mark.parametrize("chunks", [(), ("",), ("", ""), ("  \n",)])
def test_no_argument_text_means_no_arguments(chunks: tuple[str, ...]) -> None:
    call = called(*chunks)
    assert (call.arguments, call.defect) == ("{}", None)


def test_arguments_are_kept_byte_for_byte() -> None:
    sent = '{ "b" : 1.0e2,\n "a" : "\\u00e9" }'
    assert called(sent[:9], sent[9:]).arguments == sent


@pytest.mark.parametrize(
    "raw", ["{", '{"a":', "[1,", "nope", "{'a': 1}", '{"a":NaN}', '{"a":1,"a":2}', "{}{}", "\ud800"]
)
def test_f_004_bad_json_blocks_that_call_alone(raw: str) -> None:
    response = reduced(
        CallOpened(index=0, name="add"),
        CallChunk(index=0, text=raw),
        CallOpened(index=1, name="add"),
        CallChunk(index=1, text="{}"),
        CALLS,
    )
    bad, good = response.message.calls
    assert bad.defect is not None
    assert bad.defect.reason == "not-json"
    assert bad.arguments == "{}"
    assert good.defect is None


@pytest.mark.parametrize("raw", ["[]", "1", "null", '"text"', "true", ' [{"a":1}]'])
def test_arguments_that_are_no_object_block_that_call(raw: str) -> None:
    assert called(raw).defect.reason == "not-object"


@pytest.mark.parametrize("raw", ["[" * 10_000 + "]" * 10_000, '{"a":' * 10_000 + "1" + "}" * 10_000])
def test_arguments_nested_without_end_block_that_call(raw: str) -> None:
    defect = called(raw).defect
    assert defect.reason == "not-json"
    assert len(defect.raw) <= reducer.MAX_RAW


@pytest.mark.parametrize("reason", ["length", "content-filter"])
@pytest.mark.parametrize("raw", ['{"a":1}', "", '{"a":'])
def test_f_004_no_call_of_a_cut_response_can_run(reason: FinishReason, raw: str) -> None:
    call = called(raw, finish=Finished(reason=reason))
    assert call.defect.reason == "truncated"
    assert call.arguments == "{}"
    # What was sent is kept for audit.
    assert call.defect.raw == raw


def test_a_response_that_nobody_finished_is_none() -> None:
    with pytest.raises(MalformedResponse, match="before it was complete"):
        reduced(TextChunk(text="Hel"))
    with pytest.raises(MalformedResponse):
        reduced()


# --- sequences that no response can have --------------------------------------------------------------


@pytest.mark.parametrize(
    "parts",
    [
        (CallChunk(index=0, text="{}"),),
        (CallOpened(index=0, name="a"), CallChunk(index=1, text="{}")),
        (CallOpened(index=0, name="a"), CallOpened(index=0, name="b")),
        (STOP, STOP),
        (STOP, TextChunk(text="more")),
        (STOP, CallOpened(index=0, name="a")),
        (STOP, OpaqueDetail(json="{}")),
        (OpaqueDetail(json="{}"), OpaqueDetail(json="{}")),
        (OpaqueDetail(json="{"),),
        (OpaqueDetail(json='{"a":NaN}'),),
        (OpaqueDetail(json='"\ud800"'),),
    ],
)
def test_a_sequence_without_a_row_is_malformed(parts: tuple[ModelPart, ...]) -> None:
    with pytest.raises(MalformedResponse) as caught:
        reduced(*parts)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("part", [None, "text", 5, {"text": "x"}])
def test_what_is_no_part_is_malformed_and_not_skipped(part: Any) -> None:
    with pytest.raises(MalformedResponse):
        reduced(part, STOP)


def test_a_finish_reason_that_nobody_knows_is_malformed() -> None:
    with pytest.raises(MalformedResponse):
        reduced(Finished(reason="because"))  # type: ignore[arg-type]  # an adapter that hands a provider's word on


@pytest.mark.parametrize(
    "usage",
    [
        Usage(input_tokens=-1),
        Usage(output_tokens=-1),
        Usage(input_tokens=1, cache_read_tokens=2),
        Usage(input_tokens=2, cache_read_tokens=1, cache_write_tokens=2),
        Usage(output_tokens=1, reasoning_tokens=2),
        Usage(input_tokens=2**53),
        Usage(output_tokens=10**30),
        Usage(input_tokens=1.5),  # type: ignore[arg-type]  # an adapter that hands a provider's number on
        Usage(input_tokens=None),  # type: ignore[arg-type]  # and one without a look at it
        Usage(output_tokens=float("nan")),  # type: ignore[arg-type]  # and a third
        Usage(output_tokens=True),
    ],
)
def test_usage_that_cannot_be_is_malformed(usage: Usage) -> None:
    with pytest.raises(MalformedResponse):
        reduced(UsageReport(usage=usage), STOP)


def test_the_sum_of_the_longest_run_can_be_recorded() -> None:
    # The largest usage that one call may report, as often as the longest policy allows, with one turn of grace.
    low, high = 0, MAX_INTEGER
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if Usage(input_tokens=middle).problem() is None else (low, middle - 1)
    assert low >= 10_000_000
    total = UsageTotals(input_tokens=low * 10_000).plus(Usage(input_tokens=low))
    assert total.input_tokens <= MAX_INTEGER


# --- bounds -------------------------------------------------------------------------------------------


def test_calls_are_bounded() -> None:
    most = [CallOpened(index=n, name="a") for n in range(reducer.MAX_CALLS)]
    assert len(reduced(*most, CALLS).message.calls) == reducer.MAX_CALLS
    with pytest.raises(MalformedResponse, match="calls"):
        reduced(*most, CallOpened(index=-1, name="a"))


@pytest.mark.parametrize(
    "grow",
    [
        lambda text: TextChunk(text=text),
        lambda text: ReasoningChunk(text=text),
        lambda text: CallChunk(index=0, text=text),
        lambda text: OpaqueDetail(json=json.dumps(text)),
        lambda text: CallOpened(index=1, name=text),
    ],
)
def test_characters_are_bounded_wherever_they_are(grow: Any) -> None:
    first = CallOpened(index=0, name="")
    quotes = 2
    assert reduced(first, grow("x" * (reducer.MAX_CHARACTERS - quotes)), STOP)
    with pytest.raises(MalformedResponse, match="characters"):
        reduced(first, TextChunk(text="xxx"), grow("x" * (reducer.MAX_CHARACTERS - quotes)))


def test_the_audit_text_of_a_defect_is_bounded_and_clean() -> None:
    defect = called("\ud800" + "x" * 10_000).defect
    assert len(defect.raw) == reducer.MAX_RAW
    assert defect.raw.startswith("\ufffd")


# --- properties ---------------------------------------------------------------------------------------

TEXTS = st.text(st.characters() | st.sampled_from('{}[]":,\\\x00\ud800'), max_size=12)
FRAGMENTS = st.sampled_from(['{"a":1}', '{"a"', ":1}", "{}", "", " ", "[]", "1", "nul", '{"a":"\\ud800"}']) | TEXTS
COUNTS = st.integers(-2, 50) | st.sampled_from([2**53, 2**64])
PARTS: st.SearchStrategy[ModelPart] = st.one_of(
    st.builds(TextChunk, text=TEXTS),
    st.builds(ReasoningChunk, text=TEXTS),
    st.builds(CallOpened, index=st.integers(0, 2), name=TEXTS),
    st.builds(CallChunk, index=st.integers(0, 2), text=FRAGMENTS),
    st.builds(OpaqueDetail, json=FRAGMENTS),
    st.builds(UsageReport, usage=st.builds(Usage, input_tokens=COUNTS, output_tokens=COUNTS, cache_read_tokens=COUNTS)),
)
FINISH = st.builds(Finished, reason=st.sampled_from(REASONS))


@given(parts=st.lists(st.one_of(PARTS, PARTS, PARTS, FINISH), max_size=12), finish=st.none() | FINISH)
@example(parts=[CallOpened(index=0, name="a"), CallChunk(index=0, text="{}")], finish=Finished(reason="length"))
def test_no_sequence_crashes_and_no_cut_response_runs(parts: list[ModelPart], finish: ModelPart | None) -> None:
    sequence = [*parts, finish] if finish is not None else parts
    try:
        response = reduced(*sequence)
    except MalformedResponse as error:
        assert len(str(error)) < 200
        return
    finishes = [part.reason for part in sequence if isinstance(part, Finished)]
    assert finishes == [response.finish]
    cut = response.finish in ("length", "content-filter")
    for call in response.message.calls:
        # Whatever can run has a strict object for arguments; whatever is shown to a provider is one too.
        assert isinstance(parse(call.arguments), dict)
        assert (call.defect is None) or call.arguments == "{}"
        assert not (cut and call.defect is None)
    assert response.usage.problem() is None
    message = response.message
    assert message.text == repair(message.text)
    assert message.reasoning == repair(message.reasoning)
    assert all(call.name == repair(call.name) for call in message.calls)
    assert all(call.defect is None or call.defect.raw == repair(call.defect.raw) for call in message.calls)


@given(parts=st.lists(PARTS, max_size=8), cut_at=st.integers(0, 8))
def test_a_stream_cut_anywhere_gives_nothing_to_run(parts: list[ModelPart], cut_at: int) -> None:
    reduction = Reduction()
    try:
        for part in parts[:cut_at]:
            reduction.feed(part)
    except MalformedResponse:
        return
    assert not reduction.complete
    # What had arrived is there for audit, clean, and as text only.
    assert reduction.text == repair("".join(part.text for part in parts[:cut_at] if isinstance(part, TextChunk)))
    with pytest.raises(MalformedResponse):
        reduction.close(RUN, 1)


@given(value=st.dictionaries(st.text(max_size=4), st.integers(-9, 9) | st.text(max_size=4)), data=st.data())
def test_however_arguments_are_chunked_they_are_the_same(value: dict[str, Any], data: st.DataObject) -> None:
    sent = json.dumps(value)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=4)))
    places = [0, *cuts, len(sent)]
    chunks = [sent[a:b] for a, b in itertools.pairwise(places)]
    assert called(*chunks) == called(sent)
    assert called(sent).arguments == sent


@given(raw=FRAGMENTS)
def test_a_call_runs_if_and_only_if_its_text_is_a_strict_object(raw: str) -> None:
    call = called(raw)
    if not raw.strip():
        assert call.defect is None
        return
    try:
        fine = isinstance(parse(raw), dict)
    except InvalidJson:
        fine = False
    assert (call.defect is None) == fine
