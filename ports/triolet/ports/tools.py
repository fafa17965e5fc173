"""Tool and Toolkit: what an application offers a model, defined once (CAP-003).

Decides what a tool declares about itself and that a toolkit's names are legal and distinct. It schedules
nothing and calls nothing; only the kernel does. Making a tool out of a function is `triolet.ports.tool_function`.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, Literal, TypeVar

import attrs

from triolet.ports.errors import Misuse
from triolet.ports.language_model import ToolDeclaration
from triolet.ports.schema import Codec
from triolet.ports.strict_json import JsonValue
from triolet.ports.tool_context import ToolContext

In = TypeVar("In")
Out = TypeVar("Out")

ExecutionClass = Literal["readonly", "idempotent", "durable", "uncertain"]
"""What repeating or stopping a call may do outside (SEC-005).

`readonly` has no effect; `idempotent` may be repeated under the same operation key; `durable` resumes from its
recorded steps; `uncertain`, the default, may have had its effect once it has started.
"""

Risk = Literal["low", "medium", "high"]

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}\Z")


@attrs.frozen(kw_only=True, weakref_slot=False)
class ToolOrigin:
    """Which source a tool comes from, and what it is called there: what a host's authority goes by (CAP-009)."""

    source: str
    name: str


@attrs.define(kw_only=True)
class InvalidTool(Misuse):
    """A tool, or a toolkit, that contradicts itself. Found when it is made."""

    tool: str
    problem: str

    @property
    def message(self) -> str:
        """Which tool and what is wrong with it."""
        return f"tool {self.tool!r}: {self.problem}"


def _check_name(tool: "Tool[Any, Any]", _: object, name: str) -> None:
    if not _NAME.match(name):
        raise InvalidTool(tool=name[:80], problem="a name is a letter, then up to 63 of A-Z a-z 0-9 _ -")


def _check_timeout(tool: "Tool[Any, Any]", _: object, timeout: float | None) -> None:
    if timeout is not None and not 0 < timeout < float("inf"):
        raise InvalidTool(tool=tool.name, problem="a timeout is a positive, finite number of seconds, or None")


def _check_calls(tool: "Tool[Any, Any]", _: object, calls: "Toolkit | None") -> None:
    for inner in calls or ():
        if inner.execution == "durable":
            raise InvalidTool(tool=tool.name, problem=f"calls {inner.name!r}, whose steps a program cannot record")
        if tool.execution != "uncertain" and inner.execution not in ("readonly", tool.execution):
            problem = f"is {tool.execution} and calls {inner.name!r}, which is {inner.execution}"
            raise InvalidTool(tool=tool.name, problem=problem)


@attrs.frozen(kw_only=True, eq=False, weakref_slot=False)
class Tool(Generic[In, Out]):
    """One tool. Two tools are the same only if they are the same object.

    `handler` gets decoded input and a context; with `threaded` it is a plain function that runs in a bounded
    thread. `failures` are attrs exception classes that are part of the contract: the model sees their fields.
    `timeout` is in seconds; None leaves it to the agent's policy. `group` names a concurrency group that the
    host sizes. `redact` maps encoded output to what records, events and the model may see (TOOL-002).
    `requires` names the capabilities that the handler may ask its context for (CAP-002). `targets` names what a
    call touches, from its input, for approval and authorization. `needs_approval` is a flag or a predicate over
    decoded input. `calls` are other tools that the handler may call while it runs (RUN-016): none of them does more
    outside than the tool says of itself, and none is durable. `only_ephemeral` keeps the tool out of durable
    assemblies. `check_port` names one of its required capabilities and a pure look at it: what the bound port could
    not keep, named at assembly (CAP-002). `origin` says which tool source it comes from; an application's own tool has
    none.
    """

    name: str = attrs.field(validator=_check_name)
    description: str
    input: Codec[In]
    output: Codec[Out]
    handler: Callable[[In, ToolContext], Awaitable[Out]] | Callable[[In, ToolContext], Out]
    threaded: bool = False
    failures: Mapping[type[Exception], Codec[Any]] = attrs.field(factory=dict[type[Exception], Codec[Any]])
    execution: ExecutionClass = "uncertain"
    risk: Risk = "medium"
    needs_approval: bool | Callable[[In], bool] = False
    targets: Callable[[In], tuple[str, ...]] | None = None
    timeout: float | None = attrs.field(default=None, validator=_check_timeout)
    group: str | None = None
    redact: Callable[[JsonValue], JsonValue] | None = None
    requires: frozenset[str] = frozenset()
    calls: "Toolkit | None" = attrs.field(default=None, validator=_check_calls)
    only_ephemeral: bool = False
    check_port: tuple[str, Callable[[Any], tuple[str, ...]]] | None = None
    origin: ToolOrigin | None = None

    @property
    def declaration(self) -> ToolDeclaration:
        """What a model is told."""
        return ToolDeclaration(name=self.name, description=self.description, input_schema=self.input.schema)


class Toolkit:
    """An immutable set of tools, in the order given, with distinct names."""

    __slots__ = ("_declarations", "_tools")

    def __init__(self, tools: Iterable[Tool[Any, Any]] = ()) -> None:
        """Raises `InvalidTool` where two tools share a name or something is no tool."""
        by_name: dict[str, Tool[Any, Any]] = {}
        for tool in tools:
            if not isinstance(tool, Tool):  # pyright: ignore[reportUnnecessaryIsInstance] -- callers may be untyped
                raise InvalidTool(tool=repr(type(tool)), problem="is no Tool; decorate the function with @tool")
            if tool.name in by_name:
                raise InvalidTool(tool=tool.name, problem="is twice in one toolkit")
            by_name[tool.name] = tool
        self._tools: Mapping[str, Tool[Any, Any]] = by_name
        self._declarations = tuple(tool.declaration for tool in by_name.values())

    @property
    def declarations(self) -> tuple[ToolDeclaration, ...]:
        """What a model is told of all of them: the same value each time, so that adapters may cache by it."""
        return self._declarations

    def find(self, name: str) -> Tool[Any, Any] | None:
        """The tool of exactly this name."""
        return self._tools.get(name)

    @property
    def names(self) -> tuple[str, ...]:
        """The tools' names in order."""
        return tuple(self._tools)

    def __iter__(self) -> Iterator[Tool[Any, Any]]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __repr__(self) -> str:
        return f"Toolkit({', '.join(self._tools)})"
