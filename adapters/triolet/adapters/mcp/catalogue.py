"""A server's catalogue: what `tools/list` brought, as tools of this project.

Decides which of a server's tools can be offered, one by one: a definition that cannot serve is set aside with the
reason and the others stand (F-013). Schemas are taken as they are, references and recursion included. It asks nothing
and calls nothing.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, cast

import orjson

from triolet.adapters.mcp.errors import McpCallRefused, McpResultUnusable, McpToolFailed, McpUnavailable
from triolet.adapters.mcp.limits import McpLimits
from triolet.adapters.mcp.policy import McpPolicy
from triolet.adapters.mcp.results import result_schema
from triolet.ports.canonical import encode
from triolet.ports.errors import InvalidJson, TrioletError, UnrenderableSchema
from triolet.ports.schema import Codec, codec_for, raw_codec
from triolet.ports.strict_json import JsonValue
from triolet.ports.text import repair
from triolet.ports.tool_context import ToolContext
from triolet.ports.tool_names import public_name
from triolet.ports.tool_source import MAX_SNAPSHOT_TOOLS, SetAside
from triolet.ports.tools import Tool, ToolOrigin

MAX_NAME: Final = 500
"""Characters of a tool's own name."""

FAILURES: Final[Mapping[type[Exception], Codec[Any]]] = {
    failure: codec_for(failure) for failure in (McpToolFailed, McpCallRefused, McpResultUnusable, McpUnavailable)
}
"""What a call may end in beside its result; a model may read them."""

_UNDER: Final = ("anyOf", "oneOf", "allOf", "not", "if", "enum", "const", "$ref")

Call = Callable[[str, JsonValue, ToolContext], Awaitable[JsonValue]]


class Unusable(Exception):
    """A tool's definition cannot serve, and why."""


def tools_of(
    source: str, listed: Iterable[object], policy: McpPolicy, limits: McpLimits, call: Call, *, seconds: float
) -> tuple[list[Tool[Any, Any]], list[SetAside]]:
    """The tools that can be offered, and what is set aside. `seconds` is how long a call may take in all."""
    tools: dict[str, Tool[Any, Any]] = {}
    seen: dict[str, bytes] = {}
    aside: list[SetAside] = []
    for definition in listed:
        name = _name_of(definition)
        try:
            raw = _definition(definition, name)
            text = _canonical(raw)
            if name in seen:
                _same_again(tools, seen[name], text, name)
                continue
            seen[name] = text
            if not policy.offers(name):
                raise Unusable("the host's policy does not offer it")
            if _needs_tasks(raw):
                raise Unusable("it runs only as a task of the protocol, which this client does not offer")
            if len(tools) >= min(limits.tools, MAX_SNAPSHOT_TOOLS):
                raise Unusable(f"it comes after {len(tools)} others, which is the limit")
            tools[name] = _tool(source, name, raw, policy, limits, call, seconds)
        except Unusable as reason:
            aside.append(SetAside(name=name, reason=str(reason)))
    return _distinct(tools, aside), aside


def _same_again(tools: dict[str, Tool[Any, Any]], first: bytes, text: bytes, name: str) -> None:
    if text != first:
        # Nobody can say which of the two a call of this name would reach.
        tools.pop(name, None)
        raise Unusable("it is listed twice, and not the same")


def _distinct(tools: dict[str, Tool[Any, Any]], aside: list[SetAside]) -> list[Tool[Any, Any]]:
    by_public: dict[str, list[Tool[Any, Any]]] = {}
    for tool in tools.values():
        by_public.setdefault(tool.name, []).append(tool)
    for public, clash in by_public.items():
        if len(clash) > 1:
            aside.extend(
                SetAside(name=tool.origin.name, reason=f"another tool has the public name {public}, too")
                for tool in clash
                if tool.origin is not None
            )
    return [clash[0] for clash in by_public.values() if len(clash) == 1]


def _name_of(definition: object) -> str:
    name = cast("dict[str, object]", definition).get("name") if isinstance(definition, dict) else None
    return repair(name) if isinstance(name, str) else "(no name)"


def _definition(definition: object, name: str) -> dict[str, object]:
    if not isinstance(definition, dict):
        raise Unusable("its definition is no object")
    raw = cast("dict[str, object]", definition)
    if not isinstance(raw.get("name"), str) or not name.strip() or len(name) > MAX_NAME:
        raise Unusable(f"its name is no text of 1 to {MAX_NAME} characters")
    return raw


def _needs_tasks(raw: dict[str, object]) -> bool:
    execution = raw.get("execution")
    return isinstance(execution, dict) and cast("dict[str, object]", execution).get("taskSupport") == "required"


def _canonical(raw: dict[str, object]) -> bytes:
    try:
        return encode(cast("JsonValue", {key: raw.get(key) for key in ("inputSchema", "outputSchema", "description")}))
    except InvalidJson as error:
        raise Unusable(f"its definition has no canonical form: {error.problem}") from None


def _tool(
    source: str,
    name: str,
    raw: dict[str, object],
    policy: McpPolicy,
    limits: McpLimits,
    call: Call,
    seconds: float,
) -> Tool[Any, Any]:
    public = public_name(source, name)
    given, output = raw.get("inputSchema"), raw.get("outputSchema")
    if len(orjson.dumps([given, output])) > limits.schema_bytes:
        raise Unusable(f"its schemas are larger than {limits.schema_bytes} bytes")
    annotations = raw.get("annotations")
    hints = cast("dict[str, object]", annotations) if isinstance(annotations, dict) else {}
    execution = policy.execution(name, hints)

    async def handler(arguments: JsonValue, context: ToolContext) -> JsonValue:
        return await call(name, arguments, context)

    try:
        return Tool(
            name=public,
            description=_description(raw, limits),
            input=_input(given, public),
            output=_output(output, public),
            handler=handler,
            failures=FAILURES,
            execution=execution,
            risk="low" if execution == "readonly" else policy.risk,
            needs_approval=policy.asks(name),
            timeout=seconds,
            group=policy.group,
            redact=policy.redact,
            origin=ToolOrigin(source=source, name=name),
        )
    except TrioletError as error:
        raise Unusable(error.message) from None


def _description(raw: dict[str, object], limits: McpLimits) -> str:
    for key in ("description", "title"):
        text = raw.get(key)
        if isinstance(text, str) and text:
            return repair(text)[: limits.description_characters]
    return ""


def _input(schema: object, public: str) -> Codec[JsonValue]:
    checked = _object_schema(schema, "input")
    return _compiled(checked, f"{public} input")


def _output(schema: object, public: str) -> Codec[JsonValue]:
    structured = None if schema is None else _object_schema(schema, "output")
    if structured is not None:
        # On its own first, so that what is wrong is told of it and not of what it is wrapped in.
        _compiled(structured, f"{public} output")
    return _compiled(result_schema(structured), f"{public} output")


def _object_schema(schema: object, which: str) -> dict[str, JsonValue]:
    if not isinstance(schema, dict):
        raise Unusable(f"its {which} schema is missing, or no object")
    found = cast("dict[str, JsonValue]", schema)
    if found.get("type") != "object":
        other = next((key for key in _UNDER if key in found), None)
        shown = (
            f"only {other}" if other is not None and "type" not in found else f"type {str(found.get('type'))[:40]!r}"
        )
        raise Unusable(f"its {which} schema does not say that it is an object, but {shown}")
    return found


def _compiled(schema: dict[str, JsonValue], subject: str) -> Codec[JsonValue]:
    try:
        return raw_codec(schema, subject)
    except UnrenderableSchema as error:
        raise Unusable(error.message) from None
