"""Writes every file that follows from the source: the coverage table, the certificate's schema, and the vectors.

`--check` writes nothing, names the files that are not up to date, and fails if there are any. Nothing else decides what
stands in these files; edit what they are made from.
"""

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.mutants.all_mutants import MUTANTS
from triolet.spec_tests import (
    SUITES,
    CoverageRow,
    canonical_vectors,
    coverage,
    log_vectors,
    reduction_vectors,
    schema_vectors,
)
from triolet.spec_tests.certificate import SCHEMA_FILE, rendered_schema

ROOT = Path(__file__).resolve().parent.parent
KIT = ROOT / "spec_tests" / "triolet" / "spec_tests"

_HEAD = """\
# Coverage of the requirements

Made by `make docs` from the catalogue, the cases and the mutants; do not edit it.

*Cases* is how many cases of the shipped suites cite the requirement, *mutants* how many deliberately wrong adapters
and kernels violate it; each of them is caught by a case that cites it (`make mutants`). *static* names the check of
what only the source can show. A requirement without cases says which milestone brings them, and one with cases what is
still to come.
"""


def main(arguments: list[str]) -> int:
    """Write the files, or with ``--check`` compare them; return the exit status."""
    check = arguments == ["--check"]
    if arguments and not check:
        print("usage: make_generated.py [--check]", file=sys.stderr)
        return 2
    stale: list[str] = []
    for path, render in _files().items():
        text = render()
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(str(path.relative_to(ROOT)))
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for name in stale:
        print(f"{'not up to date' if check else 'written'}: {name}")
    return 1 if check and stale else 0


def _files() -> dict[Path, Callable[[], str]]:
    return {
        ROOT / "docs" / "spec" / "coverage.md": coverage_page,
        KIT / SCHEMA_FILE: rendered_schema,
        canonical_vectors.PATH: canonical_vectors.rendered,
        reduction_vectors.PATH: reduction_vectors.rendered,
        schema_vectors.PATH: schema_vectors.rendered,
        log_vectors.PATH: log_vectors.rendered,
    }


def coverage_page() -> str:
    """The page `docs/spec/coverage.md`."""
    rows = coverage()
    mutants = Counter(requirement for mutant in MUTANTS for requirement in mutant.violates)
    counts = Counter[str](row.status for row in rows)
    lines = [
        _HEAD,
        _total(counts, len(rows)),
        "",
        "| suite | version | cases |",
        "| --- | --- | --- |",
        *(f"| {suite.port} | {suite.version} | {len(suite.cases)} |" for suite in SUITES.values()),
        "",
        "| ID | what must hold | cases | mutants | held by, and to come |",
        "| --- | --- | --- | --- | --- |",
        *(_row(row, mutants[row.id]) for row in rows),
    ]
    return "\n".join(lines) + "\n"


def _total(counts: Counter[str], all_of_them: int) -> str:
    held = f"{counts['cases']} with cases, {counts['static']} held by a static check alone"
    return f"{all_of_them} requirements: {held}, {counts['planned']} planned."


def _row(row: CoverageRow, mutants: int) -> str:
    notes = [
        ", ".join(row.ports),
        f"static: `{row.static}`" if row.static else "",
        f"milestone: {row.milestone}" if row.milestone else "",
        f"to come: {row.later}" if row.later else "",
    ]
    return f"| {row.id} | {row.title} | {row.cases or ''} | {mutants or ''} | {'; '.join(filter(None, notes))} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
