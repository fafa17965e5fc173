"""What the cases of the ArtifactStore share: the subject, and payloads to keep.

Decides what is kept, never what is right.
"""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

import attrs
import trio

from triolet.ports.artifact_store import ArtifactHandle, ArtifactMissing, ArtifactStore
from triolet.ports.canonical import Digest
from triolet.ports.identity import TenantId
from triolet.spec_tests.claims import ensure_equal, ensure_raises
from triolet.spec_tests.subject import Subject

Damage = Callable[[Digest, TenantId], Awaitable[None]]


@attrs.frozen(kw_only=True, eq=False, weakref_slot=False)
class ArtifactSubject(Subject[ArtifactStore]):
    """An artifact store under test.

    `damage` changes one stored byte of an artifact, behind the store's back. `bound` is the largest payload that the
    store takes while it is empty, in bytes: between 1,000 and 100,000, set by the maker.
    """

    damage: Damage | None = None
    bound: int | None = None


TENANT = TenantId("acme")
OTHER = TenantId("umbrella")
TEXT = "text/plain; charset=utf-8"
PAYLOADS = (b"", b"hello", bytes(range(256)) * 3, b"\r\n\0\xff" * 200)
"""The empty one, a plain one, and two in which every byte counts."""


def digest_of(payload: bytes) -> Digest:
    """What a payload is called."""
    return Digest("sha256:" + hashlib.sha256(payload).hexdigest())


def handle_of(payload: bytes, content_type: str = TEXT) -> ArtifactHandle:
    """The handle that is due for a payload."""
    return ArtifactHandle(digest=digest_of(payload), size=len(payload), content_type=content_type)


class Pieces(AsyncIterator[bytes]):
    """A payload in pieces, with a count of those that were taken. No generator: nobody has to close it."""

    def __init__(self, parts: Iterable[bytes]) -> None:
        self._parts = iter(parts)
        self.taken = 0

    async def __anext__(self) -> bytes:
        """The next piece."""
        await trio.lowlevel.checkpoint()
        for part in self._parts:
            self.taken += 1
            return part
        raise StopAsyncIteration


async def ensure_kept(store: ArtifactStore, payload: bytes, content_type: str = TEXT) -> None:
    """The tenant's store has this payload, whole, and knows its size and type."""
    due = handle_of(payload, content_type)
    ensure_equal(await store.describe(due.digest, tenant=TENANT), due, "what `describe` says of an artifact")
    ensure_equal(await store.get(due.digest, tenant=TENANT), payload, "the payload that `get` gives")


async def ensure_missing(store: ArtifactStore, digest: Digest, why: str, tenant: TenantId = TENANT) -> None:
    """Reading and describing it says that there is none."""
    with ensure_raises(ArtifactMissing, f"`get` of {why}"):
        await store.get(digest, tenant=tenant)
    with ensure_raises(ArtifactMissing, f"`describe` of {why}"):
        await store.describe(digest, tenant=tenant)
