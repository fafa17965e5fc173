"""JSON-RPC messages as bytes, and what is kept of whatever is none.

Decides which bytes are a message, and that broken text in one is repaired where it enters (U+FFFD), so that an answer
is not lost for a character. What is no message is counted and kept in a short, bounded list; too much of it in a row
ends the connection (F-040). It correlates nothing.
"""

import json
from collections import deque
from collections.abc import Callable
from typing import Any, Final, cast

import attrs
import orjson

from triolet.ports.text import decode, repair

JsonObject = dict[str, Any]

KEPT_LINES: Final = 20
"""Samples that are kept of junk, and of standard error."""
KEPT_CHARACTERS: Final = 200
"""Characters of each sample."""


def _as_it_is(text: str) -> str:
    return text


def _samples() -> deque[str]:
    return deque(maxlen=KEPT_LINES)


@attrs.define(kw_only=True, weakref_slot=False)
class Diagnostics:
    """What was seen on a connection beside answers: for people, never for models, records or telemetry.

    `junk` counts what was no message, `oversize` what was too long to be looked at, `late` answers that nobody waits
    for any more, `ignored` notices and requests that this client has no use for, `sessions` successful handshakes.
    """

    messages: int = 0
    junk: int = 0
    oversize: int = 0
    late: int = 0
    ignored: int = 0
    sessions: int = 0
    junk_samples: deque[str] = attrs.field(factory=_samples)
    stderr_samples: deque[str] = attrs.field(factory=_samples)
    clean: Callable[[str], str] = _as_it_is
    """Takes out of samples what must not be shown."""
    _run: int = 0

    def message(self) -> None:
        """A message came."""
        self.messages += 1
        self._run = 0

    def junk_came(self, data: bytes, *, oversize: bool = False) -> int:
        """Something came that is no message. Returns how many times in a row that has happened."""
        self.junk += 1
        self.oversize += oversize
        self._run += 1
        self.junk_samples.append(self.clean(_sample(data)))
        return self._run

    def stderr_came(self, line: bytes) -> None:
        """The server wrote to its standard error."""
        self.stderr_samples.append(self.clean(_sample(line)))


def encoded(message: JsonObject) -> bytes:
    """A message of ours as bytes, without a line break in it."""
    return orjson.dumps(message)


def decoded(data: bytes) -> list[JsonObject] | None:
    """The messages in `data`: one, or those of a batch; None for what is none."""
    try:
        value: object = orjson.loads(data)
    except orjson.JSONDecodeError:
        value = _repaired(data)
    items: list[object] = cast("list[object]", value) if isinstance(value, list) else [value]
    messages = [cast("JsonObject", item) for item in items if _is_message(item)]
    return messages if messages and len(messages) == len(items) else None


def size_of(value: object) -> int | None:
    """How many bytes `value` takes as JSON; None where it nests too deep or holds an integer beyond 64 bits."""
    try:
        return len(orjson.dumps(value))
    except TypeError:
        return None


def _is_message(item: object) -> bool:
    if not isinstance(item, dict):
        return False
    message = cast("JsonObject", item)
    return message.get("jsonrpc") == "2.0" and ("method" in message or "id" in message)


def _repaired(data: bytes) -> object:
    # A lone surrogate in an escape, bytes that are no UTF-8, and NaN are a server's slips. The first two can be mended;
    # the third is let in so that it fails the one call that it answers, where the result meets its schema.
    try:
        return _clean(json.loads(decode(data)))
    except (ValueError, RecursionError):
        return None


def _clean(value: object) -> object:
    if isinstance(value, str):
        return repair(value)
    if isinstance(value, list):
        return [_clean(item) for item in cast("list[object]", value)]
    if isinstance(value, dict):
        return {repair(key): _clean(item) for key, item in cast("dict[str, object]", value).items()}
    return value


def _sample(data: bytes) -> str:
    return decode(data[: KEPT_CHARACTERS * 4])[:KEPT_CHARACTERS]
