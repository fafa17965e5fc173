"""Pieces: small constructors that make a turn out of text, reasoning and tool calls.

Decides how they are cut into parts and in which order the parts come. Whatever cannot be played is refused here, when
the script is written, and not in the middle of a test.

    turn("It is ", call("add", {"a": 1, "b": 2}))             a sentence, then a call
    turn(text("Three.", chunks=3)).failing(error, after=2)    two parts, then an error
    raw(CallChunk(index=7, text="{}"))                        a sequence that no provider may send
"""

from collections.abc import Mapping
from itertools import chain, zip_longest
from typing import Final, cast, get_args

import attrs

from triolet.adapters.scripted_model.turns import InvalidScript, Turn
from triolet.ports.canonical import encode_text
from triolet.ports.language_model import (
    CallChunk,
    CallOpened,
    Finished,
    FinishReason,
    ModelPart,
    OpaqueDetail,
    ReasoningChunk,
    TextChunk,
    UsageReport,
)
from triolet.ports.strict_json import JsonValue
from triolet.ports.text import require_clean
from triolet.ports.usage import Usage

USUAL_USAGE: Final = Usage(input_tokens=20, output_tokens=10)
"""What a turn reports unless it is told otherwise."""

_PART_TYPES: Final = get_args(ModelPart)
_REASONS: Final = get_args(FinishReason)


@attrs.frozen(kw_only=True, weakref_slot=False)
class Spoken:
    """A piece of a turn that is ready as it is."""

    parts: tuple[ModelPart, ...]


@attrs.frozen(kw_only=True, weakref_slot=False)
class Call:
    """A piece of a turn that is a tool call; the turn gives it its index."""

    name: str
    chunks: tuple[str, ...]


@attrs.frozen(kw_only=True, weakref_slot=False)
class Interleaved:
    """A piece of a turn in which the parts of several calls alternate."""

    calls: tuple[Call, ...]


Piece = str | Spoken | Call | Interleaved


def text(content: str, *, chunks: int = 1) -> Spoken:
    """The answer's text, in that many parts of nearly equal length (at least a character each)."""
    return Spoken(parts=tuple(TextChunk(text=piece) for piece in _split(content, chunks)))


def reasoning(content: str, *, chunks: int = 1) -> Spoken:
    """Visible reasoning, in that many parts."""
    return Spoken(parts=tuple(ReasoningChunk(text=piece) for piece in _split(content, chunks)))


def opaque(json: str) -> Spoken:
    """Provider detail that has to come back with the response."""
    return Spoken(parts=(OpaqueDetail(json=require_clean(json, "opaque")),))


def call(name: str, arguments: Mapping[str, object] | str = "{}", *, chunks: int = 1) -> Call:
    """A tool call. A mapping is encoded as canonical JSON; a string is sent as it is, valid or not."""
    sent = arguments if isinstance(arguments, str) else encode_text(cast("dict[str, JsonValue]", dict(arguments)))
    return Call(name=require_clean(name, "tool name"), chunks=_split(sent, chunks))


def interleaved(*calls: Call) -> Interleaved:
    """Several calls that a provider sends at once: all open, then one part of each in turn."""
    return Interleaved(calls=calls)


def turn(*pieces: Piece, usage: Usage | None = USUAL_USAGE, finish: FinishReason | None = None) -> Turn:
    """A complete answer: its pieces in order, `Finished`, then the usage report unless `usage` is None.

    A plain string is text in one part. `finish` is ``tool-calls`` where there are calls, else ``stop``.
    """
    parts: list[ModelPart] = []
    opened = 0
    for piece in pieces:
        match piece:
            case str():
                parts.extend(text(piece).parts)
            case Spoken(parts=spoken):
                parts.extend(spoken)
            case Call():
                parts.extend(_call_parts(piece, opened))
                opened += 1
            case Interleaved(calls=calls):
                rows = [_call_parts(each, opened + offset) for offset, each in enumerate(calls)]
                parts.extend(part for part in chain(*zip_longest(*rows)) if part is not None)
                opened += len(calls)
            case _:  # pyright: ignore[reportUnnecessaryComparison] -- scripts may be untyped
                raise InvalidScript(problem=f"a {type(piece).__name__} is no piece of a turn")
    reason = finish or ("tool-calls" if opened else "stop")
    if reason not in _REASONS:
        raise InvalidScript(problem="finish is none of " + ", ".join(_REASONS))
    parts.append(Finished(reason=reason))
    if usage is not None:
        problem = usage.problem()
        if problem is not None:
            raise InvalidScript(problem=problem)
        parts.append(UsageReport(usage=usage))
    return Turn(steps=tuple(parts))


def raw(*parts: ModelPart) -> Turn:
    """An answer of exactly these parts, in this order, whether or not a provider may send them."""
    for part in parts:
        if not isinstance(part, _PART_TYPES):
            raise InvalidScript(problem=f"a {type(part).__name__} is no part of a response")
    return Turn(steps=parts)


def _call_parts(piece: Call, index: int) -> list[ModelPart]:
    return [CallOpened(index=index, name=piece.name), *(CallChunk(index=index, text=t) for t in piece.chunks)]


def _split(content: str, chunks: int) -> tuple[str, ...]:
    require_clean(content, "script")
    size = len(content)
    if not 1 <= chunks <= max(size, 1):
        raise InvalidScript(problem=f"{size} characters cannot make {chunks} chunks")
    return tuple(content[size * i // chunks : size * (i + 1) // chunks] for i in range(chunks))
