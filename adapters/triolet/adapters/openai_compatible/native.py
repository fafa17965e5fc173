"""The native tool protocol: the server has tool calls of its own.

Decides how one request becomes one chat-completion call with ``tools``, ``tool_choice`` and ``response_format``. Tools
are declared even under tool choice ``none``, so that the beginning of the prompt stays what a cache already has. What
the model answers is passed on part by part, unread.
"""

from collections.abc import AsyncGenerator

from triolet.adapters.openai_compatible.connection import Chat
from triolet.adapters.openai_compatible.fragments import Fragments
from triolet.adapters.openai_compatible.wire import (
    Bodies,
    encode,
    encode_message,
    required_tools,
    response_format,
)
from triolet.ports.language_model import ModelPart, ModelRequest, OneTool, ToolChoice
from triolet.ports.messages import Message


class Native:
    """See `ToolProtocol`. `strict` asks the provider to enforce output schemas, for those that must be told."""

    __slots__ = ("_bodies", "_messages", "_strict")

    def __init__(self, bodies: Bodies, *, cache_bytes: int, strict: bool) -> None:
        model = bodies.model
        self._bodies = bodies
        self._strict = strict
        self._messages: Fragments[Message, bytes] = Fragments(
            lambda message: encode_message(message, model), len, cache_bytes
        )

    async def respond(self, chat: Chat, request: ModelRequest) -> AsyncGenerator[ModelPart, None]:
        """Ask once, and pass on the parts."""
        async with chat.ask(self.body(request)) as parts:
            async for part in parts:
                yield part

    def body(self, request: ModelRequest) -> bytes:
        """The one request body. Raises `ModelRefused` for what cannot be asked."""
        messages = [encode({"role": "system", "content": request.instructions})] if request.instructions else []
        messages += map(self._messages.of, request.messages)
        fields: dict[str, bytes] = {}
        required_tools(request, self._bodies.model)
        if request.tools:
            fields["tools"] = self._bodies.tools(request.tools)
            if request.tool_choice != "auto":
                fields["tool_choice"] = encode(_choice(request.tool_choice))
        if request.output is not None:
            fields["response_format"] = response_format(request.output, strict=self._strict)
        return self._bodies.body(messages, request.settings, fields)


def _choice(choice: ToolChoice) -> object:
    if isinstance(choice, OneTool):
        return {"type": "function", "function": {"name": choice.name}}
    return choice
