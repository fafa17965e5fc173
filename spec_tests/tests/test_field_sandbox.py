"""Field cases of commands: F-042 and F-043, on the runner that has least to end a command with."""

import os
import secrets

import attrs
import pytest
import trio

from triolet.adapters.local_runner import TRUSTED_LIMITS, TRUSTED_POLICY, LocalRunner
from triolet.ports.sandbox import SandboxRequest, run_to_end
from triolet.spec_tests.cases.sandbox.footprint import footprint
from triolet.spec_tests.cases.sandbox.setting import alive

SHAPES = {
    "sleeper": "sleep 61 {token} & exit 0",
    "deaf": "sh -c 'trap \"\" TERM; while true; do sleep 1; done' {token} & exit 0",
    "grandchild holds the pipe": "sh -c 'sh -c \"echo up; sleep 62\" {token} & wait' {token} & exit 0",
    "reader": "cat; exit 0",
}


def _request(shape: str, token: str, *, ends: bool, seconds: float = 5.0) -> SandboxRequest:
    # `sleep` takes the token as a file descriptor's name: it has to be a number to be taken at all.
    line = SHAPES[shape].format(token=token)
    if not ends:
        line = line.replace("exit 0", "sleep 63")
    limits = attrs.evolve(TRUSTED_LIMITS, wall_seconds=seconds)
    return SandboxRequest(argv=("sh", "-c", line), policy=TRUSTED_POLICY, limits=limits)


def _token() -> str:
    return f"0.{secrets.randbelow(10**15):015d}"


@pytest.mark.parametrize("shape", sorted(SHAPES))
async def test_f042_normal_end_leaves_nothing_of_the_group(shape: str) -> None:
    token = _token()
    with trio.fail_after(20):
        result = await run_to_end(LocalRunner(), _request(shape, token, ends=True))
    assert (result.status, result.cleanup) == (0, "group-only")
    assert alive(token) == []


@pytest.mark.parametrize("shape", sorted(SHAPES))
async def test_f042_timeout_leaves_nothing_of_the_group(shape: str) -> None:
    token = _token()
    with trio.fail_after(20):
        result = await run_to_end(LocalRunner(), _request(shape, token, ends=False, seconds=0.3))
    assert (result.status, result.stopped) == (None, "wall-clock")
    assert alive(token) == []


@pytest.mark.parametrize("shape", sorted(SHAPES))
async def test_f042_cancel_leaves_nothing_of_the_group(shape: str, tmp_path: os.PathLike[str]) -> None:
    token = _token()
    with trio.fail_after(20):
        with trio.move_on_after(0.3) as scope:
            await run_to_end(LocalRunner(), _request(shape, token, ends=False))
        assert scope.cancelled_caught
    assert alive(token) == []


_BOTH = "head -c {size} /dev/zero | tr '\\0' x; head -c {size} /dev/zero | tr '\\0' y >&2; exit 9"


async def test_f043_two_hundred_megabytes_on_both_streams(tmp_path: os.PathLike[str]) -> None:
    from pathlib import Path

    size = 200_000_000
    asked = SandboxRequest(argv=("sh", "-c", _BOTH.format(size=size)), policy=TRUSTED_POLICY, limits=TRUSTED_LIMITS)
    before = footprint(Path(tmp_path)).memory_bytes
    result = await run_to_end(LocalRunner(), asked)
    assert footprint(Path(tmp_path)).memory_bytes - before < 16_000_000
    assert result.status == 9
    for captured in (result.stdout, result.stderr):
        assert captured.total_bytes == size
        assert captured.dropped_bytes == size - TRUSTED_LIMITS.output_bytes


async def test_f043_writing_for_ever_meets_the_deadline() -> None:
    line = "yes é & yes ü >&2"
    limits = attrs.evolve(TRUSTED_LIMITS, wall_seconds=0.5, output_bytes=1_001)
    asked = SandboxRequest(argv=("sh", "-c", line + " & wait"), policy=TRUSTED_POLICY, limits=limits)
    result = await run_to_end(LocalRunner(), asked)
    assert result.stopped == "wall-clock"
    for captured in (result.stdout, result.stderr):
        assert captured.dropped_bytes > 0
        assert "\ufffd" not in captured.head + captured.tail
