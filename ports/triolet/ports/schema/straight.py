"""Straight encoders: for objects whose fields need no refusal, one piece of code without a loop.

Decides nothing about what is refused: a value that is not plainly right goes to the encoder that says what is wrong
with it, so both give the same for every value. Records are encoded at each commit, field by field, and most of their
fields are short texts, small integers and None; the code is written out as attrs writes an `__init__`. (CAP-004)
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from triolet.ports.schema.misfit import Misfit
from triolet.ports.schema.shapes import ScalarShape, Shape, UnionShape, bare
from triolet.ports.strict_json import MAX_INTEGER, JsonValue

Encoder = Callable[[Any], JsonValue]


class Field(NamedTuple):
    """A field: its name in JSON, its attribute, its shape, and what encodes it."""

    key: str
    attribute: str
    shape: Shape
    encode: Encoder


def straight(cls: type[Any], fields: Sequence[Field], exact: Encoder) -> Encoder:
    """An encoder of `cls` that gives what `exact` gives."""
    names: dict[str, Any] = {"cls": cls, "exact": exact, "Misfit": Misfit, "least": -MAX_INTEGER, "most": MAX_INTEGER}
    code = ["def encode(value):", " if type(value) is cls:", "  try:"]
    for place, field in enumerate(fields):
        names[f"encode{place}"] = field.encode
        code.append(f"   v{place} = value.{field.attribute}")
        code.append(f"   if {_doubt(field.shape).format(v=f'v{place}')}: v{place} = encode{place}(v{place})")
    pairs = ", ".join(f"{field.key!r}: v{place}" for place, field in enumerate(fields))
    code += [f"   return {{{pairs}}}", "  except Misfit: pass", " return exact(value)"]
    exec("\n".join(code), names)
    made: Encoder = names["encode"]
    return made


def _doubt(shape: Shape) -> str:
    """When a value of this shape is not its own JSON."""
    match bare(shape):
        case ScalarShape(kind="string"):
            return "type({v}) is not str or not {v}.isascii()"
        case ScalarShape(kind="integer"):
            return "type({v}) is not int or not least <= {v} <= most"
        case ScalarShape(kind="boolean"):
            return "{v} is not True and {v} is not False"
        case UnionShape(members=members) if any(_is_null(member) for member in members):
            return "{v} is not None"
        case _:
            return "True"


def _is_null(shape: Shape) -> bool:
    inner = bare(shape)
    return isinstance(inner, ScalarShape) and inner.kind == "null"
