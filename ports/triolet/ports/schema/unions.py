"""Which unions JSON can tell apart.

Decides, when a codec is made, that for every JSON value at most one member of a union can be meant, or that the
members decode it to the same thing. Objects are told apart by a tag: a field that all of them have and require,
whose `Literal` values differ. What cannot be told apart is `UnrenderableSchema`; no codec ever tries members until
one fits. (CAP-004)
"""

from collections.abc import Iterable, Sequence
from itertools import combinations

from triolet.ports.errors import UnrenderableSchema
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
)


def flat(members: Iterable[Shape]) -> tuple[Shape, ...]:
    """`members` with the members of inner unions in their place, in order."""
    found: list[Shape] = []
    for member in members:
        inner = bare(member)
        if isinstance(inner, UnionShape):
            # A note on a whole union says something about each of its members.
            found.extend(inner.members if member is inner else (_noted(part, member) for part in inner.members))
        else:
            found.append(member)
    return tuple(found)


def tag_of(members: Sequence[Shape], name: str, place: str) -> str | None:
    """The JSON name of the tag of the objects among `members`, or None if they need none.

    The fields of all of them must be known. Raises `UnrenderableSchema` if two members cannot be told apart.
    """
    for one, other in combinations([bare(member) for member in members], 2):
        if reason := _confusable(one, other):
            raise UnrenderableSchema(type_name=name, place=place, reason=reason)
    objects = [shape for member in members if isinstance(shape := bare(member), ObjectShape)]
    if len(objects) < 2:
        return None
    for field in objects[0].fields:
        if _tells_apart(field.json_name, objects):
            return field.json_name
    reason = "its classes share no required Literal field whose values tell them apart"
    raise UnrenderableSchema(type_name=name, place=place, reason=reason)


def tags(shape: ObjectShape, tag: str) -> list[str]:
    """The values of the field `tag` that mean this object; empty if the field cannot serve as a tag."""
    for field in shape.fields:
        choice = bare(field.shape)
        if field.json_name == tag and field.required and isinstance(choice, ChoiceShape):
            values = [value for value, _ in choice.members if isinstance(value, str)]
            return values if len(values) == len(choice.members) else []
    return []


def _noted(part: Shape, union: Shape) -> Shape:
    return NotedShape(inner=part, keywords=union.keywords) if isinstance(union, NotedShape) else part


def _tells_apart(tag: str, objects: Sequence[ObjectShape]) -> bool:
    values = [tags(shape, tag) for shape in objects]
    every = [value for some in values for value in some]
    return all(values) and len(every) == len(set(every))


def _confusable(one: Shape, other: Shape) -> str | None:
    """Why JSON cannot tell the two apart, or None."""
    if isinstance(one, AnyShape) or isinstance(other, AnyShape):
        return "JsonValue includes every other member"
    scalars = (ScalarShape, ChoiceShape)
    if isinstance(one, scalars) and isinstance(other, scalars):
        return _confusable_scalars(one, other)
    arrays = (ListShape, TupleShape)
    if isinstance(one, arrays) and isinstance(other, arrays):
        return "two members are arrays"
    if isinstance(one, MapShape | ObjectShape) and isinstance(other, MapShape | ObjectShape):
        if isinstance(one, ObjectShape) and isinstance(other, ObjectShape):
            return None  # the tag's business
        return "dict and another object cannot be told apart"
    return None


def _confusable_scalars(one: ScalarShape | ChoiceShape, other: ScalarShape | ChoiceShape) -> str | None:
    kinds, others = _kinds(one), _kinds(other)
    if ("number" in kinds and "integer" in others) or ("integer" in kinds and "number" in others):
        return "an integer is a number too (use float alone)"
    if not (_is_enum(one) or _is_enum(other)):
        return None  # both decode to the plain value
    if isinstance(one, ChoiceShape) and isinstance(other, ChoiceShape):
        values = {(type(value), value) for value, _ in one.members}
        shared = values & {(type(value), value) for value, _ in other.members}
        return "two Enum or Literal members share a value" if shared else None
    return "an Enum and its plain type cannot be told apart" if kinds & others else None


def _is_enum(shape: ScalarShape | ChoiceShape) -> bool:
    return isinstance(shape, ChoiceShape) and shape.enum_class is not None


def _kinds(shape: ScalarShape | ChoiceShape) -> set[str]:
    if isinstance(shape, ScalarShape):
        return {shape.kind}
    names = {str: "string", int: "integer", bool: "boolean", type(None): "null"}
    return {names[type(value)] for value, _ in shape.members}
