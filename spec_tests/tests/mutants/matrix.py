"""The matrix of requirements and mutants: what each mutant breaks, and which cases notice.

Decides what has to hold (CONF-001): a conforming subject passes every case; every mutant is caught, for each ID that
it violates, by a case that cites it; every case, for each ID that it cites, catches a mutant that violates that ID.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

import attrs
import trio
from trio.testing import MockClock

from tests.mutants.mutant import Mutant
from triolet.spec_tests.running import CaseRun, run_case
from triolet.spec_tests.subject import Maker
from triolet.spec_tests.suite import LIFETIME, Suite

_MISFIT: Final = re.compile(
    r"takes .*positional argument|missing \d+ required .*argument|unexpected keyword argument|has no attribute"
)
"""What Python says of a replacement that was written for another signature: such a mutant is caught for nothing."""


@attrs.frozen(kw_only=True)
class Verdicts:
    """What became of one subject: by case, whether it failed and why. `lifetime` is among them."""

    failed: Mapping[str, str]
    """Why, by the name of each case that failed."""
    executed: frozenset[str]
    unexercised: Mapping[str, str] = attrs.field(factory=dict[str, str])
    """Why, by the name of each case that this machine or subject could not be put to."""


@attrs.frozen(kw_only=True)
class Matrix:
    """All verdicts, by mutant."""

    suites: tuple[Suite[Any], ...]
    conforming: Mapping[str, Verdicts]
    """By the name of the port."""
    mutants: tuple[Mutant, ...]
    verdicts: Mapping[str, Verdicts]
    """By the name of the mutant."""

    def catches(self, mutant: Mutant, requirement: str) -> list[str]:
        """The cases that cite `requirement` and fail on `mutant`."""
        failed = self.verdicts[mutant.name].failed
        return [name for name, ids in citations(mutant.suite).items() if name in failed and requirement in ids]

    def problems(self) -> list[str]:
        """What is wrong, a line each; empty if the matrix has no gap."""
        found = [
            f"the conforming subject of {port} fails {name}: {reason}"
            for port, verdicts in self.conforming.items()
            for name, reason in verdicts.failed.items()
        ]
        for suite in self.suites:
            missed = citations(suite).keys() - self.conforming[suite.port].executed - self._impossible(suite).keys()
            found += [f"{suite.port}: no conforming subject executes {name}" for name in sorted(missed)]
        for mutant in self.mutants:
            found += [
                f"mutant {mutant.name} is not caught by any case that cites {requirement}"
                for requirement in mutant.violates
                if not self.catches(mutant, requirement) and not self._cannot_meet(mutant)
            ]
            found += [
                f"mutant {mutant.name} does not fit what it changes: {reason}"
                for reason in self.verdicts[mutant.name].failed.values()
                if _MISFIT.search(reason)
            ]
        for suite in self.suites:
            found += self._weak_cases(suite)
        return found

    def notes(self) -> list[str]:
        """What could not be tried on this machine, a line each with the reason. Never counted as passed (CONF-002)."""
        return [
            f"{suite.port}: {name}: {reason}"
            for suite in self.suites
            for name, reason in self._impossible(suite).items()
        ]

    def _impossible(self, suite: Suite[Any]) -> Mapping[str, str]:
        """The cases that every conforming subject reports as not exercised, for suites that depend on the machine."""
        verdicts = self.conforming[suite.port]
        if not suite.real_time:
            return {}
        return {name: why for name, why in verdicts.unexercised.items() if name not in verdicts.executed}

    def _cannot_meet(self, mutant: Mutant) -> bool:
        return bool(mutant.meets) and set(mutant.meets) <= self._impossible(mutant.suite).keys()

    def _weak_cases(self, suite: Suite[Any]) -> Iterable[str]:
        for name, ids in citations(suite).items():
            for requirement in ids:
                if name not in self._impossible(suite) and not any(
                    name in self.verdicts[mutant.name].failed
                    for mutant in self.mutants
                    if mutant.suite is suite and requirement in mutant.violates
                ):
                    yield f"{suite.port}: {name} cites {requirement}, and no mutant that violates it fails it"


def citations(suite: Suite[Any]) -> dict[str, tuple[str, ...]]:
    """The requirements that each case cites, the lifetime row included."""
    return {**{case.name: case.requirements for case in suite.cases}, LIFETIME: suite.lifetime}


def run_matrix(
    suites: tuple[Suite[Any], ...],
    conforming: Mapping[str, tuple[Maker, ...]],
    mutants: Iterable[Mutant],
    *,
    full: bool = False,
    told: Callable[[str], None] = lambda _: None,
) -> Matrix:
    """Run everything. Each mutant meets the cases that cite an ID it violates, or with `full` all of its suite."""
    mutants = tuple(mutants)
    base: dict[str, Verdicts] = {}
    for suite in suites:
        told(f"conforming {suite.port}")
        runs = [_judge(suite, maker, None) for maker in conforming[suite.port]]
        base[suite.port] = Verdicts(
            failed={name: reason for each in runs for name, reason in each.failed.items()},
            executed=frozenset(name for each in runs for name in each.executed),
            unexercised={name: reason for each in runs for name, reason in each.unexercised.items()},
        )
    verdicts: dict[str, Verdicts] = {}
    for mutant in mutants:
        told(mutant.name)
        meets = () if full else mutant.meets
        verdicts[mutant.name] = _judge(mutant.suite, mutant.open, None if full else mutant.violates, meets)
    return Matrix(suites=suites, conforming=base, mutants=mutants, verdicts=verdicts)


def table(matrix: Matrix) -> Iterable[str]:
    """The matrix as lines: for each ID its mutants, and the cases that catch each."""
    rows: dict[str, list[tuple[Mutant, list[str]]]] = defaultdict(list)
    for mutant in matrix.mutants:
        for requirement in mutant.violates:
            rows[requirement].append((mutant, matrix.catches(mutant, requirement)))
    for requirement in sorted(rows):
        yield requirement
        for mutant, caught_by in rows[requirement]:
            mark = "caught" if caught_by else "MISSED"
            yield f"  {mark}  {mutant.name:<38} {mutant.why}"
            yield from (f"            by {name}" for name in caught_by)


def _judge(
    suite: Suite[Any], maker: Maker, requirements: tuple[str, ...] | None, meets: tuple[str, ...] = ()
) -> Verdicts:
    failed: dict[str, str] = {}
    executed: set[str] = set()
    unexercised: dict[str, str] = {}
    for case in suite.cases:
        if requirements is not None and not {*requirements} & {*case.requirements, *suite.lifetime}:
            continue
        if meets and case.name not in meets:
            continue
        # A clock that jumps makes whatever hangs end at once.
        clock = None if suite.real_time else MockClock(autojump_threshold=0)
        run: CaseRun = trio.run(partial(run_case, suite, case, maker), clock=clock)
        if run.row.status == "failed":
            failed[case.name] = run.row.reason
        if run.leaks:
            failed.setdefault(LIFETIME, ", ".join(run.leaks))
        if run.row.status in ("passed", "failed"):
            executed |= {case.name, LIFETIME}
        elif run.row.status == "not-exercised":
            unexercised[case.name] = run.row.reason
    return Verdicts(failed=failed, executed=frozenset(executed), unexercised=unexercised)
