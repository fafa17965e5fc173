"""Makes the golden vectors of schema rendering: `vectors/schemas.json`.

Decides the types, and which documents each has to accept and refuse. The schemas are what this project renders; the
verdicts are written down here by hand, and the codec is held to them. Run as
``python -m triolet.spec_tests.schema_vectors`` to write the file anew. (CAP-004, RUN-028)
"""

import enum
import json
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Optional

import attrs

from triolet.ports.schema import (
    Alias,
    Description,
    Ge,
    Gt,
    Le,
    Lt,
    MaxItems,
    MaxLength,
    MinItems,
    MinLength,
    MultipleOf,
    Pattern,
    codec_for,
)
from triolet.ports.strict_json import JsonValue

PATH: Final = Path(__file__).parent / "vectors" / "schemas.json"


class Colour(enum.Enum):
    """Some colours."""

    RED = "red"
    BLUE = "blue"


@attrs.frozen(kw_only=True)
class Point:
    """A point."""

    x: int
    y: int = 0


@attrs.frozen(kw_only=True)
class Line:
    """Two points: a class that is used twice stands in $defs."""

    start: Point
    end: Point


@attrs.frozen(kw_only=True)
class Tree:
    """A class that holds itself."""

    name: str
    children: tuple["Tree", ...] = ()


@attrs.frozen(kw_only=True)
class Bounded:
    """Every constraint."""

    count: Annotated[int, Ge(1), Le(9)]
    share: Annotated[float, Gt(0), Lt(1)]
    even: Annotated[int, MultipleOf(2)]
    code: Annotated[str, MinLength(2), MaxLength(4), Pattern("^[a-z]+$")]
    tags: Annotated[tuple[str, ...], MinItems(1), MaxItems(2)]


@attrs.frozen(kw_only=True)
class Named:
    """A field that JSON calls otherwise, and one that is described."""

    sender: Annotated[str, Alias("from"), Description("who sent it")]
    urgent: bool = False


@attrs.frozen(kw_only=True)
class Cat:
    """One of two kinds."""

    kind: Literal["cat"] = "cat"
    lives: int


@attrs.frozen(kw_only=True)
class Dog:
    """The other kind."""

    kind: Literal["dog"] = "dog"
    name: str


_TYPES: Final[tuple[tuple[str, Any, tuple[JsonValue, ...], tuple[JsonValue, ...]], ...]] = (
    ("text", str, ("", "é"), (1, None, ["a"])),
    ("an integer", int, (0, -5), ("5", True, 1.5, None)),
    ("a number", float, (0.5, 1, -2), ("0.5", True)),
    ("a flag", bool, (True, False), (0, "true")),
    ("nothing", type(None), (None,), (0, "")),
    ("one of some words", Literal["a", "b"], ("a",), ("c", 1)),
    ("an enumeration", Colour, ("red",), ("RED", "green")),
    ("text or nothing", Optional[str], ("a", None), (1,)),  # noqa: UP045 -- both spellings are promised
    ("text or a number", str | int, ("a", 1), (1.5, None)),
    ("a list", tuple[int, ...], ([], [1, 2]), (["1"], {}, 1)),
    ("a fixed list", tuple[int, str], ([1, "a"],), ([1], [1, "a", 2], ["a", 1])),
    ("a set", frozenset[int], ([], [1, 2]), ([1, 1],)),
    ("a map", dict[str, int], ({}, {"a": 1}), ({"a": "1"}, [])),
    ("an object", Point, ({"x": 1}, {"x": 1, "y": 2}), ({}, {"x": "1"}, {"x": 1, "z": 1}, [])),
    ("a class used twice", Line, ({"start": {"x": 1}, "end": {"x": 2}},), ({"start": {"x": 1}},)),
    ("a recursive class", Tree, ({"name": "a", "children": [{"name": "b"}]},), ({"name": "a", "children": [{}]},)),
    (
        "every constraint",
        Bounded,
        ({"count": 1, "share": 0.5, "even": 2, "code": "ab", "tags": ["a"]},),
        (
            {"count": 0, "share": 0.5, "even": 2, "code": "ab", "tags": ["a"]},
            {"count": 1, "share": 1, "even": 2, "code": "ab", "tags": ["a"]},
            {"count": 1, "share": 0.5, "even": 3, "code": "ab", "tags": ["a"]},
            {"count": 1, "share": 0.5, "even": 2, "code": "AB", "tags": ["a"]},
            {"count": 1, "share": 0.5, "even": 2, "code": "ab", "tags": []},
        ),
    ),
    ("names in JSON", Named, ({"from": "ann"}, {"from": "ann", "urgent": True}), ({"sender": "ann"}, {})),
    ("a tagged union", Cat | Dog, ({"kind": "cat", "lives": 9}, {"kind": "dog", "name": "Rex"}), ({"kind": "cow"},)),
)

_NOTES: Final = [
    "type: what the schema is of, in words; the schema is JSON Schema 2020-12.",
    "accepted: documents, each with the canonical text that it comes back as, defaults filled in.",
    "refused: documents that the schema refuses; nothing is coerced.",
]


def build() -> dict[str, Any]:
    """The content of the file."""
    vectors: list[dict[str, Any]] = []
    for name, kind, accepted, refused in _TYPES:
        codec = codec_for(kind)
        vectors.append(
            {
                "type": name,
                "schema": codec.schema,
                "accepted": [
                    {"document": document, "canonical": codec.encode_text(codec.decode(document))}
                    for document in accepted
                ],
                "refused": list(refused),
            }
        )
    return {"notes": _NOTES, "schemas": vectors}


def types() -> dict[str, Any]:
    """The type that each vector is of, by its name."""
    return {name: kind for name, kind, _, _ in _TYPES}


def rendered() -> str:
    """The file's text."""
    return json.dumps(build(), indent=1, ensure_ascii=True) + "\n"


if __name__ == "__main__":
    PATH.write_text(rendered(), encoding="ascii")
