"""Threads: the one place where synchronous handlers leave Trio's thread.

Decides that they are bounded, and that a caller whose time is up does not wait for them: the thread is abandoned,
keeps its limiter token until it ends, and what it returns late is dropped (F-009).
"""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import trio


class _Noticed:
    """A limiter that tells when it let somebody through: from then on the thread runs, whoever still waits for it."""

    __slots__ = ("_began", "_limiter")

    def __init__(self, limiter: trio.CapacityLimiter, began: Callable[[], None]) -> None:
        self._limiter = limiter
        self._began = began

    async def acquire_on_behalf_of(self, borrower: object) -> None:
        await self._limiter.acquire_on_behalf_of(borrower)
        self._began()

    def release_on_behalf_of(self, borrower: object) -> None:
        self._limiter.release_on_behalf_of(borrower)


async def run_in_thread(
    function: Callable[..., Any], *args: Any, limiter: trio.CapacityLimiter, began: Callable[[], None]
) -> Any:
    """Call `function` in a thread of at most as many as `limiter` has tokens; `began` is called as it gets its own."""
    noticed = cast("trio.CapacityLimiter", _Noticed(limiter, began))  # Trio asks for these two methods only
    return await trio.to_thread.run_sync(partial(function, *args), abandon_on_cancel=True, limiter=noticed)
