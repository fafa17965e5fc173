"""ScriptedModel: a LanguageModel that answers as its script says.

Decides which turn of the script answers which request: in the order in which answers are begun, whoever asks. It never
looks at a request, except to keep it for the test and to show it to a turn that is a function. No provider is behind
it, so it never retries and its only waits are the script's own.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager

import attrs

from triolet.adapters.scripted_model.playing import Playing
from triolet.adapters.scripted_model.turns import InvalidScript, Turn
from triolet.ports.errors import Misuse
from triolet.ports.language_model import ModelIdentity, ModelPart, ModelRequest

ScriptItem = Turn | Callable[[ModelRequest], Turn]


@attrs.define(kw_only=True)
class ScriptExhausted(Misuse):
    """The model was asked once more than its script has turns."""

    model: str
    turns: int

    @property
    def message(self) -> str:
        """Which model, and how long its script is."""
        return f"model {self.model} was asked again after all {self.turns} turns of its script"


class ScriptedModel:
    """A language model for tests and benchmarks.

    `script` is a sequence of turns, or of functions from the request to a turn. When it has run out, the next request
    raises `ScriptExhausted` on entering, or with `then_repeat` the script starts over. `remember` bounds how many of
    the latest requests are kept (None: all). An empty script says that nobody may ask.

    Lifetime: a plain value, nothing to release. Emits: nothing. Not to be used from two threads.
    Raises `InvalidScript` at construction for what cannot be played.
    """

    __slots__ = ("_identity", "_next", "_requests", "_script", "_then_repeat")

    def __init__(
        self,
        script: Iterable[ScriptItem],
        *,
        then_repeat: bool = False,
        name: str = "scripted",
        remember: int | None = None,
    ) -> None:
        self._script = tuple(script)
        for place, item in enumerate(self._script):
            if not isinstance(item, Turn) and not callable(item):
                raise InvalidScript(problem=f"item {place} is a {type(item).__name__}, no turn and no function")
        if then_repeat and not self._script:
            raise InvalidScript(problem="an empty script cannot be repeated")
        if remember is not None and remember < 0:
            raise InvalidScript(problem="remember is a number of requests from 0, or None")
        self._identity = ModelIdentity(provider="scripted", name=name)
        self._then_repeat = then_repeat
        self._requests = deque[ModelRequest](maxlen=remember)
        self._next = 0

    @property
    def identity(self) -> ModelIdentity:
        """Provider ``scripted``, and the given name."""
        return self._identity

    @property
    def requests(self) -> tuple[ModelRequest, ...]:
        """The requests whose answers were begun, oldest first."""
        return tuple(self._requests)

    @property
    def turns_left(self) -> int:
        """How many turns of this pass over the script nobody has asked for yet."""
        return len(self._script) - self._next

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[ModelPart]]:
        """Play the next turn: see `LanguageModel.stream`. The turn is taken when the scope is entered."""
        return Playing(self._take, request)

    def _take(self, request: ModelRequest) -> Turn:
        self._requests.append(request)
        place = self._next
        if place == len(self._script):
            if not self._then_repeat:
                raise ScriptExhausted(model=self._identity.name, turns=place)
            place = 0
        self._next = place + 1
        item = self._script[place]
        if isinstance(item, Turn):
            return item
        made = item(request)
        if not isinstance(made, Turn):
            raise InvalidScript(problem=f"the function at {place} returned a {type(made).__name__}, no turn")
        return made
