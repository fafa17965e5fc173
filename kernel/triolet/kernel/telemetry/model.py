"""A language model, observed: one `chat` span and its metrics for each request (LanguageModel.stream).

Decides what is told of a request and its answer. A span is current only while the model itself works, never in the
code that consumes its parts. It changes no part and no error.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Final

from triolet.kernel.telemetry.content import answer_content, request_content
from triolet.kernel.telemetry.described import RUN, name
from triolet.kernel.telemetry.endings import WELL, ending_of, failed
from triolet.kernel.telemetry.otel import Attributes, Backend, OpenSpan
from triolet.kernel.telemetry.scope import scope_attributes, tools_in_scope
from triolet.ports.language_model import (
    CallChunk,
    CallOpened,
    Finished,
    LanguageModel,
    ModelIdentity,
    ModelPart,
    ModelRequest,
    TextChunk,
    UsageReport,
)
from triolet.ports.tools import Toolkit
from triolet.ports.usage import Usage

OPERATION: Final = "gen_ai.operation.name"


class ObservedModel:
    """A model, each of whose requests is observed."""

    def __init__(self, model: LanguageModel, backend: Backend, content_limit: int | None) -> None:
        self._model = model
        self._backend = backend
        self._content_limit = content_limit

    def __getattr__(self, attribute: str) -> object:
        return getattr(self._model, attribute)

    @property
    def identity(self) -> ModelIdentity:
        """Which model this is."""
        return self._model.identity

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[ModelPart]]:
        """Ask the model."""
        return _Chat(self._model, request, self._backend, self._content_limit)


class _Chat(AbstractAsyncContextManager[AsyncIterator[ModelPart]]):
    """One request, from its sending to the end of its answer."""

    def __init__(self, model: LanguageModel, request: ModelRequest, backend: Backend, limit: int | None) -> None:
        self._model = model
        self._request = request
        self._backend = backend
        self._limit = limit
        self._labels = _labels(model.identity)
        self._opened: AbstractAsyncContextManager[AsyncIterator[ModelPart]] | None = None
        self._span: OpenSpan | None = None
        self._answer = _Answer(texts=limit is not None)
        self._toolkit: Toolkit = Toolkit()

    async def __aenter__(self) -> AsyncIterator[ModelPart]:
        self._toolkit = tools_in_scope()
        self._span = span = self._begin()
        try:
            with span.current:
                self._opened = self._model.stream(self._request)
                parts = await self._opened.__aenter__()
        except BaseException as error:
            self._end(span, error)
            raise
        return _Parts(parts, span, self._answer)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        span, opened = self._span, self._opened
        if span is None or opened is None:
            raise AssertionError("a scope is entered before it is left")
        try:
            with span.current:
                handled = await opened.__aexit__(kind, error, trace)
        except BaseException as raised:
            self._end(span, raised)
            raise
        self._end(span, None if handled else error)
        return handled

    def _begin(self) -> OpenSpan:
        request, model = self._request, self._model.identity
        retries = max(0, request.attempt - 1)
        if retries:
            self._backend.retries.add(1, self._labels)
        told: Attributes = {
            **scope_attributes(),
            **self._labels,
            RUN: name(request.run),
            "triolet.turn": request.turn,
            "triolet.retry.count": retries,
            "triolet.model.purpose": request.purpose,
            "triolet.messages": len(request.messages),
            "triolet.operation.name": "LanguageModel.stream",
            "triolet.operation.version": 1,
            "gen_ai.output.type": "text" if request.output is None else "json",
        }
        settings = request.settings
        if settings.temperature is not None:
            told["gen_ai.request.temperature"] = settings.temperature
        if settings.max_output_tokens is not None:
            told["gen_ai.request.max_tokens"] = settings.max_output_tokens
        if settings.seed is not None:
            told["gen_ai.request.seed"] = settings.seed
        return self._backend.begin(f"chat {name(model.name)}", "client", told)

    def _end(self, span: OpenSpan, error: BaseException | None) -> None:
        answer, backend = self._answer, self._backend
        ending = ending_of(error)
        if ending is WELL and answer.exhausted and answer.finish is None:
            ending = failed("unavailable", "cut-short")
        if span.recording:
            span.tell(answer.attributes)
            if self._limit is not None:
                span.tell(request_content(self._request, self._toolkit, self._limit))
                shown = answer_content(
                    "".join(answer.text), answer.sent, answer.finish or "error", self._toolkit, self._limit
                )
                span.tell({"gen_ai.output.messages": shown})
        seconds = span.end(ending)
        labels = self._labels | ending.labels
        backend.model_seconds.record(seconds, labels)
        if ending.outcome == "failed":
            backend.failures.add(1, labels)
        usage = answer.usage
        if usage is not None:
            backend.tokens.record(usage.input_tokens, self._labels | {"gen_ai.token.type": "input"})
            backend.tokens.record(usage.output_tokens, self._labels | {"gen_ai.token.type": "output"})


class _Answer:
    """What is known of an answer so far. Its texts are kept where content is told, within the response's bounds."""

    __slots__ = ("_texts", "calls", "exhausted", "finish", "text", "usage")

    def __init__(self, *, texts: bool) -> None:
        self._texts = texts
        self.exhausted = False
        self.finish: str | None = None
        self.usage: Usage | None = None
        self.text: list[str] = []
        self.calls: dict[int, list[str]] = {}

    def heard(self, part: ModelPart) -> None:
        """Take a part in."""
        match part:
            case TextChunk(text=text) if self._texts:
                self.text.append(text)
            case CallOpened(index=index, name=called):
                self.calls[index] = [called]
            case CallChunk(index=index, text=text) if self._texts:
                self.calls.setdefault(index, [""]).append(text)
            case UsageReport(usage=usage):
                self.usage = usage if usage.problem() is None else None
            case Finished(reason=reason):
                self.finish = reason
            case _:
                pass

    @property
    def sent(self) -> list[tuple[str, str]]:
        """The calls: name and argument text."""
        return [(called[0], "".join(called[1:])) for called in self.calls.values()]

    @property
    def attributes(self) -> Attributes:
        """Sizes and reasons; nothing that the model wrote."""
        told: Attributes = {"triolet.calls": len(self.calls)}
        if self.finish is not None:
            told["gen_ai.response.finish_reasons"] = (self.finish,)
        usage = self.usage
        if usage is not None:
            told["gen_ai.usage.input_tokens"] = usage.input_tokens
            told["gen_ai.usage.output_tokens"] = usage.output_tokens
            told["gen_ai.usage.cache_read.input_tokens"] = usage.cache_read_tokens
            told["gen_ai.usage.cache_creation.input_tokens"] = usage.cache_write_tokens
            told["gen_ai.usage.reasoning.output_tokens"] = usage.reasoning_tokens
        return told


class _Parts:
    """The parts of an answer, heard as they pass."""

    __slots__ = ("_answer", "_parts", "_span")

    def __init__(self, parts: AsyncIterator[ModelPart], span: OpenSpan, answer: _Answer) -> None:
        self._parts = parts
        self._span = span
        self._answer = answer

    def __aiter__(self) -> "_Parts":
        return self

    async def __anext__(self) -> ModelPart:
        with self._span.current:
            try:
                part = await self._parts.__anext__()
            except StopAsyncIteration:
                self._answer.exhausted = True
                raise
        self._answer.heard(part)
        return part


def _labels(model: ModelIdentity) -> dict[str, Any]:
    return {
        OPERATION: "chat",
        "gen_ai.provider.name": name(model.provider),
        "gen_ai.request.model": name(model.name),
    }
