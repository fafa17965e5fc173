"""The ArtifactStore port: large immutable payloads, addressed by what they are.

Decides how a payload too large for a record is kept whole: under the SHA-256 of its bytes, so that a handle cannot
come to mean something else, and every read proves what it read (STORE-009). It decides neither what is too large
nor who may read; and it never interprets a payload.
"""

from collections.abc import AsyncIterable
from typing import Final, Protocol

import attrs

from triolet.ports.canonical import Digest
from triolet.ports.errors import Corrupt, Misuse, Unavailable
from triolet.ports.identity import TenantId

MAX_CONTENT_TYPE: Final = 200
"""Longest content type, in characters."""


@attrs.frozen(kw_only=True, weakref_slot=False)
class ArtifactHandle:
    """What to ask for to get the whole payload back: its digest, its size in bytes, and what kind of thing it is.

    `digest` is ``sha256:`` and the plain SHA-256 of the bytes in hexadecimal, so that any tool can check a file by it.
    """

    digest: Digest
    size: int
    content_type: str


@attrs.define(kw_only=True)
class ArtifactMissing(Misuse):
    """This tenant has no artifact of that digest."""

    digest: Digest

    @property
    def message(self) -> str:
        """Which one."""
        return f"no artifact {self.digest}"


@attrs.define(kw_only=True)
class ArtifactTooLarge(Misuse):
    """A payload, or all payloads of one store, would pass the store's bound. Nothing was kept."""

    limit: int

    @property
    def message(self) -> str:
        """The bound that was met."""
        return f"an artifact store keeps at most {self.limit} bytes here"


@attrs.define(kw_only=True)
class ArtifactCorrupt(Corrupt):
    """What is stored under a digest is something else: another size, other bytes, a link, or no plain file."""

    digest: Digest
    problem: str

    @property
    def message(self) -> str:
        """Which artifact, and what is wrong with it."""
        return f"artifact {self.digest}: {self.problem}"


@attrs.define(kw_only=True)
class ArtifactsUnavailable(Unavailable):
    """The store did not answer. A write may have happened; the same write again is safe."""

    problem: str

    @property
    def message(self) -> str:
        """What is wrong."""
        return f"the artifact store is unavailable: {self.problem}"


class ArtifactStore(Protocol):
    """Payloads of one tenant each, never changed once written.

    Lifetime: opened and closed by the host; one value serves many runs. Emits: nothing by itself. (CAP-001)
    """

    async def put(
        self, payload: bytes | AsyncIterable[bytes], *, tenant: TenantId, content_type: str
    ) -> ArtifactHandle:
        """Does: keep the payload and say what it is called.

        Atomicity: readable whole, or not at all. Idempotency: by content; the same bytes again are the same artifact,
        and the first content type stands. Ordering: none. Cancellation: kept or not; putting again is safe.
        Raises: `ArtifactTooLarge`, `ArtifactsUnavailable`; `ArtifactCorrupt` if something else stands in its place;
        `ValueError` for an empty content type, or one longer than `MAX_CONTENT_TYPE`. (STORE-009, SEC-002, SEC-013)
        """
        ...

    async def get(self, digest: Digest, *, tenant: TenantId) -> bytes:
        """Does: read a payload, and prove that it is the one.

        Atomicity: whole. Idempotency: reads. Ordering: none. Cancellation: nothing changed.
        Raises: `ArtifactMissing`, also for another tenant's; `ArtifactCorrupt`; `ArtifactsUnavailable`.
        (STORE-009, SEC-002)
        """
        ...

    async def describe(self, digest: Digest, *, tenant: TenantId) -> ArtifactHandle:
        """Does: say size and content type without reading the payload; whether the bytes are sound is not looked at.

        Atomicity, Idempotency, Ordering, Cancellation: as `get`. Raises: as `get`.
        """
        ...

    async def delete(self, digest: Digest, *, tenant: TenantId) -> None:
        """Does: forget a payload.

        Atomicity: gone, or all there. Idempotency: again harmless, also for an unknown one. Ordering: none.
        Cancellation: gone or not; again is safe. Raises: `ArtifactsUnavailable`.
        """
        ...
