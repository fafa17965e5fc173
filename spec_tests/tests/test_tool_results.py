"""What leaves a tool is redacted and bounded first (TOOL-002, RUN-022)."""

import json
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from tests.kernel_world import World, one_agent, talker
from tests.tool_outcome_of import SECRET, Full, outcome_of
from triolet.adapters.scripted_model import call, turn
from triolet.kernel import InvalidAgent, Policy, tool
from triolet.kernel.machine.reduction import MAX_CALLS
from triolet.kernel.pipeline.bound import bounded, keeper
from triolet.kernel.pipeline.settle import settle_output
from triolet.ports.batch import BATCH_LIMITS
from triolet.ports.identity import DEFAULT_TENANT
from triolet.ports.outcomes import (
    ToolDefect,
    ToolFailure,
    ToolSuccess,
)
from triolet.ports.schema import codec_for
from triolet.ports.strict_json import JsonText, JsonValue, parse


def hide(value: JsonValue) -> JsonValue:
    return json.loads(json.dumps(value).replace(SECRET, "***"))  # type: ignore[no-any-return]


async def test_results_are_redacted_before_anything_sees_them(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    @tool(redact=hide, failures=[Full])
    async def tell(fail: bool) -> dict[str, str]:
        """Tell."""
        if fail:
            raise Full(free=1, note=SECRET)
        return {SECRET: f"it is {SECRET}"}

    agent = talker(tell)
    calls = turn(call("tell", {"fail": False}), call("tell", {"fail": True}))
    async with one_agent(world, agent, calls, turn("Done.")) as (kernel, model), kernel.stream(agent, "go") as handle:
        events = [event async for event in handle]
    assert [outcome.kind for outcome in world.outcomes()] == ["success", "failure"]
    for place in (world.records(), events, model.requests[1].messages[:]):
        assert SECRET not in str(place)


@pytest.mark.parametrize("fail", [False, True])
@pytest.mark.parametrize("fault", [KeyError(SECRET), RecursionError(), "NaN", "bytes"])
async def test_a_redaction_that_breaks_hides_everything_and_ends_only_the_call(
    world: World, autojump_clock: trio.testing.MockClock, fail: bool, fault: Any
) -> None:
    def broken(_: JsonValue) -> JsonValue:
        if isinstance(fault, Exception):
            raise fault
        return {"NaN": float("nan"), "bytes": b"x"}[fault]  # type: ignore[return-value]

    @tool(redact=broken, failures=[Full])
    async def tell() -> str:
        """Tell."""
        if fail:
            raise Full(free=1, note=SECRET)
        return SECRET

    outcome = await outcome_of(world, tell)
    assert isinstance(outcome, ToolDefect)
    assert SECRET not in str(world.records())


async def test_run_022_an_oversized_result_is_an_envelope_with_head_tail_and_size(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    @tool
    async def give() -> str:
        """Give."""
        return "head " + "x" * 100_000 + " tail"

    outcome = await outcome_of(world, give, policy=Policy(result_bytes=1_000))
    assert isinstance(outcome, ToolSuccess)
    assert outcome.size == 100_012
    envelope: Any = parse(outcome.output)
    assert envelope["cut"] is True
    assert envelope["head"].startswith('"head xxx')
    assert envelope["tail"].endswith('xxx tail"')
    assert envelope["size"] == outcome.size
    assert len(outcome.output) <= 1_000


async def test_run_022_a_failure_is_bounded_too(world: World, autojump_clock: trio.testing.MockClock) -> None:
    @tool(failures=[Full])
    async def give() -> str:
        """Give."""
        raise Full(free=1, note="x" * 100_000)

    outcome = await outcome_of(world, give, policy=Policy(result_bytes=1_000))
    assert isinstance(outcome, ToolFailure)
    assert len(outcome.payload) <= 1_000
    assert parse(outcome.payload)["cut"] is True  # type: ignore[index,call-overload]


@tool
async def plain() -> str:
    """Be a tool of text."""
    return ""


@given(
    value=st.text(st.characters() | st.sampled_from('\\"\x01é語\U0001f600'), max_size=600)
    | st.builds(lambda c, n: c * n, st.sampled_from(['"', "\\", "\x01", "é", "語", "\U0001f600"]), st.integers(0, 400)),
    limit=st.integers(256, 700),
)
def test_run_022_the_bound_holds_in_bytes_and_cuts_no_character(value: str, limit: int) -> None:
    outcome = trio.run(bounded, settle_output(plain, value), limit, keeper(None, DEFAULT_TENANT))
    assert isinstance(outcome, ToolSuccess)
    assert len(outcome.output.encode()) <= limit
    whole = plain.output.encode_text(value.replace("\0", "\ufffd"))
    size = len(whole.encode())
    if size <= limit:
        assert (outcome.output, outcome.size) == (whole, None)
        return
    envelope: Any = parse(outcome.output)
    assert outcome.size == envelope["size"] == size
    assert envelope["head"]
    assert whole.startswith(envelope["head"])
    assert whole.endswith(envelope["tail"])


def test_all_results_of_the_largest_batch_fit_into_one_commit() -> None:
    most = max(size for size in range(200_000, 1_100_000, 50_000) if _allowed(size))
    worst = codec_for(ToolSuccess).encode_text(ToolSuccess(output=JsonText('"' * most)))
    assert MAX_CALLS * (len(worst) + 200) <= BATCH_LIMITS.max_bytes


def _allowed(size: int) -> bool:
    try:
        Policy(result_bytes=size)
    except InvalidAgent:
        return False
    return True
