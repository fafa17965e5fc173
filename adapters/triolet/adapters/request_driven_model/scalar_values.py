"""Strings and numbers that a JSON Schema allows, the smallest first.

Decides that a string is as short as allowed and a number as near to zero. A `pattern` it can only guess at, out of a
handful of usual forms.
"""

import math
from collections.abc import Iterator
from typing import Final

import attrs

from triolet.ports.errors import InvalidValue, Misuse
from triolet.ports.schema import raw_codec
from triolet.ports.strict_json import MAX_INTEGER, JsonValue

_LONGEST: Final = 10_000
_TRIES: Final = 200
_GUESSES: Final = ("", "a0", "A0", "a@a.aa", "2000-01-01", "a-a", "a/a", "https://a.aa")

Schema = dict[str, JsonValue]


@attrs.define(kw_only=True)
class NoMinimalValue(Misuse):
    """No value can be derived: none exists, or it takes more than this module knows."""

    reason: str

    @property
    def message(self) -> str:
        """Why not."""
        return f"no value can be derived from the schema: {self.reason}"


def strings(schema: Schema) -> Iterator[JsonValue]:
    """Different strings by `schema`, the shortest first."""
    least, most = size(schema, "minLength"), _bound(schema, "maxLength", math.inf)
    pattern = schema.get("pattern")
    if pattern is None:
        yield "a" * least
        # Further ones, for a list of different items.
        yield from (text for number in range(_TRIES) if len(text := f"{number:0{max(least, 1)}d}") <= most)
        return
    # Asked of the validator's own engine: it takes linear time whatever the expression is.
    codec = raw_codec({"pattern": pattern}, "pattern")
    guesses = {*_GUESSES, *(letter * times for letter in "a0A" for times in range(1, 65))}
    for guess in sorted(guesses, key=lambda text: (len(text), text)):
        if least <= len(guess) <= most:
            try:
                codec.decode(guess)
            except InvalidValue:
                continue
            yield guess


def numbers(schema: Schema, *, whole: bool) -> Iterator[JsonValue]:
    """Different numbers by `schema`, the nearest to zero first; only integers where they have to be `whole`."""
    above, below = _bound(schema, "exclusiveMinimum", -math.inf), _bound(schema, "exclusiveMaximum", math.inf)
    low = max(_bound(schema, "minimum", -MAX_INTEGER), above)
    high = min(_bound(schema, "maximum", MAX_INTEGER), below)
    step = _bound(schema, "multipleOf", 0)
    near = min(max(0, low), high)
    unit = step or 1
    if not math.isfinite(near / unit):
        return
    start = math.ceil(near / unit) if near >= 0 else math.floor(near / unit)
    away = 1 if near >= 0 else -1
    candidates = [(start + away * number) * unit for number in range(_TRIES)]
    if not whole and not step:
        # Between two bounds there may be no integer.
        candidates += [near, (low + high) / 2]
    for value in candidates:
        if low <= value <= high and above < value < below and not (whole and value != int(value)):
            yield int(value) if value == int(value) else value


def _bound(schema: Schema, name: str, default: float) -> float:
    value = schema.get(name, default)
    return value if isinstance(value, int | float) else default


def size(schema: Schema, name: str) -> int:
    """The size that the keyword `name` asks for, 0 if it is not there. Raises `NoMinimalValue` beyond 10,000."""
    value = int(_bound(schema, name, 0))
    if value > _LONGEST:
        raise NoMinimalValue(reason=f"{name} is beyond {_LONGEST}")
    return value
