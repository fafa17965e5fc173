"""Requests as chat-completion bodies.

Decides how messages, tools, settings and output schemas are spelt in JSON for a ``/chat/completions`` endpoint, and
refuses what that protocol cannot carry before anything is sent. Sends nothing. Call IDs on the wire are the kernel's
own (TOOL-001), shortened to a digest where they break the length that providers allow.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, cast

import attrs
import orjson

from triolet.adapters.openai_compatible.fragments import Fragments
from triolet.ports.identity import CallId
from triolet.ports.language_model import (
    ModelRefused,
    ModelRequest,
    ModelSettings,
    OneTool,
    OutputSchema,
    ToolDeclaration,
)
from triolet.ports.messages import AssistantMessage, Media, Message, Part, Text, ToolMessage, UserMessage
from triolet.ports.outcomes import outcome_text
from triolet.ports.strict_json import JsonValue

_WIRE_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")
_IMAGE: Final = re.compile(r"image/[A-Za-z0-9.+-]{1,60}")

OWN_KEYS: Final = frozenset(
    {"model", "messages", "tools", "tool_choice", "response_format", "stream", "stream_options", "n"}
)
"""What this adapter says itself and no `extra` may say instead."""


def encode(value: object) -> bytes:
    """Compact JSON. A schema may be any mapping."""
    return orjson.dumps(value, default=_plain)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, object]", value))
    raise TypeError


def content(parts: Sequence[Part], model: str) -> str | list[dict[str, Any]]:
    """A message's content: text, or a list of parts where there is more than one. Images become data URLs.

    Raises `ModelRefused` for other media.
    """
    if len(parts) == 1 and isinstance(parts[0], Text):
        return parts[0].text
    return [_part(part, model) for part in parts] or ""


def _part(part: Part, model: str) -> dict[str, Any]:
    match part:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Media(media_type=media_type, base64=base64):
            if not _IMAGE.fullmatch(media_type):
                detail = "a message holds media other than an image, which this protocol does not carry"
                raise ModelRefused(model=model, reason="bad-request", detail=detail)
            return {"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{base64}"}}


def wire_id(call: CallId) -> str:
    """`call` itself, or a digest of it where it is longer than 40 characters or has others than A-Z a-z 0-9 _ -."""
    if _WIRE_ID.fullmatch(call):
        return call
    return "call_" + hashlib.sha256(call.encode()).hexdigest()[:32]


def encode_message(message: Message, model: str) -> bytes:
    """The message with native tool calls: one JSON object, or several parted by commas for a batch of results.

    An answer's reasoning and opaque detail are not sent back: no two servers agree on a place for them.
    """
    match message:
        case UserMessage(parts=parts):
            return encode({"role": "user", "content": content(parts, model)})
        case AssistantMessage(text=text, calls=()):
            return encode({"role": "assistant", "content": text})
        case AssistantMessage(text=text, calls=calls):
            spelt = [
                {
                    "id": wire_id(call.id),
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for call in calls
            ]
            return encode({"role": "assistant", "content": text or None, "tool_calls": spelt})
        case ToolMessage(results=results):
            return b",".join(
                encode({"role": "tool", "tool_call_id": wire_id(result.call), "content": outcome_text(result.outcome)})
                for result in results
            )


def response_format(output: OutputSchema, *, strict: bool) -> bytes:
    """The ``response_format`` that asks for an answer of this shape (RUN-028)."""
    schema: dict[str, Any] = {"name": output.name, "schema": output.schema}
    if strict:
        schema["strict"] = True
    return encode({"type": "json_schema", "json_schema": schema})


def encode_tools(tools: Iterable[ToolDeclaration]) -> bytes:
    """The ``tools`` list."""
    return encode(
        [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.input_schema,
                },
            }
            for tool in tools
        ]
    )


def required_tools(request: ModelRequest, model: str) -> tuple[ToolDeclaration, ...]:
    """The tools that the request's `tool_choice` leaves. Raises `ModelRefused` where it asks for what is not there."""
    match request.tool_choice:
        case "none":
            return ()
        case OneTool(name=name):
            found = tuple(tool for tool in request.tools if tool.name == name)
        case _:
            found = request.tools
    if not found and request.tool_choice != "auto":
        detail = "tool_choice asks for a tool that the request does not declare"
        raise ModelRefused(model=model, reason="bad-request", detail=detail)
    return found


@attrs.frozen(kw_only=True, weakref_slot=False)
class BodyOptions:
    """What is the same in every request of one model.

    `defaults` fills in settings that a request leaves open. `extra` is added to each body as it is.
    """

    model: str
    defaults: ModelSettings
    extra: Mapping[str, JsonValue]
    max_tokens_name: Literal["max_tokens", "max_completion_tokens"]


class Bodies:
    """Puts bodies together from pieces that are JSON already."""

    __slots__ = ("_head", "_options", "_tools")

    def __init__(self, options: BodyOptions) -> None:
        self._options = options
        fixed = {"model": options.model, "stream": True, "stream_options": {"include_usage": True}}
        self._head = encode({**options.extra, **fixed}).removesuffix(b"}")
        self._tools: Fragments[tuple[ToolDeclaration, ...], bytes] = Fragments(encode_tools, len, 2**20)

    @property
    def model(self) -> str:
        """The model's name, for errors."""
        return self._options.model

    def tools(self, tools: tuple[ToolDeclaration, ...]) -> bytes:
        """`encode_tools`, kept for toolkits that are used again."""
        return self._tools.of(tools)

    def body(
        self,
        messages: Iterable[bytes],
        settings: ModelSettings,
        fields: Mapping[str, bytes],
        most_tokens: int | None = None,
    ) -> bytes:
        """A whole body. `fields` are further members whose values are JSON; `most_tokens` lowers the token limit."""
        pieces = [self._head]
        limit = _filled(settings.max_output_tokens, self._options.defaults.max_output_tokens)
        if most_tokens is not None:
            limit = most_tokens if limit is None else min(limit, most_tokens)
        chosen: dict[str, Any] = {
            "temperature": _filled(settings.temperature, self._options.defaults.temperature),
            "seed": _filled(settings.seed, self._options.defaults.seed),
            self._options.max_tokens_name: limit,
        }
        pieces += [b',"%b":%b' % (key.encode(), encode(value)) for key, value in chosen.items() if value is not None]
        pieces += [b',"%b":%b' % (key.encode(), value) for key, value in fields.items()]
        pieces += [b',"messages":[', b",".join(messages), b"]}"]
        return b"".join(pieces)


def _filled(value: Any, default: Any) -> Any:
    return default if value is None else value
