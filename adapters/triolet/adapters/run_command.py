"""`run_command`: an ordinary tool that runs a command in the sandbox which the kernel has bound.

Decides what a model may ask (a program and its arguments, apart), what it is told (status, bounded output, what was
left out), and that the policy and limits are the author's and never the model's. With isolation demanded, an assembly
with an unisolated sandbox, or one that cannot hold the policy, does not open. (CAP-002, CAP-010, SEC-010)
"""

from typing import Annotated, Any, Final, Literal, cast

import attrs

from triolet.ports.sandbox import (
    CommandNotStarted,
    Limits,
    Policy,
    Sandbox,
    SandboxDemand,
    SandboxRefused,
    SandboxRequest,
    SandboxResult,
    run_to_end,
)
from triolet.ports.schema import Description, MaxLength, codec_for
from triolet.ports.tool_context import ToolContext
from triolet.ports.tools import ExecutionClass, Risk, Tool

NAME: Final = "run_command"
_MARGIN_SECONDS: Final = 15.0
"""Ending a command and collecting its files come on top of its own time."""


@attrs.frozen(kw_only=True, weakref_slot=False)
class Command:
    """What a model asks for."""

    program: Annotated[str, MaxLength(1_000), Description("The program, by name or path; not a shell's line.")]
    arguments: Annotated[tuple[str, ...], Description("Its arguments, one each, without quoting.")] = ()


@attrs.frozen(kw_only=True, weakref_slot=False)
class CommandReport:
    """What a model is told. `isolation` is what the sandbox says of itself, never more."""

    status: int | None
    signal: int | None
    stopped: Literal["wall-clock", "cpu", "memory"] | None
    stdout: str
    stderr: str
    left_out_bytes: int
    artifacts: tuple[str, ...]
    isolation: Literal["isolated", "unisolated"]


@attrs.define(kw_only=True)
class CommandRefused(Exception):
    """The command was not run: no such program, or a request that the sandbox does not take."""

    problem: str


def run_command(
    *,
    policy: Policy,
    limits: Limits,
    isolation: Literal["none", "required"] = "required",
    artifacts: tuple[str, ...] = (),
    name: str = NAME,
    execution: ExecutionClass = "uncertain",
    risk: Risk = "high",
    needs_approval: bool = False,
) -> Tool[Any, Any]:
    """Make the tool. It runs in ``Capabilities.sandbox`` under `policy` and `limits`.

    Preflight asks the bound sandbox whether it holds them, and with `isolation` ``required`` whether it is isolated.
    `artifacts` are the patterns of files that each call collects. Say ``isolation="none"`` only for commands that are
    as trusted as your own program.
    """
    demand = SandboxDemand(policy=policy, limits=limits, isolation=isolation)

    async def handler(command: Command, context: ToolContext) -> CommandReport:
        sandbox = cast("Sandbox", context.port("sandbox"))
        request = SandboxRequest(
            argv=(command.program, *command.arguments),
            policy=policy,
            limits=limits,
            artifacts=artifacts,
            tenant=context.principal.tenant,
        )
        # Asked again: this is the moment at which it counts, and the port may not be the one of the assembly.
        refusals = demand.refusals(sandbox)
        try:
            if refusals:
                raise SandboxRefused(implementation=sandbox.implementation.name, refusals=refusals)
            return _report(await run_to_end(sandbox, request))
        except (CommandNotStarted, SandboxRefused) as error:
            raise CommandRefused(problem=error.message) from error

    return Tool(
        name=name,
        description=_description(policy, limits),
        input=codec_for(Command),
        output=codec_for(CommandReport),
        handler=handler,
        failures={CommandRefused: codec_for(CommandRefused)},
        execution=execution,
        risk=risk,
        needs_approval=needs_approval,
        targets=_targets,
        timeout=limits.wall_seconds + _MARGIN_SECONDS,
        requires=frozenset({"sandbox"}),
        check_port=("sandbox", lambda port: tuple(map(str, demand.refusals(port)))),
    )


def _targets(command: Command) -> tuple[str, ...]:
    return (command.program,)


def _description(policy: Policy, limits: Limits) -> str:
    network = "The network is open." if policy.network == "host" else "There is no network."
    return (
        "Run one program with arguments, without a shell, and see its exit status and output. "
        f"It has {limits.wall_seconds:g} seconds and no standard input. {network}"
    )


def _report(result: SandboxResult) -> CommandReport:
    return CommandReport(
        status=result.status,
        signal=result.signal,
        stopped=result.stopped,
        stdout=result.stdout.text,
        stderr=result.stderr.text,
        left_out_bytes=result.stdout.dropped_bytes + result.stderr.dropped_bytes,
        artifacts=tuple(artifact.path for artifact in result.artifacts),
        isolation=result.implementation.label,
    )
