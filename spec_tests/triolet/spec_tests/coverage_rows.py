"""How each requirement is held: by cases, by a static check, or by what is still to come.

Decides the status of an ID from the suites and the catalogue; nobody writes it down by hand. That a case really
counts for the IDs that it cites is shown by mutants in this project's own tests, where they live. (CONF-001)
"""

from collections import Counter
from typing import Literal

import attrs

from triolet.spec_tests.catalogue import CATALOGUE
from triolet.spec_tests.suites import SUITES

CoverageStatus = Literal["cases", "static", "planned"]


@attrs.frozen(kw_only=True, weakref_slot=False)
class CoverageRow:
    """One requirement. `cases` is how many cite it, over all suites; `ports` are the suites that have them.

    `static` names the check of what only the source can show. `milestone` is where the cases of a planned ID come;
    `later` is the part of one with cases that is still to come.
    """

    id: str
    title: str
    cases: int
    status: CoverageStatus
    ports: tuple[str, ...] = ()
    static: str | None = None
    milestone: str | None = None
    later: str | None = None


def coverage() -> tuple[CoverageRow, ...]:
    """Every requirement, in the catalogue's order."""
    counts = Counter[str]()
    ports: dict[str, list[str]] = {}
    for suite in SUITES.values():
        cited = Counter([*(each for case in suite.cases for each in case.requirements), *suite.lifetime])
        counts.update(cited)
        for requirement in cited:
            ports.setdefault(requirement, []).append(suite.port)
    rows: list[CoverageRow] = []
    for row in CATALOGUE.values():
        status: CoverageStatus = "cases" if counts[row.id] else "static" if row.static is not None else "planned"
        rows.append(
            CoverageRow(
                id=row.id,
                title=row.title,
                cases=counts[row.id],
                status=status,
                ports=tuple(ports.get(row.id, ())),
                static=row.static,
                milestone=row.milestone,
                later=row.later,
            )
        )
    return tuple(rows)
