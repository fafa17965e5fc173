"""code_mode: one ordinary tool, whose input is a program over an explicit list of other tools.

Decides what may be on that list and what the model is told. Everything is settled at construction, and refused there:
a tool that does more than read, one that needs approval, two that would be called alike, a schema that no declaration
can say (CAP-014). Its handler asks no model, keeps no registry, and reaches the tools through the broker alone.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, cast

import attrs

from triolet.kernel.programs.declarations import comment, type_of
from triolet.kernel.programs.host import BrokerHost
from triolet.kernel.programs.identifiers import NameCollision, identifiers
from triolet.kernel.programs.report import Egress, ProgramFailed, ProgramReport, Redaction
from triolet.ports.code_executor import (
    Binding,
    CannotKeep,
    CodeExecutionRequest,
    CodeExecutor,
    CodeLimits,
    ExecutorUnavailable,
    LimitExceeded,
    ProgramInvalid,
    ProgramUnsettled,
    ResultUnusable,
    Threw,
)
from triolet.ports.schema import Description, MinLength, codec_for
from triolet.ports.tool_context import ToolContext
from triolet.ports.tools import InvalidTool, Tool, Toolkit

EGRESS_BYTES: Final = 16 * 1024
"""What may leave a pass unless told otherwise."""
MAX_DECLARATIONS: Final = 64 * 1024
"""Characters of all declarations together."""
_GRACE: Final = 5.0
_PORT: Final = "code"

_INTRODUCTION: Final = """\
Runs one JavaScript program that calls the functions below, and gives back what it returns. `code` is one \
async function expression, for example: async () => { const a = await ...; return a; }
Each function takes one JSON object and returns a promise. A call that fails rejects with a ToolError: `tag` and \
`envelope` say why, and the program may catch it and go on. Calls run one at a time. What console.log prints \
is shown. There are no timers, files or modules and no network. The value has to be JSON: return only what is needed."""


@attrs.frozen(kw_only=True, weakref_slot=False)
class Program:
    """What the model writes."""

    code: Annotated[str, MinLength(1), Description("One async function expression in JavaScript.")]


@attrs.frozen(kw_only=True, eq=False, weakref_slot=False)
class _CodeMode:
    name: str
    tools: Mapping[tuple[str, str], Tool[Any, Any]]
    bindings: tuple[Binding, ...]
    limits: CodeLimits
    egress: Egress
    untrusted: bool

    async def run(self, program: Program, context: ToolContext) -> ProgramReport:
        """The handler."""
        executor = cast("CodeExecutor", context.port(_PORT))
        host = BrokerHost(context=context, tools=self.tools)
        request = CodeExecutionRequest(
            source=program.code, bindings=self.bindings, limits=self.limits, untrusted=self.untrusted
        )
        fail = self.egress.failed
        try:
            result = await executor.execute(request, host)
        except ProgramInvalid as error:
            raise fail(error.problem, error.detail, "", 0, host.made) from error
        except LimitExceeded as error:
            raise fail("limit", error.limit, error.logs, error.dropped, host.made) from error
        except ProgramUnsettled as error:
            raise fail("unsettled", error.message, error.logs, error.dropped, host.made) from error
        except ResultUnusable as error:
            raise fail("not-json", error.detail, error.logs, error.dropped, host.made) from error
        except (ExecutorUnavailable, CannotKeep) as error:
            raise fail("unavailable", error.message, "", 0, host.made) from error
        if isinstance(result.ending, Threw):
            raise fail("threw", result.ending.text, result.logs, result.dropped, host.made)
        report = self.egress.returned(result.ending.value, result.logs, result.dropped, len(host.made))
        if report is None:
            size = len(result.ending.value.encode())
            said = f"the value takes {size} bytes, where {self.egress.budget} may leave"
            raise fail("budget", said, result.logs, result.dropped, host.made)
        return report

    def problems(self, port: object) -> tuple[str, ...]:
        """What the bound executor could not keep of this tool's limits."""
        return cast("CodeExecutor", port).check(self.limits, untrusted=self.untrusted)


def code_mode(
    name: str,
    tools: Mapping[str, Iterable[Tool[Any, Any]]],
    *,
    limits: CodeLimits | None = None,
    egress_bytes: int = EGRESS_BYTES,
    redact: Redaction | None = None,
    description: str = "",
    trusted_programs: bool = False,
) -> Tool[Program, ProgramReport]:
    """A tool that runs programs over `tools`, listed by namespace; the model sees it alone unless others are added.

    It needs the capability ``code``. `egress_bytes` (at least 256) bounds value, thrown text and logs together, and
    `redact` maps them before they are bounded: it gets an object of a pass's parts and keeps its fields. With
    `trusted_programs`, for programs that no model wrote, an executor that does not isolate will do (SEC-010). The tool
    is for ephemeral runs only; no durable assembly takes it. Raises `InvalidTool`, `NameCollision`,
    `UnrenderableSchema`. (CAP-014, CAP-016)
    """
    listed = {namespace: tuple(given) for namespace, given in tools.items()}
    distinct = _checked(name, listed)
    if egress_bytes < 256:
        raise InvalidTool(tool=name, problem="at least 256 bytes have to be able to leave a pass")
    bounds = limits or CodeLimits()
    bounds = attrs.evolve(
        bounds,
        result_bytes=min(bounds.result_bytes, egress_bytes),
        output_bytes=min(bounds.output_bytes, egress_bytes),
    )
    namespaces = identifiers(listed)
    inside = {namespace: identifiers(tool.name for tool in given) for namespace, given in listed.items()}
    mode = _CodeMode(
        name=name,
        tools={
            (namespaces[namespace], inside[namespace][tool.name]): tool
            for namespace, given in listed.items()
            for tool in given
        },
        bindings=tuple(
            Binding(namespace=namespaces[namespace], names=tuple(inside[namespace][tool.name] for tool in given))
            for namespace, given in listed.items()
        ),
        limits=bounds,
        egress=Egress(budget=egress_bytes, redact=redact),
        untrusted=not trusted_programs,
    )
    parts = (description, _INTRODUCTION, f"```ts\n{_declared(name, listed, namespaces, inside)}```")
    return Tool(
        name=name,
        description="\n\n".join(filter(None, parts)),
        input=codec_for(Program),
        output=codec_for(ProgramReport),
        handler=mode.run,
        failures={ProgramFailed: codec_for(ProgramFailed)},
        execution="readonly",
        risk="low",
        # The pass ends by its own limit, which says more than a time-out of the call.
        timeout=bounds.wall_seconds + _GRACE,
        requires=frozenset({_PORT}),
        calls=Toolkit(distinct),
        only_ephemeral=True,
        check_port=(_PORT, mode.problems),
    )


def _checked(name: str, listed: Mapping[str, tuple[Tool[Any, Any], ...]]) -> list[Tool[Any, Any]]:
    by_name: dict[str, Tool[Any, Any]] = {}
    for given in listed.values():
        for tool in given:
            if not isinstance(tool, Tool):
                raise InvalidTool(tool=name, problem=f"lists a {type(tool).__name__}, which is no Tool")
            if tool.execution != "readonly":
                problem = f"lists {tool.name!r}, which is {tool.execution}; a program may only read"
                raise InvalidTool(tool=name, problem=problem)
            if tool.needs_approval is True:
                problem = f"lists {tool.name!r}, which needs approval; a program cannot wait for a person"
                raise InvalidTool(tool=name, problem=problem)
            if by_name.setdefault(tool.name, tool) is not tool:
                # Whoever authorizes a call is told the tool's name, so one name cannot be two tools.
                raise NameCollision(names=(tool.name, tool.name), identifier=tool.name)
    if not by_name:
        raise InvalidTool(tool=name, problem="lists no tool")
    return list(by_name.values())


def _declared(
    name: str,
    listed: Mapping[str, tuple[Tool[Any, Any], ...]],
    namespaces: Mapping[str, str],
    inside: Mapping[str, Mapping[str, str]],
) -> str:
    named: list[str] = []
    blocks: list[str] = []
    for namespace, given in listed.items():
        lines: list[str] = []
        for tool in given:
            identifier = inside[namespace][tool.name]
            prefix = f"{namespaces[namespace]}_{identifier}"
            takes, first = type_of(tool.input, f"{prefix}_input")
            gives, second = type_of(tool.output, f"{prefix}_output")
            named += [*first, *second]
            lines.append(f"{comment(tool.description, '  ')}  {identifier}(input: {takes}): Promise<{gives}>;\n")
        blocks.append(f"declare const {namespaces[namespace]}: {{\n{''.join(lines)}}};\n")
    text = "".join(f"{each}\n" for each in named) + "".join(blocks)
    if len(text) > MAX_DECLARATIONS:
        raise InvalidTool(tool=name, problem=f"its declarations have over {MAX_DECLARATIONS} characters")
    return text
