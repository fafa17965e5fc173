"""`triolet demo` over hostile folders, and interrupted."""

import contextlib
import os
import signal
import subprocess
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import trio

from tests.demo_commands import COMMAND, Run, with_model
from triolet.adapters.cli.demo import running
from triolet.adapters.cli.demo.interruption import listening
from triolet.adapters.scripted_model import ScriptedModel, Turn, call, turn
from triolet.ports.language_model import LanguageModel, ModelRequest


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


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interruption_seals_the_run(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, status: int
) -> None:
    before = signal.getsignal(number)

    def interrupted(_: ModelRequest) -> Turn:
        os.kill(os.getpid(), number)
        return turn("x").hanging(trio.Event(), after=0)

    with_model(monkeypatch, ScriptedModel([turn(call("list_files")), interrupted]))
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
    command = [*COMMAND, "demo", str(folder), "--scripted", *form]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        complaint = process.stderr.read()
        status = process.wait(60)
    assert (status, complaint) == (141, b"")
