"""Listening to a model: the parts of one response, fed to its reduction as they come.

Decides how often a model that never waits lets other tasks run. It keeps nothing, takes no error for an answer, and
knows no run.
"""

from collections.abc import Callable
from typing import Final

import trio

from triolet.kernel.machine.reduction import Reduction
from triolet.kernel.scopes import unwrapped
from triolet.ports.language_model import LanguageModel, ModelPart, ModelRequest

PARTS_BETWEEN_YIELDS: Final = 64
"""After so many parts in a row other tasks get their turn, however fast the model is."""


async def listen(
    model: LanguageModel, request: ModelRequest, reduction: Reduction, heard: Callable[[ModelPart], None] | None = None
) -> None:
    """Make the request and feed each part to `reduction`, then to `heard`. Errors of the model pass, bare."""
    count = 0
    # A model that keeps tasks of its own has a nursery, which wraps what passes through it.
    with unwrapped():
        async with model.stream(request) as parts:
            async for part in parts:
                reduction.feed(part)
                if heard is not None:
                    heard(part)
                count += 1
                if count % PARTS_BETWEEN_YIELDS == 0:
                    await trio.lowlevel.checkpoint()
