"""Payloads of artifacts, before any store: what they are called, and what may come with them.

Decides the name of a payload, what a content type may be, and that a payload in pieces is bounded while it comes in.
It keeps nothing. (STORE-009, SEC-013)
"""

import hashlib
from collections.abc import AsyncIterable

from triolet.ports.artifact_store import MAX_CONTENT_TYPE, ArtifactTooLarge
from triolet.ports.canonical import Digest


def digest_of(payload: bytes) -> Digest:
    """The name of a payload."""
    return Digest("sha256:" + hashlib.sha256(payload).hexdigest())


def check_content_type(content_type: str) -> None:
    """Raise `ValueError` for an empty content type, or one that is too long or not printable ASCII."""
    if not (0 < len(content_type) <= MAX_CONTENT_TYPE and content_type.isascii() and content_type.isprintable()):
        raise ValueError(f"a content type is 1 to {MAX_CONTENT_TYPE} printable ASCII characters")


async def collected(payload: bytes | AsyncIterable[bytes], limit: int) -> bytes:
    """The whole payload. Raises `ArtifactTooLarge` as soon as its pieces pass `limit` bytes."""
    if isinstance(payload, bytes):
        return payload
    gathered = bytearray()
    async for piece in payload:
        gathered += piece
        if len(gathered) > limit:
            raise ArtifactTooLarge(limit=limit)
    return bytes(gathered)
