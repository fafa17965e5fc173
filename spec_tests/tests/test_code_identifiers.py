"""Tools' names as identifiers, and their schemas as TypeScript."""

import itertools
import random
import re
from typing import Annotated, Any, Literal

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triolet.kernel import NameCollision
from triolet.kernel.programs.declarations import MAX_TYPE, comment, type_of
from triolet.kernel.programs.identifiers import RESERVED, identifiers
from triolet.ports.errors import UnrenderableSchema
from triolet.ports.schema import Description, codec_for, raw_codec
from triolet.ports.strict_json import JsonValue

ODD = [
    "list-issues",
    "list_issues",
    "list.issues",
    "class",
    "await",
    "constructor",
    "__proto__",
    "console",
    "1st",
    "naïve",
    "\N{ROCKET}",
    "then",
    "toJSON",
]
PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}\Z")


def test_f046_names_become_identifiers_one_to_one_in_any_order() -> None:
    first = identifiers(ODD)
    assert len(set(first.values())) == len(ODD)
    assert first["list_issues"] == "list_issues"
    assert {first["class"], first["await"], first["console"]} == {"class_", "await_", "console_"}
    assert all(PLAIN.match(name) and name not in RESERVED for name in first.values())
    shuffler = random.Random(46)
    for _ in range(200):
        shuffled = shuffler.sample(ODD, len(ODD))
        assert identifiers(shuffled) == first


def test_f046_an_identifier_does_not_depend_on_what_comes_first() -> None:
    for order in itertools.permutations(["a-b", "a.b", "a b"]):
        mapped = identifiers(order)
        assert len(set(mapped.values())) == 3
        assert mapped == identifiers(["a-b", "a.b", "a b"])


def test_f046_what_would_collide_in_spite_of_its_suffix_is_refused() -> None:
    taken = identifiers(["a-b", "a.b"])["a-b"]
    with pytest.raises(NameCollision, match="would both be"):
        identifiers(["a-b", "a.b", taken])
    with pytest.raises(NameCollision):
        identifiers(["a", "a"])
    with pytest.raises(ValueError, match="empty"):
        identifiers([""])


@given(st.sets(st.text(min_size=1, max_size=120), max_size=12), st.randoms(use_true_random=False))
def test_f046_any_names(names: set[str], shuffler: random.Random) -> None:
    listed = sorted(names)
    try:
        mapped = identifiers(listed)
    except NameCollision:
        return
    assert len(set(mapped.values())) == len(names)
    assert all(PLAIN.match(name) and name not in RESERVED for name in mapped.values())
    shuffler.shuffle(listed)
    assert identifiers(listed) == mapped


@attrs.frozen(kw_only=True)
class Leaf:
    """A leaf."""

    text: Annotated[str, Description("What it says. */ Not the end.")]
    kind: Literal["a", "b"] = "a"


@attrs.frozen(kw_only=True)
class Tree:
    """A tree."""

    leaves: tuple[Leaf, ...]
    pair: tuple[int, float]
    branches: "tuple[Tree, ...]" = ()
    more: dict[str, bool] = attrs.field(factory=dict)
    any: JsonValue = None


def test_types_are_those_of_the_encoded_side() -> None:
    rendered, named = type_of(codec_for(Tree), "t")
    assert rendered.startswith("{ leaves: Array<{")
    assert '/** What it says. * / Not the end. */ text: string; kind?: "a" | "b"' in rendered
    assert "pair: [number, number]" in rendered
    assert "branches?: t_Tree[]" in rendered
    assert "more?: Record<string, boolean>; any?: unknown" in rendered
    assert [line.split(" = ")[0] for line in named] == ["type t_Tree"]


SAID: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "unknown"),
    "union": ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string | null"),
    "types": ({"type": ["string", "null"]}, "string | null"),
    "enum": ({"enum": [1, "a", None, True]}, '1 | "a" | null | true'),
    "closed": ({"type": "object", "additionalProperties": False}, "Record<string, never>"),
    "open": ({"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": True},
             "{ a?: number; [key: string]: unknown }"),
    "odd key": ({"type": "object", "properties": {"a-b": {}}, "required": ["a-b"], "additionalProperties": False},
                '{ "a-b": unknown }'),
    "array": ({"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "number"}]}},
              "Array<string | number>"),
    "narrowed": ({"type": "string", "pattern": "^a", "maxLength": 3, "format": "date"}, "string"),
}  # fmt: skip


@pytest.mark.parametrize("name", SAID)
def test_json_schemas_are_said(name: str) -> None:
    schema, expected = SAID[name]
    assert type_of(raw_codec(schema, "t"), "t") == (expected, [])


UNSAID: dict[str, dict[str, Any]] = {
    "pattern properties": {"type": "object", "patternProperties": {"^a": {}}},
    "not": {"not": {"type": "string"}},
    "if": {"if": {"type": "string"}, "then": {"minLength": 1}},
    "all": {"allOf": [{"type": "string"}]},
    "two statements": {"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
    "names": {"type": "object", "propertyNames": {"minLength": 2}},
    "deep": {"type": "object", "properties": {"a": {"contains": {}}}},
}


@pytest.mark.parametrize("name", UNSAID)
def test_cap_014_what_cannot_be_said_is_refused(name: str) -> None:
    with pytest.raises(UnrenderableSchema, match="no schema for t at t"):
        type_of(raw_codec(UNSAID[name], "t"), "t")


def test_cap_014_a_declaration_is_bounded() -> None:
    wide: dict[str, Any] = {"type": "object", "properties": {f"name_{n}": {"type": "string"} for n in range(2_000)}}
    with pytest.raises(UnrenderableSchema, match=str(MAX_TYPE)):
        type_of(raw_codec(wide, "t"), "t")


def test_no_text_ends_a_comment() -> None:
    assert comment("a */ b") == "/** a * / b */\n"
    assert comment("a\nb", "  ") == "  /**\n   * a\n   * b\n   */\n"
    assert comment("") == ""
