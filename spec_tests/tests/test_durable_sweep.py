"""Workers stopped at every step of every life: whoever comes next reaches the same settlement (CONF-004, DUR-013).

`python -m tests.durable_sweep` pins anew at which awaits they stood (`durable_points.json`). A new await needs a life
that passes it; those that none passes stand in `durable_unswept.json` under the reason.
"""

import json
from pathlib import Path

import pytest

from tests.durable_sweep import PINNED, STARTS, Start, durable_points, sweep_durable
from tests.log_watch import LogWatch

UNSWEPT = Path(__file__).with_name("durable_unswept.json")
REASONS = {
    "client": "a client's own wait, which decides nothing: whoever stops waiting aborts nothing",
    "given back": "a claim is being given back; where that is stopped, its lease runs out, as after a crash there",
    "tested apart": "what is rare enough to have tests of its own; a crash there is a crash before the next change",
}


@pytest.mark.parametrize("start", STARTS, ids=lambda start: start.name)
def test_stopped_at_any_step_the_work_goes_on(start: Start, log_watch: LogWatch) -> None:
    log_watch.open_runs_are_fine = True
    count, points = sweep_durable(start)
    print(f"{start.name}: stopped {count} times, at {len(points)} awaits of the kernel")
    assert points <= set(json.loads(PINNED.read_text(encoding="utf-8"))), "python -m tests.durable_sweep"


def test_every_await_is_swept_or_has_a_reason() -> None:
    pinned = set(json.loads(PINNED.read_text(encoding="utf-8"))) & durable_points()
    unswept: dict[str, list[str]] = json.loads(UNSWEPT.read_text(encoding="utf-8"))
    assert unswept.keys() == REASONS.keys()
    excused = {point for points in unswept.values() for point in points}
    print(f"{len(pinned)} awaits swept, {len(excused)} with a reason")
    assert durable_points() == pinned | excused
    assert not pinned & excused
