"""Tokens: what one model call used, and what a run has used so far (CAP-017).

Decides one normal form for all providers: input is the total, with cache reads and cache writes told apart
inside it; output is the total, with reasoning told apart inside it. It prices nothing and limits nothing.
"""

from typing import Annotated, Final

import attrs

from triolet.ports.schema import Ge

Tokens = Annotated[int, Ge(0)]

MAX_CALL_TOKENS: Final = 10**11
"""More than any model takes; the sum over the longest run that a policy allows still is an exact JSON integer."""


@attrs.frozen(kw_only=True, weakref_slot=False)
class Usage:
    """One model call. `at_least` marks an estimate from below, for a call that ended without a report."""

    input_tokens: Tokens = 0
    output_tokens: Tokens = 0
    cache_read_tokens: Tokens = 0
    cache_write_tokens: Tokens = 0
    reasoning_tokens: Tokens = 0
    at_least: bool = False

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
        return None


@attrs.frozen(kw_only=True, weakref_slot=False)
class UsageTotals:
    """A run's sum. The last call's figures estimate how large the live context is (CAP-017)."""

    calls: Tokens = 0
    input_tokens: Tokens = 0
    output_tokens: Tokens = 0
    cache_read_tokens: Tokens = 0
    cache_write_tokens: Tokens = 0
    reasoning_tokens: Tokens = 0
    last_input_tokens: Tokens = 0
    last_output_tokens: Tokens = 0
    at_least: bool = False

    def plus(self, call: Usage) -> "UsageTotals":
        """These totals after one more call."""
        return UsageTotals(
            calls=self.calls + 1,
            input_tokens=self.input_tokens + call.input_tokens,
            output_tokens=self.output_tokens + call.output_tokens,
            cache_read_tokens=self.cache_read_tokens + call.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + call.cache_write_tokens,
            reasoning_tokens=self.reasoning_tokens + call.reasoning_tokens,
            last_input_tokens=call.input_tokens,
            last_output_tokens=call.output_tokens,
            at_least=self.at_least or call.at_least,
        )
