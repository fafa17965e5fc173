"""Claims: how a check says what must be so, and what is raised when it is not.

Decides the three ways in which a check may end other than by returning: the subject broke a promise, a lever that
the check needs is not there, or the situation that it waits for did not come about. It uses no `assert`, which an
optimising interpreter would drop, and knows no test runner. (CONF-001, CONF-002)
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Generic, NoReturn, TypeVar

import attrs

from triolet.ports.errors import TrioletError, bounded

E = TypeVar("E", bound=BaseException)
T = TypeVar("T")


@attrs.define(kw_only=True)
class SpecViolation(TrioletError):
    """The subject broke a promise. `requirements` are the IDs of the case that found it, once a case has run it."""

    problem: str
    requirements: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """The IDs and the problem."""
        ids = ", ".join(self.requirements)
        return f"{ids}: {self.problem}" if ids else self.problem


@attrs.define(kw_only=True)
class NotExercised(TrioletError):
    """The check cannot be made on this subject: a lever is missing."""

    reason: str

    @property
    def message(self) -> str:
        """Why."""
        return self.reason


@attrs.define(kw_only=True)
class NotTriggered(TrioletError):
    """The check was made, but what it waits for did not happen, so it says nothing."""

    reason: str

    @property
    def message(self) -> str:
        """What did not happen."""
        return self.reason


def ensure(condition: bool, problem: str) -> None:
    """Raise `SpecViolation` unless `condition` holds. `problem` says what is wrong, as a sentence about the subject."""
    if not condition:
        raise SpecViolation(problem=problem)


def ensure_equal(actual: object, expected: object, what: str) -> None:
    """Raise `SpecViolation` unless both are equal. `what` names the thing; both values are shown, bounded."""
    if actual != expected:
        raise SpecViolation(problem=f"{what}: {bounded(repr(actual))}, where {bounded(repr(expected))} is due")


@attrs.define(kw_only=True, weakref_slot=False)
class Caught(Generic[E]):
    """What `ensure_raises` caught, once its block has ended."""

    found: E | None = None

    @property
    def error(self) -> E:
        """The error."""
        if self.found is None:
            raise AssertionError("the block has not ended yet")
        return self.found


@contextmanager
def ensure_raises(kind: type[E], what: str) -> Generator[Caught[E]]:
    """Raise `SpecViolation` unless the block raises a `kind`. Any other error is a violation too, with its cause."""
    caught = Caught[E]()
    try:
        yield caught
    except kind as error:
        caught.found = error
        return
    except (SpecViolation, NotExercised, NotTriggered):
        raise
    except Exception as error:
        problem = f"{what}: raised {type(error).__name__} ({bounded(str(error))}), where {kind.__name__} is due"
        raise SpecViolation(problem=problem) from error
    raise SpecViolation(problem=f"{what}: went through, where {kind.__name__} is due")


def lever(value: T | None, name: str) -> T:
    """The lever, or `NotExercised` if the maker gave none. For a lever that only part of a check needs."""
    if value is None:
        raise NotExercised(reason=f"the maker gives no lever {name!r}")
    return value


def not_triggered(reason: str) -> NoReturn:
    """End the check: what it waits for did not happen."""
    raise NotTriggered(reason=reason)
