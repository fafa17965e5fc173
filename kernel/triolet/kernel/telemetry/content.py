"""Content: what was said, for hosts that ask for it, in the attributes that the GenAI conventions keep for it.

Decides how messages are written out (the conventions' JSON), that a tool's redaction holds for its arguments here as in
an approval's preview, and what is left out of what is too long: the oldest messages first, then the middle of a text.
What cannot be redacted is not shown (CAP-013, TOOL-002).
"""

from collections.abc import Sequence
from typing import Any, Final

from triolet.kernel.telemetry.otel import Attributes
from triolet.ports.canonical import encode_text
from triolet.ports.language_model import ModelRequest
from triolet.ports.messages import AssistantMessage, Media, Message, Text, ToolCall, ToolMessage, UserMessage
from triolet.ports.outcomes import Outcome, outcome_text
from triolet.ports.strict_json import JsonValue, check, parse
from triolet.ports.text import repair
from triolet.ports.tools import Tool, Toolkit

HIDDEN: Final = "[redacted]"
"""Stands for what a tool's redaction could not be applied to."""
MESSAGES: Final = 64
"""Of a request the last so many messages are shown."""


def request_content(request: ModelRequest, toolkit: Toolkit, limit: int) -> Attributes:
    """The instructions and messages of a request, each attribute within `limit` characters."""
    told: Attributes = {"gen_ai.input.messages": _messages(request.messages[-MESSAGES:], toolkit, limit)}
    if request.instructions:
        shown = _fitting([_text_part(request.instructions, limit // 4)], limit)
        told["gen_ai.system_instructions"] = shown
    return told


def answer_content(text: str, calls: Sequence[tuple[str, str]], finish: str, toolkit: Toolkit, limit: int) -> str:
    """An answer as it came, with its calls as (name, argument text)."""
    parts: list[JsonValue] = [_text_part(text, limit // 4)] if text else []
    parts += [_call_part("", name, arguments, toolkit, limit // 4) for name, arguments in calls]
    return _fitting([{"role": "assistant", "parts": parts, "finish_reason": finish}], limit)


def arguments_content(tool: Tool[Any, Any], decoded: object, limit: int) -> str:
    """A call's decoded input, redacted."""
    return cut(_redacted(tool, lambda: tool.input.encode(decoded)), limit)


def result_content(outcome: Outcome, limit: int) -> str:
    """What the model reads of an outcome, which is redacted already."""
    return cut(outcome_text(outcome), limit)


def cut(text: str, limit: int) -> str:
    """`text`, or its beginning and its end and how long it was."""
    text = repair(text)
    if len(text) <= limit:
        return text
    share = max(0, limit - 40) // 2
    return f"{text[:share]}… ({len(text)} characters) …{text[len(text) - share :]}"


def _messages(messages: Sequence[Message], toolkit: Toolkit, limit: int) -> str:
    return _fitting([_message(message, toolkit, limit // 4) for message in messages], limit)


def _fitting(items: list[JsonValue], limit: int) -> str:
    # Whole items only, the newest: what is cut in the middle is no JSON any more.
    kept: list[str] = []
    size = 1
    for item in reversed(items):
        text = encode_text(item)
        size += len(text) + 1
        if size > limit:
            break
        kept.append(text)
    if not kept and items:
        return encode_text([{"type": "omitted"}])
    return f"[{','.join(reversed(kept))}]"


def _message(message: Message, toolkit: Toolkit, limit: int) -> JsonValue:
    match message:
        case UserMessage(parts=given):
            return {"role": "user", "parts": [_part(part, limit) for part in given]}
        case AssistantMessage(text=text, calls=calls):
            parts: list[JsonValue] = [_text_part(text, limit)] if text else []
            parts += [_call_part(call.id, call.name, _sent(call), toolkit, limit) for call in calls]
            return {"role": "assistant", "parts": parts}
        case ToolMessage(results=results):
            responses: list[JsonValue] = [
                {"type": "tool_call_response", "id": each.call, "response": cut(outcome_text(each.outcome), limit)}
                for each in results
            ]
            return {"role": "tool", "parts": responses}


def _part(part: Text | Media, limit: int) -> JsonValue:
    if isinstance(part, Text):
        return _text_part(part.text, limit)
    return {"type": "blob", "mime_type": cut(part.media_type, 100), "size": len(part.base64)}


def _text_part(text: str, limit: int) -> JsonValue:
    return {"type": "text", "content": cut(text, limit)}


def _sent(call: ToolCall) -> str:
    return call.arguments


def _call_part(id_: str, name: str, arguments: str, toolkit: Toolkit, limit: int) -> JsonValue:
    tool = toolkit.find(name)
    # A tool that nobody here knows may be one that a source has taken back, and its redaction with it.
    shown = HIDDEN if tool is None else _redacted(tool, lambda: parse(arguments), arguments)
    return {"type": "tool_call", "id": id_, "name": cut(name, 100), "arguments": cut(shown, limit)}


def _redacted(tool: Tool[Any, Any], encoded: Any, plain: str | None = None) -> str:
    if tool.redact is None and plain is not None:
        return plain
    try:
        value = encoded()
        if tool.redact is not None:
            value = tool.redact(value)
            check(value)
        return encode_text(value)
    except Exception:  # noqa: BLE001 -- a tool's own redaction or codec: what they fail on is not shown
        return HIDDEN
