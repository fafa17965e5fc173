"""The provider behind a model adapter, as a lever: what it will do next, and what reached it.

Decides the few things that any provider can do, in the port's own words; how they look on the wire is the maker's. An
adapter over a real provider gives no such lever, and is judged by the cases that need none.
"""

from collections.abc import Sequence
from typing import Literal, Protocol

import attrs

from triolet.ports.language_model import FinishReason, LanguageModel
from triolet.ports.usage import Usage
from triolet.spec_tests.subject import Subject


@attrs.frozen(kw_only=True, weakref_slot=False)
class Says:
    """The provider answers: reasoning, then text in these pieces, then whole calls as (name, argument text).

    Then it says why it stopped, and reports usage if there is any. Each call's arguments come in two pieces.
    """

    reasoning: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    calls: tuple[tuple[str, str], ...] = ()
    finish: FinishReason = "stop"
    usage: Usage | None = None


@attrs.frozen(kw_only=True, weakref_slot=False)
class Breaks:
    """The provider sends the text of an answer, and the connection is lost before it says that it has finished."""

    text: tuple[str, ...] = ()
    calls: tuple[tuple[str, str], ...] = ()


@attrs.frozen(kw_only=True, weakref_slot=False)
class Stalls:
    """The provider sends this text, and nothing more for as long as the connection is held."""

    text: tuple[str, ...] = ()


@attrs.frozen(kw_only=True, weakref_slot=False)
class Refuses:
    """The provider refuses the request before it answers.

    `retry_after` is its advice in seconds; it goes with `rate-limited` and `overloaded`.
    """

    why: Literal["rate-limited", "overloaded", "authentication", "not-found", "bad-request", "too-long"]
    retry_after: float | None = None


Act = Says | Breaks | Stalls | Refuses


class Provider(Protocol):
    """What a case may do with the provider, and see of it."""

    def will(self, *acts: Act) -> None:
        """Do these next, one a request, in the order in which requests arrive."""
        ...

    @property
    def received(self) -> Sequence[str]:
        """Each request that arrived, as the text that was sent."""
        ...

    @property
    def answering(self) -> int:
        """How many answers are under way, or connections held open for one."""
        ...


@attrs.frozen(kw_only=True, eq=False, weakref_slot=False)
class ModelSubject(Subject[LanguageModel]):
    """A language model under test.

    Traits that it may decline: `tools` and `reasoning`, if its provider has no such thing; `usage`, if it reports none;
    `cache`, if it never tells cached tokens apart; `wire`, if there is no text that could show what it was asked.
    """

    provider: Provider | None = None


TRAITS = ("tools", "reasoning", "usage", "cache", "wire")
