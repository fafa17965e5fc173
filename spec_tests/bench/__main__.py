"""Runs the bench and prints one line of JSON for each figure. ``--rows 1,3`` chooses; ``--quick`` does less of each."""

import argparse
import sys

import trio

from bench.row import Effort
from bench.rows import ROWS


def main(arguments: list[str]) -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(prog="bench", description="What things cost, beside what they may cost.")
    parser.add_argument("--rows", default=",".join(ROWS), help=f"which rows, of {', '.join(ROWS)}")
    parser.add_argument("--quick", action="store_true", help="fewer rounds: rougher figures")
    given = parser.parse_args(arguments)
    wanted = given.rows.split(",")
    unknown = [name for name in wanted if name not in ROWS]
    if unknown:
        parser.error(f"there is no row {', '.join(unknown)}")
    effort = Effort(rounds=5) if given.quick else Effort()
    for name in wanted:
        for row in trio.run(ROWS[name], effort):
            print(row.line(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
