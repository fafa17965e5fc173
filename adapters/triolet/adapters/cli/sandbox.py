"""`triolet sandbox -- COMMAND`: try a policy by hand, and see what it holds.

Decides what the flags mean, and that an unisolated run has to be asked for by name. It judges nothing: refusals are the
sandbox's. Exit status: the command's own; 1 if it was not run, or ended by a limit or a signal; 2 for a wrong line.
"""

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import attrs
import click
import trio

from triolet.adapters.bubblewrap import open_bubblewrap
from triolet.adapters.cli.commands import CommandFailed
from triolet.adapters.console.visible import visible
from triolet.adapters.local_runner import LocalRunner
from triolet.ports.errors import TrioletError
from triolet.ports.sandbox import (
    Finished,
    Limits,
    Mount,
    Output,
    Policy,
    Sandbox,
    SandboxEvent,
    SandboxRequest,
    SandboxResult,
)

MISUSED = 2
_MIB = 1024 * 1024


@click.command(context_settings={"ignore_unknown_options": False}, short_help="Run a command under a policy.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--unisolated", is_flag=True, help="Run it as a plain process, which keeps nothing away from it.")
@click.option("--network", type=click.Choice(["none", "host"]), default="none", show_default=True)
@click.option("--read", multiple=True, metavar="PATH[:INSIDE]", help="Show it a folder or file, unchangeable.")
@click.option("--write", multiple=True, metavar="PATH[:INSIDE]", help="Let it change a folder.")
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="Set a variable; nothing else of yours gets in.")
@click.option("--directory", help="Where it starts. Default: its own work folder.")
@click.option("--seconds", type=float, default=60.0, show_default=True, help="Wall-clock time.")
@click.option("--cpu", type=float, default=60.0, show_default=True, help="Processor seconds of all it starts; 0: any.")
@click.option("--memory", type=int, default=512, show_default=True, help="MiB of all it starts; 0: any.")
@click.option("--processes", type=int, default=64, show_default=True, help="Processes and threads; 0: any.")
@click.option("--output", type=int, default=64, show_default=True, help="KiB kept of each stream.")
@click.option("--json", "as_json", is_flag=True, help="Print the result, or the refusal, as one JSON document.")
def sandbox(command: tuple[str, ...], unisolated: bool, as_json: bool, **flags: Any) -> int:
    """Run COMMAND under a policy and limits, as in: triolet sandbox -- ls -l /.

    It sees this machine's programs, what --read and --write name, and an empty work folder. What cannot be enforced
    here is refused before anything starts. With --unisolated, limits that a plain process cannot be held to are
    dropped, and the report says so.
    """
    try:
        request = _request(command, unisolated, flags)
    except ValueError as error:
        raise CommandFailed(str(error), MISUSED) from error
    try:
        return trio.run(_run, request, unisolated, as_json)
    except TrioletError as error:
        if as_json:
            click.echo(json.dumps({"error": type(error).__name__, "message": error.message}))
            return 1
        raise CommandFailed(error.message) from error


def _request(command: tuple[str, ...], unisolated: bool, flags: dict[str, Any]) -> SandboxRequest:
    environment = dict(_pair(text) for text in flags["env"])
    mounts = (
        *(_mount(text, "read") for text in flags["read"]),
        *(_mount(text, "write") for text in flags["write"]),
    )
    limits = Limits(
        wall_seconds=flags["seconds"],
        cpu_seconds=None if unisolated else flags["cpu"] or None,
        memory_bytes=None if unisolated else flags["memory"] * _MIB or None,
        processes=None if unisolated else flags["processes"] or None,
        output_bytes=flags["output"] * 1024,
        work_bytes=None if unisolated else 64 * _MIB,
    )
    policy = Policy(
        filesystem="host" if unisolated else "private",
        mounts=mounts,
        network="host" if unisolated else flags["network"],
        environment=frozenset(environment),
    )
    return SandboxRequest(
        argv=command, policy=policy, limits=limits, directory=flags["directory"], environment=environment
    )


def _mount(text: str, access: Literal["read", "write"]) -> Mount:
    source, _, target = text.partition(":")
    source = str(Path(source).resolve())
    return Mount(source=source, target=target or source, access=access)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError("--env takes NAME=VALUE")
    return name, value


async def _run(request: SandboxRequest, unisolated: bool, as_json: bool) -> int:
    async with _opened(unisolated) as port:
        found: SandboxResult | None = None
        async with port.execute(request) as events:
            async for event in events:
                if isinstance(event, Finished):
                    found = event.result
                elif not as_json:
                    _show(event)
    if found is None:
        raise CommandFailed("the command ended without a result")
    click.echo(json.dumps(_values(found)) if as_json else _summary(found), err=not as_json)
    return found.status if found.status is not None and found.stopped is None else 1


@asynccontextmanager
async def _opened(unisolated: bool) -> AsyncGenerator[Sandbox]:
    if unisolated:
        yield LocalRunner()
    else:
        async with open_bubblewrap() as isolated:
            click.echo(f"triolet: {isolated.details}", err=True)
            yield isolated


def _show(event: SandboxEvent) -> None:
    if isinstance(event, Output):
        stream = sys.stdout if event.stream == "stdout" else sys.stderr
        # A command's output is not trusted with this terminal.
        stream.write(visible(event.text) if stream.isatty() else event.text)
        stream.flush()


def _summary(result: SandboxResult) -> str:
    implementation = result.implementation
    posture = ", ".join(f"{dimension} {hold}" for dimension, hold in implementation.posture.items())
    ended = f"status {result.status}" if result.signal is None else f"signal {result.signal}"
    if result.stopped is not None:
        ended = f"ended by the {result.stopped} limit"
    left_out = result.stdout.dropped_bytes + result.stderr.dropped_bytes
    lines = [
        f"{implementation.label}: {implementation.name} {implementation.version} ({posture})",
        f"{ended}; {_used(result)}; clean-up {result.cleanup}",
    ]
    if left_out:
        lines.append(f"{left_out} bytes of output were left out")
    return "\n".join(f"triolet: {line}" for line in lines)


def _used(result: SandboxResult) -> str:
    usage = result.usage
    cpu = "not measured" if usage.cpu_seconds is None else f"{usage.cpu_seconds:.3f} s"
    memory = "not measured" if usage.peak_memory_bytes is None else f"{usage.peak_memory_bytes / _MIB:.1f} MiB"
    return f"{usage.wall_seconds:.3f} s, processor {cpu}, memory {memory}"


def _values(result: SandboxResult) -> dict[str, Any]:
    values = attrs.asdict(result)
    values["implementation"]["label"] = result.implementation.label
    return values
