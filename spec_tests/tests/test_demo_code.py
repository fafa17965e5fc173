"""`triolet demo --code`: the program, its calls, its logs and its value."""

import json
from pathlib import Path

import pytest

from triolet.adapters.cli.main import main


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.md").write_text("one two three\n", encoding="utf-8")
    (tmp_path / "b.md").write_text("four five\n", encoding="utf-8")
    return tmp_path


def test_the_page_shows_program_calls_logs_and_output(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", str(folder), "--code"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for part in (
        "isolated (filesystem enforced",
        "program async () => {",
        "call list_files {} count_words",
        'count_words {"file": "b.md"}',
        "logs 2 of 2 files counted",
        '"words": 5}',
        'answer 5 words, by 3 calls of one program; most are in "a.md".',
    ):
        assert part in shown, part


def test_json_lines_end_with_the_result(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", str(folder), "--code", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    result = lines[-1]
    assert [each["kind"] for each in lines][-2:] == ["run-completed", "result"]
    assert [each["tool"] for each in result["calls"]] == ["list_files", "count_words", "count_words"]
    assert result["report"]["result"]["words"] == 5
    assert result["report"]["calls"] == 3
    assert result["program"].startswith("async () =>")


@pytest.mark.parametrize("flag", [["--ask", "x"], ["--approve"]])
def test_it_plays_a_program_of_its_own(folder: Path, flag: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", str(folder), "--code", *flag]) == 2
    assert "do not go with it" in capsys.readouterr().err
