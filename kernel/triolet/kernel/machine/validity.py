"""Whether a history may be shown to a model: every call has exactly one result, in order, nothing between.

Decides nothing about how a history came to be; it is the independent check on the machine (RUN-005), run before
every model request over what is new, and over everything in tests.
"""

from collections.abc import Sequence

from triolet.ports.messages import AssistantMessage, Message, ToolMessage


def history_problem(messages: Sequence[Message], start: int = 0) -> str | None:
    """What is wrong with `messages` from index `start` on, or None. `start` must not split a call batch.

    A history that is to be shown ends outside a call batch; one whose last response still has open calls is
    reported as such.
    """
    pending: AssistantMessage | None = None
    for index in range(start, len(messages)):
        message = messages[index]
        if isinstance(message, ToolMessage):
            if pending is None:
                return f"message {index} holds results without calls before it"
            if [result.call for result in message.results] != [call.id for call in pending.calls]:
                return f"message {index} does not hold one result for each call, in order"
            pending = None
            continue
        if pending is not None:
            return f"message {index} stands between calls and their results"
        if isinstance(message, AssistantMessage) and message.calls:
            pending = message
    return "the last response has calls without results" if pending is not None else None


def history_is_valid(messages: Sequence[Message]) -> bool:
    """Whether the whole history may be shown to a model."""
    return history_problem(messages) is None
