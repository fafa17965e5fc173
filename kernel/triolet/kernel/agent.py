"""Agent and Policy: what runs, said once, without saying where or on which model.

Decides what an agent's definition is and its digest: everything that changes what a model is asked or allowed,
and nothing that does not (no model, no handler code). It is immutable, checked when made, and runs nothing.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, Literal, TypeVar, cast

import attrs

from triolet.ports.approval import Denial
from triolet.ports.canonical import Digest, digest, encode
from triolet.ports.errors import Misuse
from triolet.ports.identity import AgentId
from triolet.ports.language_model import LanguageModel, ModelSettings, OneTool, OutputSchema, ToolChoice
from triolet.ports.records import ApprovalRules, Exhaustion, Limits
from triolet.ports.schema import Codec, codec_for
from triolet.ports.strict_json import JsonValue
from triolet.ports.tools import Toolkit

In = TypeVar("In")
Out = TypeVar("Out")

Instructions = str | Callable[[In], str] | Callable[[In], Awaitable[str]]


@attrs.define(kw_only=True)
class InvalidAgent(Misuse):
    """An agent or policy that contradicts itself. Found when it is made."""

    agent: str
    problem: str

    @property
    def message(self) -> str:
        """Which agent and what is wrong with it."""
        return f"agent {self.agent!r}: {self.problem}"


@attrs.frozen(kw_only=True, weakref_slot=False)
class ApprovalPolicy:
    """What an agent's runs do about approval (APPR-001, APPR-002).

    `seconds` is how long a request stays open; None says that it has no time of its own. `silence` is what a request
    becomes whose time is up or whose desk fails: ``deny``, ``wait`` (the run is suspended) or ``approve`` (recorded as
    the policy's own). `denial` is ``terminal`` (the run fails) or ``recoverable`` (the model reads the reason).
    `steered` says whether newer input waits for an open request or counts as a recoverable denial of it.
    """

    seconds: float | None = 300.0
    silence: Literal["deny", "wait", "approve"] = "deny"
    denial: Denial = "terminal"
    steered: Literal["wait", "deny"] = "wait"

    def __attrs_post_init__(self) -> None:
        checks = (
            ("seconds", self.seconds is None or 0 < self.seconds < float("inf")),
            ("silence", self.silence in ("deny", "wait", "approve")),
            ("denial", self.denial in ("terminal", "recoverable")),
            ("steered", self.steered in ("wait", "deny")),
        )
        for name, fine in checks:
            if not fine:
                raise InvalidAgent(agent="(approval policy)", problem=f"{name} is out of its bounds")

    @property
    def rules(self) -> ApprovalRules:
        """What of this policy the machine enforces."""
        return ApprovalRules(silence=self.silence, steered=self.steered)


ASK_AND_DENY: Final = ApprovalPolicy()


@attrs.frozen(kw_only=True, weakref_slot=False)
class Policy:
    """Finite limits of a run (RUN-009, RUN-011, RUN-018, RUN-019, RUN-022).

    `max_turns` (1 to 10,000) and `max_tool_calls` (0 to 100,000) are soft: `exhaustion` says what follows.
    `max_seconds` (at most 10^9) is one wall clock for the whole run and hard; None says explicitly that there is none.
    `concurrency` (1 to 1,000) bounds the calls of a run that run at once. `tool_seconds` (at most 10^9) bounds each
    call whose tool has no timeout of its own. `result_bytes` (256 to 250,000) bounds each encoded result: the results
    of as many calls as a response may hold, escaped once more, fit into one batch.
    `drain` says how much waiting steering enters at one seam.
    """

    max_turns: int = 10
    max_tool_calls: int = 64
    max_seconds: float | None = 600.0
    exhaustion: Exhaustion = "final-answer"
    concurrency: int = 8
    tool_seconds: float = 60.0
    result_bytes: int = 65_536
    drain: Literal["one", "all"] = "all"
    approval: ApprovalPolicy = ASK_AND_DENY

    def __attrs_post_init__(self) -> None:
        counts = (
            ("max_turns", self.max_turns, 1, 10_000),
            ("max_tool_calls", self.max_tool_calls, 0, 100_000),
            ("concurrency", self.concurrency, 1, 1_000),
            ("result_bytes", self.result_bytes, 256, 250_000),
        )
        checks = (
            *((name, type(value) is int and least <= value <= most) for name, value, least, most in counts),
            # An instant so far ahead is still an exact JSON integer.
            ("max_seconds", self.max_seconds is None or 0 < self.max_seconds <= 1e9),
            ("tool_seconds", 0 < self.tool_seconds <= 1e9),
            ("exhaustion", self.exhaustion in ("final-answer", "fail")),
            ("drain", self.drain in ("one", "all")),
        )
        for name, fine in checks:
            if not fine:
                raise InvalidAgent(agent="(policy)", problem=f"{name} is out of its bounds")

    @property
    def limits(self) -> Limits:
        """What of this policy the machine enforces."""
        return Limits(max_turns=self.max_turns, max_tool_calls=self.max_tool_calls, exhaustion=self.exhaustion)


NO_TOOLS: Final = Toolkit()
DEFAULT_POLICY: Final = Policy()
PROVIDER_DEFAULTS: Final = ModelSettings()


@attrs.frozen(kw_only=True, eq=False, weakref_slot=False)
class Agent(Generic[In, Out]):
    """An agent's definition.

    `input` and `output` are attrs classes, `str`, any other type that has a schema, or a codec. With `str` the
    user's and the model's text pass as they are; anything else crosses as JSON, and the output's schema is part
    of every request (RUN-028). `instructions` is text, or a function (plain or async) of the decoded input that is
    called once a run. `tool_choice` holds for every turn, or is a function of the turn (from 1). `model`
    overrides the kernel's. `version` is yours to raise when something changes that the digest cannot see.
    """

    id: AgentId = attrs.field(converter=AgentId)
    version: str = "1"
    input: type[In] | Codec[In]
    output: type[Out] | Codec[Out]
    instructions: Instructions[In] = ""
    toolkit: Toolkit = NO_TOOLS
    policy: Policy = DEFAULT_POLICY
    tool_choice: ToolChoice | Callable[[int], ToolChoice] = "auto"
    settings: ModelSettings = PROVIDER_DEFAULTS
    model: LanguageModel | None = None
    input_codec: Codec[In] = attrs.field(init=False)
    output_codec: Codec[Out] = attrs.field(init=False)
    definition: Digest = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        if not self.id or len(self.id) > 100:
            raise InvalidAgent(agent=self.id[:100], problem="an id has 1 to 100 characters")
        if not callable(self.tool_choice):
            self._check_choice(self.tool_choice)
        object.__setattr__(self, "input_codec", _codec(self.input))
        object.__setattr__(self, "output_codec", _codec(self.output))
        object.__setattr__(self, "definition", digest("triolet.agent", encode(self._described())))

    def choice_for(self, turn: int) -> ToolChoice:
        """The tool choice for this turn. Raises `InvalidAgent` for one that a function gave and nobody can follow."""
        if not callable(self.tool_choice):
            return self.tool_choice
        choice = self.tool_choice(turn)
        self._check_choice(choice)
        return choice

    def _check_choice(self, choice: ToolChoice) -> None:
        if isinstance(choice, OneTool):
            if self.toolkit.find(choice.name) is None:
                raise InvalidAgent(agent=self.id, problem="tool_choice names a tool that it does not have")
        elif choice not in ("auto", "required", "none"):
            raise InvalidAgent(agent=self.id, problem="tool_choice is none of auto, required, none and one tool")
        elif choice == "required" and len(self.toolkit) == 0:
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
        description = {
            "id": self.id,
            "version": self.version,
            "input": self.input_codec.schema,
            "output": self.output_codec.schema,
            "instructions": self.instructions if function is None else _name(function),
            "policy": _without_floats(attrs.asdict(self.policy)),
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
