"""The fixture `office`: a world with everybody who may have a say, whose logs are checked when the test has ended."""

from collections.abc import AsyncIterator

import pytest
import trio

from tests.approval_world import Office
from tests.log_watch import LogWatch


@pytest.fixture
async def office(log_watch: LogWatch, nursery: trio.Nursery) -> AsyncIterator[Office]:
    """An office with a held desk. Under an autojump clock, a hang ends the test."""
    made = Office(log_watch)
    nursery.start_soon(_notice_a_hang)
    yield made
    made.check()


async def _notice_a_hang() -> None:
    # Later than any deadline of any test: an autojump clock gets here only when nothing else will ever happen.
    await trio.sleep(10_000_000)  # noqa: ASYNC116 -- a time that comes
    raise AssertionError("every task of the test is blocked for ever")
