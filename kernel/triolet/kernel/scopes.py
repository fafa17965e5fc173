"""Nurseries whose single failure is seen as it was raised.

Decides nothing about the failure: two or more stay the group that they are.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import cast

import trio


@asynccontextmanager
async def open_plain_nursery() -> AsyncGenerator[trio.Nursery]:
    """A nursery that raises the one exception in it bare, however deep groups were nested around it."""
    try:
        async with trio.open_nursery() as nursery:
            yield nursery
    except BaseExceptionGroup as group:
        single = _single(group)
        if single is None:
            raise
        # The group adds nothing that the exception's own traceback does not tell.
        raise single from single.__cause__


def _single(error: BaseException) -> BaseException | None:
    if not isinstance(error, BaseExceptionGroup):
        return error
    inner = cast("BaseExceptionGroup[BaseException]", error).exceptions
    return _single(inner[0]) if len(inner) == 1 else None
