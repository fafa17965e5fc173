"""The bench: each row has its shape, and a timed operation that does not do its work gives no figure."""

import json
from typing import Any

import pytest
import trio

from bench.kernel_rows import PLAIN
from bench.row import Effort, Row, WrongOutcome
from bench.rows import ROWS
from triolet.adapters.scripted_model import ScriptedModel
from triolet.ports.language_model import ModelUnavailable

TINY = Effort(rounds=1, size=0.02)
KERNEL_ROWS = ("1", "2", "3", "4", "5", "6")


@pytest.mark.parametrize("name", KERNEL_ROWS)
def test_each_row_gives_its_figures(name: str) -> None:
    rows = trio.run(ROWS[name], TINY)
    assert rows
    for row in rows:
        content: dict[str, Any] = json.loads(row.line())
        assert content["name"].startswith(name)
        assert content["value"] > 0
        assert content["ratio"] == pytest.approx(content["value"] / content["target"], abs=0.01)
        assert content["unit"]


@pytest.mark.parametrize("name", KERNEL_ROWS)
def test_a_wrong_outcome_is_no_figure(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: ScriptedModel, request: Any) -> Any:
        raise ModelUnavailable(model="m", reason="transport")

    monkeypatch.setattr(ScriptedModel, "stream", broken)
    monkeypatch.setattr("triolet.kernel.policy.RetryPolicy.rules", property(lambda self: _once()))
    with pytest.raises(WrongOutcome):
        trio.run(ROWS[name], TINY)


def _once() -> Any:
    from triolet.ports.records import RetryRules

    return RetryRules()


def test_a_note_stands_only_beside_a_missed_target() -> None:
    met = Row(name="r", value=1, unit="u", target=2, floor_note="why")
    missed = Row(name="r", value=3, unit="u", target=2, floor_note="why")
    assert "floor_note" not in json.loads(met.line())
    assert json.loads(missed.line())["floor_note"] == "why"
    assert PLAIN.id == "plain"
