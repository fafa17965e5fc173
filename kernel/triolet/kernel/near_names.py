"""Near names: what somebody who misspelt a name may have meant.

Decides which candidates a refusal offers, bounded; it never picks one.
"""

from difflib import get_close_matches
from typing import Final

MAX_NEAR: Final = 3
"""Names that a refusal offers."""


def near_names(name: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Up to `MAX_NEAR` of `names` that look like `name`, or all of them if they are so few (F-005)."""
    if len(names) <= MAX_NEAR:
        return names
    lowered = {candidate.lower(): candidate for candidate in names}
    found = get_close_matches(name[:80].lower(), list(lowered), n=MAX_NEAR, cutoff=0.4)
    return tuple(lowered[candidate] for candidate in found)
