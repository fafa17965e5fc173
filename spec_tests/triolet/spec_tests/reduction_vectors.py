"""Makes the golden vectors of response reduction: `vectors/reductions.json`.

Decides the sequences of parts. What each comes to is what the kernel's reducer says; the tests of the reducer are what
says that it is right. An implementation in another language reads the file alone. Run as
``python -m triolet.spec_tests.reduction_vectors`` to write the file anew. (RUN-004, TOOL-001)
"""

import json
from pathlib import Path
from typing import Any, Final

import attrs

from triolet.kernel.machine.reduction import Reduction
from triolet.ports.identity import RunId
from triolet.ports.language_model import (
    CallChunk,
    CallOpened,
    Finished,
    MalformedResponse,
    ModelPart,
    OpaqueDetail,
    ReasoningChunk,
    TextChunk,
    UsageReport,
)
from triolet.ports.messages import AssistantMessage
from triolet.ports.schema import codec_for
from triolet.ports.usage import Usage

PATH: Final = Path(__file__).parent / "vectors" / "reductions.json"

RUN: Final = RunId("run1")
TURN: Final = 3

_USAGE: Final = Usage(
    input_tokens=100, output_tokens=20, cache_read_tokens=60, cache_write_tokens=30, reasoning_tokens=5
)
_STOP: Final = Finished(reason="stop")
_CALLS: Final = Finished(reason="tool-calls")
_NAMES: Final[dict[type[ModelPart], str]] = {
    TextChunk: "text",
    ReasoningChunk: "reasoning",
    CallOpened: "call-opened",
    CallChunk: "call-chunk",
    OpaqueDetail: "opaque",
    UsageReport: "usage",
    Finished: "finished",
}


def _call(index: int, *pieces: str, name: str = "look") -> tuple[ModelPart, ...]:
    return (CallOpened(index=index, name=name), *(CallChunk(index=index, text=piece) for piece in pieces))


SEQUENCES: Final[dict[str, tuple[ModelPart, ...]]] = {
    "text in pieces": (TextChunk(text="Hel"), TextChunk(text="lo 😀"), _STOP),
    "nothing but an end": (_STOP,),
    "reasoning beside text": (ReasoningChunk(text="Hm."), TextChunk(text="Yes."), ReasoningChunk(text=" Ok."), _STOP),
    "usage before the end": (TextChunk(text="a"), UsageReport(usage=_USAGE), _STOP),
    "usage behind the end": (TextChunk(text="a"), _STOP, UsageReport(usage=_USAGE)),
    "the later usage report counts": (UsageReport(usage=Usage(input_tokens=1)), _STOP, UsageReport(usage=_USAGE)),
    "no usage report": (TextChunk(text="a"), _STOP),
    "one call": (*_call(0, '{"a"', ": 1}"), _CALLS),
    "a call without arguments": (*_call(0), _CALLS),
    "a call with blank arguments": (*_call(0, " \n"), _CALLS),
    "argument text is kept byte for byte": (*_call(0, '{ "n" : 1.50,  "e":"\\u00e9" }'), _CALLS),
    "calls are numbered as they were opened": (*_call(7, "{}", name="second"), *_call(3, "{}", name="first"), _CALLS),
    "interleaved calls": (
        CallOpened(index=0, name="a"),
        CallOpened(index=1, name="b"),
        CallChunk(index=1, text='{"b":'),
        CallChunk(index=0, text='{"a":'),
        CallChunk(index=1, text="1}"),
        CallChunk(index=0, text="2}"),
        _CALLS,
    ),
    "arguments that are no JSON": (*_call(0, '{"a": '), *_call(1, '{"a": 1}'), _CALLS),
    "arguments that are no object": (*_call(0, '["a"]'), _CALLS),
    "arguments with a duplicate key": (*_call(0, '{"a": 1, "a": 2}'), _CALLS),
    "arguments with NaN": (*_call(0, '{"a": NaN}'), _CALLS),
    "a response cut by length spoils all calls": (*_call(0, '{"a": 1}'), *_call(1, '{"a"'), Finished(reason="length")),
    "a response cut by a filter": (TextChunk(text="a"), Finished(reason="content-filter")),
    "opaque detail is kept": (OpaqueDetail(json='{"signature": "x"}'), TextChunk(text="a"), _STOP),
    "broken text is repaired": (TextChunk(text="a\0b"), _STOP),
    "calls that finish with stop": (*_call(0, "{}"), _STOP),
    "no end": (TextChunk(text="a"),),
    "nothing at all": (),
    "a call cut in transport": (*_call(0, '{"a"'),),
    "text behind the end": (_STOP, TextChunk(text="a")),
    "two ends": (_STOP, _STOP),
    "a call opened twice": (*_call(0), *_call(0), _CALLS),
    "arguments of no call": (CallChunk(index=0, text="{}"), _CALLS),
    "opaque detail twice": (OpaqueDetail(json="1"), OpaqueDetail(json="2"), _STOP),
    "opaque detail that is no JSON": (OpaqueDetail(json="{"), _STOP),
    "usage that cannot be": (UsageReport(usage=Usage(input_tokens=1, cache_read_tokens=2)), _STOP),
}

_NOTES: Final = [
    "parts: what a model adapter yields, in order; `usage` holds all figures of a report.",
    "response: the complete response to turn 3 of run 'run1'; call identities are derived from run, turn and position.",
    "malformed: there is no response; the number is that of the bad part, or of all parts for a missing end.",
]


def build() -> dict[str, Any]:
    """The content of the file."""
    vectors = [
        {"name": name, "parts": [_encoded(part) for part in parts], **_outcome(parts)}
        for name, parts in SEQUENCES.items()
    ]
    return {"notes": _NOTES, "run": RUN, "turn": TURN, "reductions": vectors}


def rendered() -> str:
    """The file's text."""
    return json.dumps(build(), indent=1, ensure_ascii=True) + "\n"


def _outcome(parts: tuple[ModelPart, ...]) -> dict[str, Any]:
    reduction = Reduction()
    for place, part in enumerate(parts):
        try:
            reduction.feed(part)
        except MalformedResponse:
            return {"malformed": place}
    try:
        reduced = reduction.close(RUN, TURN)
    except MalformedResponse:
        return {"malformed": len(parts)}
    response = {
        "message": codec_for(AssistantMessage).encode(reduced.message),
        "finish": reduced.finish,
        "usage": codec_for(Usage).encode(reduced.usage),
    }
    return {"response": response}


def _encoded(part: ModelPart) -> dict[str, Any]:
    # Parts cross no boundary of this project, so they have no codec of their own.
    return {"part": _NAMES[type(part)], **attrs.asdict(part)}


if __name__ == "__main__":
    PATH.write_text(rendered(), encoding="ascii")
