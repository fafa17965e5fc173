"""Prices from a table that the host writes down.

Decides how tokens are priced: cache reads and cache writes at rates of their own where the table has them, everything
else at the rate of input or output. It fetches no prices, and does not guess one for a model that it does not have.
"""

from collections.abc import Mapping

import attrs

from triolet.ports.language_model import ModelIdentity
from triolet.ports.usage import Usage

_PER: int = 1_000_000


@attrs.frozen(kw_only=True, weakref_slot=False)
class Rates:
    """Prices of a million tokens, in millionths of the currency: 3 dollars are 3,000,000.

    `cache_read` and `cache_write` are for input that is read from a cache or written to one; None prices it as input.
    """

    input: int = attrs.field(validator=attrs.validators.ge(0))
    output: int = attrs.field(validator=attrs.validators.ge(0))
    cache_read: int | None = attrs.field(default=None, validator=attrs.validators.optional(attrs.validators.ge(0)))
    cache_write: int | None = attrs.field(default=None, validator=attrs.validators.optional(attrs.validators.ge(0)))


class PriceTable:
    """Rates by model name, or by provider and name where two providers have one of the same name."""

    def __init__(self, rates: Mapping[str | tuple[str, str], Rates]) -> None:
        """A key is a model's name, or a pair of provider and name; the pair goes before the name."""
        self._rates = dict(rates)

    def price(self, model: ModelIdentity, usage: Usage) -> int | None:
        """The price in millionths, rounded up; None for a model that is not in the table."""
        rates = self._rates.get((model.provider, model.name)) or self._rates.get(model.name)
        if rates is None:
            return None
        read = rates.input if rates.cache_read is None else rates.cache_read
        write = rates.input if rates.cache_write is None else rates.cache_write
        total = (
            usage.fresh_tokens * rates.input
            + usage.cache_read_tokens * read
            + usage.cache_write_tokens * write
            + usage.output_tokens * rates.output
        )
        return -(-total // _PER)
