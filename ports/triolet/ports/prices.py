"""The Prices port: what a model call cost, by the host's own price list.

Decides the unit: millionths of one currency, which the host chooses once for all its models. It knows no limit.
"""

from typing import Protocol

from triolet.ports.language_model import ModelIdentity
from triolet.ports.usage import Usage


class Prices(Protocol):
    """A price list.

    Lifetime: none; one value serves many runs. Emits: nothing. (CAP-001)
    """

    def price(self, model: ModelIdentity, usage: Usage) -> int | None:
        """Does: say what these tokens cost on this model, in millionths, rounded up; None for a model without a price.

        Cached input, written cache and reasoning may have prices of their own (CAP-017).
        Atomicity, Idempotency, Ordering, Cancellation: synchronous and pure; the same arguments give the same price.
        Raises: nothing.
        """
        ...
