"""Two sources of identifiers: unguessable ones, and countable ones for tests.

Decides how a fresh identifier is spelt. What can be derived inside a run never comes from here.
"""

import base64
import secrets
from collections import Counter
from typing import Final

import attrs

from triolet.ports.sources import IdKind

_LETTERS: Final[dict[IdKind, str]] = {
    "run": "r",
    "conversation": "c",
    "submission": "s",
    "session": "e",
    "grant": "g",
    "input": "i",
}

_BYTES: Final = 13


@attrs.frozen(weakref_slot=False)
class RandomIds:
    """Identifiers of 22 characters out of ``a-z0-9``: a letter for the kind, then 104 bits from the system.

    A plain value; it emits nothing. Safe from any thread.
    """

    def new(self, kind: IdKind) -> str:
        """A fresh identifier of this kind."""
        digits = base64.b32encode(secrets.token_bytes(_BYTES)).rstrip(b"=")
        return _LETTERS[kind] + digits.decode("ascii").lower()


class SequentialIds:
    """``run1``, ``run2``, ``conversation1``: counted per kind, so that a test can name what it expects.

    Unique within this value only: two of them, or two processes, draw the same identifiers. For tests.
    """

    __slots__ = ("_drawn",)

    def __init__(self) -> None:
        self._drawn = Counter[IdKind]()

    def new(self, kind: IdKind) -> str:
        """The next identifier of this kind."""
        self._drawn[kind] += 1
        return f"{kind}{self._drawn[kind]}"
