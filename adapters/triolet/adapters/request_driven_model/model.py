"""RequestDrivenModel: a LanguageModel whose every answer follows from the request alone.

Decides nothing by itself; `request_rules` does. It keeps nothing between requests, so a kernel that shows it the wrong
history, tools, instructions or schema gets an answer that says so (CONF-003).
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Final

import attrs

from triolet.adapters.request_driven_model.request_rules import MODEL_NAME, answer_to
from triolet.adapters.scripted_model import Playing
from triolet.ports.language_model import ModelIdentity, ModelPart, ModelRequest

_IDENTITY: Final = ModelIdentity(provider="substitute", name=MODEL_NAME)


@attrs.frozen(weakref_slot=False)
class RequestDrivenModel:
    """A substitute model without a script and without a state.

    Lifetime: a plain value, nothing to release; it serves any number of runs at once. Emits: nothing. It takes time
    with the length of the history, and never yields to the scheduler.
    """

    @property
    def identity(self) -> ModelIdentity:
        """The same for all."""
        return _IDENTITY

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[ModelPart]]:
        """Answer by the rules: see `LanguageModel.stream`. Raises `ModelRefused` on entering."""
        return Playing(answer_to, request)
