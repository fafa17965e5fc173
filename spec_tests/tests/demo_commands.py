"""Runs of the demo command, in this process and in one of their own."""

import contextlib
import json
import sys
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from triolet.adapters.cli.demo import running
from triolet.adapters.cli.main import main
from triolet.ports.language_model import LanguageModel

COMMAND = [sys.executable, "-m", "triolet.adapters.cli.main"]


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


def with_model(monkeypatch: pytest.MonkeyPatch, model: LanguageModel) -> None:
    @contextlib.asynccontextmanager
    async def opened(*_: object, **__: object) -> AsyncGenerator[LanguageModel]:
        yield model

    monkeypatch.setattr(running, "_open_model", opened)
