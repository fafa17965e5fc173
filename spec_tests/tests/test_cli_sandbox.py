"""`triolet sandbox`: what is shown, and which exit status stands for what."""

import json
from pathlib import Path

import pytest

from tests.test_sandbox_suite import needs_bwrap
from triolet.adapters.cli.main import main


def test_a_plain_process_has_to_be_asked_for_and_is_called_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sandbox", "--unisolated", "--", "sh", "-c", "echo out; echo err >&2; exit 5"]) == 5
    shown = capsys.readouterr()
    assert shown.out == "out\n"
    assert "err\n" in shown.err
    assert "triolet: unisolated: local-runner" in shown.err


def test_json_is_one_document_with_the_label(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sandbox", "--unisolated", "--json", "--", "echo", "x"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["stdout"]["head"], result["implementation"]["label"]) == ("x\n", "unisolated")


def test_a_limit_that_was_met_is_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sandbox", "--unisolated", "--seconds", "0.2", "--", "sleep", "30"]) == 1
    assert "ended by the wall-clock limit" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line",
    [
        ["--env", "NOVALUE", "--", "true"],
        ["--seconds", "0", "--", "true"],
        ["--network", "some", "--", "true"],
        [],
    ],
)
def test_a_wrong_line_is_said_in_one_line(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sandbox", *line]) == 2
    assert capsys.readouterr().err.startswith("triolet: ")


def test_what_cannot_be_started_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sandbox", "--unisolated", "--", "/not/there"]) == 1
    assert "could not be started" in capsys.readouterr().err
    assert main(["sandbox", "--unisolated", "--json", "--", "/not/there"]) == 1
    assert json.loads(capsys.readouterr().out)["error"] == "CommandNotStarted"


@needs_bwrap
def test_isolated_by_default_and_shows_what_was_found(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["sandbox", "--cpu", "0", "--memory", "0", "--processes", "0", "--", "ls", "/"]) == 0
    shown = capsys.readouterr()
    assert "work" in shown.out.split()
    assert "root" not in shown.out.split()
    assert "triolet: isolated: bubblewrap" in shown.err


@needs_bwrap
def test_refusals_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sandbox", "--read", "/not/there:/x", "--read", "/etc", "--", "true"]) == 1
    complaint = capsys.readouterr().err
    assert "/not/there: No such file" in complaint
    assert "/etc is the sandbox's own" in complaint
