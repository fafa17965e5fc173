"""A turn costs the same however old its run is: shown by counting calls of functions, not by time."""

import sys
from typing import Any

import pytest

from tests.kernel_world import talker
from tests.log_watch import LogWatch
from triolet.adapters.memory import in_memory
from triolet.adapters.scripted_model import ScriptedModel, call, turn
from triolet.kernel import Completed, Policy, open_kernel, tool

TURNS = 300


@tool(execution="readonly")
async def look(n: int) -> int:
    """Look."""
    return n


class Counting(ScriptedModel):
    """Notes how many functions had been called when each request came."""

    def __init__(self, turns: int) -> None:
        super().__init__([*[turn(call("look", {"n": 1}))] * turns, turn("done")])
        self.calls = 0
        self.marks: list[int] = []

    def count(self, _frame: Any, event: str, _argument: Any) -> None:
        if event == "call":
            self.calls += 1

    def stream(self, request: Any) -> Any:
        self.marks.append(self.calls)
        return super().stream(request)


@pytest.mark.parametrize("context_tokens", [None, 10_000_000])
async def test_the_three_hundredth_turn_costs_what_the_twentieth_does(
    context_tokens: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The watch over all tests reads a whole history at every append.
    monkeypatch.setattr(LogWatch, "saw", lambda *_: None)
    limits = Policy(max_turns=2 * TURNS, max_tool_calls=2 * TURNS, context_tokens=context_tokens, max_seconds=None)
    agent = talker(look, policy=limits)
    model = Counting(TURNS)
    async with open_kernel(agents=[agent], capabilities=in_memory(model=model)) as kernel:
        sys.setprofile(model.count)
        try:
            result = await kernel.run(agent, "go")
        finally:
            sys.setprofile(None)
    assert isinstance(result, Completed)
    early = model.marks[25] - model.marks[15]
    late = model.marks[TURNS - 5] - model.marks[TURNS - 15]
    print(f"calls of functions in ten turns: {early} early, {late} late")
    assert early > 100
    assert late <= 1.02 * early
