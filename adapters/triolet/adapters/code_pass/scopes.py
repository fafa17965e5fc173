"""Nurseries of a pass, seen from outside as if there were none."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import cast

import trio


@contextmanager
def unwrapped() -> Generator[None]:
    """Raise the one exception of a group bare; cancellation is one thing however many tasks it reached."""
    try:
        yield
    except BaseExceptionGroup as group:
        leaves = list(_leaves(group))
        if len(leaves) > 1 and not all(isinstance(leaf, trio.Cancelled) for leaf in leaves):
            raise
        raise leaves[0] from leaves[0].__cause__


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from _leaves(inner)
    else:
        yield error
