"""Response reduction: the second pure machine, from a provider's parts to one complete response.

=========  ================================================  =========
phase      part                                              next
=========  ================================================  =========
open       text, reasoning                                   open
open       call opened (a new index)                         open
open       call chunk (of an opened call)                    open
open       opaque detail (once)                              open
open       usage                                             open
open       finished                                          finished
finished   usage                                             finished
=========  ================================================  =========

Anything else is `MalformedResponse`. Decides what a sequence of parts amounts to, and that nothing of a cut
response can run (RUN-004). It is fed by one owner, keeps bounded text, and never waits.
"""

from typing import Final, Literal, get_args

import attrs

from triolet.ports.errors import InvalidJson
from triolet.ports.identity import CallId, RunId, call_id
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
from triolet.ports.messages import AssistantMessage, CallDefect, ToolCall
from triolet.ports.strict_json import JsonText, parse
from triolet.ports.text import repair
from triolet.ports.usage import Usage

MAX_CHARACTERS: Final = 2 * 1024 * 1024
"""All text, reasoning, arguments and opaque detail of one response together.

Small enough that the answer, each character escaped, is still a JSON document that `parse` reads by its default limits,
and that the response and a settlement that holds its text once more still fit into one batch.
"""
MAX_CALLS: Final = 128
"""Calls in one response."""
MAX_RAW: Final = 2_000
"""Characters of a defective call's text that are kept for audit."""

NO_ARGUMENTS: Final = JsonText("{}")

_REASONS: Final = get_args(FinishReason)
_CUT: Final = ("length", "content-filter")
"""Reasons that stop a response before its end. What its calls lack cannot be seen in them (RUN-004)."""


@attrs.frozen(kw_only=True, weakref_slot=False)
class Reduced:
    """A complete response."""

    message: AssistantMessage
    finish: FinishReason
    usage: Usage


@attrs.define(kw_only=True, weakref_slot=False)
class _OpenCall:
    name: str
    chunks: list[str] = attrs.field(factory=list[str])


class Reduction:
    """One response in the making."""

    __slots__ = ("_calls", "_finish", "_opaque", "_reasoning", "_size", "_text", "usage")

    def __init__(self) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: dict[int, _OpenCall] = {}
        self._opaque: str | None = None
        self._finish: FinishReason | None = None
        self._size = 0
        self.usage: Usage | None = None
        """What the provider reported so far, or None."""

    @property
    def text(self) -> str:
        """The answer's text so far, made valid."""
        return repair("".join(self._text))

    @property
    def complete(self) -> bool:
        """Whether the provider said that the response is complete."""
        return self._finish is not None

    def feed(self, part: ModelPart) -> None:
        """Take one part. Raises `MalformedResponse` if the table has no row for it, or beyond a bound."""
        if type(part) is TextChunk and self._finish is None:
            # Most parts are this, and none is so small.
            self._grow(part.text)
            self._text.append(part.text)
            return
        if self._finish is not None and not isinstance(part, UsageReport):
            raise MalformedResponse(problem=f"{type(part).__name__} after the end")
        match part:
            case TextChunk(text=text):
                self._grow(text)
                self._text.append(text)
            case ReasoningChunk(text=text):
                self._grow(text)
                self._reasoning.append(text)
            case CallOpened(index=index, name=name):
                self._open(index, name)
            case CallChunk(index=index, text=text):
                call = self._calls.get(index)
                if call is None:
                    raise MalformedResponse(problem="arguments of a call that was not opened")
                self._grow(text)
                call.chunks.append(text)
            case OpaqueDetail(json=detail):
                self._keep_opaque(detail)
            case UsageReport(usage=usage):
                problem = usage.problem()
                if problem is not None:
                    raise MalformedResponse(problem=problem)
                self.usage = usage
            case Finished(reason=reason):
                # The reason itself, not an SDK's own text that is equal to it (RUN-012).
                self._finish = next((known for known in _REASONS if known == reason), None)
                if self._finish is None:
                    raise MalformedResponse(problem="it finished for a reason that nobody knows")
            case _:  # pyright: ignore[reportUnnecessaryComparison] -- an adapter may be untyped
                raise MalformedResponse(problem=f"a {type(part).__name__} is no part of a response")

    def close(self, run: RunId, turn: int) -> Reduced:
        """The complete response. Raises `MalformedResponse` where the provider never said that it is one."""
        if self._finish is None:
            raise MalformedResponse(problem="it ended before it was complete")
        calls = tuple(
            reduce_call(call_id(run, turn, position), call.name, "".join(call.chunks), cut=self._finish in _CUT)
            for position, call in enumerate(self._calls.values())
        )
        message = AssistantMessage(
            text=self.text,
            reasoning=repair("".join(self._reasoning)),
            calls=calls,
            opaque=None if self._opaque is None else JsonText(self._opaque),
        )
        return Reduced(message=message, finish=self._finish, usage=self.usage or Usage(at_least=True))

    def _open(self, index: int, name: str) -> None:
        if index in self._calls:
            raise MalformedResponse(problem="a call was opened twice")
        if len(self._calls) == MAX_CALLS:
            raise MalformedResponse(problem=f"more than {MAX_CALLS} calls")
        self._grow(name)
        # An SDK's own kind of text ends here: what gets on record is plain (RUN-012).
        self._calls[index] = _OpenCall(name=repair("".join((name,))))

    def _keep_opaque(self, detail: str) -> None:
        if self._opaque is not None:
            raise MalformedResponse(problem="opaque detail twice")
        self._grow(detail)
        try:
            parse(detail)
        except InvalidJson as error:
            raise MalformedResponse(problem="opaque detail is not strict JSON") from error
        self._opaque = detail

    def _grow(self, text: str) -> None:
        self._size += len(text)
        if self._size > MAX_CHARACTERS:
            raise MalformedResponse(problem=f"more than {MAX_CHARACTERS} characters")


def reduce_call(identity: CallId, name: str, raw: str, *, cut: bool = False) -> ToolCall:
    """One call from the text of its arguments. With `cut` what it lacks cannot be seen in it (RUN-004)."""
    defect: Literal["truncated", "not-json", "not-object"]
    if cut:
        defect = "truncated"
    elif not raw.strip():
        # Several providers send nothing at all for a tool without parameters.
        return ToolCall(id=identity, name=name, arguments=NO_ARGUMENTS)
    else:
        try:
            if isinstance(parse(raw), dict):
                return ToolCall(id=identity, name=name, arguments=JsonText(raw))
            defect = "not-object"
        except InvalidJson:
            defect = "not-json"
    kept = CallDefect(reason=defect, raw=repair(raw[:MAX_RAW]))
    return ToolCall(id=identity, name=name, arguments=NO_ARGUMENTS, defect=kept)
