"""Tokens: what one model call used, and what a run has used so far (CAP-017).

Decides one normal form for all providers: input is the total, with cache reads and cache writes told apart
inside it; output is the total, with reasoning told apart inside it. It prices nothing and limits nothing: what a call
cost is noted beside its tokens by whoever knows the price.
"""

from typing import Annotated, Final

import attrs

from triolet.ports.schema import Ge

Tokens = Annotated[int, Ge(0)]

MAX_CALL_TOKENS: Final = 10**11
"""More than any model takes; the sum over the longest run that a policy allows still is an exact JSON integer."""


@attrs.frozen(kw_only=True, weakref_slot=False)
class Usage:
    """One response, or what was spent on the try at one.

    `at_least` marks an estimate for a call that ended without a report. `last_input_tokens` and `last_output_tokens`
    are those of the last request behind it, where an adapter needed several to make one response; None says that
    there was one. `cost` is in millionths of the host's currency; None says that nobody priced it.
    """

    input_tokens: Tokens = 0
    output_tokens: Tokens = 0
    cache_read_tokens: Tokens = 0
    cache_write_tokens: Tokens = 0
    reasoning_tokens: Tokens = 0
    at_least: bool = False
    last_input_tokens: Tokens | None = None
    last_output_tokens: Tokens | None = None
    cost: Tokens | None = None

    @property
    def fresh_tokens(self) -> int:
        """Input that was neither read from a cache nor written to one."""
        return self.input_tokens - self.cache_read_tokens - self.cache_write_tokens

    def problem(self) -> str | None:
        """Why these figures cannot be right, or None."""
        counts = (
            self.input_tokens,
            self.output_tokens,
            self.cache_read_tokens,
            self.cache_write_tokens,
            self.reasoning_tokens,
        )
        for count in counts:
            # An adapter hands on what a provider sent; a bool, a float or None would poison every later sum.
            if type(count) is not int:
                return "a token count is no integer"
            if not 0 <= count <= MAX_CALL_TOKENS:
                return f"a token count is not from 0 to {MAX_CALL_TOKENS}"
        if self.fresh_tokens < 0:
            return "cached tokens exceed the input"
        if self.reasoning_tokens > self.output_tokens:
            return "reasoning tokens exceed the output"
        return self._problem_of_parts()

    def _problem_of_parts(self) -> str | None:
        parts = (
            (self.last_input_tokens, self.input_tokens),
            (self.last_output_tokens, self.output_tokens),
            (self.cost, MAX_CALL_TOKENS),
        )
        for part, whole in parts:
            if part is not None and (type(part) is not int or not 0 <= part <= whole):
                return "a part of the figures exceeds the whole, or is no count"
        return None


@attrs.frozen(kw_only=True, weakref_slot=False)
class UsageTotals:
    """A run's sum. The last call's figures estimate how large the live context is (CAP-017).

    `cost` adds up what was priced, in millionths of the host's currency.
    """

    calls: Tokens = 0
    input_tokens: Tokens = 0
    output_tokens: Tokens = 0
    cache_read_tokens: Tokens = 0
    cache_write_tokens: Tokens = 0
    reasoning_tokens: Tokens = 0
    last_input_tokens: Tokens = 0
    last_output_tokens: Tokens = 0
    cost: Tokens = 0
    at_least: bool = False

    @property
    def tokens(self) -> int:
        """Input and output together: what a limit on tokens counts."""
        return self.input_tokens + self.output_tokens

    def plus(self, call: Usage) -> "UsageTotals":
        """These totals after one more call."""
        return UsageTotals(
            calls=self.calls + 1,
            input_tokens=self.input_tokens + call.input_tokens,
            output_tokens=self.output_tokens + call.output_tokens,
            cache_read_tokens=self.cache_read_tokens + call.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + call.cache_write_tokens,
            reasoning_tokens=self.reasoning_tokens + call.reasoning_tokens,
            last_input_tokens=call.input_tokens if call.last_input_tokens is None else call.last_input_tokens,
            last_output_tokens=call.output_tokens if call.last_output_tokens is None else call.last_output_tokens,
            cost=self.cost if call.cost is None else self.cost + call.cost,
            at_least=self.at_least or call.at_least,
        )
