"""How long a model server may take, and how much it may send.

Decides the default bounds, and that every one of them is finite and positive. It measures nothing itself: the
connection keeps the time, the readers count the bytes.
"""

import math
from typing import Any

import attrs

from triolet.ports.errors import Misuse


@attrs.define(kw_only=True)
class InvalidOption(Misuse):
    """An adapter was opened with an option that can never work. The option's value is not repeated."""

    option: str
    problem: str

    @property
    def message(self) -> str:
        """Which option, and what is wrong with it."""
        return f"invalid option {self.option}: {self.problem}"


def _seconds(_: object, attribute: "attrs.Attribute[Any]", value: float) -> None:
    if not 0 < value < math.inf:
        raise InvalidOption(option=attribute.name, problem="it is a positive, finite number of seconds")


def at_least_one(_: object, attribute: "attrs.Attribute[Any]", value: int) -> None:
    """An attrs validator for counts."""
    if value < 1:
        raise InvalidOption(option=attribute.name, problem="it is at least 1")


@attrs.frozen(kw_only=True, weakref_slot=False)
class Timeouts:
    """Seconds that a server may take. Running out of any of them is `ModelUnavailable` with reason ``timeout``.

    `connect`: until a connection stands, after as long again at most for a free place among `Limits.connections`.
    `first`: from sending the request to the first line of the answer, which takes as long as the model reads the
    prompt and thinks in private. `idle`: between two lines; a comment line is a sign of life, half a line is not.
    `linger`: how long usage and the end of the stream are waited for once the answer is complete; running out of it is
    no error. A limit for the whole answer is the caller's to set, with a Trio deadline.
    """

    connect: float = attrs.field(default=10.0, validator=_seconds)
    first: float = attrs.field(default=300.0, validator=_seconds)
    idle: float = attrs.field(default=60.0, validator=_seconds)
    linger: float = attrs.field(default=5.0, validator=_seconds)


@attrs.frozen(kw_only=True, weakref_slot=False)
class Limits:
    """What a server may send and the adapter may keep. Going beyond the first four is `MalformedResponse`.

    `line_bytes`, `event_bytes` and `response_bytes` bound one line, one event and one whole answer as they arrive.
    `calls` bounds the tool calls of one answer. `error_bytes` is how much of an error's body is looked at.
    `connections` bounds the requests under way at once; more wait. `cache_bytes` bounds the encoded messages kept for
    the next turn: those of a conversation beyond that are encoded again each turn.
    """

    line_bytes: int = attrs.field(default=2**20, validator=at_least_one)
    event_bytes: int = attrs.field(default=2**22, validator=at_least_one)
    response_bytes: int = attrs.field(default=2**26, validator=at_least_one)
    calls: int = attrs.field(default=128, validator=at_least_one)
    error_bytes: int = attrs.field(default=2**16, validator=at_least_one)
    connections: int = attrs.field(default=32, validator=at_least_one)
    cache_bytes: int = attrs.field(default=2**25, validator=at_least_one)
