"""Text hygiene of tool output: broken text anywhere in a handler's value is repaired, once, where it enters.

Decides nothing about shape: whatever is no text and holds none comes back as it is, so the schema still judges it.
"""

from collections.abc import Iterable
from typing import Any

import attrs

from triolet.ports.text import repair

MAX_DEPTH = 128
"""Nesting beyond which nothing is looked at; the schema refuses such a value anyway."""


def repaired(value: Any) -> Any:
    """`value` with each lone surrogate and U+0000 in its texts, keys included, replaced by U+FFFD."""
    return _repaired(value, 0, {})


def _repaired(value: Any, depth: int, done: dict[int, Any]) -> Any:
    if isinstance(value, str):
        return repair(value) if type(value) is str else value
    if depth == MAX_DEPTH:
        return value
    if id(value) in done:
        # Every object once: one that holds itself, twice at each level, has more paths than anybody can walk.
        return done[id(value)]
    done[id(value)] = value
    done[id(value)] = again = _rebuilt(value, depth + 1, done)
    return again


def _rebuilt(value: Any, depth: int, done: dict[int, Any]) -> Any:
    if value.__class__ is dict:
        mapping: dict[Any, Any] = value
        return {_repaired(key, depth, done): _repaired(item, depth, done) for key, item in mapping.items()}
    if type(value) in (list, tuple, frozenset):
        items: Iterable[Any] = value
        return type(value)(_repaired(item, depth, done) for item in items)
    cls: type[Any] = value.__class__
    if attrs.has(cls):
        changed = {
            field.alias: _repaired(getattr(value, field.name), depth, done)
            for field in attrs.fields(cls)
            if field.init and field.alias is not None
        }
        return attrs.evolve(value, **changed)
    return value
