"""Every row of the bench.

Decides only which there are, and under which number they are asked for. A new row is a function here.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import trio

from bench.code_rows import measure_code
from bench.kernel_rows import deltas, idle_conversation, late_turns, many_runs, one_run, tool_calls
from bench.row import Effort, Row
from bench.sandbox_rows import sandbox_rows

Measure = Callable[[Effort], Awaitable[list[Row]]]


async def code(effort: Effort) -> list[Row]:
    """Row 9: a fresh pass of Code Mode, and a host call in it."""
    fresh, calling = await measure_code(
        rounds=max(1, effort.rounds // 4), passes=effort.times(30), calls=effort.times(1_000)
    )
    return [
        Row(name="9 fresh pass of a program", value=fresh.cpu_us / 1e3, unit="ms CPU", target=2),
        Row(name="9 host call of a program", value=calling.cpu_us, unit="us CPU", target=200),
    ]


async def sandboxes(effort: Effort) -> list[Row]:
    """Start-up of each sandbox, in wall time; there is no target but what was measured before it was built."""
    figures = await trio.to_thread.run_sync(sandbox_rows, effort.times(30))
    targets = {"plain process": 2.0, "local-runner": 15.0, "bubblewrap": 20.0, "bubblewrap, no limits": 20.0}
    return [
        Row(name=f"start of {name}", value=seconds * 1e3, unit="ms wall", target=targets[name])
        for name, seconds in figures.items()
        if seconds is not None
    ]


ROWS: Final[Mapping[str, Measure]] = {
    "1": one_run,
    "2": tool_calls,
    "3": deltas,
    "4": many_runs,
    "5": idle_conversation,
    "6": late_turns,
    "9": code,
    "sandbox": sandboxes,
}
