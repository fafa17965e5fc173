"""Every await of the kernel is one at which work was cancelled, and nothing was left behind (CONF-004).

`python -m tests.await_sweep --write` pins anew which points the scenarios visit; a new await at which no scenario is
cancelled needs a scenario, or a reason here.
"""

import json
from typing import Any

import pytest
import trio

from tests import await_points, await_sweep, durable_sweep
from tests.await_plays import DONE, talking
from tests.await_scenarios import SCENARIOS, Scenario
from tests.log_watch import LogWatch

_GIVES_BACK = "it runs once its caller was cancelled, and shielded"

UNREACHABLE = {
    "accounts:Accounts.pay_calls: await self._budgets.release(name)": _GIVES_BACK,
    "accounts:Accounts.release: await self._budgets.release(name)": _GIVES_BACK,
    "interpreter:Interpreter._drive: await self._accounts.release()": _GIVES_BACK,
    "broker:Broker.call: await trio.lowlevel.checkpoint_if_cancelled()": "who parks here is cancelled already",
    "conversation:Conversation.resume: await self._enter(resuming=True)": "it is new, and nobody is in line",
    "trace:EventReader.__anext__: await trio.lowlevel.checkpoint_if_cancelled()": "who parks here is cancelled already",
}
"""Awaits at which no task can stand when it is cancelled, and why."""

ELSEWHERE = {
    "telemetry.model:_Chat.__aenter__: await self._opened.__aenter__()",
    "telemetry.model:_Chat.__aexit__: await opened.__aexit__(kind, error, trace)",
    "telemetry.model:_Parts.__anext__: await self._parts.__anext__()",
    "telemetry.ports:ObservedPort._calling.call: await getattr(self._adapter, operation.name)(*arguments, **named)",
    "telemetry.ports:_ObservedScope.__aenter__: await self._opened.__aenter__()",
    "telemetry.ports:_ObservedScope.__aexit__: await self._opened.__aexit__(kind, error, trace)",
}
"""Awaits that exist only while somebody listens: test_telemetry_cancellation stops such runs at every step."""


def pinned() -> dict[str, list[str]]:
    content: dict[str, list[str]] = json.loads(await_sweep.PINNED.read_text(encoding="utf-8"))
    return content


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_each_await_point_that_is_passed_is_one_where_it_was_cancelled(scenario: Scenario, log_watch: LogWatch) -> None:
    # A suspended run that nobody resumed is open; the sweep looks at each open run by itself.
    log_watch.open_runs_are_fine = True
    swept = await_sweep.sweep_points(scenario)
    print(f"{scenario.name}: cancelled {swept.steps} times, at {len(swept.cancelled)} await points")
    assert swept.passed, "the scenario passes no await of the kernel"
    due = set(pinned()[scenario.name])
    if scenario.threaded:
        # Threads follow no seed: what is pinned was visited, and beyond it is what they happened to meet.
        assert due <= swept.cancelled
        return
    assert swept.passed <= swept.cancelled, "a point was passed at which it was never cancelled"
    assert swept.cancelled == due, "python -m tests.await_sweep --write"


def test_every_await_of_the_kernel_is_visited() -> None:
    visited = {point for points in pinned().values() for point in points}
    # The durable half has a sweep of its own: test_durable_sweep.
    durable: set[str] = set(json.loads(durable_sweep.PINNED.read_text(encoding="utf-8")))
    points = {point for point in await_points.all_points() if not point.startswith("durable.")}
    print(f"{len(visited)} of {len(points)} await points visited")
    assert visited <= points, "the kernel has no such await any more: python -m tests.await_sweep --write"
    assert points - visited - durable == UNREACHABLE.keys() | ELSEWHERE
    assert {scenario.name for scenario in SCENARIOS} == pinned().keys()


def test_a_point_is_found_in_the_source_and_in_the_task_that_stands_there() -> None:
    points = await_points.all_points()
    assert "journal:Journal._write: await self._store.append(self._writer, batch, expected=self._tail)" in points
    assert "listening:listen: async with model.stream(request) as parts (exit)" in points
    assert "conversation:Conversation.run: await self._enter()" in points


# --- the harness itself ---------------------------------------------------------------------------------


def broken(play: Any) -> Scenario:
    return Scenario(name="broken", agent=talking(), turns=(DONE,), play=play)


def test_a_task_that_is_left_is_found() -> None:
    async def play(_: Any) -> None:
        trio.lowlevel.spawn_system_task(trio.sleep_forever)
        await trio.lowlevel.checkpoint()

    with pytest.raises(AssertionError, match="tasks are alive"):
        await_sweep.sweep_points(broken(play))


def test_a_descriptor_that_is_left_is_found() -> None:
    kept: list[Any] = []

    async def play(_: Any) -> None:
        kept.append(await_sweep.PINNED.open("rb"))
        await trio.lowlevel.checkpoint()

    with pytest.raises(AssertionError, match="left descriptors"):
        await_sweep.sweep_points(broken(play))
    for file in kept:
        file.close()


def test_a_token_that_is_left_is_found() -> None:
    async def play(stage: Any) -> None:
        stage.kernel._runtime.groups["disk"].acquire_on_behalf_of_nowait("nobody")
        await trio.lowlevel.checkpoint()

    with pytest.raises(AssertionError):
        await_sweep.sweep_points(broken(play))


def test_a_run_that_is_left_open_is_found(monkeypatch: pytest.MonkeyPatch, log_watch: LogWatch) -> None:
    log_watch.open_runs_are_fine = True

    async def play(stage: Any) -> None:
        await stage.kernel.run(stage.agent, "go")

    async def forget(self: Any, cause: Any) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()

    monkeypatch.setattr("triolet.kernel.interpreter.Interpreter._seal", forget)
    with pytest.raises(AssertionError):
        await_sweep.sweep_points(broken(play))


def test_what_a_further_check_finds_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(_: Any) -> None:
        await trio.lowlevel.checkpoint()

    monkeypatch.setattr(await_sweep, "LEFT_BEHIND", [lambda: ["a span"]])
    with pytest.raises(AssertionError, match=r"left .*a span"):
        await_sweep.sweep_points(broken(play))
