"""The scripted model as a provider that does as it is told."""

import attrs
import trio

from triolet.adapters.scripted_model import (
    Piece,
    ScriptedModel,
    Turn,
    call,
    reasoning,
    text,
    turn,
)
from triolet.ports.errors import TrioletError
from triolet.ports.language_model import ContextTooLarge, ModelRefused, ModelRequest, ModelUnavailable
from triolet.spec_tests.cases.language_model import Act, Breaks, Refuses, Says, Stalls
from triolet.spec_tests.stand_ins.acts import Acts

_NAME = "scripted"


class ScriptedProvider:
    """See `Provider`. Nothing is sent anywhere, so what was received is the request itself."""

    def __init__(self) -> None:
        self._acts = Acts()
        self.model = ScriptedModel([self._turn], then_repeat=True, name=_NAME)

    def will(self, *acts: Act) -> None:
        """Do these next."""
        self._acts.add(*acts)

    @property
    def received(self) -> tuple[str, ...]:
        """The requests, written out, the history as what it holds."""
        return tuple(repr(attrs.evolve(each, messages=tuple(each.messages))) for each in self.model.requests)

    @property
    def answering(self) -> int:
        """Nothing is ever held open."""
        return 0

    def _turn(self, _: ModelRequest) -> Turn:
        match self._acts.next():
            case Says() as says:
                pieces: list[Piece] = [
                    *map(reasoning, says.reasoning),
                    *map(text, says.text),
                    *(call(name, arguments, chunks=min(2, len(arguments))) for name, arguments in says.calls),
                ]
                return turn(*pieces, finish=says.finish, usage=says.usage)
            case Breaks() as breaks:
                return turn(*map(text, breaks.text), *(call(name, sent) for name, sent in breaks.calls)).cut()
            case Stalls(text=said):
                return turn(*map(text, said)).hanging(trio.Event(), after=len(said))
            case Refuses() as refuses:
                return turn().failing(_error(refuses))


def _error(refuses: Refuses) -> TrioletError:
    match refuses.why:
        case "rate-limited" | "overloaded":
            return ModelUnavailable(model=_NAME, reason=refuses.why, retry_after=refuses.retry_after)
        case "too-long":
            return ContextTooLarge(model=_NAME)
        case "authentication" | "not-found" | "bad-request":
            return ModelRefused(model=_NAME, reason=refuses.why)
