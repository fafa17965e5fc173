"""Threads: the one place where synchronous handlers leave Trio's thread.

Decides that they are bounded, and that a caller whose time is up does not wait for them: the thread is abandoned,
keeps its limiter token until it ends, and what it returns late is dropped (F-009).
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import trio


async def run_in_thread(function: Callable[..., Any], *args: Any, limiter: trio.CapacityLimiter) -> Any:
    """Call `function` in a thread of at most as many as `limiter` has tokens."""
    return await trio.to_thread.run_sync(partial(function, *args), abandon_on_cancel=True, limiter=limiter)
