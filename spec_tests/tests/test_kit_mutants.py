"""The matrix of requirements and mutants has no gap, and would show one (CONF-001)."""

import subprocess
import sys
from contextlib import AbstractAsyncContextManager
from typing import Any

import attrs
import pytest

from tests.mutants.all_mutants import MUTANTS
from tests.mutants.matrix import Matrix, run_matrix
from tests.mutants.mutant import Mutant, Patches
from tests.test_kit_cases import broken, fine, suite_of, text
from triolet.kernel.machine import settle


def matrix_of(*mutants: Mutant, conforming: Any = text, checks: Any = (fine,)) -> Matrix:
    suite = suite_of(*checks)
    # No mutant of these small ones leaks, and the lifetime row is not what they are about.
    suite = attrs.evolve(suite, lifetime=("RUN-001",))
    chosen = tuple(attrs.evolve(mutant, suite=suite) for mutant in mutants)
    return run_matrix((suite,), {"thing": (conforming,)}, chosen)


def mutant(maker: Any = text, *, violates: tuple[str, ...] = ("RUN-001",)) -> Mutant:
    return Mutant(name="m", why="w", violates=violates, suite=suite_of(fine), open=maker)


def test_the_matrix_has_no_gap() -> None:
    """In a process of its own, so that nothing that watches this one catches a mutant in the place of a case.

    The suites that wait on processes have minutes of their own in `make mutants`.
    """
    command = [sys.executable, "-W", "error", "-m", "tests.mutants", "--quick"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert " 0 gaps" in result.stdout


def test_names_of_mutants_are_distinct() -> None:
    names = [each.name for each in MUTANTS]
    assert sorted({name for name in names if names.count(name) > 1}) == []
    assert all(each.why for each in MUTANTS)


def test_a_mutant_that_is_right_is_a_gap() -> None:
    problems = matrix_of(mutant()).problems()
    assert "mutant m is not caught by any case that cites RUN-001" in problems
    assert "thing: c0 cites RUN-001, and no mutant that violates it fails it" in problems


def test_a_case_that_fails_on_the_conforming_subject_is_a_gap() -> None:
    assert "the conforming subject of thing fails c0: it is broken" in matrix_of(mutant(), checks=(broken,)).problems()


def test_a_case_that_no_conforming_subject_executes_is_a_gap() -> None:
    suite = suite_of(fine, needs=("reopen",))
    problems = run_matrix((suite,), {"thing": (text,)}, ()).problems()
    assert "thing: no conforming subject executes c0" in problems


def test_being_caught_for_another_requirement_is_no_catch() -> None:
    def opens_nothing() -> AbstractAsyncContextManager[str]:
        raise OSError

    caught = mutant(opens_nothing)
    elsewhere = mutant(opens_nothing, violates=("RUN-002",))
    assert "mutant m is not caught by any case that cites RUN-001" not in matrix_of(caught).problems()
    assert "mutant m is not caught by any case that cites RUN-002" in matrix_of(elsewhere).problems()


def test_patches_are_undone() -> None:
    before = settle.answered
    with Patches() as patches:
        patches.wrap("triolet.kernel.machine.settle.answered", lambda _: None)
        assert settle.answered is None
    assert settle.answered is before
    with pytest.raises(AttributeError), Patches() as patches:
        patches.wrap("triolet.kernel.machine.settle.nothing_of_the_kind", lambda _: None)
