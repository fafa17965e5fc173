"""Nurseries whose single failure is seen as it was raised.

Decides nothing about the failure: two or more stay the group that they are. Cancellation is one thing however many
tasks it reached.
"""

from collections.abc import Awaitable, Iterator
from types import TracebackType
from typing import Final, cast

import trio


class _Unwrapped:
    """The scope that `unwrapped` gives. It holds nothing, so one serves all."""

    __slots__ = ()

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, BaseExceptionGroup):
            _raise_bare(cast("BaseExceptionGroup[BaseException]", error))


_UNWRAPPED: Final = _Unwrapped()


def unwrapped() -> _Unwrapped:
    """A scope that raises the one exception of a group bare, however deep groups were nested around it."""
    return _UNWRAPPED


class open_plain_nursery:  # noqa: N801 -- it is called where Trio's own `open_nursery` would be
    """A nursery that raises the one exception in it bare."""

    __slots__ = ("_manager",)

    def __init__(self) -> None:
        self._manager = trio.open_nursery()

    def __aenter__(self) -> Awaitable[trio.Nursery]:
        return self._manager.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        try:
            return await self._manager.__aexit__(kind, error, trace)
        except BaseExceptionGroup as group:
            _raise_bare(group)
            raise


def _raise_bare(group: BaseExceptionGroup[BaseException]) -> None:
    single = _single(group)
    if single is not None:
        # The group adds nothing that the exception's own traceback does not tell.
        raise single from single.__cause__


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
