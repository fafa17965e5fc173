"""`triolet demo --approve`: a person at a real terminal answers before a file is read."""

import os
import pty
import select
import sys
from pathlib import Path

import pytest

_SILENCES = 60
"""Seconds in which nothing appears on the terminal; this bounds a program that hangs."""


def _demo(folder: Path, key: bytes) -> tuple[int, str]:
    child, terminal = pty.fork()
    if child == 0:
        command = [sys.executable, "-m", "triolet.adapters.cli.main", "demo", str(folder), "--scripted", "--approve"]
        os.execv(sys.executable, command)
    shown = b""
    silences = 0
    while silences < _SILENCES:
        if not select.select([terminal], [], [], 1.0)[0]:
            silences += 1
            if b"y/a/n/r>" in shown:
                # The desk drops what was typed before it listened, so a person who gets no reaction types again.
                os.write(terminal, key)
            continue
        try:
            more = os.read(terminal, 4096)
        except OSError:  # the other end is closed
            break
        if not more:
            break
        shown += more
    os.close(terminal)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), shown.decode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "notes.md").write_text("one two three four five six seven\n", encoding="utf-8")
    return tmp_path


def test_a_yes_lets_the_tool_read(folder: Path) -> None:
    status, shown = _demo(folder, b"y\n")
    assert status == 0
    assert "approved" in shown
    assert '"words": 7' in shown


def test_a_no_is_a_result_that_the_run_goes_on_with(folder: Path) -> None:
    status, shown = _demo(folder, b"n\n")
    assert status == 0
    assert "Not run (denied)" in shown
    assert '"words": 7' not in shown


def test_without_a_terminal_it_says_so(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from triolet.adapters.cli.main import main

    saved = os.dup(0)
    null = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(null, 0)
        assert main(["demo", str(folder), "--scripted", "--approve"]) == 1
    finally:
        os.dup2(saved, 0)
        os.close(saved)
        os.close(null)
    assert capfd.readouterr().err.startswith("triolet: approval desk terminal is unavailable")
