"""Runs the static checks, two at a time, and prints one line for each with its duration.

`python tools/check.py` runs all of them; names given as arguments choose. What a failed check printed
follows its line. The exit status is 1 if any failed. Nothing here fixes anything.
"""

import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent

# The slow ones first, so that both processors stay busy.
CHECKS = {
    "mypy": [str(BIN / "mypy")],
    "pyright": [str(BIN / "pyright"), "--warnings"],
    "format": [str(BIN / "ruff"), "format", "--check", "--output-format", "concise", "."],
    "lint": [str(BIN / "ruff"), "check", "--output-format", "concise", "."],
    "imports": [str(BIN / "lint-imports"), "--no-logo"],
    "docs": [sys.executable, "tools/doc_blocks.py"],
    "pages": [sys.executable, "tools/legal_moves.py", "--check"],
}


def main(names: list[str]) -> int:
    """Run the named checks, all of them by default; return the exit status."""
    unknown = sorted(set(names) - set(CHECKS))
    if unknown:
        print(f"no such check: {', '.join(unknown)} (there are: {', '.join(CHECKS)})", file=sys.stderr)
        return 2
    chosen = [name for name in CHECKS if not names or name in names]
    failed: list[str] = []
    with ThreadPoolExecutor(max_workers=2) as pool:
        for done in as_completed([pool.submit(run, name) for name in chosen]):
            name, seconds, passed, output = done.result()
            print(f"{'ok  ' if passed else 'FAIL'} {name:<8} {seconds:6.1f} s", flush=True)
            if not passed:
                failed.append(name)
                print(output.rstrip(), flush=True)
    if failed:
        print(f"{len(failed)} of {len(chosen)} checks failed: {', '.join(failed)}")
    return 1 if failed else 0


def run(name: str) -> tuple[str, float, bool, str]:
    """Run one check. Returns its name, the seconds it took, whether it passed, and what it printed."""
    if name == "pyright" and shutil.which("node") is None:
        return name, 0.0, False, "pyright needs node. Run: sudo apt-get install -y nodejs"
    # Without the second variable pyright's wrapper would ask npm for news of a newer version.
    env = {**os.environ, "NO_COLOR": "1", "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    started = time.monotonic()
    result = subprocess.run(
        CHECKS[name],
        cwd=ROOT,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return name, time.monotonic() - started, result.returncode == 0, result.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
