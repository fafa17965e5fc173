"""The tiny syntax in which a user asks the request-driven model for tool calls, and what of it is still open.

Decides that ``call add {"a": 1}`` asks for a call, that all calls of a line are one batch, and that a line counts as
called once an assistant message shows calls that it asked for. Arguments are taken exactly as they are spelt; text from
an opening brace that begins no JSON object reaches up to the end of its line, so that broken arguments can be asked
for too. It knows nothing of which tools exist.
"""

import json
import re
from collections.abc import Iterator, Sequence

from triolet.ports.messages import AssistantMessage, Message, Text, ToolCall, ToolMessage, UserMessage

_CALL = re.compile(r"\bcall[ \t]+([A-Za-z][A-Za-z0-9_-]{0,63})[ \t]*")
_DECODER = json.JSONDecoder()

Asked = tuple[str, str]
"""A tool's name, and the argument text for it."""


def calls_in(line: str) -> Iterator[Asked]:
    """The calls that one line asks for, in order. Without arguments it is ``{}``."""
    position = 0
    while (found := _CALL.search(line, position)) is not None:
        position = found.end()
        arguments = "{}"
        if line.startswith("{", position):
            try:
                end = _DECODER.raw_decode(line, position)[1]
            except (ValueError, RecursionError):
                end = len(line)
            arguments, position = line[position:end], end
        yield found[1], arguments


def open_lines(messages: Sequence[Message]) -> list[list[Asked]]:
    """The lines that users wrote since the last final answer and that come behind the latest line called since."""
    lines: list[list[Asked]] = []
    done = 0
    for message in messages:
        match message:
            case UserMessage():
                lines.extend(asked for line in user_text(message).split("\n") if (asked := list(calls_in(line))))
            case AssistantMessage(calls=()):
                lines, done = [], 0
            case AssistantMessage(calls=calls):
                made = (place + 1 for place in range(done, len(lines)) if _came_from(calls, lines[place]))
                done = next(made, done)
            case ToolMessage():
                pass
    return lines[done:]


def user_text(message: UserMessage) -> str:
    """The text parts of a user message, a line each."""
    return "\n".join(part.text for part in message.parts if isinstance(part, Text))


def _came_from(calls: Sequence[ToolCall], line: Sequence[Asked]) -> bool:
    """Whether these calls are the line's, in order, some perhaps left out because they were not allowed then."""
    rest = iter(line)
    return all(any(_is_same(made, asked) for asked in rest) for made in calls)


def _is_same(made: ToolCall, asked: Asked) -> bool:
    # Arguments that could not be used are not shown to a model, so only the name is left to compare.
    return made.name == asked[0] and (made.defect is not None or made.arguments == asked[1])
