"""A provider's usage figures in the one normal form (CAP-017).

Decides how figures that contradict each other are read: never below what was said. A part that exceeds its whole was
counted beside it, so it is added to it. A figure that is no count is read as missing; where input or output is missing,
the report is marked `at_least`. It never fails an answer over its bill.
"""

from collections.abc import Mapping
from typing import Any, Final

from triolet.adapters.openai_compatible.provider_json import as_object
from triolet.ports.usage import Usage

_LARGEST: Final = 2**40
"""Beyond any real call, and small enough that sums of calls stay exact in every JSON reader."""


NOT_MADE: Final = Usage()
"""The usage of a call that was left out."""


def read_usage(figures: Mapping[str, Any]) -> Usage | None:
    """The usage that a provider's ``usage`` object states, or None if it states neither input nor output.

    Input is ``prompt_tokens``, output ``completion_tokens``; reads from a cache, writes to one and reasoning are parts
    of them. Some providers leave reasoning out of ``completion_tokens``: their ``total_tokens`` gives it away.
    """
    given_input = _count(figures, "prompt_tokens")
    given_output = _count(figures, "completion_tokens")
    if given_input is None and given_output is None:
        return None
    input_tokens, output_tokens = given_input or 0, given_output or 0
    total = _count(figures, "total_tokens")
    prompt, completion = _details(figures, "prompt_tokens_details"), _details(figures, "completion_tokens_details")

    reasoning = _count(completion, "reasoning_tokens") or 0
    if reasoning > output_tokens or (reasoning and total == input_tokens + output_tokens + reasoning):
        output_tokens += reasoning
    read = _first(_count(prompt, "cached_tokens"), _count(figures, "prompt_cache_hit_tokens"))
    written = _first(_count(prompt, "cache_write_tokens"), _count(figures, "cache_creation_input_tokens"))
    if read + written > input_tokens:
        input_tokens += read + written
    return Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=reasoning,
        at_least=given_input is None or given_output is None,
    )


def add_usage(first: Usage, second: Usage) -> Usage:
    """What two calls used together; the second is the last. One that was not made leaves the second as it is."""
    if first == NOT_MADE:
        return second
    return Usage(
        input_tokens=first.input_tokens + second.input_tokens,
        output_tokens=first.output_tokens + second.output_tokens,
        cache_read_tokens=first.cache_read_tokens + second.cache_read_tokens,
        cache_write_tokens=first.cache_write_tokens + second.cache_write_tokens,
        reasoning_tokens=first.reasoning_tokens + second.reasoning_tokens,
        at_least=first.at_least or second.at_least,
        last_input_tokens=second.input_tokens,
        last_output_tokens=second.output_tokens,
    )


def _details(figures: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return as_object(figures.get(name)) or {}


def _count(figures: Mapping[str, Any], name: str) -> int | None:
    found = figures.get(name)
    return found if type(found) is int and 0 <= found <= _LARGEST else None


def _first(*counts: int | None) -> int:
    return next((count for count in counts if count is not None), 0)
