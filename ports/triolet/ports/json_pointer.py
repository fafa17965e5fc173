"""JSON Pointers (RFC 6901) for messages that name a place.

Decides how a path of keys and indexes is written. A very long key is cut, so a pointer from here is for people and
models to read; it is exact for every key of at most `MAX_TOKEN` characters. Never resolves a pointer.
"""

from collections.abc import Iterable
from typing import Final

MAX_TOKEN: Final = 80
"""How many characters of one key a pointer shows."""


def pointer(path: Iterable[str | int]) -> str:
    """`path` from the top down as a JSON Pointer: ``""`` is the whole document, ``/a~1b/0`` is ``doc["a/b"][0]``."""
    return "".join(f"/{_token(step)}" for step in path)


def _token(step: str | int) -> str:
    if isinstance(step, int):
        return str(step)
    if not step.isprintable():
        # Also keeps lone surrogates and control characters out of messages and logs.
        step = step.encode("ascii", "backslashreplace").decode("ascii")
        step = "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in step)
    if len(step) > MAX_TOKEN:
        step = step[:MAX_TOKEN] + "…"
    return step.replace("~", "~0").replace("/", "~1")
