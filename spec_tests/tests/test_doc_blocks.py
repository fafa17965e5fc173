"""The tool that runs the code blocks of the docs fails when it should, where it should; and the docs pass."""

import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]


def test_blocks_of_a_file_share_a_namespace_in_order(tmp_path: Path) -> None:
    status, output = _run_blocks(
        tmp_path, "```python\nx = 20\n```\nthen\n\n- item\n\n  ~~~python\n  assert x == 20\n  ~~~\n"
    )
    assert status == 0, output
    assert "2 run, 0 only compiled" in output


def test_failure_names_the_line_in_the_file(tmp_path: Path) -> None:
    status, output = _run_blocks(tmp_path, "# Title\n\n```python\nx = 1\nassert x == 2\n```\n")
    assert status == 1
    assert "page.md:5\n" in output
    assert "AssertionError" in output


def test_failure_inside_a_library_still_names_the_line(tmp_path: Path) -> None:
    status, output = _run_blocks(tmp_path, "```python\nimport json\n\njson.loads('{')\n```\n")
    assert status == 1
    assert "page.md:4\n" in output


def test_no_run_is_compiled_only(tmp_path: Path) -> None:
    assert _run_blocks(tmp_path, "```python no-run\nraise SystemExit(3)\n```\n")[0] == 0
    status, output = _run_blocks(tmp_path, "```python no-run\nx = = 1\n```\n")
    assert status == 1
    assert "page.md:2\n" in output


def test_warnings_are_errors(tmp_path: Path) -> None:
    status, output = _run_blocks(tmp_path, "```python\nimport warnings\nwarnings.warn('old')\n```\n")
    assert status == 1
    assert "page.md:3\n" in output


def test_other_languages_are_left_alone(tmp_path: Path) -> None:
    assert _run_blocks(tmp_path, "```pycon\n>>> 1/0\n```\n````text\n```python\n1/0\n```\n````\n") == (0, "")


@pytest.mark.parametrize(
    ("text", "line"),
    [("\n```python\nx = 1\n", 2), ("```python norun\nx = 1\n```\n", 1)],
    ids=["unclosed", "misspelt"],
)
def test_unreadable_fences_are_refused(tmp_path: Path, text: str, line: int) -> None:
    status, output = _run_blocks(tmp_path, text)
    assert status == 1
    assert f"page.md:{line}: " in output


def test_the_docs_of_this_project_run() -> None:
    command = [sys.executable, str(_ROOT / "tools" / "doc_blocks.py")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "README.md: " in result.stdout


def _run_blocks(folder: Path, text: str) -> tuple[int, str]:
    page = folder / "page.md"
    page.write_text(text, encoding="utf-8")
    command = [sys.executable, str(_ROOT / "tools" / "doc_blocks.py"), str(page)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.returncode, result.stdout + result.stderr
