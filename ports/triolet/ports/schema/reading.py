"""From Python's type annotations to shapes.

Decides which types have a schema: None, bool, int, float, str, `Literal`, `Enum`, unions that JSON can tell apart,
list, tuple, frozenset, `dict[str, T]`, attrs classes (generic and recursive ones too), `NewType`, `Annotated` with
the notes of this package, and `JsonValue`. Everything else is `UnrenderableSchema`, which names the type and the
way to it. Never guesses: a note it does not know is refused, not skipped. (CAP-004, CAP-014)
"""

import enum
import inspect
import math
import types
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NewType, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import attrs

from triolet.ports.errors import UnrenderableSchema, bounded
from triolet.ports.schema.annotations import Alias, Constraint, Description
from triolet.ports.schema.shapes import (
    AnyShape,
    ChoiceShape,
    FieldShape,
    Kind,
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
from triolet.ports.schema.unions import flat, tag_of
from triolet.ports.strict_json import MAX_INTEGER, JsonValue

_SCALARS: dict[object, Kind] = {
    None: "null",
    types.NoneType: "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
}


_EMPTIES: tuple[object, ...] = (list, tuple, dict, frozenset)
_FACTORY: Any = attrs.Factory  # a class, though its stub says function


def read(hint: object) -> Shape:
    """The shape of `hint`. Raises `UnrenderableSchema`."""
    reader = _Reader()
    try:
        shape = reader.read(hint, type_name(hint))
    except RecursionError:
        raise _unrenderable(hint, type_name(hint), "it unfolds into ever new types") from None
    for union, name, place in reader.unions:
        union.tag = tag_of(union.members, name, place)
    return shape


def type_name(hint: object) -> str:
    """A short name of `hint` for people."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Union or origin is types.UnionType:
        return " | ".join(type_name(argument) for argument in arguments)
    if isinstance(origin, type) and arguments:
        return f"{type_name(origin)}[{', '.join(type_name(argument) for argument in arguments)}]"
    if hint is Ellipsis:
        return "..."
    if hint is types.NoneType:
        return "None"
    if isinstance(hint, type):
        return hint.__qualname__.rpartition("<locals>.")[2]
    if isinstance(hint, NewType | TypeVar):
        return hint.__name__
    return bounded(repr(hint).replace("typing.", ""))


@attrs.frozen
class _Reader:
    # Objects by type, so that a recursive type becomes a cycle.
    objects: dict[object, ObjectShape] = attrs.field(factory=dict[object, ObjectShape])
    # What the type variables of the generic class being read stand for.
    scope: Mapping[object, object] = attrs.field(factory=dict[object, object])
    # The unions with their names and places: whether they can be told apart is known when all fields are.
    unions: list[tuple[UnionShape, str, str]] = attrs.field(factory=list[tuple[UnionShape, str, str]])

    def read(self, hint: Any, place: str) -> Shape:
        if isinstance(hint, TypeVar):
            if hint not in self.scope:
                raise _unrenderable(hint, place, "nothing says what this type variable stands for")
            return self.read(self.scope[hint], place)
        if isinstance(hint, NewType):
            return self.read(hint.__supertype__, place)
        if hint is JsonValue:
            return AnyShape()
        origin, arguments = get_origin(hint), get_args(hint)
        if origin is None:
            return self._plain(hint, place)
        if origin is Annotated:
            return self._annotated(arguments[0], arguments[1:], place)
        if origin is Literal:
            return _literal(hint, arguments, place)
        if origin is Union or origin is types.UnionType:
            return self._union(flat(self.read(argument, place) for argument in arguments), hint, place)
        return self._generic(hint, origin, arguments, place)

    def _plain(self, hint: Any, place: str) -> Shape:
        if hint is None or (isinstance(hint, type) and hint in _SCALARS):
            return ScalarShape(kind=_SCALARS[hint])
        if hint in (list, tuple, dict, frozenset):
            raise _unrenderable(hint, place, "what is in it is not said (JsonValue stands for any JSON)")
        if isinstance(hint, type) and issubclass(hint, enum.Enum):
            return _enumeration(hint, place)
        if isinstance(hint, type) and attrs.has(cast(type[object], hint)):
            return self._object(hint, cast(type[attrs.AttrsInstance], hint), place)
        raise _unrenderable(hint, place, "not a type that JSON has a form for")

    def _generic(self, hint: Any, origin: Any, arguments: tuple[Any, ...], place: str) -> Shape:
        if not arguments and hint != tuple[()]:
            raise _unrenderable(hint, place, "what is in it is not said (JsonValue stands for any JSON)")
        if origin is list or origin is frozenset:
            item = self.read(arguments[0], place + "[]")
            if origin is frozenset and not _hashable(bare(item)):
                raise _unrenderable(
                    hint, place, "a frozenset holds str, int, or Literal or Enum values of one type only"
                )
            return ListShape(item=item, container=origin)
        if origin is tuple:
            if len(arguments) == 2 and arguments[1] is Ellipsis:
                return ListShape(item=self.read(arguments[0], place + "[]"), container=tuple)
            items = (self.read(argument, f"{place}[{i}]") for i, argument in enumerate(arguments))
            return TupleShape(items=tuple(items))
        if origin is dict:
            key = arguments[0]
            while isinstance(key, NewType):
                key = key.__supertype__
            if key is not str:
                raise _unrenderable(hint, place, "JSON objects have str keys only")
            return MapShape(value=self.read(arguments[1], place + "{}"))
        if isinstance(origin, type) and attrs.has(origin):
            return self._object(hint, origin, place)
        raise _unrenderable(hint, place, "not a type that JSON has a form for")

    def _annotated(self, hint: Any, notes: tuple[Any, ...], place: str) -> Shape:
        shape = self.read(hint, place)
        description: dict[str, JsonValue] = {}
        for note in notes:
            match note:
                case Constraint():
                    shape = self._constrained(shape, note, hint, place)
                case Description(text):
                    description = {"description": text}
                case Alias():
                    raise _unrenderable(hint, place, "Alias belongs into the outermost Annotated of a field")
                case _:
                    raise _unrenderable(note, place, "an unknown note in Annotated")
        return NotedShape(inner=shape, keywords=description) if description else shape

    def _union(self, members: tuple[Shape, ...], hint: object, place: str) -> UnionShape:
        union = UnionShape(members=members)
        self.unions.append((union, type_name(hint), place))
        return union

    def _constrained(self, shape: Shape, note: Constraint, hint: object, place: str) -> Shape:
        """`shape` with `note` on every part of it that `note` fits; there must be one."""
        if isinstance(shape, UnionShape) and any(_fits(note, member) for member in shape.members):
            members = (
                self._constrained(member, note, hint, place) if _fits(note, member) else member
                for member in shape.members
            )
            return self._union(tuple(members), hint, place)
        if not _fits(note, shape):
            raise _unrenderable(hint, place, f"{type(note).__name__} does not apply to it")
        if isinstance(note.value, float) and not math.isfinite(note.value):
            raise _unrenderable(hint, place, f"{type(note).__name__} needs a finite number")
        keywords: dict[str, JsonValue] = {note.keyword: note.value}
        if isinstance(shape, NotedShape):
            return NotedShape(inner=shape.inner, keywords={**shape.keywords, **keywords})
        return NotedShape(inner=shape, keywords=keywords)

    def _object(self, hint: Any, cls: type[attrs.AttrsInstance], place: str) -> ObjectShape:
        scope: Mapping[object, object] = {}
        if cls is not hint:
            if all(variable in self.scope for variable in hint.__parameters__) and hint.__parameters__:
                hint = hint[tuple(self.scope[variable] for variable in hint.__parameters__)]
            scope = dict(zip(cast(Any, cls).__parameters__, get_args(hint), strict=True))
        if hint in self.objects:
            return self.objects[hint]
        try:
            # Not attrs.resolve_types: it changes the class, and keeps what somebody resolved without the notes.
            hints = get_type_hints(cls, include_extras=True)
        except (NameError, SyntaxError, TypeError) as error:
            reason = f"its annotations cannot be resolved ({getattr(error, 'name', None) or type(error).__name__})"
            raise _unrenderable(hint, place, reason) from None
        shape = ObjectShape(cls=cls, name=type_name(hint), description=inspect.cleandoc(cls.__doc__ or ""))
        self.objects[hint] = shape
        reader = attrs.evolve(self, scope=scope)
        shape.fields = tuple(
            reader.field(field, hints.get(field.name, field.type), place) for field in attrs.fields(cls) if field.init
        )
        names = [field.json_name for field in shape.fields]
        for name in names:
            if names.count(name) > 1:
                raise _unrenderable(hint, place, f"two of its fields are named {name} in JSON")
        return shape

    def field(self, field: "attrs.Attribute[Any]", hint: Any, place: str) -> FieldShape:
        """The shape of one attrs field that is annotated with `hint`."""
        place = f"{place}.{field.name}"
        if hint is None:
            raise _unrenderable(hint, place, "the field has no annotation")
        alias, hint = _without_alias(hint)
        shape = self.read(hint, place)
        parameter = field.alias or field.name
        one_valued = isinstance(choice := bare(shape), ChoiceShape) and len(choice.members) == 1
        default: Any = field.default
        if isinstance(default, _FACTORY):
            empty = default.factory
            default = empty() if empty in _EMPTIES else attrs.NOTHING
        return FieldShape(
            attribute=field.name,
            parameter=parameter,
            json_name=alias.name if alias else parameter,
            shape=shape,
            # The default of a one-valued field spares Python authors the typing; in JSON it is what tells types apart.
            required=field.default is attrs.NOTHING or one_valued,
            default=attrs.NOTHING if one_valued else default,
        )


def _without_alias(hint: Any) -> tuple[Alias | None, Any]:
    if get_origin(hint) is not Annotated:
        return None, hint
    inner, *notes = get_args(hint)
    others = tuple(note for note in notes if not isinstance(note, Alias))
    alias = next((note for note in notes if isinstance(note, Alias)), None)
    return alias, Annotated[(inner, *others)] if others else inner


def _literal(hint: object, values: tuple[Any, ...], place: str) -> ChoiceShape:
    for value in values:
        if type(value) not in (str, int, bool, types.NoneType):
            raise _unrenderable(hint, place, f"a Literal of type {type(value).__name__}")
        if type(value) is int and abs(value) > MAX_INTEGER:
            raise _unrenderable(hint, place, "an integer of 2^53 or more")
    return ChoiceShape(members=tuple((value, value) for value in values))


def _enumeration(hint: type[enum.Enum], place: str) -> ChoiceShape:
    members = tuple((member.value, member) for member in hint)
    kinds: set[object] = {type(value) for value, _ in members}
    if kinds not in ({str}, {int}) or issubclass(hint, enum.Flag):
        raise _unrenderable(hint, place, "the members of an Enum must be all str or all int")
    return ChoiceShape(members=members, enum_class=hint)


def _hashable(shape: Shape) -> bool:
    # 1 and True are two values in JSON and one in a Python set.
    if isinstance(shape, ChoiceShape):
        return shape.enum_class is not None or len({type(value) for value, _ in shape.members}) == 1
    return isinstance(shape, ScalarShape) and shape.kind in ("string", "integer")


def _json_type(shape: Shape) -> str:
    match bare(shape):
        case ScalarShape(kind=kind):
            return kind
        case ListShape():
            return "array"
        case _:
            return ""


def _fits(note: Constraint, shape: Shape) -> bool:
    return _json_type(shape) in note.applies_to


def _unrenderable(hint: object, place: str, reason: str) -> UnrenderableSchema:
    return UnrenderableSchema(type_name=type_name(hint), place=place, reason=reason)
