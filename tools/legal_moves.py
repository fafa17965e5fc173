"""Writes docs/reference/legal-moves.md from the machine's table; with --check, only says whether it is up to date.

The page decides nothing: the table in `triolet.kernel.machine.table` is the authority.
"""

import inspect
import sys
from pathlib import Path
from typing import get_args

from triolet.kernel.machine.state import Phase
from triolet.kernel.machine.table import BRANCHES, TABLE

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "legal-moves.md"


def targets(to: object) -> tuple[str, ...]:
    """The phases that a row can lead to."""
    return (to,) if isinstance(to, str) else BRANCHES[to]


def page() -> str:
    """The whole page."""
    lines = [
        "# Legal moves",
        "",
        "Which record may follow in which phase, generated from `triolet.kernel.machine.table` by",
        "`tools/legal_moves.py`. A record without a row is refused before it is written; a log that holds one is",
        "corrupt.",
        "",
        "```mermaid",
        "stateDiagram-v2",
        "    [*] --> new",
    ]
    edges: dict[tuple[str, str], list[str]] = {}
    for (phase, family), move in TABLE.items():
        for target in targets(move.to):
            edges.setdefault((phase, target), []).append(family.kind)
    lines += [f"    {phase} --> {target}: {', '.join(kinds)}" for (phase, target), kinds in edges.items()]
    lines += ["```", "", "| phase | record | guards | next phase |", "| --- | --- | --- | --- |"]
    for (phase, family), move in TABLE.items():
        guards = ", ".join(f"`{guard.__name__}`" for guard in move.guards) or "none"
        lines.append(f"| {phase} | `{family.kind}` | {guards} | {' or '.join(targets(move.to))} |")
    lines += ["", "## Guards", "", "| guard | holds that |", "| --- | --- |"]
    seen = {guard.__name__: guard for move in TABLE.values() for guard in move.guards}
    lines += [f"| `{name}` | {inspect.getdoc(guard)} |" for name, guard in sorted(seen.items())]
    unreached = sorted(set(get_args(Phase)) - {phase for edge in edges for phase in edge})
    if unreached:
        raise SystemExit(f"phases that no row names: {', '.join(unreached)}")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write the page, or compare it."""
    wanted = page()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(wanted, encoding="utf-8")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == wanted:
        return 0
    print(f"{PAGE.name} is out of date: run .venv/bin/python tools/legal_moves.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
