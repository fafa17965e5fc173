"""Somebody else's project that has only the wheel: its broken adapter gets a certificate that names what is broken.

The environment is one of its own: the wheel, links to what Triolet depends on, and no pytest. Nothing of this
repository is on its path.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

_ROOT = Path(__file__).resolve().parents[2]

_LEFT_OUT = ("triolet", "__editable__", "_editable_", "pytest", "_pytest", "hypothesis", "_hypothesis", "editables")

_STORE = '''
"""A conversation store that keeps everything in a dict, by somebody who read the port in a hurry."""
from contextlib import asynccontextmanager
from triolet.adapters.memory import MemoryConversations
from triolet.ports.conversation_store import TailMoved

class HurriedStore(MemoryConversations):
    async def append(self, writer, batch, *, expected):
        tail = await self.inspect_tail(writer.address)
        if tail.sequence != expected.sequence:
            # A batch that is there already never gets this far in the author's tests.
            raise TailMoved(conversation=writer.address.conversation, expected=expected.sequence, actual=tail.sequence)
        return await super().append(writer, batch, expected=tail)

    async def save_checkpoint(self, writer, checkpoint):
        if await self.load_checkpoint(writer.address) is None:
            await super().save_checkpoint(writer, checkpoint)

@asynccontextmanager
async def open_store():
    yield HurriedStore()

@asynccontextmanager
async def open_sound_store():
    yield MemoryConversations()
'''

_MODEL = '''
"""A language model behind a protocol of its own, whose answers are all complete, whatever happened to them."""
from contextlib import asynccontextmanager
from triolet.ports.language_model import Finished, ModelIdentity, TextChunk
from triolet.spec_tests import Breaks, ModelSubject, Refuses, Says, Stalls
import trio

class Provider:
    def __init__(self):
        self.acts, self.received, self.answering = [], [], 0
    def will(self, *acts):
        self.acts += acts
    def next(self, request):
        self.received.append(repr(request.messages))
        return self.acts.pop(0) if self.acts else Says(text=("Hello.",))

class EagerModel:
    identity = ModelIdentity(provider="elsewhere", name="eager")
    def __init__(self, provider):
        self.provider = provider

    @asynccontextmanager
    async def stream(self, request):
        act = self.provider.next(request)
        self.provider.answering += 1
        try:
            yield self.parts(act)
        finally:
            self.provider.answering -= 1

    async def parts(self, act):
        for text in getattr(act, "text", ()):
            yield TextChunk(text=text)
        if isinstance(act, Stalls):
            await trio.sleep_forever()
        if isinstance(act, Refuses):
            raise RuntimeError(act.why)
        yield Finished(reason=getattr(act, "finish", "stop"))

@asynccontextmanager
async def open_model():
    provider = Provider()
    declines = dict.fromkeys(("tools", "reasoning", "usage", "cache", "wire"), "the protocol has no such thing")
    yield ModelSubject(port=EagerModel(provider), provider=provider, version="0.3", declines=declines)
'''


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that holds the wheel and its dependencies, and nothing of this repository."""
    folder = tmp_path_factory.mktemp("environment")
    _run([sys.executable, "-m", "venv", "--without-pip", str(folder)])
    (packages,) = (folder / "lib").glob("python*/site-packages")
    ours = Path(pytest.__file__).parent.parent
    for entry in ours.iterdir():
        if not entry.name.startswith(_LEFT_OUT) and entry.suffix != ".pth":
            (packages / entry.name).symlink_to(entry)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    _run([*pip, "install", "--quiet", "--no-deps", "--no-index", "--target", str(packages), str(wheel)])
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The test project."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere" / "__init__.py").write_text("", encoding="utf-8")
    (folder / "elsewhere" / "store.py").write_text(_STORE, encoding="utf-8")
    (folder / "elsewhere" / "model.py").write_text(_MODEL, encoding="utf-8")
    return folder


def test_the_environment_has_nothing_of_this_repository(python: Path, project: Path) -> None:
    code = (
        "import importlib.util, json, sys, triolet.spec_tests\n"
        "print(json.dumps([sys.path, triolet.spec_tests.__file__, importlib.util.find_spec('pytest') is None]))"
    )
    path, file, no_pytest = json.loads(_run([str(python), "-c", code], cwd=project))
    assert [entry for entry in path if str(_ROOT) in entry and ".venv" not in entry] == []
    assert str(python.parent.parent) in file
    assert no_pytest


def test_a_broken_store_is_named_by_exactly_what_it_breaks(python: Path, project: Path) -> None:
    """It checks the tail before it looks for the batch, and keeps the first checkpoint for ever."""
    status, certificate = _certify(python, project, "elsewhere.store:open_store", "conversation-store")
    assert status == 1
    failed = {row["case"]: row for row in certificate["rows"] if row["status"] == "failed"}
    assert sorted(failed) == [
        "a_checkpoint_is_the_latest_or_none",
        "append_again_writes_once",
        "append_checks_the_digest",
    ]
    # An append that is not idempotent breaks two requirements.
    assert certificate["broken"] == ["DUR-007", "STORE-004", "STORE-007"]
    assert {row["fault"] for row in failed.values()} == {"violation", "error"}
    assert certificate["subject"]["name"] == "elsewhere.store.HurriedStore"
    assert certificate["verdict"] == "violates"
    unexercised = [row["case"] for row in certificate["rows"] if row["status"] == "not-exercised"]
    assert unexercised == ["fencing_outlives_the_store", "a_log_outlives_the_store", "damaged_bytes_are_never_repaired"]


def test_a_sound_store_conforms(python: Path, project: Path) -> None:
    status, certificate = _certify(python, project, "elsewhere.store:open_sound_store", "conversation-store")
    assert (status, certificate["verdict"], certificate["broken"]) == (0, "conforms", [])


def test_a_broken_model_is_named_by_exactly_what_it_breaks(python: Path, project: Path) -> None:
    """It completes what was cut, and raises errors of no family; what its protocol lacks is not held against it."""
    status, certificate = _certify(python, project, "elsewhere.model:open_model", "language-model")
    assert status == 1
    failed = sorted(row["case"] for row in certificate["rows"] if row["status"] == "failed")
    assert failed == [
        "a_lost_connection_is_no_end",
        "a_refusal_for_length_is_told_apart",
        "one_request_is_one_request",
        "refusals_have_their_family",
    ]
    assert certificate["broken"] == ["CAP-001", "RUN-004", "RUN-027"]
    assert (certificate["subject"]["version"], certificate["subject"]["levers"]) == ("0.3", ["provider"])
    declined = {row["status"] for row in certificate["rows"] if "no such thing" in row["reason"]}
    assert declined == {"not-applicable"}


def test_a_mistake_in_the_harness_is_not_held_against_the_adapter(python: Path, project: Path) -> None:
    status, certificate = _certify(python, project, "elsewhere.store:HurriedStore", "conversation-store")
    assert (status, certificate["verdict"], certificate["broken"]) == (1, "harness-broken", [])


def _certify(python: Path, project: Path, target: str, port: str) -> tuple[int, dict[str, Any]]:
    file = project / "certificate.json"
    file.unlink(missing_ok=True)
    code = "import sys; from triolet.adapters.cli.main import main; sys.exit(main())"
    command = [
        str(python),
        "-W",
        "error",
        "-c",
        code,
        "certify",
        target,
        "--port",
        port,
        "--json",
        str(file),
        "--quiet",
    ]
    result = subprocess.run(command, cwd=project, env=_environment(), capture_output=True, text=True, check=False)
    assert file.is_file(), result.stdout + result.stderr
    certificate: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return result.returncode, certificate


def _environment(without: Iterable[str] = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in set(without)}


def _run(command: list[str], cwd: Path = _ROOT) -> str:
    result = subprocess.run(command, cwd=cwd, env=_environment(), capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout
