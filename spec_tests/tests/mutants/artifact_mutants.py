"""Wrong artifact stores, each a memory store but for one thing."""

from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio

from tests.mutants.mutant import Mutant
from triolet.adapters.memory import MemoryArtifacts
from triolet.ports.artifact_store import ArtifactHandle, ArtifactStore
from triolet.ports.canonical import Digest
from triolet.ports.identity import TenantId
from triolet.spec_tests.cases.artifact_store import ARTIFACT_STORE, ArtifactSubject
from triolet.spec_tests.subject import Maker

ARTIFACT_MUTANTS: list[Mutant] = []
_BOUND = 20_000
Payload = bytes | AsyncIterable[bytes]


class Shelf(MemoryArtifacts):
    """A memory store that can be damaged and opened again."""

    def damage(self, digest: Digest, tenant: TenantId) -> None:
        """Change a byte."""
        kept = self._kept[tenant, digest]
        self._kept[tenant, digest] = attrs.evolve(kept, payload=bytes([kept.payload[0] ^ 1]) + kept.payload[1:])

    def again(self) -> ArtifactStore:
        """The same data, opened later."""
        later = type(self)(limit=_BOUND)
        later._kept = self._kept
        return later


def artifact_maker_of(store: type[Shelf]) -> Maker:
    """A maker of such stores, with every lever."""

    @asynccontextmanager
    async def maker() -> AsyncGenerator[ArtifactSubject]:
        opened = store(limit=_BOUND)

        @asynccontextmanager
        async def reopen() -> AsyncGenerator[ArtifactStore]:
            yield opened.again()

        async def damage(digest: Digest, tenant: TenantId) -> None:
            opened.damage(digest, tenant)

        yield ArtifactSubject(port=opened, reopen=reopen, damage=damage, bound=_BOUND)

    return maker


def _breaks(*violates: str) -> Any:
    def decorate(store: type[Shelf]) -> type[Shelf]:
        why = (store.__doc__ or "").partition("\n")[0].rstrip(".")
        ARTIFACT_MUTANTS.append(
            Mutant(name=store.__name__, why=why, violates=violates, suite=ARTIFACT_STORE, open=artifact_maker_of(store))
        )
        return store

    return decorate


@_breaks("STORE-009")
class NamesBySizeToo(Shelf):
    """The digest of a handle is of something more than the bytes."""

    async def put(self, payload: Payload, *, tenant: TenantId, content_type: str) -> ArtifactHandle:
        handle = await super().put(payload, tenant=tenant, content_type=content_type)
        return attrs.evolve(handle, digest=Digest(f"{handle.digest}{handle.size}"))


@_breaks("STORE-009")
class KeepsTheLastPiece(Shelf):
    """Each piece of a payload replaces the one before."""

    async def put(self, payload: Payload, *, tenant: TenantId, content_type: str) -> ArtifactHandle:
        if isinstance(payload, bytes):
            return await super().put(payload, tenant=tenant, content_type=content_type)
        last = b""
        async for piece in payload:
            last = piece
        return await super().put(last, tenant=tenant, content_type=content_type)


@_breaks("STORE-009")
class CallsItAsTheLastDid(Shelf):
    """The content type is the latest that somebody gave."""

    async def put(self, payload: Payload, *, tenant: TenantId, content_type: str) -> ArtifactHandle:
        handle = await super().put(payload, tenant=tenant, content_type=content_type)
        kept = self._kept[tenant, handle.digest]
        self._kept[tenant, handle.digest] = attrs.evolve(kept, content_type=content_type)
        return attrs.evolve(handle, content_type=content_type)


@_breaks("STORE-009")
class FindsByAnySpelling(Shelf):
    """Digests are compared without regard to their case."""

    async def get(self, digest: Digest, *, tenant: TenantId) -> bytes:
        return await super().get(Digest(digest.lower()), tenant=tenant)


@_breaks("STORE-009")
class DeletesForGood(Shelf):
    """What was deleted once is never kept again."""

    def __init__(self, *, limit: int) -> None:
        super().__init__(limit=limit)
        self._gone: set[Digest] = set()

    async def put(self, payload: Payload, *, tenant: TenantId, content_type: str) -> ArtifactHandle:
        handle = await super().put(payload, tenant=tenant, content_type=content_type)
        if handle.digest in self._gone:
            await super().delete(handle.digest, tenant=tenant)
        return handle

    async def delete(self, digest: Digest, *, tenant: TenantId) -> None:
        self._gone.add(digest)
        await super().delete(digest, tenant=tenant)


@_breaks("STORE-009")
class KeepsWhatItGot(Shelf):
    """A payload whose source does not end is kept as far as it came."""

    async def put(self, payload: Payload, *, tenant: TenantId, content_type: str) -> ArtifactHandle:
        if isinstance(payload, bytes):
            return await super().put(payload, tenant=tenant, content_type=content_type)
        got = b""
        try:
            async for piece in payload:
                got += piece
        except BaseException:
            with trio.CancelScope(shield=True):
                await super().put(got, tenant=tenant, content_type=content_type)
            raise
        return await super().put(got, tenant=tenant, content_type=content_type)


@_breaks("STORE-009")
class LeavesHalf(Shelf):
    """A cancelled put has kept half of the payload under the name of the whole."""

    async def put(self, payload: Payload, *, tenant: TenantId, content_type: str) -> ArtifactHandle:
        try:
            return await super().put(payload, tenant=tenant, content_type=content_type)
        except trio.Cancelled:
            if isinstance(payload, bytes):
                with trio.CancelScope(shield=True):
                    whole = await super().put(payload, tenant=tenant, content_type=content_type)
                    self.damage(whole.digest, tenant)
            raise


@_breaks("STORE-009")
class ForgetsTypes(Shelf):
    """Opened again, a store knows bytes and no types."""

    def again(self) -> ArtifactStore:
        later = Shelf(limit=_BOUND)
        later._kept = {name: attrs.evolve(kept, content_type="any") for name, kept in self._kept.items()}
        return later


@_breaks("STORE-009")
class TrustsItsDisk(Shelf):
    """What is stored is given out as it is."""

    async def get(self, digest: Digest, *, tenant: TenantId) -> bytes:
        return self._find(digest, tenant).payload


@_breaks("SEC-002")
class KnowsTenantsByHalf(Shelf):
    """Tenants are told apart by what is left of their names once they are tidied up."""

    def _find(self, digest: Digest, tenant: TenantId) -> Any:
        return super()._find(digest, TenantId(tenant.strip(" ./").lower()))


@_breaks("SEC-013")
class CountsOneTooFew(Shelf):
    """The bound is a byte further than it is said to be."""

    def __init__(self, *, limit: int) -> None:
        super().__init__(limit=limit + 1)


@_breaks("SEC-013")
class ReadsToTheEnd(Shelf):
    """A source is read to its end before its size is looked at."""

    async def put(self, payload: Payload, *, tenant: TenantId, content_type: str) -> ArtifactHandle:
        if not isinstance(payload, bytes):
            payload = b"".join([piece async for piece in payload])
        return await super().put(payload, tenant=tenant, content_type=content_type)


@_breaks("SEC-013")
class TakesAnyType(Shelf):
    """A content type is whatever somebody says."""

    async def put(self, payload: Payload, *, tenant: TenantId, content_type: str) -> ArtifactHandle:
        handle = await super().put(payload, tenant=tenant, content_type="any")
        kept = self._kept[tenant, handle.digest]
        self._kept[tenant, handle.digest] = attrs.evolve(kept, content_type=content_type)
        return attrs.evolve(handle, content_type=content_type)


@_breaks("CAP-001")
class LeavesArtifactTasks(Shelf):
    """Every put starts a task that outlives the store."""

    async def put(self, payload: Payload, *, tenant: TenantId, content_type: str) -> ArtifactHandle:
        trio.lowlevel.spawn_system_task(trio.sleep_forever)
        return await super().put(payload, tenant=tenant, content_type=content_type)
