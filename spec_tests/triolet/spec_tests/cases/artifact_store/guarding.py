"""What is read is proven, tenants are kept apart, and nothing is unbounded. STORE-009, SEC-002, SEC-013."""

import itertools

from triolet.ports.artifact_store import MAX_CONTENT_TYPE, ArtifactCorrupt, ArtifactTooLarge
from triolet.ports.identity import TenantId
from triolet.spec_tests.cases.artifact_store.setting import (
    OTHER,
    TENANT,
    TEXT,
    ArtifactSubject,
    Pieces,
    digest_of,
    ensure_kept,
    ensure_missing,
)
from triolet.spec_tests.claims import ensure, ensure_raises, lever
from triolet.spec_tests.definition import case


@case("STORE-009", needs=("damage",))
async def a_changed_byte_is_found(subject: ArtifactSubject) -> None:
    """`get` of an artifact whose stored bytes are others is `ArtifactCorrupt`, and putting it again hides nothing."""
    store, payload = subject.port, b"a payload of some bytes"
    for each in (payload, b"another"):
        await store.put(each, tenant=TENANT, content_type=TEXT)
    digest = digest_of(payload)
    await lever(subject.damage, "damage")(digest, TENANT)
    with ensure_raises(ArtifactCorrupt, "`get` of an artifact with a changed byte"):
        await store.get(digest, tenant=TENANT)
    try:
        await store.put(payload, tenant=TENANT, content_type=TEXT)
    except ArtifactCorrupt:
        pass
    else:
        ensure(await store.get(digest, tenant=TENANT) == payload, "a repeated `put` went through and mended nothing")
    await ensure_kept(store, b"another")


@case("SEC-002")
async def tenants_are_strangers(subject: ArtifactSubject) -> None:
    """A tenant finds no artifact of another's, whatever either is called, and cannot delete it."""
    store, payload = subject.port, b"mine alone"
    digest = digest_of(payload)
    await store.put(payload, tenant=TENANT, content_type=TEXT)
    names = (OTHER, "", "ACME", "acme ", "acme/", "./acme", "umbrella/../acme", "..", "\ud800", "a\0b", "x" * 5_000)
    for name in names:
        stranger = TenantId(name)
        await ensure_missing(store, digest, f"an artifact of another tenant, as {name[:20]!r}", tenant=stranger)
        await store.delete(digest, tenant=stranger)
        await ensure_kept(store, payload)
    for name in names:
        await store.put(payload, tenant=TenantId(name), content_type="image/png")
    await store.delete(digest, tenant=OTHER)
    await ensure_missing(store, digest, "an artifact that this tenant deleted", tenant=OTHER)
    await ensure_kept(store, payload)


@case("SEC-013", needs=("bound",))
async def a_payload_beyond_the_bound_is_refused(subject: ArtifactSubject) -> None:
    """One byte more than the bound is `ArtifactTooLarge` and leaves nothing; the bound itself is kept."""
    store, bound = subject.port, lever(subject.bound, "bound")
    over, fits = b"x" * (bound + 1), b"y" * bound
    for payload in (over, Pieces([over[:500], over[500:]])):
        with ensure_raises(ArtifactTooLarge, "`put` of one byte more than the bound"):
            await store.put(payload, tenant=TENANT, content_type=TEXT)
        await ensure_missing(store, digest_of(over), "a payload that is too large")
    await store.put(fits, tenant=TENANT, content_type=TEXT)
    await ensure_kept(store, fits)


@case("SEC-013", needs=("bound",))
async def an_endless_payload_is_not_read_to_its_end(subject: ArtifactSubject) -> None:
    """A source without end is left once it has passed the bound."""
    bound, piece = lever(subject.bound, "bound"), b"z" * 500
    # Not quite without end, so that a store that reads on is found out.
    endless = Pieces(itertools.repeat(piece, bound // len(piece) + 50))
    with ensure_raises(ArtifactTooLarge, "`put` of a source without end"):
        await subject.port.put(endless, tenant=TENANT, content_type=TEXT)
    taken = endless.taken * len(piece)
    ensure(taken <= bound + 10 * len(piece), f"it read {taken} bytes of a payload that may have {bound}")


@case("SEC-013")
async def a_content_type_is_short_and_plain(subject: ArtifactSubject) -> None:
    """An empty content type, one that is too long, and one that is not printable ASCII, are refused."""
    store, longest = subject.port, "t/" + "x" * (MAX_CONTENT_TYPE - 2)
    for wrong in ("", longest + "x", "text/plain\n", "text/\0", "text/é"):
        with ensure_raises(ValueError, f"`put` with the content type {wrong[:20]!r}"):
            await store.put(b"typed", tenant=TENANT, content_type=wrong)
        await ensure_missing(store, digest_of(b"typed"), "a payload with a wrong content type")
    await store.put(b"typed", tenant=TENANT, content_type=longest)
    await ensure_kept(store, b"typed", longest)


GUARDING = (
    a_changed_byte_is_found,
    tenants_are_strangers,
    a_payload_beyond_the_bound_is_refused,
    an_endless_payload_is_not_read_to_its_end,
    a_content_type_is_short_and_plain,
)
