"""Classes and questions that the tests of schemas share."""

from __future__ import annotations

import enum
import json
from typing import Annotated, Any, Generic, Literal, NewType, Optional, TypeVar

import attrs
import pytest

from triolet.ports.errors import InvalidValue
from triolet.ports.schema import (
    Alias,
    Codec,
    Description,
    Ge,
    Le,
    MinLength,
    Pattern,
)
from triolet.ports.strict_json import JsonValue

T = TypeVar("T")


City = NewType("City", str)


new_type: Any = NewType  # at run time it takes Annotated too


Percent = new_type("Percent", Annotated[int, Ge(0), Le(100)])


class Unit(enum.Enum):
    CELSIUS = "c"
    KELVIN = "k"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@attrs.frozen(kw_only=True)
class Weather:
    """Asks for the weather.

    As it is now.
    """

    city: Annotated[City, Description("a place"), MinLength(1)]
    unit: Unit = Unit.CELSIUS
    days: Annotated[int, Ge(1), Le(14)] = 1


@attrs.frozen(kw_only=True)
class Leaf:
    kind: Literal["leaf"] = "leaf"
    size: int


@attrs.frozen(kw_only=True)
class Branch:
    kind: Literal["branch"] = "branch"
    children: tuple[Leaf | Branch, ...] = ()


@attrs.frozen
class Everything:
    nothing: None
    flag: bool
    count: int
    ratio: float
    text: str
    unit: Unit
    level: Level
    mode: Literal["auto", "manual", 7, True]
    maybe: Weather | None
    many: list[int]
    fixed: tuple[int, str]
    empty: tuple[()]
    named: dict[City, list[float]]
    several: frozenset[str]
    tree: Leaf | Branch
    free: JsonValue
    either: Optional[int | list[str] | dict[str, int]]  # noqa: UP045  # the older spelling too
    sender: Annotated[str, Alias("from"), Pattern("^[a-z]+$")]
    _hidden: int = 0
    made: list[int] = attrs.field(factory=list)
    computed: int = attrs.field(init=False, default=1)


EVERYTHING = Everything(
    nothing=None,
    flag=True,
    count=3,
    ratio=2.5,
    text="é",
    unit=Unit.KELVIN,
    level=Level.HIGH,
    mode=7,
    maybe=Weather(city=City("Oslo")),
    many=[1, 2],
    fixed=(1, "x"),
    empty=(),
    named={City("a"): [1.0, 0.5]},
    several=frozenset({"b", "a"}),
    tree=Branch(children=(Leaf(size=1), Branch())),
    free={"a": [1, None, {"b": 0.5}]},
    either=["x"],
    sender="me",
)


def places(codec: Codec[Any], document: Any) -> dict[str, str]:
    """What the codec says of a document, both from a value and from a text."""
    with pytest.raises(InvalidValue) as caught:
        codec.decode(document)
    with pytest.raises(InvalidValue) as again:
        codec.decode_text(json.dumps(document))
    assert again.value.violations == caught.value.violations
    return dict(caught.value.violations)


def refused(codec: Codec[Any], value: Any) -> tuple[str, str]:
    """What the codec says of a Python value."""
    with pytest.raises(InvalidValue) as caught:
        codec.encode(value)
    with pytest.raises(InvalidValue):
        codec.encode_text(value)
    ((place, problem),) = caught.value.violations
    return place, problem


@attrs.frozen
class Page(Generic[T]):
    items: tuple[T, ...]
    first: T | None = None
