"""From shapes to JSON Schema 2020-12.

Decides how a shape is written so that validators, providers and grammar engines all understand it: objects refuse
unknown fields; unions are `anyOf`; a class that is used more than once or recursively stands in `$defs` under its
name and is referred to as ``#/$defs/Name``, every other class stands where it is used. The outermost object is
always written out, so the schema's root says ``"type": "object"``, and every reference survives being moved with
`$defs`. (CAP-004, RUN-028)
"""

from collections import Counter
from contextlib import suppress

import attrs

from triolet.ports.schema.encoding import Encoders
from triolet.ports.schema.misfit import Misfit
from triolet.ports.schema.shapes import (
    AnyShape,
    ChoiceShape,
    ListShape,
    MapShape,
    NotedShape,
    ObjectShape,
    ScalarShape,
    Shape,
    TupleShape,
    UnionShape,
    bare,
    children,
    reachable,
)
from triolet.ports.strict_json import JsonValue

_TYPES = {str: "string", int: "integer", bool: "boolean", type(None): "null"}


def render(root: Shape) -> dict[str, JsonValue]:
    """The JSON Schema of `root`. The same shape always gives the same schema, in the order of its declarations."""
    shapes = list(reachable(root))
    uses = Counter(id(child) for shape in shapes for child in children(shape) if isinstance(child, ObjectShape))
    # The outermost object is written out in any case, so it needs a name only if something inside refers to it.
    free = 0 if isinstance(root, ObjectShape) else 1
    shared = [
        shape
        for shape in shapes
        if isinstance(shape, ObjectShape) and uses[id(shape)] > (free if shape is bare(root) else 1)
    ]
    renderer = _Renderer(names=_names(shared))
    schema = renderer.render(root)
    if isinstance(top := bare(root), ObjectShape):
        schema = {**renderer.written_out(top), **(root.keywords if isinstance(root, NotedShape) else {})}
    if shared:
        schema["$defs"] = {renderer.names[id(shape)]: renderer.written_out(shape) for shape in shared}
    return schema


def _names(shapes: list[ObjectShape]) -> dict[int, str]:
    names: dict[int, str] = {}
    for shape in shapes:
        plain = "".join(letter if letter.isalnum() else "_" for letter in shape.name).strip("_")
        name, count = plain, 1
        while name in names.values():
            count += 1
            name = f"{plain}_{count}"
        names[id(shape)] = name
    return names


@attrs.frozen
class _Renderer:
    names: dict[int, str]
    encoders: Encoders = attrs.field(factory=Encoders)

    def render(self, shape: Shape) -> dict[str, JsonValue]:
        match shape:
            case ScalarShape():
                return {"type": shape.kind}
            case ChoiceShape():
                return _choice(shape)
            case ListShape():
                schema: dict[str, JsonValue] = {"type": "array", "items": self.render(shape.item)}
                return {**schema, "uniqueItems": True} if shape.container is frozenset else schema
            case TupleShape():
                return self._tuple(shape)
            case MapShape():
                return {"type": "object", "additionalProperties": self.render(shape.value)}
            case UnionShape():
                return {"anyOf": [self.render(member) for member in shape.members]}
            case AnyShape():
                return {}
            case NotedShape():
                return {**self.render(shape.inner), **shape.keywords}
            case ObjectShape():
                name = self.names.get(id(shape))
                return {"$ref": f"#/$defs/{name}"} if name else self.written_out(shape)

    def written_out(self, shape: ObjectShape) -> dict[str, JsonValue]:
        """The schema of an object, even if it also has a name."""
        properties: dict[str, JsonValue] = {}
        written: dict[str, JsonValue] = {"type": "object"}
        if shape.description:
            written["description"] = shape.description
        written["properties"] = properties
        for field in shape.fields:
            schema = self.render(field.shape)
            if field.default is not attrs.NOTHING:
                # A default that only a converter turns into a value of the type has no form in JSON.
                with suppress(Misfit):
                    schema["default"] = self.encoders.of(field.shape)(field.default)
            properties[field.json_name] = schema
        required: list[JsonValue] = [field.json_name for field in shape.fields if field.required]
        if required:
            written["required"] = required
        written["additionalProperties"] = False
        return written

    def _tuple(self, shape: TupleShape) -> dict[str, JsonValue]:
        count = len(shape.items)
        schema: dict[str, JsonValue] = {"type": "array", "minItems": count, "maxItems": count}
        if count:
            schema["prefixItems"] = [self.render(item) for item in shape.items]
        return schema


def _choice(shape: ChoiceShape) -> dict[str, JsonValue]:
    kinds = {_TYPES[type(value)] for value, _ in shape.members}
    values: list[JsonValue] = [value for value, _ in shape.members]
    schema: dict[str, JsonValue] = {"type": kinds.pop()} if len(kinds) == 1 else {}
    return {**schema, "const": values[0]} if len(values) == 1 else {**schema, "enum": values}
