"""Cases: one promise each, checked on a fresh subject.

Decides what a case is: the requirements that it stands for, one line that says what must hold, a check, and what
the check needs. A case opens nothing and judges nothing but its one promise; running it within a limit and
reporting the outcome is `running`. (CONF-001)
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar, cast

import attrs

from triolet.ports.errors import Misuse
from triolet.spec_tests.claims import SpecViolation

S = TypeVar("S")


@attrs.define(kw_only=True)
class InvalidCase(Misuse):
    """A case, or a suite of them, that contradicts itself. Found when it is made."""

    case: str
    problem: str

    @property
    def message(self) -> str:
        """Which case and what is wrong with it."""
        return f"case {self.case!r}: {self.problem}"


def _name_of(case: "Case[Any]") -> str:
    return str(getattr(case.check, "__name__", ""))


@attrs.frozen(kw_only=True, eq=False, weakref_slot=False)
class Case(Generic[S]):
    """One promise. `name` is stable, and unique in its suite: certificates of different versions compare by it.

    `needs` names levers and traits of the subject (see `Subject`). A lever that is not there makes the case
    not-exercised, a trait that the subject declines makes it not-applicable.
    """

    requirements: tuple[str, ...]
    title: str
    check: Callable[[S], Awaitable[None]]
    needs: tuple[str, ...] = ()
    name: str = attrs.field(default=attrs.Factory(_name_of, takes_self=True))

    def __attrs_post_init__(self) -> None:
        if not self.name or not self.title:
            raise InvalidCase(case=self.name, problem="it needs a name and a title")
        if not self.requirements or len(set(self.requirements)) < len(self.requirements):
            raise InvalidCase(case=self.name, problem="it cites no requirement, or one twice")

    def __str__(self) -> str:
        return f"{self.name}[{'+'.join(self.requirements)}]"

    async def run(self, subject: S) -> None:
        """Make the check. A `SpecViolation` from anywhere in it, also from within its nurseries, carries the IDs."""
        try:
            await self.check(subject)
        except (SpecViolation, BaseExceptionGroup) as caught:
            error: BaseException = caught
            found = next(_violations(error), None)
            if found is None:
                raise
            raise attrs.evolve(found, requirements=self.requirements) from error


def _violations(error: BaseException) -> Iterator[SpecViolation]:
    if isinstance(error, SpecViolation):
        yield error
    elif isinstance(error, BaseExceptionGroup):
        for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from _violations(inner)


def case(*requirements: str, needs: Iterable[str] = ()) -> Callable[[Callable[[S], Awaitable[None]]], Case[S]]:
    """Make a `Case` of an async function: its name is the case's name, its docstring's first line the title."""

    def decorate(check: Callable[[S], Awaitable[None]]) -> Case[S]:
        title = (inspect.getdoc(check) or "").partition("\n")[0].rstrip(".")
        return Case(requirements=requirements, title=title, check=check, needs=tuple(needs))

    return decorate
