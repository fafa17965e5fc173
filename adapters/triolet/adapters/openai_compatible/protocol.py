"""What a tool protocol is: a way to make one response to one request out of chat-completion calls."""

from collections.abc import AsyncGenerator
from typing import Protocol

from triolet.adapters.openai_compatible.connection import Chat
from triolet.ports.language_model import ModelPart, ModelRequest


class ToolProtocol(Protocol):
    """One of `native` and `json_schema`."""

    def respond(self, chat: Chat, request: ModelRequest) -> AsyncGenerator[ModelPart, None]:
        """The parts of one response. Raises as `LanguageModel.stream`, before the first part or between parts."""
        ...
