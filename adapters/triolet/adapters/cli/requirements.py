"""`triolet requirements`: the catalogue, and how each of its IDs is held.

Decides the table and the JSON form. What stands in them is counted from the suites.
"""

import json
import sys
from collections import Counter

import click

from triolet.spec_tests import CoverageRow, coverage


@click.command()
@click.option("--json", "as_json", is_flag=True, help="A JSON list in place of the table.")
def requirements(as_json: bool) -> int:
    """List the requirements, with the number of cases for each.

    Status: cases (that many cite it), static (a check of the source holds it), planned (with the milestone).
    """
    rows = coverage()
    if as_json:
        listed = [
            {
                "id": row.id,
                "title": row.title,
                "cases": row.cases,
                "status": row.status,
                "ports": list(row.ports),
                "static": row.static,
                "milestone": row.milestone,
                "later": row.later,
            }
            for row in rows
        ]
        sys.stdout.write(json.dumps(listed, indent=1, ensure_ascii=False) + "\n")
        return 0
    for row in rows:
        click.echo(f"{row.id:<10} {row.cases:>3}  {row.status:<8} {row.title}{_note(row)}")
    counts = Counter(row.status for row in rows)
    click.echo(f"{len(rows)} requirements: " + ", ".join(f"{count} {status}" for status, count in counts.items()))
    return 0


def _note(row: CoverageRow) -> str:
    if row.status == "planned":
        return f"  [{row.milestone}]"
    return f"  [later: {row.later}]" if row.later else ""
