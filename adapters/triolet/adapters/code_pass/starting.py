"""Starting a pass: what is refused before a program runs, and how many run at once.

Decides nothing about the limits themselves; each executor says what it cannot keep. (CAP-015, SEC-010)
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio

from triolet.ports.code_executor import CannotKeep, CodeExecutionRequest, CodeExecutor, ProgramInvalid


def refuse_unfit(executor: CodeExecutor, request: CodeExecutionRequest) -> None:
    """Raise `CannotKeep` for what the executor cannot keep, and `ProgramInvalid` for a source beyond its bound."""
    problems = executor.check(request.limits, untrusted=request.untrusted)
    if problems:
        raise CannotKeep(implementation=executor.implementation.name, problems=problems)
    size = len(request.source.encode("utf-8", "replace"))
    if size > request.limits.source_bytes:
        raise ProgramInvalid(problem="too-long", detail=f"{size} bytes, where {request.limits.source_bytes} may be")


@asynccontextmanager
async def one_of(passes: trio.CapacityLimiter) -> AsyncGenerator[None]:
    """Take one of the places for passes, waiting for it, and give it back."""
    # On behalf of the pass, not of the task: a call of one pass may run another.
    place = object()
    await passes.acquire_on_behalf_of(place)
    try:
        yield
    finally:
        passes.release_on_behalf_of(place)
