"""The clocks and the identifier sources."""

import re
from collections.abc import Callable
from typing import get_args

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from triolet.adapters.clocks import SystemClock, TrioClock
from triolet.adapters.ids import RandomIds, SequentialIds
from triolet.ports.identity import Instant, RunId, after, call_id
from triolet.ports.sources import Clock, IdGenerator, IdKind

KINDS: tuple[IdKind, ...] = get_args(IdKind)
START = Instant(1_700_000_000_000_000)


def test_they_are_what_their_ports_say() -> None:
    clocks: list[Clock] = [SystemClock(), TrioClock(START)]
    sources: list[IdGenerator] = [RandomIds(), SequentialIds()]
    assert len(clocks) == len(sources) == 2


def test_system_clock_reads_microseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time_ns", lambda: 1_700_000_000_123_456_789)
    assert SystemClock().now() == 1_700_000_000_123_456


def test_system_clock_is_the_machines() -> None:
    # Between the year 2024 and the last instant that a double holds exactly.
    assert 1_704_067_200_000_000 < SystemClock().now() < 2**53


async def test_trio_clock_follows_the_mock_clock(mock_clock: trio.testing.MockClock) -> None:
    mock_clock.jump(7)
    clock = TrioClock(START)
    assert clock.now() == START
    mock_clock.jump(2.5)
    assert clock.now() == START + 2_500_000


async def test_trio_clock_moves_with_a_sleep(autojump_clock: trio.testing.MockClock) -> None:
    clock = TrioClock(START)
    await trio.sleep(3600)
    assert clock.now() == START + 3_600_000_000


def test_trio_clock_made_outside_a_run_starts_with_its_first_reading() -> None:
    clock = TrioClock(START)

    async def read() -> tuple[Instant, Instant]:
        await trio.sleep(5)
        first = clock.now()
        await trio.sleep(1)
        return first, clock.now()

    assert trio.run(read, clock=trio.testing.MockClock(autojump_threshold=0)) == (START, START + 1_000_000)


def test_trio_clock_outside_a_run_says_so() -> None:
    with pytest.raises(RuntimeError):
        TrioClock(START).now()


@given(st.integers(0, 10**7), st.lists(st.integers(1, 10**9), min_size=1, max_size=10))
def test_a_deadline_that_trio_has_reached_is_over_on_the_trio_clock(offset: int, pauses: list[int]) -> None:
    async def run() -> None:
        clock = TrioClock(START)
        for pause in pauses:
            seconds = pause / 1_000_000
            deadline = after(clock.now(), seconds)
            before = clock.now()
            await trio.sleep(seconds)
            assert clock.now() >= deadline
            assert clock.now() == before + pause

    mock = trio.testing.MockClock(autojump_threshold=0)
    mock.jump(offset / 1000)
    trio.run(run, clock=mock)


@pytest.mark.parametrize("kind", KINDS)
def test_random_ids_have_their_form(kind: IdKind) -> None:
    drawn = {RandomIds().new(kind) for _ in range(1000)}
    assert len(drawn) == 1000
    assert all(re.fullmatch(r"[a-z][a-z0-9]{21}", each) for each in drawn)
    assert len({each[0] for each in drawn}) == 1
    # 104 bits: every place but the last, which holds fewer bits, takes all 32 digits.
    for place in range(1, 21):
        assert len({each[place] for each in drawn}) == 32


def test_random_ids_come_from_the_systems_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def token_bytes(size: int) -> bytes:
        asked.append(size)
        return b"\xff" * size

    monkeypatch.setattr("secrets.token_bytes", token_bytes)
    assert RandomIds().new("run") == "r" + "7" * 20 + "6"
    assert [size * 8 >= 96 for size in asked] == [True]


@pytest.mark.parametrize("source", [RandomIds, SequentialIds])
def test_kinds_never_share_an_id(source: Callable[[], IdGenerator]) -> None:
    ids = source()
    drawn = [ids.new(kind) for kind in KINDS for _ in range(20)]
    assert len(set(drawn)) == len(drawn)
    assert all(re.fullmatch(r"[A-Za-z0-9_]{1,32}", each) for each in drawn)


def test_derived_call_ids_fit_providers() -> None:
    assert len(call_id(RunId(RandomIds().new("run")), 9999, 999)) <= 40


def test_sequential_ids_count_per_kind() -> None:
    ids = SequentialIds()
    assert [ids.new("run"), ids.new("run"), ids.new("conversation"), ids.new("run")] == [
        "run1",
        "run2",
        "conversation1",
        "run3",
    ]
    assert SequentialIds().new("run") == "run1"
