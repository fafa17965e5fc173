"""What the tests of tool scheduling share."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio

from triolet.kernel import Kernel
from triolet.kernel.runtime import Runtime


def limiters(kernel: Kernel) -> list[trio.CapacityLimiter]:
    runtime: Runtime = kernel._runtime
    return [runtime.threads.limiter, *runtime.groups.values()]


@asynccontextmanager
async def all_permits_return(kernel: Kernel) -> AsyncGenerator[None]:
    yield
    assert [limiter.borrowed_tokens for limiter in limiters(kernel)] == [0] * len(limiters(kernel))
