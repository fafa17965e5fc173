"""Chat turns for the json-schema protocol: tools, history and worked examples as plain talk.

Decides what a model that knows no tool calls is shown in their place. Each step is one exchange: the assistant names a
tool, is asked for its arguments, gives them, and is told the result; or it names the answer, is asked for it, and gives
it. History reads exactly as it was spoken, so each request begins with what a server's prompt cache holds from the one
before. Neighbouring turns of one role are joined, since many chat templates insist on taking turns. Short turns and
spaced JSON are deliberate: small models follow them best.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import attrs

from triolet.adapters.openai_compatible.examples import WorkedExample
from triolet.adapters.openai_compatible.wire import content, encode
from triolet.ports.canonical import encode_text
from triolet.ports.language_model import OutputSchema, ToolDeclaration
from triolet.ports.messages import AssistantMessage, Message, ToolMessage, UserMessage
from triolet.ports.outcomes import outcome_text
from triolet.ports.strict_json import JsonValue

CHOICE_KEY: Final = "tool"

_ASK_ANSWER: Final = "The answer?"
_ASK_NEXT: Final = "What next?"


@attrs.frozen(kw_only=True, weakref_slot=False)
class ChatTurn:
    """One message of a chat, and its encoding."""

    role: Literal["user", "assistant"]
    content: str | list[dict[str, Any]]
    encoded: bytes


def turn(role: Literal["user", "assistant"], said: str | list[dict[str, Any]]) -> ChatTurn:
    """A turn, encoded once."""
    return ChatTurn(role=role, content=said, encoded=encode({"role": role, "content": said}))


def asked_for_arguments(tool: str) -> list[ChatTurn]:
    """The model has named `tool`, and is asked for its arguments."""
    return [_choice(tool), turn("user", f"Arguments of {tool}?")]


def asked_for_answer(answer: str) -> list[ChatTurn]:
    """The model has chosen to answer, and is asked to. `answer` is the name of that choice."""
    return [_choice(answer), turn("user", _ASK_ANSWER)]


def history_turns(message: Message, answer: str | None, model: str) -> tuple[ChatTurn, ...]:
    """One message of the history as turns. An answer's reasoning and opaque detail are left out.

    `answer` is the name of the choice to answer, or None for a chat in which there is nothing to choose.
    """
    match message:
        case UserMessage(parts=parts):
            return (turn("user", content(parts, model)),)
        case AssistantMessage(text=text, calls=()):
            asked = asked_for_answer(answer) if answer is not None else []
            return (*asked, turn("assistant", text))
        case AssistantMessage(text=text, calls=calls):
            shown = [turn("assistant", text)] if text else []
            for position, call in enumerate(calls):
                if position:
                    shown.append(turn("user", _ASK_NEXT))
                shown += [*asked_for_arguments(call.name), turn("assistant", call.arguments)]
            return tuple(shown)
        case ToolMessage(results=results):
            return tuple(_result(result.name, outcome_text(result.outcome)) for result in results)


def example_turns(example: WorkedExample, answer: str) -> list[ChatTurn]:
    """A worked example as turns."""
    shown = [turn("user", example.question)]
    for call in example.calls:
        result = call.result if isinstance(call.result, str) else encode_text(call.result)
        shown += asked_for_arguments(call.tool)
        shown += [turn("assistant", _spaced(dict(call.arguments))), _result(call.tool, result)]
    said = example.answer if isinstance(example.answer, str) else _spaced(example.answer)
    return [*shown, *asked_for_answer(answer), turn("assistant", said)]


def system_text(
    instructions: str, tools: Sequence[ToolDeclaration], answer: str, shape: OutputSchema | None, *, schemas: bool
) -> str:
    """The instructions, and what there is to choose from. With `schemas`, also what arguments and answer look like."""

    def shown(schema: Mapping[str, object]) -> str:
        return f" JSON Schema: {encode(schema).decode()}" if schemas else ""

    form = "" if shape is None else shown(shape.schema)
    if not tools:
        pieces = [instructions, f"Answer with JSON.{form}" if form else ""]
    else:
        lines = [f"- {tool.name}: {tool.description}{shown(tool.input_schema)}" for tool in tools]
        pieces = [instructions, "\n".join(("Tools:", *lines, f"- {answer}: give the final answer.{form}"))]
    return "\n\n".join(filter(None, pieces))


def encoded_turns(turns: Iterable[ChatTurn]) -> Iterator[bytes]:
    """The turns' encodings, with neighbours of one role joined into one message."""
    held: ChatTurn | None = None
    for following in turns:
        if held is None:
            held = following
        elif held.role == following.role:
            held = turn(held.role, _joined(held.content, following.content))
        else:
            yield held.encoded
            held = following
    if held is not None:
        yield held.encoded


def _joined(first: str | list[dict[str, Any]], second: str | list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}" if first else second
    return [*_as_parts(first), *_as_parts(second)]


def _as_parts(said: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"type": "text", "text": said}] if isinstance(said, str) else said


def _choice(name: str) -> ChatTurn:
    return turn("assistant", _spaced({CHOICE_KEY: name}))


def _result(tool: str, text: str) -> ChatTurn:
    return turn("user", f"Result of {tool}: {text}")


def _spaced(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False)
