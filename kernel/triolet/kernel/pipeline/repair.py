"""Text hygiene of tool output: broken text anywhere in a handler's value is repaired, once, where it enters.

Decides nothing about shape: whatever is no text and holds none comes back as it is, so the schema still judges it.
"""

from collections.abc import Iterable
from typing import Any

import attrs

from triolet.ports.text import repair

MAX_DEPTH = 128
"""Nesting beyond which nothing is looked at; the schema refuses such a value anyway."""


def repaired(value: Any, depth: int = 0) -> Any:
    """`value` with each lone surrogate and U+0000 in its texts, keys included, replaced by U+FFFD."""
    if isinstance(value, str):
        return repair(value) if type(value) is str else value
    if depth == MAX_DEPTH:
        return value
    if value.__class__ is dict:
        mapping: dict[Any, Any] = value
        return {repaired(key, depth + 1): repaired(item, depth + 1) for key, item in mapping.items()}
    if type(value) in (list, tuple, frozenset):
        items: Iterable[Any] = value
        return type(value)(repaired(item, depth + 1) for item in items)
    cls: type[Any] = value.__class__
    if attrs.has(cls):
        fields = attrs.fields(cls)
        changed = {
            field.alias: repaired(getattr(value, field.name), depth + 1)
            for field in fields
            if field.init and field.alias is not None
        }
        return attrs.evolve(value, **changed)
    return value
