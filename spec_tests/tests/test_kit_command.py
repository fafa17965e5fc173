"""`triolet certify` and `triolet requirements`: what they print, write and answer with."""

import json
from pathlib import Path

import jsonschema_rs
import pytest

from triolet.adapters.cli.main import main
from triolet.spec_tests import CATALOGUE, coverage, published_schema

_TARGET = "triolet.spec_tests.makers:memory_conversations"
_ONLY = ["--only", "create_begins_a_log", "--only", "epochs_only_grow"]


def test_a_conforming_adapter_gets_a_page_a_file_and_status_0(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "certificate.json"
    status = main(["certify", _TARGET, "--port", "conversation-store", *_ONLY, "--json", str(file)])
    out, err = capfd.readouterr()
    assert status == 0, out + err
    assert out.rstrip().endswith("CONFORMS: every executed check passed")
    assert [line.split()[1] for line in err.splitlines()] == ["1/4]", "2/4]", "3/4]", "4/4]"]
    document = json.loads(file.read_text(encoding="utf-8"))
    jsonschema_rs.validator_for(json.loads(published_schema())).validate(document)
    assert (document["verdict"], document["target"], document["isolated"]) == ("conforms", _TARGET, True)


def test_a_module_that_is_not_there_gets_a_row_and_status_1(capfd: pytest.CaptureFixture[str]) -> None:
    status = main(["certify", "nosuch.module:open_it", "--port", "kernel", "--quiet"])
    out, err = capfd.readouterr()
    assert status == 1
    assert "there is no module 'nosuch'" in out
    assert "NO VERDICT" in out
    assert err == ""


def test_nothing_executed_is_no_success(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    module = "import contextlib\n"
    module += "from triolet.adapters.scripted_model import ScriptedModel\n"
    module += "@contextlib.asynccontextmanager\nasync def open_it():\n    yield ScriptedModel([])\n"
    (tmp_path / "leverless.py").write_text(module, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        status = main(["certify", "leverless:open_it", "--port", "language-model", "--only", "text_keeps_its_order"])
    out, _ = capfd.readouterr()
    assert status == 1
    assert "not exercised" in out
    assert "NO VERDICT: nothing was executed" in out


@pytest.mark.parametrize(
    "arguments",
    [
        ["certify"],
        ["certify", "a.b:c"],
        ["certify", "a.b:c", "--port", "nothing"],
        ["certify", "not a target", "--port", "kernel"],
        ["certify", "a.b:c", "--port", "kernel", "--limit", "0"],
        ["certify", "a.b:c", "--port", "kernel", "--only", "nothing"],
        ["requirements", "extra"],
    ],
    ids=" ".join,
)
def test_a_wrong_command_line_is_one_line_and_status_2(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1


def test_a_certificate_that_cannot_be_written_is_said_and_still_shown(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "missing" / "certificate.json"
    status = main(["certify", _TARGET, "--port", "conversation-store", *_ONLY, "--json", str(file), "--quiet"])
    out, err = capfd.readouterr()
    assert status == 1
    assert "CONFORMS" in out
    assert "could not be written" in err


def test_requirements_as_json_have_a_row_each(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["requirements", "--json"]) == 0
    rows = json.loads(capfd.readouterr().out)
    assert [row["id"] for row in rows] == list(CATALOGUE)
    assert [(row["cases"], row["status"]) for row in rows] == [(row.cases, row.status) for row in coverage()]
    assert all(row["title"] for row in rows)


def test_requirements_as_a_table_name_cases_and_milestones(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["requirements"]) == 0
    out = capfd.readouterr().out
    assert len(out.splitlines()) == len(CATALOGUE) + 1
    assert "[durable]" in out
    assert out.splitlines()[-1].startswith(f"{len(CATALOGUE)} requirements: ")
