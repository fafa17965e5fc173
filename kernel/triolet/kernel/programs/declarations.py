"""TypeScript declarations of tools, for a model to read.

Decides how the JSON that crosses into a handler and out of it is written as a type: what is declared is the encoded
side of the schemas, and it is documentation only. What TypeScript cannot say is left to the validator where it narrows
a type (a pattern, a bound), and refused where it would make the declaration wrong. (CAP-014)
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final, cast

from triolet.ports.errors import UnrenderableSchema
from triolet.ports.schema import Codec
from triolet.ports.strict_json import JsonValue

MAX_TYPE: Final = 20_000
"""Characters of one type."""
_DEPTH: Final = 40

_PRIMITIVES: Final = {"string": "string", "number": "number", "integer": "number", "boolean": "boolean", "null": "null"}
# These narrow what is allowed, or only describe it: the type is right without them.
_NARROWING: Final = frozenset({
    "$schema", "$id", "$comment", "$defs", "definitions", "title", "description", "default", "examples", "deprecated",
    "readOnly", "writeOnly", "format", "pattern", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "multipleOf", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties",
    "contentEncoding", "contentMediaType",
})  # fmt: skip
_SAYING: Final = frozenset({
    "type", "enum", "const", "anyOf", "oneOf", "$ref", "items", "prefixItems", "properties", "required",
    "additionalProperties",
})  # fmt: skip
_PLAIN_KEY: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*\Z")


def type_of(codec: Codec[Any], name: str) -> tuple[str, list[str]]:
    """The type of a codec's JSON, and the named types that it refers to, each declared as ``type … = …;``.

    Names start with `name`. Raises `UnrenderableSchema`, naming the place.
    """
    renderer = _Renderer(codec.schema, name)
    rendered = renderer.render(codec.schema, "", 0)
    declared = renderer.declared()
    if len(rendered) + sum(map(len, declared)) > MAX_TYPE:
        raise UnrenderableSchema(type_name=name, place=name, reason=f"its declaration has over {MAX_TYPE} characters")
    return rendered, declared


def comment(text: str, indent: str = "") -> str:
    """A documentation comment that no text can end early; empty for no text."""
    lines = text.replace("*/", "* /").strip().splitlines()
    if not lines:
        return ""
    if len(lines) == 1:
        return f"{indent}/** {lines[0]} */\n"
    body = "\n".join(f"{indent} * {line}".rstrip() for line in lines)
    return f"{indent}/**\n{body}\n{indent} */\n"


class _Renderer:
    def __init__(self, root: Mapping[str, JsonValue], name: str) -> None:
        self._root = root
        self._name = name
        self._named: dict[str, str] = {}
        self._types: dict[str, str] = {}

    def declared(self) -> list[str]:
        return [f"type {name} = {self._types[name]};" for name in self._named.values()]

    def render(self, schema: JsonValue, place: str, depth: int) -> str:
        if depth > _DEPTH:
            raise self._refusal(place, "nested too deep")
        if isinstance(schema, bool):
            return "unknown" if schema else "never"
        if not isinstance(schema, dict):
            raise self._refusal(place, "no schema")
        odd = sorted(schema.keys() - _NARROWING - _SAYING)
        if odd:
            raise self._refusal(place, f"a type cannot say {odd[0]!r}")
        parts = [each for each in (self._by(kind, schema, place, depth) for kind in _ORDER) if each is not None]
        if not parts:
            return "unknown"
        if len(parts) > 1:
            raise self._refusal(place, "two statements about one value")
        return parts[0]

    def _by(self, kind: str, schema: dict[str, JsonValue], place: str, depth: int) -> str | None:
        if kind not in schema:
            return None
        value = schema[kind]
        match kind:
            case "$ref":
                return self._reference(str(value), place, depth)
            case "const":
                return _literal(value)
            case "enum":
                return " | ".join(map(_literal, cast("list[JsonValue]", value))) or "never"
            case "anyOf" | "oneOf":
                members = cast("list[JsonValue]", value)
                return _union(
                    [self.render(member, f"{place}/{kind}/{index}", depth + 1) for index, member in enumerate(members)]
                )
            case _:
                # What is enumerated needs no type besides.
                if "enum" in schema or "const" in schema:
                    return None
                kinds = value if isinstance(value, list) else [value]
                return _union([self._typed(str(each), schema, place, depth) for each in kinds])

    def _typed(self, kind: str, schema: dict[str, JsonValue], place: str, depth: int) -> str:
        if kind in _PRIMITIVES:
            return _PRIMITIVES[kind]
        if kind == "array":
            return self._array(schema, place, depth)
        if kind == "object":
            return self._object(schema, place, depth)
        raise self._refusal(place, f"type {kind[:40]!r}")

    def _array(self, schema: dict[str, JsonValue], place: str, depth: int) -> str:
        rest = schema.get("items", True)
        first = schema.get("prefixItems")
        if not isinstance(first, list):
            item = self.render(rest, f"{place}/items", depth + 1)
            return f"{item}[]" if re.fullmatch(r"\w+", item) else f"Array<{item}>"
        optional = cast("int", schema.get("minItems", 0))
        items = [
            self.render(member, f"{place}/prefixItems/{index}", depth + 1) + ("?" if index >= optional else "")
            for index, member in enumerate(first)
        ]
        bounded = ("items" in schema and rest is False) or schema.get("maxItems") == len(first)
        if not bounded:
            items.append(f"...Array<{self.render(rest, f'{place}/items', depth + 1)}>")
        # An optional member needs brackets around a union.
        return f"[{', '.join(f'({item[:-1]})?' if item.endswith('?') else item for item in items)}]"

    def _object(self, schema: dict[str, JsonValue], place: str, depth: int) -> str:
        properties = schema.get("properties", {})
        more = schema.get("additionalProperties", True)
        required = schema.get("required", [])
        if not isinstance(properties, dict) or not isinstance(required, list):
            raise self._refusal(place, "no schema")
        fields: list[str] = []
        for name in [*properties, *(each for each in required if each not in properties)]:
            key = str(name)
            inner = properties.get(key, True)
            shown = key if _PLAIN_KEY.match(key) else json.dumps(key)
            mark = "" if key in required else "?"
            told = inner.get("description") if isinstance(inner, dict) else None
            said = comment(told).strip() + " " if isinstance(told, str) and told.strip() else ""
            step = key.replace("~", "~0").replace("/", "~1")
            fields.append(f"{said}{shown}{mark}: {self.render(inner, f'{place}/properties/{step}', depth + 1)}")
        if not fields:
            if more is False:
                return "Record<string, never>"
            return f"Record<string, {self.render(more, f'{place}/additionalProperties', depth + 1)}>"
        if more is not False and "additionalProperties" in schema:
            # An index signature has to cover the named fields as well, which only `unknown` does for all.
            fields.append("[key: string]: unknown")
        return "{ " + "; ".join(fields) + " }"

    def _reference(self, reference: str, place: str, depth: int) -> str:
        if reference in self._named:
            return self._named[reference]
        target = self._resolved(reference, place)
        last = re.sub(r"[^A-Za-z0-9_]", "_", reference.rpartition("/")[2]).strip("#_") or "Root"
        name = f"{self._name}_{last}"
        while name in self._named.values():
            name += "_"
        self._named[reference] = name
        # Its name stands before its body does, so that a type may hold itself.
        self._types[name] = self.render(target, reference, depth + 1)
        return name

    def _resolved(self, reference: str, place: str) -> JsonValue:
        if reference != "#" and not reference.startswith("#/"):
            raise self._refusal(place, "a reference to elsewhere")
        node: JsonValue = cast("JsonValue", self._root)
        for step in reference.split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(node, dict) or key not in node:
                raise self._refusal(place, "a reference to nothing")
            node = node[key]
        return node

    def _refusal(self, place: str, reason: str) -> UnrenderableSchema:
        return UnrenderableSchema(type_name=self._name, place=f"{self._name}{place}"[:200], reason=reason)


_ORDER: Final = ("$ref", "const", "enum", "anyOf", "oneOf", "type")


def _literal(value: JsonValue) -> str:
    if isinstance(value, dict | list):
        return "unknown"
    return json.dumps(value, ensure_ascii=False)


def _union(members: list[str]) -> str:
    return " | ".join(dict.fromkeys(members)) or "never"
