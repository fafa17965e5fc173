"""What a call brought, as this project's values: content and structured data, without loss.

Decides the shape of a successful result: ``{"content": [...]}`` with the blocks exactly as the server sent them (text,
images, audio, links to resources, embedded ones, kinds of a later day), and ``structured`` where there is such data. A
result that calls itself an error is a failure. The schema of a tool's structured data is held to where the kernel
encodes the result (CAP-004). It repairs text once, and bounds sizes.
"""

from typing import Final, cast

import orjson

from triolet.adapters.mcp.errors import McpResultUnusable, McpToolFailed
from triolet.adapters.mcp.limits import McpLimits
from triolet.adapters.mcp.messages import JsonObject, size_of
from triolet.ports.strict_json import JsonValue

_BLOCK: Final[dict[str, JsonValue]] = {
    "type": "object",
    "properties": {"type": {"type": "string"}},
    "required": ["type"],
}
_WITHIN: Final = "urn:triolet:structured"


def result_schema(structured: dict[str, JsonValue] | None) -> dict[str, JsonValue]:
    """The schema of a result whose structured data are by this schema, or by none."""
    content: JsonValue = {"type": "array", "items": _BLOCK}
    if structured is None:
        properties: dict[str, JsonValue] = {"content": content, "structured": {"type": "object"}}
        return {"type": "object", "properties": properties, "required": ["content"], "additionalProperties": False}
    inner: dict[str, JsonValue] = dict(structured)
    if b'"$ref"' in orjson.dumps(structured):
        # Under a name of its own its references lead into itself, as they did before it was put in here.
        inner.setdefault("$id", _WITHIN)
    return {
        **({"$schema": structured["$schema"]} if "$schema" in structured else {}),
        "type": "object",
        "properties": {"content": content, "structured": inner},
        "required": ["content", "structured"],
        "additionalProperties": False,
    }


def result_of(answer: JsonObject, limits: McpLimits) -> JsonValue:
    """The result in this answer. Raises `McpToolFailed` where it is an error, `McpResultUnusable`."""
    content, structured = answer.get("content"), answer.get("structuredContent")
    if content is None and structured is None:
        raise McpResultUnusable(problem="the result has neither content nor structured data")
    blocks: list[object] = [] if content is None else cast("list[object]", content)
    if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
        raise McpResultUnusable(problem="the result's content is no list of blocks")
    if structured is not None and not isinstance(structured, dict):
        raise McpResultUnusable(problem="the result's structured data are no object")
    found = cast("JsonValue", blocks)
    size = size_of([found, cast("JsonValue", structured)])
    if size is None:
        raise McpResultUnusable(problem="the result nests too deep, or holds a number beyond all bounds")
    if size > limits.result_bytes:
        raise McpResultUnusable(problem=f"the result of {size} bytes is larger than {limits.result_bytes}")
    if answer.get("isError") is True:
        raise McpToolFailed(content=found, structured=cast("JsonValue", structured))
    if structured is None:
        return {"content": found}
    return {"content": found, "structured": cast("JsonValue", structured)}
