"""Oversized results: the envelope always fits, breaks no character, and tells the truth about the whole."""

from collections.abc import AsyncIterable
from pathlib import Path
from typing import Any, cast

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from tests.kernel_world import World, one_agent, talker
from triolet.adapters.artifact_files import open_artifact_files
from triolet.adapters.memory import MemoryArtifacts
from triolet.adapters.scripted_model import call, turn
from triolet.kernel import Completed, Policy, tool
from triolet.kernel.pipeline.bound import KEEP_SECONDS, bounded, keeper
from triolet.ports.artifact_store import MAX_CONTENT_TYPE, ArtifactHandle, ArtifactsUnavailable
from triolet.ports.canonical import Digest, encode_text
from triolet.ports.identity import TenantId
from triolet.ports.outcomes import Outcome, ToolFailure, ToolRejected, ToolSuccess
from triolet.ports.strict_json import parse

TENANT = TenantId("acme")
LONG = encode_text("head " + "é" * 5_000 + " tail")


def envelope_of(outcome: Outcome) -> dict[str, Any]:
    assert isinstance(outcome, ToolSuccess)
    return cast("dict[str, Any]", parse(outcome.output))


@given(
    text=st.text(alphabet=st.sampled_from('ab"\\\n\x01é€😀'), min_size=80, max_size=3_000),
    limit=st.integers(256, 2_000),
    stored=st.booleans(),
)
def test_an_envelope_fits_and_holds_both_ends(text: str, limit: int, stored: bool) -> None:
    async def check() -> None:
        store = MemoryArtifacts()
        whole = encode_text(text)
        # The same bytes may have been put by somebody else, under the longest name of a type.
        await store.put(whole.encode(), tenant=TENANT, content_type="t" * MAX_CONTENT_TYPE)
        outcome = await bounded(ToolSuccess(output=whole), limit, keeper(store if stored else None, TENANT))
        assert isinstance(outcome, ToolSuccess)
        assert len(outcome.output.encode()) <= limit
        if len(whole.encode()) <= limit:
            assert outcome == ToolSuccess(output=whole)
            return
        envelope = envelope_of(outcome)
        assert envelope["size"] == outcome.size == len(whole.encode())
        assert whole.startswith(envelope["head"])
        assert whole.endswith(envelope["tail"])
        if stored:
            assert await store.get(Digest(envelope["artifact"]["digest"]), tenant=TENANT) == whole.encode()
        else:
            assert envelope["artifact"] is None

    trio.run(check)


async def test_what_has_no_value_is_left_alone() -> None:
    rejected = ToolRejected(reason="denied", detail="x" * 1_000)
    assert await bounded(rejected, 256, keeper(MemoryArtifacts(), TENANT)) is rejected


async def test_a_failures_payload_is_kept_too() -> None:
    store = MemoryArtifacts()
    outcome = await bounded(ToolFailure(type="Closed", payload=LONG), 500, keeper(store, TENANT))
    assert isinstance(outcome, ToolFailure)
    assert outcome.type == "Closed"
    envelope = cast("dict[str, Any]", parse(outcome.payload))
    assert await store.get(Digest(envelope["artifact"]["digest"]), tenant=TENANT) == LONG.encode()


class Failing(MemoryArtifacts):
    """Raises, or never answers."""

    def __init__(self, error: Exception | None) -> None:
        super().__init__()
        self._error = error

    async def put(
        self, payload: bytes | AsyncIterable[bytes], *, tenant: TenantId, content_type: str
    ) -> ArtifactHandle:
        if self._error is not None:
            raise self._error
        await trio.sleep_forever()
        raise AssertionError


@pytest.mark.parametrize(
    "error", [ArtifactsUnavailable(problem="full"), OSError("no room"), KeyError("x"), None], ids=repr
)
async def test_a_store_that_fails_loses_no_outcome(error: Exception | None, autojump_clock: MockClock) -> None:
    """Typed errors, foreign ones, and a store that never answers."""
    started = trio.current_time()
    outcome = await bounded(ToolSuccess(output=LONG), 500, keeper(Failing(error), TENANT))
    assert envelope_of(outcome)["artifact"] is None
    assert trio.current_time() - started == (KEEP_SECONDS if error is None else 0)


async def test_cancelling_a_run_that_keeps_its_result_loses_no_outcome() -> None:
    store, kept = MemoryArtifacts(), list[Digest]()
    with trio.CancelScope() as scope:
        scope.cancel()
        outcome = await bounded(ToolSuccess(output=LONG), 500, keeper(store, TENANT))
        kept.append(Digest(envelope_of(outcome)["artifact"]["digest"]))
    [digest] = kept
    assert await store.get(digest, tenant=TENANT) == LONG.encode()


@pytest.mark.parametrize("shift", range(4))
async def test_f_008_an_oversized_result_is_cut_once_and_kept_whole(world: World, tmp_path: Path, shift: int) -> None:
    """Ten times the limit, marked at both ends, with a character of four bytes on each cut."""
    limit = 2_000
    whole = "HEAD" + "x" * shift + "\N{GRINNING FACE}" * (10 * limit // 4) + "TAIL"

    @tool(execution="readonly")
    async def tell() -> str:
        """Tell."""
        return whole

    agent = talker(tell, policy=Policy(result_bytes=limit))
    async with open_artifact_files(tmp_path) as store:
        world.ports.update(artifacts=store)
        async with one_agent(world, agent, turn(call("tell")), turn("done")) as (kernel, model):
            assert isinstance(await kernel.run(agent, "go"), Completed)
        [outcome] = world.outcomes()
        assert isinstance(outcome, ToolSuccess)
        assert len(outcome.output.encode()) <= limit
        envelope = envelope_of(outcome)
        assert envelope["cut"] is True
        assert envelope["head"].startswith('"HEAD')
        assert envelope["tail"].endswith('TAIL"')
        assert "\N{REPLACEMENT CHARACTER}" not in outcome.output
        kept = await store.get(Digest(envelope["artifact"]["digest"]), tenant=TenantId("default"))
        assert kept.decode() == encode_text(whole)
        assert len(repr(model.requests[1].messages)) < 3 * limit
