"""Chat-completion chunks, read as response parts.

Decides what in a chunk is text, reasoning, a call, usage or an end, and which of the providers' finish reasons mean
which of ours. An empty delta is no part. The finish reason is held until the stream ends, so that usage precedes it
and a server that repeats it does no harm; without one the response counts as cut, even behind ``[DONE]``, because that
only says that the stream is over (RUN-004). A reason outside the table is `MalformedResponse`: read as a stop, it could
let calls of a broken answer run. It judges no sequence of parts; the kernel's reducer does. (CAP-017)
"""

from collections.abc import Mapping
from typing import Any, Final

from triolet.adapters.openai_compatible.bounds import Limits
from triolet.adapters.openai_compatible.calls import CallReader
from triolet.adapters.openai_compatible.clean_text import CleanText
from triolet.adapters.openai_compatible.errors import stream_error
from triolet.adapters.openai_compatible.provider_json import as_list, as_object, load
from triolet.adapters.openai_compatible.usage import read_usage
from triolet.ports.language_model import (
    Finished,
    FinishReason,
    MalformedResponse,
    ModelPart,
    ReasoningChunk,
    TextChunk,
    UsageReport,
)
from triolet.ports.usage import Usage

FINISH_REASONS: Final[Mapping[str, FinishReason]] = {
    "stop": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_calls": "tool-calls",
    "function_call": "tool-calls",
    "tool_use": "tool-calls",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "content-filter",
    "safety": "content-filter",
}


class ChunkReader:
    """Reads the chunks of one response in order. `model` is named in errors.

    Only the choice with index 0 is read; no request asks for another.
    """

    __slots__ = ("_calls", "_model", "_reason", "_reasoning", "_refused", "_text", "_usage")

    def __init__(self, model: str, limits: Limits) -> None:
        self._model = model
        self._calls = CallReader(limits.calls)
        self._text = CleanText()
        self._reasoning = CleanText()
        self._reason: FinishReason | None = None
        self._refused = False
        self._usage: Usage | None = None

    @property
    def complete(self) -> bool:
        """Whether the provider has said how the response ended. Usage may still follow."""
        return self._reason is not None

    def read(self, data: str) -> list[ModelPart]:
        """The parts of one event's data.

        Raises `MalformedResponse` for what is no chunk, and the error that a chunk reports in place of an answer.
        """
        chunk = _parse(data)
        if chunk.get("error") is not None or chunk.get("object") == "error":
            raise stream_error(self._model, chunk.get("error", chunk))
        parts: list[ModelPart] = []
        choices = as_list(chunk.get("choices") or [])
        if choices is None:
            raise MalformedResponse(problem="choices is no list")
        for choice in map(as_object, choices):
            if choice is None:
                raise MalformedResponse(problem="a choice is no object")
            if choice.get("index") in (0, None):
                parts += self._choice(choice)
        if (figures := as_object(chunk.get("usage"))) is not None:
            usage = read_usage(figures)
            if usage is not None and usage != self._usage:
                self._usage = usage
                parts.append(UsageReport(usage=usage))
        return parts

    def finish(self) -> list[ModelPart]:
        """What the end of the stream adds: text held back, and `Finished` if the response is complete."""
        parts: list[ModelPart] = []
        if rest := self._reasoning.finish():
            parts.append(ReasoningChunk(text=rest))
        if rest := self._text.finish():
            parts.append(TextChunk(text=rest))
        parts += self._calls.finish()
        if self._reason is not None:
            refused = self._refused and self._reason == "stop"
            parts.append(Finished(reason="content-filter" if refused else self._reason))
        return parts

    def _choice(self, choice: Mapping[str, Any]) -> list[ModelPart]:
        delta = as_object(choice.get("delta") or {})
        if delta is None:
            raise MalformedResponse(problem="a delta is no object")
        parts = self._delta(delta)
        reason = choice.get("finish_reason")
        if reason is not None and reason != "":
            self._end(reason)
        return parts

    def _delta(self, delta: Mapping[str, Any]) -> list[ModelPart]:
        parts: list[ModelPart] = []
        # Two names for one thing; a server that sends both repeats itself.
        reasoning = delta.get("reasoning_content") or delta.get("reasoning")
        if isinstance(reasoning, str) and (clean := self._reasoning.feed(reasoning)):
            parts.append(ReasoningChunk(text=clean))
        for name in ("content", "refusal"):
            if text := _string(delta, name):
                self._refused = self._refused or name == "refusal"
                if clean := self._text.feed(text):
                    parts.append(TextChunk(text=clean))
        if delta.get("tool_calls"):
            parts += self._calls.read(delta["tool_calls"])
        if delta.get("function_call"):
            parts += self._calls.read_legacy(delta["function_call"])
        return parts

    def _end(self, reason: object) -> None:
        known = FINISH_REASONS.get(reason) if isinstance(reason, str) else None
        if known is None:
            if reason in ("error", "insufficient_system_resource"):
                raise stream_error(self._model, {"code": 503})
            raise MalformedResponse(problem="a finish reason that is not known")
        if self._reason not in (None, known):
            raise MalformedResponse(problem="two different finish reasons")
        self._reason = known


def _parse(data: str) -> dict[str, Any]:
    try:
        chunk = as_object(load(data))
    except ValueError:
        raise MalformedResponse(problem="an event that is not JSON") from None
    if chunk is None:
        raise MalformedResponse(problem="an event that is no JSON object")
    return chunk


def _string(delta: Mapping[str, Any], name: str) -> str:
    found = delta.get(name)
    if found is None or isinstance(found, str):
        return found or ""
    raise MalformedResponse(problem=f"{name} of a delta is no text")
