"""The error family: one root, five families, and the errors of the vocabulary itself.

Decides what every error of this project looks like. A caller branches on the *family*, because a family says what
to do next: re-read (`Conflict`), stop (`Fenced`), retry (`Unavailable`), call a person (`Corrupt`), fix the code
(`Misuse`). A concrete error is an ``@attrs.define(kw_only=True)`` subclass: its fields carry the facts, its
`message` is derived from them, and it survives pickling. It lives beside the port that raises it; only the errors
of text, JSON and schemas live here.

Never puts a user's, model's or tool's value into a message: places, types and sizes only. A message is bounded.
(CAP-001, CAP-004, SEC-005)
"""

from typing import Final, Self

import attrs

MAX_VIOLATIONS: Final = 20
"""How many violations an `InvalidValue` lists; the others are only counted."""

_SHOWN_VIOLATIONS: Final = 5
_TEXT_LIMIT: Final = 240


@attrs.define(kw_only=True)
class TrioletError(Exception):
    """The root of every error that this project raises on purpose.

    `str(error)` is `message`. Errors pickle and copy with their fields, their `__notes__` and whatever else was set
    on them; as with any exception, the traceback and the cause stay behind.
    """

    @property
    def message(self) -> str:
        """One bounded line that states the facts. Each concrete error derives its own."""
        return type(self).__name__

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[object, ...]:
        # The inherited form calls the class with positional `args`, which keyword-only fields refuse.
        fields = attrs.fields(type(self))
        values = {field.name: getattr(self, field.name) for field in fields if hasattr(self, field.name)}
        return _rebuild, (type(self), values, self.args, dict(self.__dict__))


def _rebuild(
    kind: type[TrioletError], values: dict[str, object], args: tuple[object, ...], extra: dict[str, object]
) -> TrioletError:
    # Not through __init__: converters and checks ran once, and a rebuilt error must equal the first.
    error = kind.__new__(kind, *args)
    for name, value in (values | extra).items():
        object.__setattr__(error, name, value)
    return error


@attrs.define(kw_only=True)
class Conflict(TrioletError):
    """The world moved on since the caller looked. Nothing was written: re-read, then decide again."""


@attrs.define(kw_only=True)
class Fenced(TrioletError):
    """Somebody newer owns this now. Nothing was written, and nothing will be: stop."""


@attrs.define(kw_only=True)
class Unavailable(TrioletError):
    """Something outside did not answer, or not well. Retrying may help; the raiser says whether a write happened."""


@attrs.define(kw_only=True)
class Corrupt(TrioletError):
    """Stored data contradicts itself. Retrying cannot help: keep everything and call a person."""


@attrs.define(kw_only=True)
class Misuse(TrioletError):
    """The caller gave something that is never acceptable. Nothing happened: fix the code or the input."""


@attrs.define(kw_only=True)
class BrokenText(Misuse):
    """Application text that not every store can keep as it is: a lone surrogate, or U+0000.

    `place` names whose text it is, `index` is the position of the first bad character, `problem` says what it is.
    """

    place: str
    index: int
    problem: str

    @property
    def message(self) -> str:
        """Names the place, the position and the problem."""
        return f"{bounded(self.place)}: {bounded(self.problem)} at character {self.index}"


@attrs.define(kw_only=True)
class InvalidJson(Misuse):
    """Not strict JSON. `pointer` (RFC 6901, "" is the whole document) or else `offset` (bytes) says where."""

    problem: str
    pointer: str | None = None
    offset: int | None = None

    @property
    def message(self) -> str:
        """Names the place and the problem."""
        if self.pointer is not None:
            return f"not strict JSON {_at(self.pointer)}: {bounded(self.problem)}"
        where = "" if self.offset is None else f" at byte {self.offset}"
        return f"not strict JSON{where}: {bounded(self.problem)}"


@attrs.define(kw_only=True)
class InvalidValue(Misuse):
    """Strict JSON, or a Python value, that its schema refuses.

    `subject` names the schema. `violations` holds (JSON Pointer, problem) pairs in document order, at most
    `MAX_VIOLATIONS`; `more` counts those left out.
    """

    subject: str
    violations: tuple[tuple[str, str], ...]
    more: int = 0

    def __attrs_post_init__(self) -> None:
        self.more += max(0, len(self.violations) - MAX_VIOLATIONS)
        self.violations = self.violations[:MAX_VIOLATIONS]

    @property
    def message(self) -> str:
        """Names the first places and problems, and counts the others."""
        shown = "; ".join(
            f"{_at(pointer)}: {bounded(problem)}" for pointer, problem in self.violations[:_SHOWN_VIOLATIONS]
        )
        rest = self.more + max(0, len(self.violations) - _SHOWN_VIOLATIONS)
        return f"not a valid {bounded(self.subject)}: {shown}" + (f"; and {rest} more" if rest else "")

    def below(self, prefix: str) -> Self:
        """The same error seen from a document that holds this value at the pointer `prefix`."""
        moved = tuple((prefix + pointer, problem) for pointer, problem in self.violations)
        return attrs.evolve(self, violations=moved)


@attrs.define(kw_only=True)
class UnrenderableSchema(Misuse):
    """A type, or a raw JSON Schema, that cannot serve as a schema. Raised when the codec is made, never later.

    `type_name` is the offending type, `place` the way to it from the outermost type, `reason` what is wrong with
    it.
    """

    type_name: str
    place: str
    reason: str

    @property
    def message(self) -> str:
        """Names the type, the place and the reason."""
        return f"no schema for {bounded(self.type_name)} at {bounded(self.place)}: {bounded(self.reason)}"


def bounded(text: str, limit: int = _TEXT_LIMIT) -> str:
    """`text`, or its beginning and its length if it is longer than `limit` characters. For messages only."""
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


def _at(pointer: str) -> str:
    return f"at {bounded(pointer)}" if pointer else "at the top"
