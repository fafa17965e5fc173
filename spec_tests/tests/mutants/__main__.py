"""`python -m tests.mutants`: prints which requirement is held by which mutant, and fails if the matrix has a gap.

`--full` lets each mutant meet every case of its suite, and not only those that cite what it violates. `--quick`
leaves out the suites whose cases wait on processes, which take minutes. Names given as arguments choose mutants;
then only what these leave open is a gap.
"""

import sys
import time

from tests.mutants.all_mutants import CONFORMING, MUTANTS, SUITES
from tests.mutants.matrix import run_matrix, table


def main(arguments: list[str]) -> int:
    """Run the matrix; return the exit status."""
    full = "--full" in arguments
    names = [each for each in arguments if not each.startswith("--")]
    unknown = sorted(set(names) - {mutant.name for mutant in MUTANTS})
    if unknown:
        print(f"no such mutant: {', '.join(unknown)}", file=sys.stderr)
        return 2
    suites = tuple(suite for suite in SUITES if not (suite.real_time and "--quick" in arguments))
    chosen = [mutant for mutant in MUTANTS if mutant.suite in suites and (not names or mutant.name in names)]
    started = time.monotonic()
    matrix = run_matrix(suites, CONFORMING, chosen, full=full)
    print("\n".join(table(matrix)))
    problems = [each for each in matrix.problems() if not names or " cites " not in each]
    print()
    for note in matrix.notes():
        print(f"NOT EXERCISED  {note}")
    for problem in problems:
        print(f"GAP  {problem}")
    ids = {requirement for mutant in chosen for requirement in mutant.violates}
    cases = sum(len(suite.cases) for suite in suites)
    seconds = time.monotonic() - started
    print(f"{len(chosen)} mutants, {len(ids)} requirements, {cases} cases, {len(problems)} gaps, {seconds:.0f} s")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
