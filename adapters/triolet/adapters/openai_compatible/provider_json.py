"""JSON that a provider sent: read with less strictness than our own, and looked at without trust.

Decides that half a surrogate pair in a provider's JSON is no reason to refuse it, since the text in it is made clean
later anyway. It bounds nothing; the reader of the stream has bounded what arrives here.
"""

import json
from typing import Any, cast

import orjson


def load(text: str | bytes) -> object:
    """The value of `text`. Raises `ValueError` for what is not JSON, and for nesting that no chunk has."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None


def as_object(value: object) -> dict[str, Any] | None:
    """`value` if it is a JSON object."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def as_list(value: object) -> list[object] | None:
    """`value` if it is a JSON list."""
    return cast("list[object]", value) if isinstance(value, list) else None
