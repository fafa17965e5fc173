"""What a model is shown of a conversation: messages, their parts, tool calls and their results.

Decides the shape in which a call and its one result stand together: a tool message holds the results of a
whole call batch, so half a batch cannot be written down (RUN-005). It knows no provider's format (RUN-012)
and renders nothing; adapters do that.
"""

from typing import Literal

import attrs

from triolet.ports.identity import CallId
from triolet.ports.outcomes import Outcome
from triolet.ports.strict_json import JsonText


@attrs.frozen(kw_only=True, weakref_slot=False)
class Text:
    """Clean text: no lone surrogate, no NUL."""

    kind: Literal["text"] = "text"
    text: str


@attrs.frozen(kw_only=True, weakref_slot=False)
class Media:
    """Bytes that are not text, as base64 under a media type such as ``image/png``."""

    kind: Literal["media"] = "media"
    media_type: str
    base64: str


Part = Text | Media


@attrs.frozen(kw_only=True, weakref_slot=False)
class CallDefect:
    """Why a call can never run, and what the provider really sent. `raw` is for audit, no model sees it."""

    reason: Literal["truncated", "not-json", "not-object"]
    raw: str


@attrs.frozen(kw_only=True, weakref_slot=False)
class ToolCall:
    """One call as a model declared it.

    `arguments` is the text of a strict JSON object exactly as it was sent, so it can be echoed byte for byte.
    Where what was sent cannot be used, `arguments` is ``{}`` and `defect` says why (RUN-004).
    """

    id: CallId
    name: str
    arguments: JsonText
    defect: CallDefect | None = None


@attrs.frozen(kw_only=True, weakref_slot=False)
class UserMessage:
    """Input to the model: of a user, of steering or follow-up, or the kernel's correction of an answer."""

    parts: tuple[Part, ...]


@attrs.frozen(kw_only=True, weakref_slot=False)
class AssistantMessage:
    """One complete response. `opaque` is provider detail that must be sent back unread (JSON text)."""

    text: str
    reasoning: str
    calls: tuple[ToolCall, ...]
    opaque: JsonText | None = None


@attrs.frozen(kw_only=True, weakref_slot=False)
class ToolResult:
    """The one outcome of one call."""

    call: CallId
    name: str
    outcome: Outcome


@attrs.frozen(kw_only=True, weakref_slot=False)
class ToolMessage:
    """The results of one whole call batch, in declaration order (RUN-006)."""

    results: tuple[ToolResult, ...]


Message = UserMessage | AssistantMessage | ToolMessage


def user_text(text: str) -> UserMessage:
    """A user message of one text part."""
    return UserMessage(parts=(Text(text=text),))
