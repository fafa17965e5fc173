"""Payloads come back whole under what they are, once, or are not there. STORE-009."""

import trio

from triolet.spec_tests.cases.artifact_store.setting import (
    PAYLOADS,
    TENANT,
    TEXT,
    ArtifactSubject,
    Pieces,
    digest_of,
    ensure_kept,
    ensure_missing,
    handle_of,
)
from triolet.spec_tests.claims import ensure, ensure_equal, ensure_raises, lever
from triolet.spec_tests.definition import case


@case("STORE-009")
async def a_payload_is_called_by_its_digest(subject: ArtifactSubject) -> None:
    """`put` gives the SHA-256, the size and the content type, and `get` the same bytes."""
    store = subject.port
    for payload in PAYLOADS:
        given = await store.put(payload, tenant=TENANT, content_type=TEXT)
        ensure_equal(given, handle_of(payload), "the handle that `put` gives")
    for payload in PAYLOADS:
        await ensure_kept(store, payload)


@case("STORE-009")
async def a_payload_in_pieces_is_the_same_artifact(subject: ArtifactSubject) -> None:
    """A payload that arrives in pieces, empty ones among them, is the artifact of its bytes."""
    store, whole = subject.port, PAYLOADS[2]
    parts = [whole[:1], b"", whole[1:300], whole[300:]]
    given = await store.put(Pieces(parts), tenant=TENANT, content_type=TEXT)
    ensure_equal(given, handle_of(whole), "the handle of a payload in pieces")
    await ensure_kept(store, whole)
    ensure_equal(await store.put(whole, tenant=TENANT, content_type=TEXT), given, "the handle of the same bytes")


@case("STORE-009")
async def the_same_bytes_are_kept_once(subject: ArtifactSubject) -> None:
    """The same bytes again, at the same time or under another type, are the first artifact; one `delete` forgets."""
    store, payload = subject.port, b"the same"
    await store.put(payload, tenant=TENANT, content_type=TEXT)
    again = await store.put(payload, tenant=TENANT, content_type="image/png")
    ensure_equal(again, handle_of(payload), "the handle of bytes that are there under another content type")

    async def put() -> None:
        await store.put(payload, tenant=TENANT, content_type=TEXT)

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(put)
    await ensure_kept(store, payload)
    await store.delete(digest_of(payload), tenant=TENANT)
    await ensure_missing(store, digest_of(payload), "a deleted artifact")


@case("STORE-009")
async def what_is_not_there_is_missing(subject: ArtifactSubject) -> None:
    """Unknown digests, and texts that are no digest, name nothing; deleting them is harmless."""
    store, kept = subject.port, b"kept"
    name = str((await store.put(kept, tenant=TENANT, content_type=TEXT)).digest)
    plain = name.partition(":")[2]
    wrong = ("", plain, f"sha256:{plain.upper()}", f"sha256:../{plain}", f"{name}\n", f"{name}.type", "sha256:", ".")
    for digest in (digest_of(b"never put"), *(type(digest_of(b""))(each) for each in wrong)):
        await ensure_missing(store, digest, f"{digest!r}")
        await store.delete(digest, tenant=TENANT)
    await ensure_kept(store, kept)


@case("STORE-009")
async def deleting_forgets_one(subject: ArtifactSubject) -> None:
    """A deleted artifact is missing, may be deleted again and put again; others stay."""
    store, gone, kept = subject.port, b"gone", b"kept"
    for payload in (gone, kept):
        await store.put(payload, tenant=TENANT, content_type=TEXT)
    for _ in range(2):
        await store.delete(digest_of(gone), tenant=TENANT)
        await ensure_missing(store, digest_of(gone), "a deleted artifact")
    await ensure_kept(store, kept)
    await store.put(gone, tenant=TENANT, content_type="image/png")
    await ensure_kept(store, gone, "image/png")


@case("STORE-009")
async def a_put_that_does_not_end_keeps_nothing(subject: ArtifactSubject) -> None:
    """A source that raises, or a `put` that is cancelled while it reads, leaves nothing, and may be put again."""
    store, parts = subject.port, [b"one", b"two"]

    class Broken(Pieces):
        async def __anext__(self) -> bytes:
            if self.taken:
                raise ConnectionError
            return await super().__anext__()

    with ensure_raises(ConnectionError, "`put` of a source that raises"):
        await store.put(Broken(parts), tenant=TENANT, content_type=TEXT)

    class Stuck(Pieces):
        async def __anext__(self) -> bytes:
            if self.taken:
                scope.cancel()
                await trio.sleep_forever()
            return await super().__anext__()

    with trio.CancelScope() as scope:
        await store.put(Stuck(parts), tenant=TENANT, content_type=TEXT)
    ensure(scope.cancelled_caught, "a `put` whose source waits goes on when it is cancelled")
    for payload in (parts[0], b"".join(parts)):
        await ensure_missing(store, digest_of(payload), "a payload whose source did not end")
    await store.put(Pieces(parts), tenant=TENANT, content_type=TEXT)
    await ensure_kept(store, b"".join(parts))


@case("STORE-009")
async def a_cancelled_put_can_be_repeated(subject: ArtifactSubject) -> None:
    """After a cancelled `put` the payload is there whole or not at all, and putting it again is safe."""
    store, payload = subject.port, PAYLOADS[2]
    with trio.CancelScope() as scope:
        scope.cancel()
        await store.put(payload, tenant=TENANT, content_type=TEXT)
    if not scope.cancelled_caught:
        await ensure_kept(store, payload)
    await store.put(payload, tenant=TENANT, content_type=TEXT)
    await ensure_kept(store, payload)


@case("STORE-009", needs=("reopen",))
async def artifacts_outlive_the_store(subject: ArtifactSubject) -> None:
    """What was kept is there, with its type, when the same data is opened again."""
    for payload in PAYLOADS:
        await subject.port.put(payload, tenant=TENANT, content_type=TEXT)
    async with lever(subject.reopen, "reopen")() as again:
        for payload in PAYLOADS:
            await ensure_kept(again, payload)
        ensure_equal(
            await again.put(PAYLOADS[1], tenant=TENANT, content_type="image/png"),
            handle_of(PAYLOADS[1]),
            "the handle of bytes that an earlier store kept",
        )


KEEPING = (
    a_payload_is_called_by_its_digest,
    a_payload_in_pieces_is_the_same_artifact,
    the_same_bytes_are_kept_once,
    what_is_not_there_is_missing,
    deleting_forgets_one,
    a_put_that_does_not_end_keeps_nothing,
    a_cancelled_put_can_be_repeated,
    artifacts_outlive_the_store,
)
