"""Executes the Python code blocks of README.md and docs/, so that no example can rot.

Every file runs in a process of its own, in an empty folder, with warnings as errors; its blocks run in
order and share one namespace, as a reader would type them. A block fenced as ```python no-run is only
compiled. Tracebacks name the line in the Markdown file. Blocks in any other language are left alone.
It is an error if README.md holds no block that runs: then somebody has renamed the fence.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,})\s*(?P<info>[^`]*)$")
PATIENCE = 120  # seconds for all blocks of one file


class BadBlock(Exception):
    """A fence that cannot be read: unclosed, or with a word after `python` that means nothing here."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """One fenced Python block: `line` is that of its first line of code, counted from 1."""

    line: int
    code: str
    runs: bool


def main() -> int:
    """Run the blocks of the given files (by default README.md and docs/); return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("files", nargs="*", type=Path, help="Markdown files; default: README.md and docs/")
    parser.add_argument("--here", action="store_true", help="run the blocks inside this process (one file)")
    options = parser.parse_args()
    readme = ROOT / "README.md"
    files: list[Path] = [path.resolve() for path in options.files]
    if options.here:
        (path,) = files
        execute(path)
        return 0
    failed = False
    for path in files or [readme, *sorted((ROOT / "docs").rglob("*.md"))]:
        failed |= not passes(path, must_run=path == readme)
    return 1 if failed else 0


def passes(path: Path, *, must_run: bool) -> bool:
    """Run one file's blocks in a new process. Prints one line if there were any, and what went wrong."""
    shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    try:
        blocks = blocks_of(path.read_text(encoding="utf-8"))
    except BadBlock as error:
        print(f"FAIL {shown}:{error}")
        return False
    running = sum(block.runs for block in blocks)
    if must_run and not running:
        print(f"FAIL {shown}:1: no ```python block that runs")
        return False
    if not blocks:
        return True
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-W", "error", str(Path(__file__).resolve()), "--here", str(path)]
        try:
            result = subprocess.run(
                command,
                cwd=folder,
                env={**os.environ, "NO_COLOR": "1"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=PATIENCE,
                check=False,
            )
        except subprocess.TimeoutExpired:
            print(f"FAIL {shown}:{blocks[0].line}: not finished after {PATIENCE} s")
            return False
    if result.returncode != 0:
        # The innermost frame of the traceback may be far from the docs: repeat the block's own line.
        lines = re.findall(rf'File "{re.escape(str(path))}", line (\d+)', result.stdout)
        print(f"FAIL {shown}:{lines[-1] if lines else blocks[0].line}\n{result.stdout.rstrip()}")
        return False
    print(f"ok   {shown}: {running} run, {len(blocks) - running} only compiled")
    return True


def blocks_of(text: str) -> list[Block]:
    """The Python blocks of a Markdown text, in order.

    Raises:
        BadBlock: its message starts with the line number of the fence.
    """
    blocks: list[Block] = []
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        opening = FENCE.match(lines[number])
        number += 1
        if opening is None:
            continue
        start = number
        while number < len(lines) and not closes(lines[number], opening["fence"]):
            number += 1
        if number == len(lines):
            raise BadBlock(f"{start}: this fence is never closed")
        body = textwrap.dedent("\n".join(lines[start:number])) + "\n"
        number += 1
        language, *flags = opening["info"].split() or [""]
        if language != "python":
            continue
        if flags not in ([], ["no-run"]):
            raise BadBlock(f"{start}: after 'python' only 'no-run' may follow, not {' '.join(flags)!r}")
        blocks.append(Block(line=start + 1, code=body, runs=not flags))
    return blocks


def closes(line: str, fence: str) -> bool:
    """Whether `line` ends a block that `fence` opened."""
    bare = line.strip()
    return len(bare) >= len(fence) and set(bare) == {fence[0]}


def execute(path: Path) -> None:
    """Compile all blocks of `path`, then run those that run, in this process, as one `__main__`."""
    compiled = [
        # Leading newlines give every line the number it has in the Markdown file.
        (block, compile("\n" * (block.line - 1) + block.code, str(path), "exec", dont_inherit=True))
        for block in blocks_of(path.read_text(encoding="utf-8"))
    ]
    namespace = vars(sys.modules["__main__"])
    for name in [name for name in namespace if not name.startswith("__")]:
        del namespace[name]
    for block, code in compiled:
        if block.runs:
            exec(code, namespace)


if __name__ == "__main__":
    sys.exit(main())
