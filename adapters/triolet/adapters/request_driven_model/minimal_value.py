"""The smallest value that a JSON Schema allows, the same one each time.

Decides by the schema alone: optional properties are left out, lists are as short as allowed, and of alternatives the
one that ends soonest wins. It knows the keywords that schemas of tools and outputs use (`$ref` within the document,
`anyOf`, `oneOf`, `allOf`, `const`, `enum`, types, bounds, `required`, `items`, `prefixItems`, `uniqueItems`). What it
makes is checked before it is returned, so a keyword it does not know leads to a refusal and never to a wrong value.
"""

import math
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final, cast
from urllib.parse import unquote

from triolet.adapters.request_driven_model.scalar_values import NoMinimalValue, Schema, numbers, size, strings
from triolet.ports.errors import InvalidJson, InvalidValue
from triolet.ports.schema import raw_codec
from triolet.ports.strict_json import JsonValue

_TRIES: Final = 200


def minimal_value(schema: Mapping[str, object]) -> JsonValue:
    """The smallest value by `schema`. Raises `NoMinimalValue`, or `UnrenderableSchema` if it is none."""
    codec = raw_codec(cast("Schema", schema), "schema")
    try:
        maker = _Maker(codec.schema)
        for value in islice(maker.values(maker.root), _TRIES):
            try:
                codec.decode(value)
            except (InvalidValue, InvalidJson):
                continue
            return value
    except RecursionError:
        raise NoMinimalValue(reason="its candidates nest too deep") from None
    raise NoMinimalValue(reason="no candidate is valid")


class _Maker:
    """Candidates for one document, the smallest first."""

    def __init__(self, root: Schema) -> None:
        self.root = root
        self._heights: dict[str, float] = {}
        # The least number of references that a value of each definition nests. A value of least height never
        # nests a definition in itself, so as many rounds as there are definitions reach the fixed point.
        references = sorted(_references(root))
        for _ in references:
            for reference in references:
                self._heights[reference] = 1 + self._height(self._target(reference))

    def values(self, schema: JsonValue) -> Iterator[JsonValue]:
        """Values that `schema` probably allows. None at all where only an endless one would do."""
        if schema is False or self._height(schema) == math.inf:
            return
        whole: Schema = {} if schema is True else _object(schema)
        for name in ("$ref", "allOf", "anyOf", "oneOf"):
            if name in whole:
                for alternative in self._alternatives(whole, name):
                    yield from self.values(alternative)
                return
        if "const" in whole:
            yield whole["const"]
        elif "enum" in whole:
            yield from _list(whole["enum"])
        else:
            for kind in _kinds(whole):
                yield from self._typed(kind, whole)

    def _alternatives(self, whole: Schema, name: str) -> list[Schema]:
        """What `whole` amounts to if its keyword `name` is taken away, most promising first."""
        rest = {key: value for key, value in whole.items() if key != name}
        if name == "$ref":
            return [_merged(rest, self._target(str(whole[name])))]
        members = _list(whole[name])
        if name == "allOf":
            for member in members:
                rest = _merged(rest, member)
            return [rest]
        return [_merged(rest, member) for member in sorted(members, key=self._height) if member is not False]

    def _typed(self, kind: JsonValue, schema: Schema) -> Iterator[JsonValue]:
        match kind:
            case "null":
                yield None
            case "boolean":
                yield from (False, True)
            case "integer" | "number":
                yield from numbers(schema, whole=kind == "integer")
            case "string":
                yield from strings(schema)
            case "array":
                yield from self._lists(schema)
            case "object":
                yield from self._objects(schema)
            case _:
                return

    def _lists(self, schema: Schema) -> Iterator[JsonValue]:
        least = size(schema, "minItems")
        made: list[JsonValue] = []
        for place, item in enumerate(_items(schema, least)):
            for value in islice(self.values(item), least + 1):
                if not schema.get("uniqueItems") or value not in made:
                    made.append(value)
                    break
            if len(made) == place:
                return
        yield made

    def _objects(self, schema: Schema) -> Iterator[JsonValue]:
        properties = _object(schema.get("properties", {}))
        other = schema.get("additionalProperties", True)
        fields = {str(name): properties.get(str(name), other) for name in _list(schema.get("required", []))}
        least: dict[str, JsonValue] = {}
        for name, field in fields.items():
            for value in self.values(field):
                least[name] = value
                break
            else:
                return
        yield least
        # Further ones, for a list of different items, differ from the least in one field.
        for name, field in fields.items():
            for value in islice(self.values(field), 1, None):
                yield {**least, name: value}

    def _target(self, reference: str) -> JsonValue:
        """The schema that `reference` names; False, which allows nothing, where it is not a place in the document."""
        found: JsonValue = self.root if reference[:2] in ("#", "#/") else False
        for step in unquote(reference).split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            # A list is a mapping from decimal numbers to its items.
            steps = found if isinstance(found, dict) else {str(place): each for place, each in enumerate(_list(found))}
            found = steps.get(key, False)
        return found

    def _height(self, schema: JsonValue) -> float:
        """How deep the definitions nest in a value of `schema`; infinite while no finite value is known."""
        if not isinstance(schema, dict):
            return math.inf if schema is False else 0
        needed = [0.0]
        if "$ref" in schema:
            needed.append(self._heights.get(str(schema["$ref"]), math.inf))
        needed += [self._height(member) for member in _list(schema.get("allOf", []))]
        needed += [
            min((self._height(member) for member in _list(schema[name])), default=math.inf)
            for name in ("anyOf", "oneOf")
            if name in schema
        ]
        if "const" not in schema and "enum" not in schema:
            properties = _object(schema.get("properties", {}))
            required = [str(name) for name in _list(schema.get("required", []))]
            needed += [self._height(properties[name]) for name in required if name in properties]
            needed += [self._height(item) for item in _items(schema, min(size(schema, "minItems"), 100))]
        return max(needed)


def _references(schema: JsonValue) -> set[str]:
    if isinstance(schema, list):
        return {name for member in schema for name in _references(member)}
    if not isinstance(schema, dict):
        return set()
    own = schema.get("$ref")
    found = {name for value in schema.values() for name in _references(value)}
    return found | {own} if isinstance(own, str) else found


def _merged(schema: Schema, other: JsonValue) -> Schema:
    if not isinstance(other, dict):
        return schema
    both = {**schema, **other}
    if "properties" in schema and "properties" in other:
        both["properties"] = {**_object(schema["properties"]), **_object(other["properties"])}
    if "required" in schema and "required" in other:
        both["required"] = [*_list(schema["required"]), *_list(other["required"])]
    return both


def _kinds(schema: Schema) -> list[JsonValue]:
    kind = schema.get("type")
    if kind is not None:
        return kind if isinstance(kind, list) else [kind]
    if "properties" in schema or "required" in schema:
        return ["object"]
    if "items" in schema or "prefixItems" in schema:
        return ["array"]
    return ["null", "boolean", "integer", "string", "array", "object", "number"]


def _items(schema: Schema, least: int) -> list[JsonValue]:
    first = _list(schema.get("prefixItems", []))[:least]
    return [*first, *[schema.get("items", True)] * (least - len(first))]


def _object(value: JsonValue) -> Schema:
    return value if isinstance(value, dict) else {}


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []
