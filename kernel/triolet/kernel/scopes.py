"""Nurseries whose single failure is seen as it was raised.

Decides nothing about the failure: two or more stay the group that they are. Cancellation is one thing however many
tasks it reached.
"""

from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import cast

import trio


@contextmanager
def unwrapped() -> Generator[None]:
    """Raise the one exception of a group bare, however deep groups were nested around it."""
    try:
        yield
    except BaseExceptionGroup as group:
        single = _single(group)
        if single is None:
            raise
        # The group adds nothing that the exception's own traceback does not tell.
        raise single from single.__cause__


@asynccontextmanager
async def open_plain_nursery() -> AsyncGenerator[trio.Nursery]:
    """A nursery that raises the one exception in it bare."""
    with unwrapped():
        async with trio.open_nursery() as nursery:
            yield nursery


def _single(group: BaseExceptionGroup[BaseException]) -> BaseException | None:
    leaves = list(_leaves(group))
    if len(leaves) == 1 or all(isinstance(leaf, trio.Cancelled) for leaf in leaves):
        return leaves[0]
    return None


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from _leaves(inner)
    else:
        yield error
