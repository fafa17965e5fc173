"""`triolet mcp URL-or-command`: what a server offers, and one call of one of its tools.

Decides what is shown: who the server says it is, each tool under both of its names with its schemas, and what was set
aside and why. Nothing that a server says reaches the terminal as it is. Exit status: 0 done, 1 the server cannot be
used or the call failed, 2 the command line is wrong.
"""

import json
from typing import Any, cast

import click
import trio

from triolet.adapters.cli.commands import CommandFailed
from triolet.adapters.cli.mcp_target import MISUSED, Target, read_target
from triolet.adapters.console.visible import visible, visible_line
from triolet.adapters.mcp import McpSource, McpTimes, McpToolFailed, open_mcp
from triolet.ports.errors import InvalidJson, InvalidValue, TrioletError
from triolet.ports.strict_json import JsonValue
from triolet.ports.tool_context import ToolContext
from triolet.ports.tool_source import ToolSnapshot
from triolet.ports.tools import Tool


@click.command(context_settings={"allow_interspersed_args": False}, short_help="Look at an MCP server.")
@click.argument("target", nargs=-1, required=True, type=click.UNPROCESSED, metavar="URL | COMMAND...")
@click.option("--name", metavar="NAME", help="What to call it. Default: the program's or the host's name.")
@click.option("--header", multiple=True, metavar="NAME=VALUE", help="Send a header; $VARIABLE keeps the value secret.")
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="Set a variable of the program; $VARIABLE as above.")
@click.option("--call", "tool", metavar="TOOL", help="Call this tool, by either of its names.")
@click.option("--arguments", metavar="JSON", default="{}", help="What to call it with: a JSON object.")
@click.option("--schemas", is_flag=True, help="Show the tools' schemas.")
@click.option("--seconds", type=float, default=60.0, show_default=True, help="How long connecting and a call may take.")
@click.option("--json", "as_json", is_flag=True, help="Print everything, schemas included, as one JSON document.")
def mcp(target: tuple[str, ...], header: tuple[str, ...], env: tuple[str, ...], **flags: Any) -> int:
    """Show what an MCP server offers, as in: triolet mcp npx some-server --its-flag.

    The server is a URL (http, https, ws, wss) or a program with its arguments, which speaks on its standard input and
    output; options of this command come before it. WebSocket is not one of MCP's standard transports: the server has to
    expect it.
    """
    read = read_target(target, header, env)
    if not 0 < flags["seconds"] < float("inf"):
        raise CommandFailed("--seconds is a positive, finite number", MISUSED)
    try:
        return trio.run(_run, read, flags)
    except TrioletError as error:
        if flags["as_json"]:
            click.echo(json.dumps({"error": type(error).__name__, "message": error.message}))
            return 1
        raise CommandFailed(visible_line(error.message)) from error


async def _run(target: Target, flags: dict[str, Any]) -> int:
    seconds: float = flags["seconds"]
    times = McpTimes(connect=seconds, listing=seconds, call=seconds, overall=max(seconds, McpTimes().overall))
    async with open_mcp(target.server, name=flags["name"], secrets=target.secrets, times=times) as source:
        snapshot = await source.snapshot()
        if flags["tool"] is not None:
            return await _call(snapshot, flags)
        if flags["as_json"]:
            click.echo(json.dumps(_described(snapshot, source), ensure_ascii=False))
        else:
            click.echo(_page(snapshot, source, schemas=flags["schemas"]))
    return 0


async def _call(snapshot: ToolSnapshot, flags: dict[str, Any]) -> int:
    tool = _found(snapshot, flags["tool"])
    try:
        given = tool.input.decode_text(flags["arguments"])
    except (InvalidJson, InvalidValue) as error:
        raise CommandFailed(f"--arguments: {visible_line(error.message)}", MISUSED) from error
    handler: Any = tool.handler
    try:
        result = tool.output.encode(await handler(given, cast("ToolContext", _Told())))
    except McpToolFailed as failed:
        _put({"content": failed.content, "structured": failed.structured}, flags["as_json"], key="failure")
        return 1
    except Exception as error:
        if type(error) not in tool.failures:
            raise
        raise CommandFailed(f"the call failed: {visible_line(_told(error))}") from error
    _put(result, flags["as_json"], key="result")
    return 0


def _found(snapshot: ToolSnapshot, wanted: str) -> Tool[Any, Any]:
    for tool in snapshot.tools:
        if wanted == tool.name or (tool.origin is not None and wanted == tool.origin.name):
            return tool
    aside = next((each for each in snapshot.set_aside if each.name == wanted), None)
    if aside is not None:
        raise CommandFailed(f"{visible_line(wanted)} was set aside: {visible_line(aside.reason)}")
    raise CommandFailed(f"the server has no tool {visible_line(wanted)!r}", MISUSED)


class _Told:
    """The context of a call by hand: progress is shown, and there is nothing else to ask it for."""

    def progress(self, note: str, *, done: float | None = None, total: float | None = None) -> None:
        """Show it, on standard error."""
        share = "" if done is None else f"{done:g}" if total is None else f"{done:g} of {total:g}"
        click.echo(f"triolet: {share} {visible_line(note)}".rstrip(), err=True)


def _told(error: Exception) -> str:
    return error.message if isinstance(error, TrioletError) else str(getattr(error, "problem", type(error).__name__))


def _put(value: JsonValue, as_json: bool, *, key: str) -> None:
    if as_json:
        click.echo(json.dumps({key: value}, ensure_ascii=False))
        return
    content = cast("dict[str, JsonValue]", value).get("content")
    for block in cast("list[dict[str, Any]]", content or []):
        # Text is for reading; of the rest the shape is enough, and --json has it all.
        shown = block.get("text") if block.get("type") == "text" else _brief(block)
        click.echo(visible(str(shown)))
    structured = cast("dict[str, JsonValue]", value).get("structured")
    if structured is not None:
        click.echo(visible(json.dumps(structured, ensure_ascii=False, indent=2)))


def _brief(block: dict[str, Any]) -> str:
    sizes = {key: f"({len(value)} characters)" for key, value in block.items() if key in ("data", "blob")}
    return json.dumps({**block, **sizes}, ensure_ascii=False)


def _described(snapshot: ToolSnapshot, source: McpSource) -> dict[str, Any]:
    provenance, seen = snapshot.provenance, source.diagnostics
    return {
        "source": provenance.source,
        "server": {"name": provenance.server, "version": provenance.version},
        "protocol": provenance.protocol,
        "transport": provenance.transport,
        "capabilities": list(provenance.capabilities),
        "instructions": source.instructions,
        "digest": snapshot.digest,
        "tools": [
            {
                "name": tool.name,
                "own_name": None if tool.origin is None else tool.origin.name,
                "description": tool.description,
                "execution": tool.execution,
                "input": tool.input.schema,
                "output": tool.output.schema,
            }
            for tool in snapshot.tools
        ],
        "set_aside": [{"name": each.name, "reason": each.reason} for each in snapshot.set_aside],
        "diagnostics": {"junk": seen.junk, "oversize": seen.oversize, "stderr": list(seen.stderr_samples)},
    }


def _page(snapshot: ToolSnapshot, source: McpSource, *, schemas: bool) -> str:
    provenance, seen = snapshot.provenance, source.diagnostics
    lines = [
        f"{provenance.server} {provenance.version}, as {provenance.source}",
        f"  protocol {provenance.protocol} over {provenance.transport}; can do: {', '.join(provenance.capabilities)}",
        f"  catalogue {snapshot.digest}",
        f"  {len(snapshot.tools)} tools, {len(snapshot.set_aside)} set aside",
    ]
    if seen.junk:
        lines.append(f"  {seen.junk} lines or frames that are no messages, such as {seen.junk_samples[0][:60]!r}")
    for tool in snapshot.tools:
        own = "" if tool.origin is None else tool.origin.name
        lines += ["", f"{tool.name}  ({own})  {tool.execution}", *_indented(tool.description)]
        if schemas:
            for label, schema in (("input", tool.input.schema), ("output", tool.output.schema)):
                lines += [f"  {label}:", *_indented(json.dumps(schema, ensure_ascii=False, indent=2))]
    if snapshot.set_aside:
        lines += ["", "set aside:", *(f"  {each.name}: {each.reason}" for each in snapshot.set_aside)]
    return "\n".join(visible(line) for line in lines)


def _indented(text: str) -> list[str]:
    return [f"    {line}" for line in visible(text).splitlines()]
