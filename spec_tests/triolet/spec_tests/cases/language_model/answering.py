"""What a model answers, part by part: in order, complete or not, in the ports' own types.

CAP-001, CAP-003, CAP-017, RUN-004, RUN-012.
"""

from typing import Final

import attrs
import trio

from triolet.ports.language_model import (
    CallChunk,
    CallOpened,
    Finished,
    MalformedResponse,
    ModelPart,
    ModelUnavailable,
    OpaqueDetail,
    ReasoningChunk,
    TextChunk,
    UsageReport,
)
from triolet.ports.text import require_clean
from triolet.ports.usage import Usage
from triolet.spec_tests.cases.language_model.provider import Breaks, ModelSubject, Says
from triolet.spec_tests.cases.language_model.setting import (
    calls_of,
    finish_of,
    last_usage,
    provider_of,
    question,
    read,
    reasoning_of,
    text_of,
)
from triolet.spec_tests.claims import SpecViolation, ensure, ensure_equal
from triolet.spec_tests.definition import case

_PARTS: Final = (TextChunk, ReasoningChunk, CallOpened, CallChunk, OpaqueDetail, UsageReport, Finished)
_USAGE: Final = Usage(input_tokens=100, output_tokens=20, cache_read_tokens=60, reasoning_tokens=0)


@case("CAP-001", "RUN-004")
async def an_answer_is_complete_once(subject: ModelSubject) -> None:
    """Any model's answer to a plain question has one `Finished`, and nothing but usage behind it."""
    parts = await read(subject.port, question())
    ensure_equal(len(finish_of(parts)), 1, "times that the answer is said to be complete")
    behind = [type(part) for part in parts[[type(part) for part in parts].index(Finished) + 1 :]]
    ensure(set(behind) <= {UsageReport}, f"something follows the end of an answer: {behind}")
    ensure(bool(subject.port.identity.name), "the model has no name")


@case("RUN-012")
async def parts_are_the_ports_own_values(subject: ModelSubject) -> None:
    """Every part is exactly one of the port's classes, holds plain text and numbers only, and all text is clean."""
    parts = await read(subject.port, question())
    ensure(bool(parts), "the answer has no part")
    for part in parts:
        ensure_equal(type(part) in _PARTS, True, f"whether {type(part).__name__} is a part of the port")
        _ensure_plain(part)


def _ensure_plain(value: object) -> None:
    kind = type(value)
    if attrs.has(kind):
        for field in attrs.fields(kind):
            _ensure_plain(getattr(value, field.name))
        return
    ensure(kind in (str, int, bool), f"a part holds a {kind.__module__}.{kind.__name__}")
    if isinstance(value, str):
        require_clean(value, "a part")


@case("CAP-001", needs=("provider",))
async def text_keeps_its_order(subject: ModelSubject) -> None:
    """Text comes out as the provider sent it, in order, whatever the pieces are."""
    pieces = ("One ", "two, ", "é 中 😀", " \n\n", "“three”", ".")
    provider_of(subject).will(Says(text=pieces))
    parts = await read(subject.port, question())
    ensure_equal(text_of(parts), "".join(pieces), "the text")
    ensure_equal(finish_of(parts), ["stop"], "why the answer ended")
    ensure_equal(calls_of(parts), [], "calls in an answer without any")


@case("CAP-001", needs=("provider", "reasoning"))
async def reasoning_is_kept_apart_from_text(subject: ModelSubject) -> None:
    """Visible reasoning comes as reasoning, and never as part of the answer."""
    provider_of(subject).will(Says(reasoning=("Let me ", "think."), text=("Done.",)))
    parts = await read(subject.port, question())
    ensure_equal((reasoning_of(parts), text_of(parts)), ("Let me think.", "Done."), "reasoning and text")


@case("CAP-003", needs=("provider", "tools"))
async def calls_come_out_and_are_not_run(subject: ModelSubject) -> None:
    """Each call of an answer comes out once, with its name and its argument text byte for byte, in order."""
    sent = (
        ("get_weather", '{ "unmistakable_city" : "Paris" , "n": 1.50 }'),
        ("get_weather", "{}"),
        ("other", '{"a":"\\u00e9"}'),
    )
    provider = provider_of(subject)
    provider.will(Says(text=("Let me see.",), calls=sent, finish="tool-calls"))
    parts = await read(subject.port, question(tools=True))
    ensure_equal(calls_of(parts), list(sent), "the calls")
    indexes = [part.index for part in parts if isinstance(part, CallOpened)]
    ensure_equal(len(set(indexes)), 3, "distinct positions of three calls")
    ensure_equal(finish_of(parts), ["tool-calls"], "why the answer ended")
    ensure_equal(len(provider.received), 1, "requests for one answer with calls")


@case("RUN-004", needs=("provider", "tools"))
async def broken_arguments_are_passed_on(subject: ModelSubject) -> None:
    """Argument text that is no JSON comes out as it is: whether it may run is not the adapter's to mend."""
    broken = ('{"unmistakable_city": "Par', "not json", '["list"]')
    sent = tuple(("get_weather", text) for text in broken)
    provider_of(subject).will(Says(calls=sent, finish="tool-calls"))
    parts = await read(subject.port, question(tools=True))
    ensure_equal(calls_of(parts), list(sent), "the calls")


@case("RUN-004", needs=("provider",))
async def reaching_the_length_is_said(subject: ModelSubject) -> None:
    """An answer that stopped for length says so, and one that a filter cut says that."""
    for reason in ("length", "content-filter"):
        provider_of(subject).will(Says(text=("Half an ans",), finish=reason))
        parts = await read(subject.port, question())
        ensure_equal(finish_of(parts), [reason], "why an answer that was cut ended")


@case("RUN-004", needs=("provider",))
async def a_lost_connection_is_no_end(subject: ModelSubject) -> None:
    """An answer whose connection was lost has no `Finished`: it just ends, or raises `ModelUnavailable`."""
    for act in (Breaks(), Breaks(text=("Half ", "an ans"))):
        provider_of(subject).will(act)
        parts: list[ModelPart] = []
        try:
            async with subject.port.stream(question()) as answer:
                async for part in answer:
                    parts.append(part)  # noqa: PERF401 -- what had come before an error is looked at
        except (ModelUnavailable, MalformedResponse):
            pass
        ensure_equal(finish_of(parts), [], "ends of an answer whose connection was lost")
        ensure(("".join(act.text)).startswith(text_of(parts)), "the text of a lost answer is not what was sent")


@case("RUN-004", needs=("provider", "tools"))
async def a_connection_lost_within_a_call_is_no_end(subject: ModelSubject) -> None:
    """The same holds where the connection is lost behind a call, however whole it looks."""
    provider_of(subject).will(Breaks(calls=(("get_weather", '{"unmistakable_city":"Paris"}'),)))
    parts: list[ModelPart] = []
    try:
        async with subject.port.stream(question(tools=True)) as answer:
            async for part in answer:
                parts.append(part)  # noqa: PERF401 -- what had come before an error is looked at
    except (ModelUnavailable, MalformedResponse):
        pass
    ensure_equal(finish_of(parts), [], "ends of an answer whose connection was lost")


@case("CAP-017", needs=("provider", "usage"))
async def usage_is_in_the_one_normal_form(subject: ModelSubject) -> None:
    """The usage of an answer is reported: input is the total, output too, and the figures fit together."""
    due = Usage(input_tokens=100, output_tokens=20)
    provider_of(subject).will(Says(text=("Done.",), usage=due))
    report = last_usage(await read(subject.port, question()))
    if report is None:
        raise SpecViolation(problem="the usage that the provider told is not reported")
    ensure_equal(report.usage, due, "the usage")
    ensure_equal(report.usage.problem(), None, "what is wrong with the figures")


@case("CAP-017", needs=("provider", "usage", "cache"))
async def cached_input_is_told_apart(subject: ModelSubject) -> None:
    """Cached input tokens are told apart, inside the total."""
    provider_of(subject).will(Says(text=("Done.",), usage=_USAGE))
    report = last_usage(await read(subject.port, question()))
    ensure_equal(None if report is None else report.usage, _USAGE, "the usage")


@case("CAP-001", needs=("provider",))
async def two_answers_do_not_mix(subject: ModelSubject) -> None:
    """One model value serves several requests at once, and each gets its own answer."""
    provider_of(subject).will(*[Says(text=(f"answer {number}. ",) * 20) for number in range(4)])
    texts: list[str] = []

    async def ask() -> None:
        texts.append(text_of(await read(subject.port, question())))

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(ask)
    ensure_equal(sorted(texts), [f"answer {number}. " * 20 for number in range(4)], "the answers")


ANSWERING = (
    an_answer_is_complete_once,
    parts_are_the_ports_own_values,
    text_keeps_its_order,
    reasoning_is_kept_apart_from_text,
    calls_come_out_and_are_not_run,
    broken_arguments_are_passed_on,
    reaching_the_length_is_said,
    a_lost_connection_is_no_end,
    a_connection_lost_within_a_call_is_no_end,
    usage_is_in_the_one_normal_form,
    cached_input_is_told_apart,
    two_answers_do_not_mix,
)
