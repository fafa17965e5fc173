"""The error family: five answers to "what now?", bounded messages without values, and pickling for every error."""

import copy
import importlib
import pickle
import pkgutil
from collections.abc import Iterator
from typing import Any

import attrs
import pytest

import triolet.ports
from triolet.ports.errors import (
    MAX_VIOLATIONS,
    BrokenText,
    Conflict,
    Corrupt,
    Fenced,
    InvalidJson,
    InvalidValue,
    Misuse,
    TrioletError,
    Unavailable,
    UnrenderableSchema,
)

FAMILIES = (Conflict, Fenced, Unavailable, Corrupt, Misuse)

EXAMPLES = [
    BrokenText(place="run.input", index=3, problem="a lone surrogate"),
    InvalidJson(problem="a duplicate key", pointer="/a/0"),
    InvalidJson(problem="a lone surrogate", offset=12),
    InvalidJson(problem="malformed"),
    InvalidValue(subject="Weather", violations=(("/city", "is missing"), ("", "must be object, not array"))),
    UnrenderableSchema(type_name="set[int]", place="Weather.days", reason="not a type that JSON has a form for"),
]


def every_error() -> Iterator[type[TrioletError]]:
    """Every error class that the ports define, families included."""
    for module in pkgutil.walk_packages(triolet.ports.__path__, "triolet.ports."):
        importlib.import_module(module.name)
    waiting: list[type[TrioletError]] = [TrioletError]
    while waiting:
        kind = waiting.pop()
        waiting.extend(kind.__subclasses__())
        if kind.__module__.startswith("triolet.ports."):
            yield kind


# attrs makes each slotted class twice; only the second carries its fields and is what the module's name means.
EVERY_ERROR = sorted(
    {kind for kind in every_error() if getattr(importlib.import_module(kind.__module__), kind.__name__, None) is kind},
    key=lambda kind: (kind.__module__, kind.__qualname__),
)


def filled(kind: type[TrioletError]) -> TrioletError:
    """An error with a marker in every field, made without its constructor: types do not matter to pickling."""
    error = kind.__new__(kind)
    for field in attrs.fields(kind):
        object.__setattr__(error, field.name, f"marker {field.name}")
    return error


def facts(error: TrioletError) -> dict[str, Any]:
    return {field.name: getattr(error, field.name) for field in attrs.fields(type(error))}


def test_there_are_errors_to_look_at() -> None:
    assert {*FAMILIES, BrokenText, InvalidJson, InvalidValue, UnrenderableSchema} <= set(EVERY_ERROR)


@pytest.mark.parametrize("kind", EVERY_ERROR, ids=lambda kind: kind.__name__)
def test_every_error_pickles_and_copies(kind: type[TrioletError]) -> None:
    error = filled(kind)
    error.add_note("seen on the way")
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(again) is kind
        assert facts(again) == facts(error)
        assert again.args == error.args
        assert again.__notes__ == ["seen on the way"]


@pytest.mark.parametrize("kind", EVERY_ERROR, ids=lambda kind: kind.__name__)
def test_no_error_gives_two_answers(kind: type[TrioletError]) -> None:
    assert sum(issubclass(kind, family) for family in FAMILIES) <= 1


@pytest.mark.parametrize("kind", EVERY_ERROR, ids=lambda kind: kind.__name__)
def test_every_field_is_passed_by_name(kind: type[TrioletError]) -> None:
    assert all(field.kw_only for field in attrs.fields(kind))


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_the_message_is_derived_and_survives(error: TrioletError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == error.message == again.message
    assert again.message != type(error).__name__
    assert isinstance(error, Misuse)


def test_messages_are_bounded() -> None:
    huge = "x" * 1_000_000
    errors = [
        BrokenText(place=huge, index=1, problem=huge),
        InvalidJson(problem=huge, pointer=huge),
        InvalidValue(subject=huge, violations=((huge, huge),) * 1000),
        UnrenderableSchema(type_name=huge, place=huge, reason=huge),
    ]
    for error in errors:
        assert len(error.message) < 4000


def test_violations_are_bounded_and_counted() -> None:
    error = InvalidValue(subject="X", violations=tuple((f"/{i}", "is missing") for i in range(MAX_VIOLATIONS + 7)))
    assert len(error.violations) == MAX_VIOLATIONS
    assert error.more == 7
    assert error.message.endswith(f"; and {MAX_VIOLATIONS + 7 - 5} more")
    assert pickle.loads(pickle.dumps(error)).more == 7


def test_an_inner_refusal_can_be_told_from_outside() -> None:
    error = InvalidValue(subject="X", violations=(("/a", "is missing"), ("", "must be object, not array")))
    assert [place for place, _ in error.below("/arguments").violations] == ["/arguments/a", "/arguments"]


def test_errors_are_told_apart_by_identity_and_can_be_raised_and_chained() -> None:
    one, other = (InvalidJson(problem="malformed") for _ in range(2))
    assert one != other
    with pytest.raises(Misuse) as caught:
        raise one from other
    assert caught.value.__cause__ is other
