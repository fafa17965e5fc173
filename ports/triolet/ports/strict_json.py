"""Strict JSON: the one form in which JSON enters, and the check that a Python value is it.

Decides what strict JSON is: RFC 8259 in valid UTF-8, no duplicate key, no lone surrogate, no NaN or infinity, no
integer of 2^53 or more (use a string), no float that canonical JSON would write as such an integer, and no more
bytes or levels than `JsonLimits` says. Refusals are `InvalidJson` and name the place. Never coerces, repairs or
re-orders anything, and never repeats a value in an error.

The ordinary document is checked in C. What orjson does not refuse is detected by necessary conditions that are
cheap and provably never miss (see `_surely_exact`); only a document that meets one of them pays for an exact second
look. (CAP-004, RUN-004)
"""

import json
import math
from collections.abc import Callable, Iterable
from typing import Any, Final, NewType, NoReturn, cast

import attrs
import orjson
from typing_extensions import TypeAliasType

from triolet.ports.errors import InvalidJson
from triolet.ports.json_place import first_fault
from triolet.ports.json_pointer import pointer

JsonValue = TypeAliasType("JsonValue", "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None")
"""A strict JSON value in Python's exact built-in types (no subclasses)."""

JsonText = NewType("JsonText", str)
"""Text that `parse` accepted, kept exactly as it came."""

MAX_INTEGER: Final = 2**53 - 1
"""The largest magnitude of an integer that every JSON reader keeps exact."""

EXPONENTS_FROM: Final = 1e21
"""From here on canonical JSON writes whole numbers with an exponent. Below, it writes them as integers, so those
floats that are whole and larger than `MAX_INTEGER` are not strict JSON: nobody could read their canonical form."""

DEEPEST: Final = 250
"""The deepest nesting that any limit may allow: the encoder's own bound is 254."""

# What `survey` found; a bit set.
FLOATS: Final = 1
ASTRAL_KEYS: Final = 2
WHOLE_FLOATS: Final = 4

# `type` with one argument, said so that both type checkers know what comes out.
_class_of: Final = cast(Callable[[object], type[object]], type)
_TOO_LARGE: Final = "an integer of 2^53 or more (use a string)"
_HUGE: Final = "a whole number from 2^53 to 10^21, which canonical JSON writes as an integer (use a string)"

# Marks of numbers: every digit becomes a 0, and every E an e.
_MARKS: Final = bytes.maketrans(b"123456789E", b"000000000e")
_EXPONENT: Final = b"0e"
_SIXTEEN_DIGITS: Final = b"0" * 16
_TWENTY_TWO_DIGITS: Final = b"0" * 22


@attrs.frozen(kw_only=True, weakref_slot=False)
class JsonLimits:
    """How large a document may be.

    `max_bytes` bounds its UTF-8 length (at least 1). `max_depth` bounds how many lists and objects are open at once
    (1 to `DEEPEST`; a scalar has depth 0, ``[]`` depth 1). What was accepted under one limit and is then wrapped in
    another document needs a reader that allows for the wrapping.
    """

    max_bytes: int = attrs.field(default=16 * 1024 * 1024, validator=attrs.validators.ge(1))
    max_depth: int = attrs.field(default=128, validator=[attrs.validators.ge(1), attrs.validators.le(DEEPEST)])


DEFAULT_LIMITS: Final = JsonLimits()
"""16 MiB and 128 levels."""


def parse(data: bytes | str, limits: JsonLimits = DEFAULT_LIMITS) -> JsonValue:
    """The value of the strict JSON document `data`.

    Raises `InvalidJson` with a JSON Pointer to the first fault, or with a byte offset where the fault lies behind
    more tokens than the search for it may read.
    """
    if isinstance(data, str):
        data = _encoded(data)
    if len(data) > limits.max_bytes:
        raise InvalidJson(problem=f"{len(data)} bytes, where {limits.max_bytes} are allowed", pointer="")
    try:
        value: JsonValue = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        _refuse(data, limits, "malformed", error.pos)
    if data.count(b"[") + data.count(b"{") > limits.max_depth and _deeper(value, limits.max_depth):
        _refuse(data, limits, f"nested deeper than {limits.max_depth} levels")
    again, marks = orjson.dumps(value), data.translate(_MARKS)
    if again != data and not _surely_exact(data, again, marks):
        _look_closely(data, limits)
    if _EXPONENT in marks or _SIXTEEN_DIGITS in marks:
        check(value, limits)  # perhaps a whole number of 2^53 or more
    return value


def parse_text(text: str, limits: JsonLimits = DEFAULT_LIMITS) -> JsonText:
    """`text` itself, once `parse` has accepted it. Raises `InvalidJson` as `parse` does."""
    parse(text, limits)
    return JsonText(text)


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        offset = len(text[: error.start].encode())
        raise InvalidJson(problem="a lone surrogate", offset=offset) from None


def _surely_exact(data: bytes, again: bytes, marks: bytes) -> bool:
    """Whether `data` certainly has no duplicate key and no integer of 10^21 or more; False means "look closely".

    `again` is the compact encoding of the decoded value. Every key of a document brings one colon, and decoding
    drops a duplicate key with its value; so if nothing was dropped both texts hold equally many colons, and if
    something was, `again` has fewer, unless an escaped colon turned into a plain one. orjson reads an integer
    beyond 64 bits as a float. `check` finds it below 10^21, where canonical JSON would write an integer again;
    beyond, it has at least 22 digits.
    """
    return again.count(b":") == data.count(b":") and b"\\u003" not in data and _TWENTY_TWO_DIGITS not in marks


def _look_closely(data: bytes, limits: JsonLimits) -> None:
    try:
        json.loads(data, object_pairs_hook=_unique, parse_int=_bounded)
    except _Inexact as error:
        _refuse(data, limits, str(error))


class _Inexact(Exception):
    """The exact second look found what the first could not exclude."""


def _unique(pairs: list[tuple[str, object]]) -> None:
    if len(dict(pairs)) != len(pairs):
        raise _Inexact("a duplicate key")


def _bounded(digits: str) -> None:
    if len(digits) > 17 or abs(int(digits)) > MAX_INTEGER:
        raise _Inexact(_TOO_LARGE)


def _deeper(value: JsonValue, levels: int) -> bool:
    # Level by level, so that no nesting can exhaust the Python stack.
    level: list[JsonValue] = [value]
    for _ in range(levels):
        level = [
            child
            for node in level
            for child in (node.values() if type(node) is dict else node if type(node) is list else ())
            if type(child) is dict or type(child) is list
        ]
        if not level:
            return False
    return True


def _refuse(data: bytes, limits: JsonLimits, problem: str, position: int | None = None) -> NoReturn:
    found = first_fault(data, max_depth=limits.max_depth, max_integer=MAX_INTEGER)
    if found is None:
        offset = None if position is None else len(data.decode("utf-8", "replace")[:position].encode())
        found = InvalidJson(problem=problem, offset=offset)
    raise found from None


def check(value: object, limits: JsonLimits = DEFAULT_LIMITS) -> None:
    """Refuse a Python value that is not strict JSON in exact built-in types.

    A tuple, a subclass, a non-string key, a lone surrogate, NaN, an integer of 2^53 or more, a cycle, nesting
    beyond the limit, or more elements and characters than `max_bytes` could hold is `InvalidJson` with its JSON
    Pointer.
    """
    survey(value, limits)


def survey(value: object, limits: JsonLimits = DEFAULT_LIMITS) -> int:
    """`check`, and what was seen on the way: `FLOATS`, `WHOLE_FLOATS` (such as 5.0), `ASTRAL_KEYS` (beyond U+FFFF)."""
    # The wrapping list gives a scalar the same treatment as any element; it is neither counted nor named.
    survey = _Survey(limits.max_bytes)
    try:
        survey.walk([value], limits.max_depth + 1)
    except _Fault as fault:
        raise InvalidJson(problem=fault.problem, pointer=pointer(fault.path())) from None
    return survey.traits


class _Fault(Exception):
    """A value that is not strict JSON. The way to it is collected from the inside out while the walk unwinds."""

    def __init__(self, problem: str, culprit: object) -> None:
        super().__init__(problem)
        self.problem = problem
        self.culprit = culprit
        self.steps: list[str | int] = []

    def trace(self, node: list[Any] | dict[Any, Any]) -> None:
        """Note the step from `node` to the culprit, which is now `node` itself."""
        pairs: Iterable[tuple[Any, Any]] = node.items() if isinstance(node, dict) else enumerate(node)
        self.steps.append(next(step for step, child in pairs if child is self.culprit))

    def path(self) -> list[str | int]:
        return self.steps[-2::-1]  # the outermost step is the wrapping list's


_IN_A_KEY: Final = object()


@attrs.define
class _Survey:
    room: int
    traits: int = 0

    def walk(self, node: list[Any] | dict[Any, Any], levels: int) -> None:
        """Check what is in `node`, a list or dict that may open `levels` levels, itself included."""
        if not levels:
            raise _Fault("nested too deep, or it holds itself", node)
        size = len(node)
        try:
            if type(node) is dict:
                for key in node:
                    if type(key) is not str:
                        raise _Fault(f"a key of type {type(key).__name__}", _IN_A_KEY)
                    size += len(key)
                    if not key.isascii():
                        _refuse_surrogates(key, _IN_A_KEY)
                        if max(key) > "\uffff":
                            self.traits |= ASTRAL_KEYS
            for child in node.values() if type(node) is dict else node:
                kind = _class_of(child)
                if kind is str:
                    size += len(child)
                    if not child.isascii():
                        _refuse_surrogates(child, child)
                elif kind is int:
                    if not -MAX_INTEGER <= child <= MAX_INTEGER:
                        raise _Fault(_TOO_LARGE, child)
                elif kind is dict or kind is list:
                    self.walk(child, levels - 1)
                elif kind is float:
                    if not math.isfinite(child):
                        raise _Fault("a number that is not finite", child)
                    if not child.is_integer():
                        self.traits |= FLOATS
                    elif MAX_INTEGER < abs(child) < EXPONENTS_FROM:
                        raise _Fault(_HUGE, child)
                    else:
                        self.traits |= FLOATS | WHOLE_FLOATS
                elif kind is not bool and child is not None:
                    raise _Fault(f"a value of type {kind.__name__}", child)
        except _Fault as fault:
            if fault.culprit is not _IN_A_KEY:
                fault.trace(node)
            fault.culprit = node
            raise
        self.room -= size
        if self.room < 0:
            raise _Fault("more than the limit allows", node)


def _refuse_surrogates(text: str, culprit: object) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _Fault("a lone surrogate", culprit) from None
