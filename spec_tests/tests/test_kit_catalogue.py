"""Every requirement has a case, a static check or a named milestone, and the documents say the same."""

import importlib
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from triolet.spec_tests import CATALOGUE, MILESTONES, SUITES, coverage

_ROOT = Path(__file__).resolve().parents[2]

_FAMILIES = {
    "CAP": 17,
    "RUN": 31,
    "TOOL": 4,
    "APPR": 5,
    "STEER": 2,
    "DUR": 17,
    "STORE": 14,
    "SUB": 27,
    "SEC": 9,
    "OPS": 2,
    "CONF": 5,
}
"""How many requirements each family has. IDs are never removed, so these figures only grow."""


def test_no_requirement_is_lost() -> None:
    assert Counter(requirement.partition("-")[0] for requirement in CATALOGUE) == _FAMILIES


@pytest.mark.parametrize("row", coverage(), ids=lambda row: row.id)
def test_every_requirement_is_held_or_has_its_milestone(row: object) -> None:
    by_id = {each.id: each for each in coverage()}
    held = by_id[row.id]  # type: ignore[attr-defined]  # a coverage row; parametrize hands on objects
    if held.status == "planned":
        assert held.milestone in MILESTONES
        assert held.later is None
        return
    assert held.milestone is None, "it has cases or a static check, so nothing else may be promised for it"
    assert (held.cases > 0) == (held.status == "cases")
    if held.later is not None:
        assert held.later.rpartition(": ")[2] in MILESTONES


def test_every_milestone_is_awaited() -> None:
    awaited = {row.milestone for row in CATALOGUE.values()} | {
        row.later.rpartition(": ")[2] for row in CATALOGUE.values() if row.later
    }
    assert set(MILESTONES) <= awaited


@pytest.mark.parametrize("named", sorted({row.static for row in CATALOGUE.values() if row.static}))
def test_a_static_check_that_is_named_is_there(named: str) -> None:
    path, _, test = named.partition("::")
    assert (_ROOT / path).is_file()
    module = importlib.import_module("tests." + Path(path).stem)
    assert any(name.startswith("test_") for name in vars(module))
    if test:
        assert callable(getattr(module, test))


def test_cases_are_counted_over_all_suites() -> None:
    counted = {row.id: row.cases for row in coverage()}
    cited = Counter(each for suite in SUITES.values() for case in suite.cases for each in case.requirements)
    for suite in SUITES.values():
        cited.update(suite.lifetime)
    assert {each: count for each, count in counted.items() if count} == cited


def test_titles_and_names_are_one_line_each() -> None:
    for suite in SUITES.values():
        for case in suite.cases:
            assert case.title
            assert "\n" not in case.title
            assert case.name.isidentifier()
            assert not case.title.endswith(".")
    for row in CATALOGUE.values():
        assert 10 < len(row.title) <= 90


@pytest.mark.parametrize("suite", SUITES.values(), ids=str)
def test_every_case_of_a_module_is_in_its_suite(suite: object) -> None:
    """A case that was written and not listed would never run."""
    listed = {case.name for case in suite.cases}  # type: ignore[attr-defined]  # parametrize hands on objects
    package = suite.cases[0].check.__module__.rpartition(".")[0]  # type: ignore[attr-defined]
    folder = Path(str(importlib.import_module(package).__file__)).parent
    written: set[str] = set()
    for path in folder.glob("*.py"):
        text = path.read_text(encoding="utf-8").splitlines()
        written |= {
            text[number + 1].removeprefix("async def ").partition("(")[0]
            for number, line in enumerate(text)
            if line.startswith("@case(")
        }
    assert written == listed


def test_generated_files_are_up_to_date() -> None:
    """If this fails: `make docs`, and look at what has changed."""
    command = [sys.executable, str(_ROOT / "tools" / "make_generated.py"), "--check"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
