"""Messages between a process that runs guests and the one that started it: a length, then JSON.

Decides the form and the bound of one message, on both sides. It trusts neither.
"""

import json
import struct
from typing import Any, Final, cast

HEADER: Final = 4
MAX_MESSAGE: Final = 64 * 1024 * 1024
"""Bytes of one message."""


class BadMessage(Exception):
    """A message that is too long, or none."""


def framed(message: dict[str, Any]) -> bytes:
    """One message, ready to be sent. Raises `BadMessage`."""
    data = json.dumps(message).encode()
    if len(data) > MAX_MESSAGE:
        raise BadMessage
    return struct.pack("<I", len(data)) + data


def length_of(header: bytes) -> int:
    """How many bytes follow this header. Raises `BadMessage`."""
    (length,) = struct.unpack("<I", header)
    if length > MAX_MESSAGE:
        raise BadMessage
    return int(length)


def message_of(data: bytes) -> dict[str, Any]:
    """The message. Raises `BadMessage`."""
    try:
        message: object = json.loads(data)
    except (ValueError, RecursionError):
        raise BadMessage from None
    if not isinstance(message, dict):
        raise BadMessage
    return cast("dict[str, Any]", message)
