"""Suites: all cases of one port, or of the kernel, under one name and version.

Decides which cases belong together, and what a maker's gift has to look like before any of them may judge it. It
runs nothing.
"""

from typing import Any, Generic, TypeVar, cast

import attrs

from triolet.ports.errors import Misuse
from triolet.spec_tests.catalogue import CATALOGUE
from triolet.spec_tests.definition import Case, InvalidCase
from triolet.spec_tests.subject import Subject

S = TypeVar("S", bound=Subject[Any])

SMOKE = "smoke"
"""The name of the row that tells a broken harness from a wrong subject."""

LIFETIME = "lifetime"
"""The name of the row that says what the cases left behind after their subjects were closed."""


@attrs.define(kw_only=True)
class NotASubject(Misuse):
    """A maker gave something that the suite cannot judge: the harness is wrong, not the adapter."""

    port: str
    problem: str

    @property
    def message(self) -> str:
        """For which port, and what is wrong."""
        return f"this is no subject for port {self.port!r}: {self.problem}"


@attrs.frozen(kw_only=True, eq=False, weakref_slot=False)
class Suite(Generic[S]):
    """The cases of a port. `version` changes whenever a case is added, removed, or judges otherwise.

    `subject` is the class of subject that the cases take; `verbs` are what the port must have; `traits` is what a
    subject may decline. `lifetime` are the requirements that hold if closing leaves nothing running. With `real_time`
    the cases wait for processes of the system, so no clock may be made to jump.
    """

    port: str
    version: int
    subject: type[S]
    verbs: tuple[str, ...]
    cases: tuple[Case[S], ...]
    traits: tuple[str, ...] = ()
    lifetime: tuple[str, ...] = ("CAP-001",)
    real_time: bool = False

    def __attrs_post_init__(self) -> None:
        known = {*self.subject.lever_names(), *self.traits}
        names = {SMOKE, LIFETIME}
        for case in self.cases:
            if case.name in names:
                raise InvalidCase(case=case.name, problem=f"suite {self.port!r} has that name twice")
            names.add(case.name)
            for wrong in {*case.requirements} - CATALOGUE.keys():
                raise InvalidCase(case=case.name, problem=f"{wrong} is no requirement")
            for wrong in {*case.needs} - known:
                raise InvalidCase(case=case.name, problem=f"{wrong!r} is neither lever nor trait of {self.port!r}")

    def __str__(self) -> str:
        return f"{self.port}/{self.version}"

    def find(self, name: str) -> Case[S] | None:
        """The case of this name."""
        return next((case for case in self.cases if case.name == name), None)

    def subject_of(self, opened: object) -> S:
        """What a maker gave, as a subject. Raises `NotASubject`."""
        if isinstance(opened, Subject) and not isinstance(opened, self.subject):
            given = type(cast("object", opened)).__name__
            raise NotASubject(port=self.port, problem=f"it is a {given}, not a {self.subject.__name__}")
        port: object = opened
        subject = opened if isinstance(opened, self.subject) else self.subject(port=port)
        port = subject.port
        missing = [verb for verb in self.verbs if not hasattr(port, verb)]
        if missing:
            kind = type(port).__name__
            raise NotASubject(port=self.port, problem=f"a {kind} has no {', '.join(missing)}")
        for wrong in sorted(subject.declines.keys() - {*self.traits, *subject.lever_names()}):
            raise NotASubject(port=self.port, problem=f"it declines {wrong!r}, which is no trait of this port")
        return subject
