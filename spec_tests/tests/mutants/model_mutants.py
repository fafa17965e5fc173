"""Wrong model adapters, each of which wraps a scripted model and is right but for one thing."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any, cast

import attrs
import trio

from tests.mutants.mutant import Mutant
from triolet.ports.errors import TrioletError
from triolet.ports.language_model import (
    CallChunk,
    CallOpened,
    ContextTooLarge,
    Finished,
    ModelIdentity,
    ModelPart,
    ModelRefused,
    ModelRequest,
    ModelUnavailable,
    ReasoningChunk,
    TextChunk,
    UsageReport,
)
from triolet.ports.messages import ToolMessage
from triolet.ports.usage import Usage
from triolet.spec_tests.cases.language_model import LANGUAGE_MODEL, ModelSubject
from triolet.spec_tests.stand_ins.scripted import ScriptedProvider

MODEL_MUTANTS: list[Mutant] = []


class CountedProvider(ScriptedProvider):
    """A scripted provider that knows how many answers are under way."""

    under_way = 0

    @property
    def answering(self) -> int:
        return self.under_way


class Adapter:
    """Passes everything on, as it should."""

    def __init__(self, provider: CountedProvider) -> None:
        self.provider = provider

    @property
    def identity(self) -> ModelIdentity:
        return self.provider.model.identity

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelPart]]:
        self.provider.under_way += 1
        try:
            async with (
                self.provider.model.stream(self.sent(request)) as parts,
                aclosing(self.passed_on(parts)) as passed_on,
            ):
                yield passed_on
        except TrioletError as error:
            raise self.translated(error) from error
        finally:
            await self.let_go()

    def sent(self, request: ModelRequest) -> ModelRequest:
        return request

    async def passed_on(self, parts: AsyncIterator[ModelPart]) -> AsyncGenerator[ModelPart]:
        async for part in parts:
            for each in self.part(part):
                yield each

    def part(self, part: ModelPart) -> list[ModelPart]:
        return [part]

    def translated(self, error: TrioletError) -> Exception:
        return error

    async def let_go(self) -> None:
        self.provider.under_way -= 1


def breaks(*violates: str) -> Callable[[type[Adapter]], type[Adapter]]:
    """Take an adapter class in as a mutant."""

    def decorate(adapter: type[Adapter]) -> type[Adapter]:
        why = (adapter.__doc__ or "").partition("\n")[0].rstrip(".")
        MODEL_MUTANTS.append(
            Mutant(name=adapter.__name__, why=why, violates=violates, suite=LANGUAGE_MODEL, open=maker_of(adapter))
        )
        return adapter

    return decorate


def maker_of(adapter: type[Adapter]) -> Any:
    """A maker for an adapter of this class."""

    @asynccontextmanager
    async def maker() -> AsyncGenerator[ModelSubject]:
        provider = CountedProvider()
        yield ModelSubject(port=adapter(provider), provider=provider)

    return maker


@breaks("CAP-001", "RUN-004")
class FinishesTwice(Adapter):
    """The end is said twice."""

    def part(self, part: ModelPart) -> list[ModelPart]:
        return [part, part] if isinstance(part, Finished) else [part]


@breaks("RUN-012")
class LeaksItsTypes(Adapter):
    """Text is of the provider's own type."""

    class SdkText(str):
        __slots__ = ()

    def part(self, part: ModelPart) -> list[ModelPart]:
        return [attrs.evolve(part, text=self.SdkText(part.text)) if isinstance(part, TextChunk) else part]


@breaks("CAP-001")
class ReversesText(Adapter):
    """Text comes out backwards."""

    async def passed_on(self, parts: AsyncIterator[ModelPart]) -> AsyncGenerator[ModelPart]:
        held = [part async for part in parts]
        texts = [part for part in held if isinstance(part, TextChunk)]
        for part in held:
            yield texts.pop() if isinstance(part, TextChunk) else part


@breaks("CAP-001")
class SaysItsReasoning(Adapter):
    """Reasoning is part of the answer."""

    def part(self, part: ModelPart) -> list[ModelPart]:
        return [TextChunk(text=part.text)] if isinstance(part, ReasoningChunk) else [part]


@breaks("CAP-003")
class RunsItsCalls(Adapter):
    """Calls are answered by the adapter, which asks again with a result of its own."""

    async def passed_on(self, parts: AsyncIterator[ModelPart]) -> AsyncGenerator[ModelPart]:
        called = False
        async for part in parts:
            if isinstance(part, CallOpened | CallChunk):
                called = True
            elif not (called and isinstance(part, Finished)):
                yield part
        if called:
            async with self.provider.model.stream(cast("Any", None)) as more:
                async for part in more:
                    yield part


@breaks("RUN-004")
class MendsArguments(Adapter):
    """Arguments that are no JSON object become an empty one."""

    async def passed_on(self, parts: AsyncIterator[ModelPart]) -> AsyncGenerator[ModelPart]:
        texts: dict[int, str] = {}
        async for part in parts:
            if isinstance(part, CallChunk):
                texts[part.index] = texts.get(part.index, "") + part.text
                continue
            if isinstance(part, Finished):
                for index, text in texts.items():
                    yield CallChunk(index=index, text=_mended(text))
            yield part


def _mended(text: str) -> str:
    try:
        return text if isinstance(json.loads(text), dict) else "{}"
    except ValueError:
        return "{}"


@breaks("RUN-004")
class StopsForNoReason(Adapter):
    """Every end is an ordinary stop."""

    def part(self, part: ModelPart) -> list[ModelPart]:
        return [Finished(reason="stop")] if isinstance(part, Finished) else [part]


@breaks("RUN-004")
class CompletesWhatWasCut(Adapter):
    """A stream that ends is a response that is complete."""

    async def passed_on(self, parts: AsyncIterator[ModelPart]) -> AsyncGenerator[ModelPart]:
        finished = False
        async for part in parts:
            finished = finished or isinstance(part, Finished)
            yield part
        if not finished:
            yield Finished(reason="stop")


@breaks("CAP-017")
class SubtractsTheCache(Adapter):
    """Input is what was not cached."""

    def part(self, part: ModelPart) -> list[ModelPart]:
        if not isinstance(part, UsageReport):
            return [part]
        usage = part.usage
        return [UsageReport(usage=Usage(input_tokens=usage.fresh_tokens, output_tokens=usage.output_tokens))]


@breaks("CAP-017")
class CountsNothing(Adapter):
    """Usage is not reported."""

    def part(self, part: ModelPart) -> list[ModelPart]:
        return [] if isinstance(part, UsageReport) else [part]


@breaks("CAP-001")
class SharesABuffer(Adapter):
    """All answers of a model go through one buffer."""

    def __init__(self, provider: CountedProvider) -> None:
        super().__init__(provider)
        self.buffer: list[ModelPart] = []

    async def passed_on(self, parts: AsyncIterator[ModelPart]) -> AsyncGenerator[ModelPart]:
        async for part in parts:
            self.buffer.append(part)
            await trio.lowlevel.checkpoint()
        while self.buffer:
            yield self.buffer.pop(0)


@breaks("RUN-005")
class SendsHalfTheResults(Adapter):
    """Only the first result of each call batch is sent."""

    def sent(self, request: ModelRequest) -> ModelRequest:
        messages = tuple(
            attrs.evolve(message, results=message.results[:1]) if isinstance(message, ToolMessage) else message
            for message in request.messages
        )
        return attrs.evolve(request, messages=messages)


@breaks("RUN-028")
class DropsTheSchema(Adapter):
    """The output schema is not sent."""

    def sent(self, request: ModelRequest) -> ModelRequest:
        return attrs.evolve(request, output=None)


@breaks("CAP-003")
class HidesTools(Adapter):
    """Tools are not sent."""

    def sent(self, request: ModelRequest) -> ModelRequest:
        return attrs.evolve(request, tools=())


@breaks("CAP-001")
class RaisesItsOwnErrors(Adapter):
    """A provider's refusal comes as a RuntimeError."""

    def translated(self, error: TrioletError) -> Exception:
        return RuntimeError(error.message)


@breaks("CAP-001")
class ForgetsTheAdvice(Adapter):
    """When to try again is not passed on."""

    def translated(self, error: TrioletError) -> Exception:
        return attrs.evolve(error, retry_after=None) if isinstance(error, ModelUnavailable) else error


@breaks("RUN-027")
class CallsLengthARefusal(Adapter):
    """A request that is too long is a bad one like any other."""

    def translated(self, error: TrioletError) -> Exception:
        return ModelRefused(model="m", reason="bad-request") if isinstance(error, ContextTooLarge) else error


@breaks("CAP-001")
class RetriesByItself(Adapter):
    """A busy provider is asked once more."""

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelPart]]:
        async with AsyncExitStack() as scopes:
            try:
                parts = await scopes.enter_async_context(super().stream(request))
            except ModelUnavailable:
                parts = await scopes.enter_async_context(super().stream(request))
            yield parts


@breaks("RUN-008")
class FinishesWhenCancelled(Adapter):
    """A cancelled answer is let go after a minute."""

    async def let_go(self) -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(60)
        await super().let_go()


@breaks("CAP-001", "RUN-008")
class HoldsOn(Adapter):
    """The provider's connection is never let go."""

    async def let_go(self) -> None:
        await trio.lowlevel.checkpoint()


@breaks("CAP-001")
class LeavesAnswerTasks(Adapter):
    """Each answer starts a task that outlives the model."""

    def sent(self, request: ModelRequest) -> ModelRequest:
        trio.lowlevel.spawn_system_task(trio.sleep_forever)
        return request
