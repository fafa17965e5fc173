"""The json-schema tool protocol: tool calls for servers that enforce a schema but know no tools, and for small models.

Decides how one response is made in two calls. The first may only say ``{"tool": <a tool's name, or the answer>}``; the
second may only say that tool's arguments, or the answer in the output schema. A small model that gets both at once
mixes them up. A call is left out where there is nothing to decide: no tool declared, an answer demanded, one tool
left, or arguments of which there is only one value. A response holds one tool call at most. Without an output schema
the answer is free text.

Usage is the sum of both calls. A first call cut short is a response cut short, without any tool call (RUN-004). Both
calls share one `ModelRequest`; neither is ever repeated (F-053).
"""

from collections.abc import AsyncGenerator
from typing import Final

import attrs

from triolet.adapters.openai_compatible.bounds import at_least_one
from triolet.adapters.openai_compatible.connection import Chat
from triolet.adapters.openai_compatible.examples import WorkedExample
from triolet.adapters.openai_compatible.fragments import Fragments
from triolet.adapters.openai_compatible.stages import Choice, has_one_value, second_part, so_far
from triolet.adapters.openai_compatible.turns import (
    CHOICE_KEY,
    ChatTurn,
    asked_for_answer,
    asked_for_arguments,
    encoded_turns,
    example_turns,
    history_turns,
    system_text,
)
from triolet.adapters.openai_compatible.wire import Bodies, encode, required_tools, response_format
from triolet.ports.language_model import (
    CallChunk,
    CallOpened,
    Finished,
    ModelPart,
    ModelRequest,
    OutputSchema,
    ToolDeclaration,
    UsageReport,
)
from triolet.ports.messages import Message
from triolet.ports.usage import Usage

_ANSWER: Final = "answer"


@attrs.frozen(kw_only=True, weakref_slot=False)
class JsonSchema:
    """Options of the protocol.

    `examples` are shown before the history of every request whose tools they use. `show_schemas` puts the schemas of
    arguments and answer into the system message: a server that enforces a schema need not show it to its model.
    `choice_tokens` bounds the output of the first call, at least 1; a model that reasons first needs more than the
    default.
    """

    examples: tuple[WorkedExample, ...] = ()
    show_schemas: bool = True
    choice_tokens: int = attrs.field(default=256, validator=at_least_one)


class TwoStages:
    """See `ToolProtocol`. `strict` asks the provider to enforce schemas, for those that must be told."""

    __slots__ = ("_bodies", "_cache_bytes", "_examples", "_history", "_options", "_strict")

    def __init__(self, bodies: Bodies, options: JsonSchema, *, cache_bytes: int, strict: bool) -> None:
        self._bodies = bodies
        self._options = options
        self._strict = strict
        self._cache_bytes = cache_bytes
        self._history: dict[str | None, Fragments[Message, tuple[ChatTurn, ...]]] = {}
        self._examples: dict[str, tuple[_Example, ...]] = {}

    async def respond(self, chat: Chat, request: ModelRequest) -> AsyncGenerator[ModelPart, None]:
        """Ask once or twice, and pass on the parts as they come."""
        offered = {tool.name: tool for tool in required_tools(request, chat.model)}
        answer = _answer_name(request.tools)
        names = [*offered, answer] if request.tool_choice == "auto" and offered else [*offered] or [answer]
        shown = self._shown(request, answer)
        spent = Usage()
        if len(names) > 1:
            choice = Choice()
            async with chat.ask(self._choice_body(request, shown, names)) as parts:
                async for part in parts:
                    if (passed := choice.take(part)) is not None:
                        yield passed
            spent = choice.usage
            yield so_far(spent)
            if choice.finished != "stop":
                if choice.finished is not None:
                    yield Finished(reason=choice.finished)
                return
            names = [choice.name(names)]
        if (tool := offered.get(names[0])) is not None:
            yield CallOpened(index=0, name=tool.name)
            if has_one_value(tool.input_schema):
                yield CallChunk(index=0, text="{}")
                yield UsageReport(usage=spent)
                yield Finished(reason="tool-calls")
                return
            shown += asked_for_arguments(tool.name)
            form: OutputSchema | None = OutputSchema(name=tool.name, schema=tool.input_schema)
        else:
            shown += asked_for_answer(answer) if request.tools else []
            form = request.output
        async with chat.ask(self._body(request, shown, form)) as parts:
            async for part in parts:
                yield second_part(part, spent, called=tool is not None)

    def _choice_body(self, request: ModelRequest, shown: list[ChatTurn], names: list[str]) -> bytes:
        schema = {
            "type": "object",
            "properties": {CHOICE_KEY: {"type": "string", "enum": names}},
            "required": [CHOICE_KEY],
            "additionalProperties": False,
        }
        form = OutputSchema(name="choice", schema=schema)
        return self._body(request, shown, form, most_tokens=self._options.choice_tokens)

    def _body(
        self, request: ModelRequest, shown: list[ChatTurn], form: OutputSchema | None, most_tokens: int | None = None
    ) -> bytes:
        system = system_text(
            request.instructions,
            request.tools,
            _answer_name(request.tools),
            request.output,
            schemas=self._options.show_schemas,
        )
        messages = [encode({"role": "system", "content": system})] if system else []
        messages += encoded_turns(shown)
        fields = {} if form is None else {"response_format": response_format(form, strict=self._strict)}
        return self._bodies.body(messages, request.settings, fields, most_tokens)

    def _shown(self, request: ModelRequest, answer: str) -> list[ChatTurn]:
        """The worked examples that fit, and the history."""
        declared = {tool.name for tool in request.tools}
        if answer not in self._examples:
            self._examples[answer] = tuple(_Example.of(example, answer) for example in self._options.examples)
        turns = [turn for example in self._examples[answer] if example.tools <= declared for turn in example.turns]
        mode = answer if request.tools else None
        if mode not in self._history:
            model = self._bodies.model
            self._history[mode] = Fragments(
                lambda message: history_turns(message, mode, model),
                lambda shown: sum(len(turn.encoded) for turn in shown),
                self._cache_bytes,
            )
        for message in request.messages:
            turns += self._history[mode].of(message)
        return turns


@attrs.frozen(kw_only=True, weakref_slot=False)
class _Example:
    tools: frozenset[str]
    turns: list[ChatTurn]

    @classmethod
    def of(cls, example: WorkedExample, answer: str) -> "_Example":
        return cls(tools=frozenset(call.tool for call in example.calls), turns=example_turns(example, answer))


def _answer_name(tools: tuple[ToolDeclaration, ...]) -> str:
    """What choosing to answer is called: ``answer``, with underscores where a tool has that name."""
    taken = {tool.name for tool in tools}
    name = _ANSWER
    while name in taken:
        name += "_"
    return name
