"""The LanguageModel port: one request in, a stream of response parts out.

Decides what a model is asked and in which small vocabulary it answers; the kernel's reducer decides what a
sequence of parts amounts to. No provider's type crosses this port (RUN-012), and no model runs a tool
(CAP-003).
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol

import attrs

from triolet.ports.errors import Misuse, TrioletError, Unavailable
from triolet.ports.identity import Instant, RunId
from triolet.ports.messages import Message
from triolet.ports.usage import Usage


@attrs.frozen(kw_only=True, weakref_slot=False)
class OneTool:
    """The model must call this tool."""

    name: str


ToolChoice = Literal["auto", "required", "none"] | OneTool


@attrs.frozen(kw_only=True, weakref_slot=False)
class ToolDeclaration:
    """What a model is told of a tool. The schema is shared and must not be changed."""

    name: str
    description: str
    input_schema: Mapping[str, object]


@attrs.frozen(kw_only=True, weakref_slot=False)
class OutputSchema:
    """The shape that a final answer must have (RUN-028)."""

    name: str
    schema: Mapping[str, object]


@attrs.frozen(kw_only=True, weakref_slot=False)
class ModelSettings:
    """Sampling settings; None leaves a setting to the provider."""

    temperature: float | None = None
    max_output_tokens: int | None = None
    seed: int | None = None


@attrs.frozen(kw_only=True, weakref_slot=False)
class ModelRequest:
    """Everything one model call may know.

    `messages` is an immutable view of the history: valid, and in order. `turn` counts from 1 in a run, `attempt`
    counts the tries of this turn from 1. `output` stands outside the recorded history. `purpose` says whether the
    answer becomes the turn's response, or a summary of earlier turns that stands before it. `deadline` is when nobody
    waits for the answer any more; the call is then cancelled, and an adapter may tell its provider so (F-053).
    """

    run: RunId
    turn: int
    attempt: int
    instructions: str
    messages: Sequence[Message]
    tools: tuple[ToolDeclaration, ...] = ()
    tool_choice: ToolChoice = "auto"
    output: OutputSchema | None = None
    settings: ModelSettings = ModelSettings()
    purpose: Literal["response", "summary"] = "response"
    deadline: Instant | None = None


@attrs.frozen(kw_only=True, weakref_slot=False)
class TextChunk:
    """More of the answer's text."""

    text: str


@attrs.frozen(kw_only=True, weakref_slot=False)
class ReasoningChunk:
    """More of the model's visible reasoning."""

    text: str


@attrs.frozen(kw_only=True, weakref_slot=False)
class CallOpened:
    """A tool call begins. `index` is the provider's position for it, new in this response."""

    index: int
    name: str


@attrs.frozen(kw_only=True, weakref_slot=False)
class CallChunk:
    """More of an opened call's argument text."""

    index: int
    text: str


@attrs.frozen(kw_only=True, weakref_slot=False)
class OpaqueDetail:
    """JSON text that this provider must be sent back with the response, once at most."""

    json: str


@attrs.frozen(kw_only=True, weakref_slot=False)
class UsageReport:
    """What the call used so far. A later report replaces an earlier one."""

    usage: Usage


FinishReason = Literal["stop", "tool-calls", "length", "content-filter"]


@attrs.frozen(kw_only=True, weakref_slot=False)
class Finished:
    """The provider says that the response is complete. Only a usage report may follow."""

    reason: FinishReason


ModelPart = TextChunk | ReasoningChunk | CallOpened | CallChunk | OpaqueDetail | UsageReport | Finished


@attrs.frozen(kw_only=True, weakref_slot=False)
class ModelIdentity:
    """Which model answers: the provider's name and the model's name there."""

    provider: str
    name: str


@attrs.define(kw_only=True)
class ModelUnavailable(Unavailable):
    """No answer, or a broken one, for a reason that may pass: transport, overload, rate limit, timeout.

    `retry_after` is the provider's own advice in seconds, if it gave any.
    """

    model: str
    reason: Literal["transport", "overloaded", "rate-limited", "timeout"]
    status: int | None = None
    retry_after: float | None = None

    @property
    def message(self) -> str:
        """The model, why, and the HTTP status where there was one."""
        status = f" (status {self.status})" if self.status is not None else ""
        return f"model {self.model} is unavailable: {self.reason}{status}"


@attrs.define(kw_only=True)
class ModelRefused(Misuse):
    """The provider will never accept this request as it is: credentials, unknown model, bad parameter.

    `detail` is the adapter's own bounded sentence, never the provider's text, which may quote the request.
    """

    model: str
    reason: Literal["authentication", "not-found", "bad-request", "content"]
    detail: str = ""
    status: int | None = None

    @property
    def message(self) -> str:
        """The model, why, and the HTTP status where there was one."""
        status = f" (status {self.status})" if self.status is not None else ""
        detail = f": {self.detail}" if self.detail else ""
        return f"model {self.model} refused the request: {self.reason}{status}{detail}"


@attrs.define(kw_only=True)
class ContextTooLarge(Misuse):
    """The provider says that the request exceeds the model's context (RUN-027)."""

    model: str
    status: int | None = None

    @property
    def message(self) -> str:
        """Which model said so."""
        return f"the request exceeds the context of model {self.model}"


@attrs.define(kw_only=True)
class MalformedResponse(TrioletError):
    """A sequence of parts that no response can have, or one beyond a stated bound. Nothing of it runs.

    Its family is the root: whether asking again helps is the retry policy's choice, not the error's.
    """

    problem: str

    @property
    def message(self) -> str:
        """What is wrong with the sequence."""
        return f"malformed model response: {self.problem}"


class LanguageModel(Protocol):
    """A language model behind whatever protocol its provider speaks.

    Lifetime: opened and closed by the host, who binds it to a kernel; one value serves many runs at once.
    Emits: nothing by itself; the kernel derives events from the parts. (CAP-001)
    """

    @property
    def identity(self) -> ModelIdentity:
        """Which model this is. Constant."""
        ...

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[ModelPart]]:
        """Does: ask the model, and yield its answer part by part.

        The scope acquires a connection and releases it on every exit. Parts keep provider order; chunks of
        different calls may interleave. A complete response has one `Finished`; a stream that ends without one
        is a response cut short (RUN-004). All text is clean.

        Atomicity: nothing is stored. Idempotency: none; each call is a new, paid request, and an adapter never
        retries by itself (F-053: one owner of retries). Ordering: parts arrive in provider order.
        Cancellation: stops the request at once; what was already generated may still be billed.
        Raises: `ModelUnavailable`, `ModelRefused`, `ContextTooLarge`, on entering or between parts;
        `MalformedResponse` for an answer that cannot be translated into parts. Nothing was written in any case.
        """
        ...
