"""Making a summary: one metered call of the run's model, or one artifact of the host's compactor (RUN-026).

Decides what a summariser is shown, what policy keeps out of it, and when a host's artifact is none: one that is not
bound to exactly this range. It records nothing, and decides neither a cut nor whether a summary is small enough.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import attrs
import trio

from triolet.kernel.agent import Agent
from triolet.kernel.listening import listen
from triolet.kernel.machine.compaction import Summarize, summary_fault
from triolet.kernel.machine.observations import InterruptedCall, Summarized, SummaryFailed
from triolet.kernel.machine.reduction import Reduction
from triolet.kernel.machine.shown import View, shown
from triolet.kernel.machine.state import ConversationState
from triolet.kernel.measuring import Meter
from triolet.ports.canonical import Digest, digest, encode, encode_text
from triolet.ports.compactor import (
    MAX_FACT,
    MAX_FACTS,
    MAX_SUMMARY,
    CompactionArtifact,
    CompactionRange,
    Compactor,
    CompactorUnavailable,
)
from triolet.ports.conversation_store import Address
from triolet.ports.errors import TrioletError
from triolet.ports.identity import RunId
from triolet.ports.language_model import LanguageModel, ModelRequest, ModelSettings
from triolet.ports.messages import (
    AssistantMessage,
    Message,
    Text,
    ToolMessage,
    ToolResult,
    UserMessage,
    user_text,
)
from triolet.ports.outcomes import ToolSuccess, outcome_text
from triolet.ports.schema import codec_for
from triolet.ports.strict_json import JsonValue, parse
from triolet.ports.text import repair
from triolet.ports.usage import Usage

SUMMARY_VERSION: Final = "triolet/summary/1"
"""Names the instructions below and the rules of this module."""
SUMMARY_TOKENS: Final = 2_048
"""Output that a summary may take, where the agent's own settings allow no less."""

_INSTRUCTIONS: Final = (
    "You keep notes for an assistant whose context is full. Summarise the conversation so far for it to go on from. "
    "Keep the user's goals, constraints and decisions, names, numbers, paths and identifiers exactly, what was tried "
    "with which result, and what is still open. Leave out pleasantries and repetition. Write plain text."
)
_REQUEST: Final = (
    "Write the summary of the conversation above. Repeat every name, number, path and place in it exactly, and each "
    "only once."
)
_NOTHING: Final = Usage()
_ROLES: Final[dict[type[Message], str]] = {UserMessage: "user", AssistantMessage: "assistant", ToolMessage: "tool"}


class Summarizer:
    """One run's way to a summary. `asking` describes the call under way, for whoever has to seal the run."""

    __slots__ = (
        "_address",
        "_agent",
        "_compactor",
        "_meter",
        "_model",
        "_reduction",
    )

    def __init__(
        self, agent: Agent[Any, Any], model: LanguageModel, compactor: Compactor | None, meter: Meter, address: Address
    ) -> None:
        self._agent = agent
        self._model = model
        self._compactor = compactor
        self._meter = meter
        self._address = address
        self._reduction: Reduction | None = None

    @property
    def asking(self) -> InterruptedCall | None:
        """The model call under way, or None."""
        if self._reduction is None:
            return None
        return InterruptedCall(
            attempt=1,
            model=self._model.identity.name,
            text=self._reduction.text,
            usage=self._meter.broken_off(self._reduction.usage),
            summary=True,
        )

    async def make(
        self, state: ConversationState, action: Summarize, run: RunId, view: View
    ) -> Summarized | SummaryFailed:
        """A summary of the first messages of the history as `view` shows them, or why there is none.

        Errors of the host's code pass.
        """
        if action.by == "host" and self._compactor is not None:
            return await self._ask_host(self._compactor, state, action)
        return await self._ask_model(state, action, run, view)

    async def _ask_model(
        self, state: ConversationState, action: Summarize, run: RunId, view: View
    ) -> Summarized | SummaryFailed:
        hidden = len(state.history) - action.messages
        covered = shown(state.history, view)[: -hidden or None]
        request = ModelRequest(
            run=run,
            turn=action.turn,
            attempt=1,
            instructions=_INSTRUCTIONS,
            messages=(user_text(f"{transcript(redacted(covered, self._agent.redact_summary))}\n\n{_REQUEST}"),),
            tool_choice="none",
            settings=self._settings(),
            purpose="summary",
            deadline=None if state.run is None else state.run.started.deadline,
        )
        self._reduction = reduction = Reduction()
        await trio.lowlevel.checkpoint()
        try:
            await listen(self._model, request, reduction)
            text = reduction.close(request.run, action.turn).message.text
        except TrioletError:
            # Whatever family it is of, there is no summary; the turn itself is not tried again over that.
            self._reduction = None
            return SummaryFailed(reason="model-failed", usage=self._meter.broken_off(reduction.usage))
        # Not in a `finally`: on cancellation it says what was under way.
        self._reduction = None
        usage = self._meter.priced(reduction.usage or Usage(at_least=True))
        text = self._filtered(text)
        replaced = sum(self._meter.sizes(state.history)[: action.messages])
        fault = summary_fault(text, self._meter.size(user_text(text)), replaced)
        if fault is not None:
            return SummaryFailed(reason=fault, usage=usage)
        return Summarized(covers_through=action.covers_through, text=text, version=SUMMARY_VERSION, usage=usage)

    async def _ask_host(
        self, compactor: Compactor, state: ConversationState, action: Summarize
    ) -> Summarized | SummaryFailed:
        # Of the log's own messages, not of what an earlier compaction shows of them.
        messages = redacted(state.history[: action.messages], self._agent.redact_summary)
        source = CompactionRange(
            tenant=self._address.tenant,
            conversation=self._address.conversation,
            covers_through=action.covers_through,
            messages=messages,
            digest=source_digest(messages),
        )
        try:
            artifact = await compactor.compact(source)
        except CompactorUnavailable:
            return SummaryFailed(reason="compactor-failed", usage=_NOTHING)
        if not _is_bound(artifact, source, compactor.version):
            return SummaryFailed(reason="artifact-refused", usage=_NOTHING)
        text = self._filtered(artifact.summary)
        if not text:
            return SummaryFailed(reason="empty", usage=_NOTHING)
        return Summarized(
            covers_through=action.covers_through,
            text=text,
            version=artifact.compactor_version,
            facts=tuple(self._filtered(fact) for fact in artifact.retained_facts),
            token_estimate=artifact.token_estimate,
            source_digest=artifact.source_digest,
            compactor_version=artifact.compactor_version,
        )

    def _settings(self) -> ModelSettings:
        own = self._agent.settings
        most = SUMMARY_TOKENS if own.max_output_tokens is None else min(SUMMARY_TOKENS, own.max_output_tokens)
        return ModelSettings(temperature=own.temperature, max_output_tokens=most, seed=own.seed)

    def _filtered(self, text: str) -> str:
        redact = self._agent.redact_summary
        return repair(text if redact is None else redact(text)).strip()


def source_digest(messages: Sequence[Message]) -> Digest:
    """The digest that binds an artifact to exactly these messages.

    Over the canonical JSON of a list with an object for each message: its encoding, and its role.
    """
    rows: list[JsonValue] = [
        {"role": _ROLES[type(message)], "message": codec_for(type(message)).encode(message)} for message in messages
    ]
    return digest("triolet/compaction-source/1", encode(rows))


def transcript(messages: Sequence[Message]) -> str:
    """The messages as one text.

    A model that is shown a conversation goes on with it rather than summing it up, and some providers take no results
    of tools in a request that offers none.
    """
    return "\n".join(line for message in messages for line in _lines(message))


def _lines(message: Message) -> Iterator[str]:
    if isinstance(message, UserMessage):
        for part in message.parts:
            yield f"User: {part.text}" if isinstance(part, Text) else f"User: ({part.media_type})"
    elif isinstance(message, AssistantMessage):
        if message.text:
            yield f"Assistant: {message.text}"
        for call in message.calls:
            yield f"Assistant calls {call.name}: {call.arguments}"
    else:
        for result in message.results:
            yield f"Result of {result.name}: {outcome_text(result.outcome)}"


def redacted(messages: Sequence[Message], redact: Callable[[str], str] | None) -> tuple[Message, ...]:
    """The messages with every text as policy allows it in a summary."""
    if redact is None:
        return tuple(messages)
    return tuple(_redacted(message, redact) for message in messages)


def _redacted(message: Message, redact: Callable[[str], str]) -> Message:
    if isinstance(message, UserMessage):
        parts = tuple(
            Text(text=repair(redact(part.text))) if isinstance(part, Text) else part for part in message.parts
        )
        return UserMessage(parts=parts)
    if isinstance(message, AssistantMessage):
        calls = tuple(
            attrs.evolve(call, arguments=encode_text(_in_json(parse(call.arguments), redact))) for call in message.calls
        )
        return AssistantMessage(text=repair(redact(message.text)), reasoning="", calls=calls)
    return ToolMessage(
        results=tuple(
            ToolResult(
                call=result.call,
                name=result.name,
                outcome=ToolSuccess(output=encode_text(repair(redact(outcome_text(result.outcome))))),
            )
            for result in message.results
        )
    )


def _in_json(value: JsonValue, redact: Callable[[str], str]) -> JsonValue:
    if isinstance(value, str):
        return repair(redact(value))
    if isinstance(value, list):
        return [_in_json(item, redact) for item in value]
    if isinstance(value, dict):
        return {key: _in_json(item, redact) for key, item in value.items()}
    return value


def _is_bound(artifact: object, source: CompactionRange, version: str) -> bool:
    """Whether this is an artifact for exactly this range, of the announced version, and within its bounds."""
    return (
        isinstance(artifact, CompactionArtifact)
        and artifact.covers_through == source.covers_through
        and artifact.source_digest == source.digest
        and artifact.compactor_version == version
        and 0 < len(version) <= 200
        and type(artifact.token_estimate) is int
        and artifact.token_estimate >= 0
        and isinstance(artifact.summary, str)
        and len(artifact.summary) <= MAX_SUMMARY
        and len(artifact.retained_facts) <= MAX_FACTS
        and all(isinstance(fact, str) and len(fact) <= MAX_FACT for fact in artifact.retained_facts)
    )
