"""What a request shows: its report, its size, and whether a provider would accept it at all.

Decides what of a request is reported, so that a test can compare it with what the kernel should have shown. It
answers nothing.
"""

from collections.abc import Sequence

from triolet.adapters.request_driven_model.call_lines import user_text
from triolet.ports.canonical import Digest, digest
from triolet.ports.identity import CallId
from triolet.ports.language_model import ModelRequest, OneTool
from triolet.ports.messages import AssistantMessage, Message, Text, ToolCall, ToolMessage, UserMessage
from triolet.ports.outcomes import outcome_text
from triolet.ports.strict_json import JsonValue


def what_was_shown(request: ModelRequest) -> dict[str, JsonValue]:
    """The report: what this request shows of instructions, history and tools.

    `instructions` is their digest, `messages` the number of messages, `users` the text of each user message, `results`
    the text of each tool result, `tools` the names offered, `output` the name of the output schema or null.
    """
    users: list[JsonValue] = []
    results: list[JsonValue] = []
    for message in request.messages:
        match message:
            case UserMessage():
                users.append(user_text(message))
            case ToolMessage(results=some):
                results.extend(outcome_text(result.outcome) for result in some)
            case AssistantMessage():
                pass
    return {
        "instructions": instructions_digest(request.instructions),
        "messages": len(request.messages),
        "output": None if request.output is None else request.output.name,
        "results": results,
        "tools": [tool.name for tool in request.tools],
        "users": users,
    }


def instructions_digest(instructions: str) -> Digest:
    """How the report names instructions."""
    return digest("triolet/instructions/1", instructions.encode())


def request_problem(request: ModelRequest) -> str | None:
    """Why a provider would refuse this request, or None."""
    offered = [tool.name for tool in request.tools]
    if len(set(offered)) < len(offered):
        return "two tools of one name are offered"
    match request.tool_choice:
        case OneTool(name=name) if name not in offered:
            return "the chosen tool is not offered"
        case "required" if not offered:
            return "a call is required and no tool is offered"
        case _:
            return history_problem(request.messages)


def history_problem(messages: Sequence[Message]) -> str | None:
    """Why no provider would accept this history, or None (RUN-005)."""
    open_calls: tuple[ToolCall, ...] = ()
    seen: set[CallId] = set()
    for place, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            expected = [(made.id, made.name) for made in open_calls]
            if not expected or [(result.call, result.name) for result in message.results] != expected:
                return f"message {place}: the results are not those of the calls just before"
            open_calls = ()
        elif open_calls:
            return f"message {place}: calls before it have no results"
        elif isinstance(message, AssistantMessage):
            open_calls = message.calls
            names = {made.id for made in open_calls}
            if len(names) < len(open_calls) or seen & names:
                return f"message {place}: a call identity is there twice"
            seen |= names
    if open_calls:
        return "the last calls have no results"
    if not messages or isinstance(messages[-1], AssistantMessage):
        return "there is nothing to answer"
    return None


def characters_shown(request: ModelRequest) -> int:
    """How many characters of instructions and history a model would read."""
    size = len(request.instructions)
    for message in request.messages:
        match message:
            case UserMessage(parts=parts):
                size += sum(len(part.text if isinstance(part, Text) else part.base64) for part in parts)
            case AssistantMessage(text=said, calls=calls):
                size += len(said) + sum(len(made.name) + len(made.arguments) for made in calls)
            case ToolMessage(results=results):
                size += sum(len(outcome_text(result.outcome)) for result in results)
    return size
