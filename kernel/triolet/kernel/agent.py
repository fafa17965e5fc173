"""Agent: what runs, said once, without saying where or on which model.

Decides what an agent's definition is and its digest: everything that changes what a model is asked or allowed,
and nothing that does not (no model, no handler code). It is immutable, checked when made, and runs nothing.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, TypeVar, cast

import attrs

from triolet.kernel.policy import DEFAULT_POLICY, InvalidAgent, Policy
from triolet.ports.canonical import Digest, digest, encode
from triolet.ports.identity import AgentId
from triolet.ports.language_model import LanguageModel, ModelSettings, OneTool, OutputSchema, ToolChoice
from triolet.ports.schema import Codec, codec_for
from triolet.ports.strict_json import JsonValue
from triolet.ports.tool_names import check_source_name
from triolet.ports.tools import Toolkit

In = TypeVar("In")
Out = TypeVar("Out")

Instructions = str | Callable[[In], str] | Callable[[In], Awaitable[str]]


@attrs.frozen(kw_only=True, eq=False, weakref_slot=False)
class Disposition(Generic[Out]):
    """What an application says about an answer: a value of `type`, chosen by `select` from the decoded output.

    Only an ordinary completion has one (RUN-029). `select` is plain, quick and free of effects; what it raises breaks
    the run as host code does.
    """

    type: type[Any] | Codec[Any]
    select: Callable[[Out], Any]
    codec: Codec[Any] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "codec", _codec(self.type))


NO_TOOLS: Final = Toolkit()
PROVIDER_DEFAULTS: Final = ModelSettings()


@attrs.frozen(kw_only=True, eq=False, weakref_slot=False)
class Agent(Generic[In, Out]):
    """An agent's definition.

    `input` and `output` are attrs classes, `str`, any other type that has a schema, or a codec. With `str` the
    user's and the model's text pass as they are; anything else crosses as JSON, and the output's schema is part
    of every request (RUN-028). `instructions` is text, or a function (plain or async) of the decoded input that is
    called once a run. `tool_choice` holds for every turn, or is a function of the turn (from 1). `model`
    overrides the kernel's. `sources` names tool sources whose tools it is offered beside its toolkit. `disposition`
    adds a second, typed value to an ordinary completion. `redact_summary` maps each text that a summary is made from,
    and the summary itself, to what may be in one. `version` is yours to raise
    when something changes that the digest cannot see.
    """

    id: AgentId = attrs.field(converter=AgentId)
    version: str = "1"
    input: type[In] | Codec[In]
    output: type[Out] | Codec[Out]
    instructions: Instructions[In] = ""
    toolkit: Toolkit = NO_TOOLS
    sources: tuple[str, ...] = ()
    policy: Policy = DEFAULT_POLICY
    tool_choice: ToolChoice | Callable[[int], ToolChoice] = "auto"
    settings: ModelSettings = PROVIDER_DEFAULTS
    model: LanguageModel | None = None
    disposition: Disposition[Out] | None = None
    redact_summary: Callable[[str], str] | None = None
    input_codec: Codec[In] = attrs.field(init=False)
    output_codec: Codec[Out] = attrs.field(init=False)
    definition: Digest = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        if not self.id or len(self.id) > 100:
            raise InvalidAgent(agent=self.id[:100], problem="an id has 1 to 100 characters")
        if isinstance(self.sources, str) or len({*self.sources}) < len(self.sources):
            raise InvalidAgent(agent=self.id, problem="sources is a tuple of distinct names of tool sources")
        for source in self.sources:
            check_source_name(source)
        if not callable(self.tool_choice) and not self.sources:
            self._check_choice(self.tool_choice, self.toolkit)
        object.__setattr__(self, "input_codec", _codec(self.input))
        object.__setattr__(self, "output_codec", _codec(self.output))
        object.__setattr__(self, "definition", digest("triolet.agent", encode(self._described())))

    def choice_for(self, turn: int, toolkit: Toolkit) -> ToolChoice:
        """The tool choice for this turn, in which these tools are offered.

        Raises `InvalidAgent` for one that nobody can follow, from a function or because a source has lost the tool.
        """
        choice = self.tool_choice(turn) if callable(self.tool_choice) else self.tool_choice
        if callable(self.tool_choice) or self.sources:
            self._check_choice(choice, toolkit)
        return choice

    def _check_choice(self, choice: ToolChoice, toolkit: Toolkit) -> None:
        if isinstance(choice, OneTool):
            if toolkit.find(choice.name) is None:
                raise InvalidAgent(agent=self.id, problem="tool_choice names a tool that it does not have")
        elif choice not in ("auto", "required", "none"):
            raise InvalidAgent(agent=self.id, problem="tool_choice is none of auto, required, none and one tool")
        elif choice == "required" and len(toolkit) == 0:
            raise InvalidAgent(agent=self.id, problem="tool_choice requires a tool, and it has none")

    @property
    def structured(self) -> bool:
        """Whether the final answer must decode by a schema."""
        return self.output is not str

    @property
    def output_schema(self) -> OutputSchema | None:
        """What a request says about the final answer."""
        if not self.structured:
            return None
        return OutputSchema(name=self.output_codec.name, schema=self.output_codec.schema)

    def _described(self) -> JsonValue:
        function = self.instructions if callable(self.instructions) else None
        choice = self.tool_choice
        description: dict[str, object] = {
            "id": self.id,
            "version": self.version,
            "input": self.input_codec.schema,
            "output": self.output_codec.schema,
            "instructions": self.instructions if function is None else _name(function),
            "policy": _without_floats(attrs.asdict(self.policy)),
            "disposition": None if self.disposition is None else self.disposition.codec.schema,
            "redact_summary": None if self.redact_summary is None else _name(self.redact_summary),
            "tool_choice": _name(choice) if callable(choice) else repr(choice),
            "tools": [
                {
                    "name": tool.name,
                    "description": tool.description,
                    "input": tool.input.schema,
                    "output": tool.output.schema,
                    "execution": tool.execution,
                    "risk": tool.risk,
                }
                for tool in self.toolkit
            ],
        }
        if self.sources:
            # What they offer is recorded as it is taken up: it may change, and the definition does not.
            description["sources"] = sorted(self.sources)
        return cast("JsonValue", description)


def _codec(declared: type[Any] | Codec[Any]) -> Codec[Any]:
    # Not the other way round: `list[str]` and `str | None` are no instances of `type`.
    return declared if isinstance(declared, Codec) else codec_for(declared)


def _name(function: Callable[..., object]) -> str:
    return f"{function.__module__}.{getattr(function, '__qualname__', type(function).__qualname__)}"


def _without_floats(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _without_floats(cast("dict[str, Any]", value))
        if isinstance(value, dict)
        else repr(value)
        if isinstance(value, float)
        else value
        for name, value in values.items()
    }
