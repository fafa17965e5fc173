"""An ArtifactStore inside this process: for tests, and for kernels whose results need not outlive them.

Decides its own bound, and that each tenant's artifacts are its own. It keeps bytes exactly, and proves them on reading
like every other store.
"""

from collections.abc import AsyncIterable
from typing import Final

import attrs
import trio

from triolet.adapters.artifact_payloads import check_content_type, collected, digest_of
from triolet.ports.artifact_store import (
    ArtifactCorrupt,
    ArtifactHandle,
    ArtifactMissing,
    ArtifactTooLarge,
)
from triolet.ports.canonical import Digest
from triolet.ports.identity import TenantId

MEMORY_BYTES: Final = 256 * 1024 * 1024
"""What one store keeps unless it is told otherwise, in bytes over all tenants."""


@attrs.frozen(kw_only=True, weakref_slot=False)
class _Kept:
    payload: bytes
    content_type: str


class MemoryArtifacts:
    """Artifacts in a dictionary. `limit` bounds all payloads together, in bytes."""

    def __init__(self, *, limit: int = MEMORY_BYTES) -> None:
        if limit < 1:
            raise ValueError("a store keeps at least one byte")
        self._limit = limit
        self._kept: dict[tuple[TenantId, Digest], _Kept] = {}
        self._size = 0

    async def put(
        self, payload: bytes | AsyncIterable[bytes], *, tenant: TenantId, content_type: str
    ) -> ArtifactHandle:
        """Keep a payload under its digest."""
        check_content_type(content_type)
        await trio.lowlevel.checkpoint_if_cancelled()
        data = await collected(payload, self._limit)
        digest = digest_of(data)
        kept = self._kept.get((tenant, digest))
        if kept is None:
            if self._size + len(data) > self._limit:
                raise ArtifactTooLarge(limit=self._limit)
            self._size += len(data)
            kept = self._kept[tenant, digest] = _Kept(payload=data, content_type=content_type)
        elif kept.payload != data:
            raise ArtifactCorrupt(digest=digest, problem="its bytes are others")
        return ArtifactHandle(digest=digest, size=len(data), content_type=kept.content_type)

    async def get(self, digest: Digest, *, tenant: TenantId) -> bytes:
        """Read a payload, and prove it."""
        await trio.lowlevel.checkpoint_if_cancelled()
        kept = self._find(digest, tenant)
        if digest_of(kept.payload) != digest:
            raise ArtifactCorrupt(digest=digest, problem="its bytes are others")
        return kept.payload

    async def describe(self, digest: Digest, *, tenant: TenantId) -> ArtifactHandle:
        """Say size and content type."""
        await trio.lowlevel.checkpoint_if_cancelled()
        kept = self._find(digest, tenant)
        return ArtifactHandle(digest=digest, size=len(kept.payload), content_type=kept.content_type)

    async def delete(self, digest: Digest, *, tenant: TenantId) -> None:
        """Forget a payload."""
        await trio.lowlevel.checkpoint_if_cancelled()
        kept = self._kept.pop((tenant, digest), None)
        if kept is not None:
            self._size -= len(kept.payload)

    def _find(self, digest: Digest, tenant: TenantId) -> _Kept:
        kept = self._kept.get((tenant, digest))
        if kept is None:
            raise ArtifactMissing(digest=Digest(digest[:100]))
        return kept
