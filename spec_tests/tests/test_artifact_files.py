"""Artifacts as files: what a crash, a full disk, a planted link or another user of the directory can do to them."""

import errno
import hashlib
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import trio

from triolet.adapters.artifact_files import FileArtifacts, open_artifact_files
from triolet.ports.artifact_store import ArtifactCorrupt, ArtifactMissing, ArtifactsUnavailable
from triolet.ports.canonical import Digest
from triolet.ports.identity import TenantId

TENANT = TenantId("acme")
PAYLOAD = b"a payload of some bytes\0" * 9_000
TEXT = "text/plain"


def files(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if not path.is_dir())


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def place_of(root: Path, digest: Digest) -> Path:
    [path] = root.rglob(digest.partition(":")[2])
    return path


async def keep(store: FileArtifacts, payload: bytes = PAYLOAD) -> Digest:
    return (await store.put(payload, tenant=TENANT, content_type=TEXT)).digest


_CHILD = """
import os, sys, time
import trio
from triolet.adapters.artifact_files import open_artifact_files

root, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
real, seen = getattr(os, name), 0


def held(*args, **kwargs):
    global seen
    seen += 1
    if seen == count:
        if name == "write":
            real(args[0], args[1][:100])
        print("held", flush=True)
        while True:
            time.sleep(60)
    return real(*args, **kwargs)


async def main():
    async with open_artifact_files(root) as store:
        setattr(os, name, held)
        await store.put(b"a payload of some bytes\\0" * 9_000, tenant="acme", content_type="text/plain")
        print("done", flush=True)

trio.run(main)
"""


@pytest.mark.parametrize(
    ("operation", "count"),
    [
        *(("fsync", n) for n in range(1, 7)),
        *(("write", n) for n in (1, 2)),
        *(("link", n) for n in (1, 2)),
        ("unlink", 2),
    ],
)
async def test_a_killed_put_leaves_the_whole_or_nothing(tmp_path: Path, operation: str, count: int) -> None:
    """The child is killed in the middle of each step of a put; whatever it left, the next process gets it right."""
    child = await trio.to_thread.run_sync(
        lambda: subprocess.Popen(
            [sys.executable, "-c", _CHILD, str(tmp_path), operation, str(count)], stdout=subprocess.PIPE, text=True
        )
    )
    with child:
        assert child.stdout is not None
        told = await trio.to_thread.run_sync(child.stdout.readline)
        child.kill()
    # The last step lies behind the end of the put: the payload is there then.
    assert told.strip() == ("done" if (operation, count) == ("fsync", 6) else "held")
    async with open_artifact_files(tmp_path) as store:
        assert [path for path in files(tmp_path) if path.name.startswith(".new-")] == []
        digest = Digest("sha256:" + hashlib.sha256(PAYLOAD).hexdigest())
        try:
            assert await store.get(digest, tenant=TENANT) == PAYLOAD
            whole = True
        except ArtifactMissing:
            whole = False
        assert whole or told.strip() == "held"
        assert await keep(store) == digest
        assert await store.get(digest, tenant=TENANT) == PAYLOAD
        assert (await store.describe(digest, tenant=TENANT)).content_type == TEXT
        assert len(files(tmp_path)) == 2


async def test_files_are_their_owners_and_named_by_digests(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        async with open_artifact_files(tmp_path / "deep" / "store") as store:
            for tenant in ("acme", "../../outside", "a/b", "\ud800", ""):
                await store.put(PAYLOAD, tenant=TenantId(tenant), content_type=TEXT)
    finally:
        os.umask(before)
    root = tmp_path / "deep" / "store"
    assert names_in(tmp_path) == ["deep"]
    assert len(names_in(root)) == 5
    for path in root.rglob("*"):
        due = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == due
        assert set(path.name.removesuffix(".type")) <= set("0123456789abcdef")
    assert stat.S_IMODE(root.stat().st_mode) == 0o700


@pytest.mark.parametrize("kind", ["link", "dangling", "fifo", "directory", "device"])
async def test_what_is_no_plain_file_is_refused(tmp_path: Path, kind: str) -> None:
    """Nothing is followed, and nothing waits for the other end of a pipe, on reading or on putting again."""
    outside = tmp_path / "outside"
    outside.write_bytes(PAYLOAD)
    async with open_artifact_files(tmp_path / "store") as store:
        digest = await keep(store)
        place = place_of(tmp_path / "store", digest)
        place.unlink()
        if kind == "fifo":
            os.mkfifo(place)
        elif kind == "directory":
            place.mkdir()
        else:
            place.symlink_to({"link": outside, "dangling": tmp_path / "none", "device": Path("/dev/zero")}[kind])
        with trio.fail_after(30):
            for attempt in (store.get, store.describe):
                with pytest.raises(ArtifactCorrupt):
                    await attempt(digest, tenant=TENANT)
            with pytest.raises(ArtifactCorrupt):
                await keep(store)
    assert outside.read_bytes() == PAYLOAD
    assert not (tmp_path / "none").exists()


async def test_a_linked_tenant_is_refused(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    async with open_artifact_files(tmp_path / "store") as store:
        digest = await keep(store)
        home = place_of(tmp_path / "store", digest).parent
        home.rename(elsewhere)
        home.symlink_to(elsewhere)
        for attempt in (store.get(digest, tenant=TENANT), keep(store, b"more")):
            with pytest.raises(ArtifactsUnavailable):
                await attempt
    assert len(files(elsewhere)) == 2


@pytest.mark.parametrize("damage", ["cut", "grown", "changed", "untyped", "mistyped"])
async def test_damage_is_found(tmp_path: Path, damage: str) -> None:
    async with open_artifact_files(tmp_path) as store:
        digest = await keep(store)
        place = place_of(tmp_path, digest)
        kind = place.with_name(place.name + ".type")
        content = {"cut": PAYLOAD[:-1], "grown": PAYLOAD + b"x", "changed": b"A" + PAYLOAD[1:]}
        if damage in content:
            place.write_bytes(content[damage])
            with pytest.raises(ArtifactCorrupt):
                await store.get(digest, tenant=TENANT)
            with pytest.raises(ArtifactCorrupt):
                await keep(store)
            return
        kind.unlink()
        if damage == "mistyped":
            kind.write_bytes(b"\xff")
        with pytest.raises(ArtifactCorrupt):
            await store.describe(digest, tenant=TENANT)
        assert await store.get(digest, tenant=TENANT) == PAYLOAD
        if damage == "untyped":
            # Somebody who deleted it was stopped half-way: putting it again mends it.
            await keep(store)
            assert (await store.describe(digest, tenant=TENANT)).content_type == TEXT


async def test_a_full_disk_is_unavailable_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async with open_artifact_files(tmp_path) as store:
        await keep(store, b"other")
        with monkeypatch.context() as patched:
            patched.setattr(os, "write", full)
            with pytest.raises(ArtifactsUnavailable, match="No space left"):
                await keep(store)
        assert len(files(tmp_path)) == 2
        assert await store.get(await keep(store), tenant=TENANT) == PAYLOAD


async def test_a_cancelled_put_is_whole_and_leaves_no_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the disk is being written to, the caller is told what became of it, and no temporary file stays."""
    entered, go, real = threading.Event(), threading.Event(), os.fsync

    def held(file: int) -> None:
        entered.set()
        assert go.wait(30)
        real(file)

    async with open_artifact_files(tmp_path) as store:
        await keep(store, b"other")
        monkeypatch.setattr(os, "fsync", held)
        put: list[Digest] = []

        async def stopped() -> None:
            put.append(await keep(store))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(stopped)
            await trio.to_thread.run_sync(entered.wait, 30)
            nursery.cancel_scope.cancel()
            go.set()
        assert [path for path in files(tmp_path) if path.name.startswith(".new-")] == []
        [digest] = put
        assert await store.get(digest, tenant=TENANT) == PAYLOAD


async def test_only_abandoned_temporary_files_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening the directory a second time, while somebody writes to it, takes nothing away from them."""
    entered, go, real = threading.Event(), threading.Event(), os.fsync

    def held(file: int) -> None:
        entered.set()
        assert go.wait(30)
        real(file)

    async with open_artifact_files(tmp_path) as store, trio.open_nursery() as nursery:
        digest = await keep(store, b"other")
        abandoned = place_of(tmp_path, digest).with_name(".new-0123456789abcdef")
        abandoned.write_bytes(b"half")
        monkeypatch.setattr(os, "fsync", held)
        nursery.start_soon(keep, store)
        await trio.to_thread.run_sync(entered.wait, 30)
        async with open_artifact_files(tmp_path):
            left = [path for path in files(tmp_path) if path.name.startswith(".new-")]
            go.set()
        assert len(left) == 1
        assert abandoned not in left
    assert len(files(tmp_path)) == 4


async def test_two_stores_that_keep_the_same_at_once_agree(tmp_path: Path) -> None:
    """Whoever comes second is told what the first one said, however close they are."""
    for number in range(20):
        payload, told = PAYLOAD + str(number).encode(), set[str]()
        async with open_artifact_files(tmp_path) as one, open_artifact_files(tmp_path) as other:

            async def put(
                store: FileArtifacts, content_type: str, payload: bytes = payload, told: set[str] = told
            ) -> None:
                told.add((await store.put(payload, tenant=TENANT, content_type=content_type)).content_type)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(put, one, "text/one")
                nursery.start_soon(put, other, "text/other")
        assert len(told) == 1
    assert len(files(tmp_path)) == 40


async def test_directories_that_cannot_serve_are_refused(tmp_path: Path) -> None:
    """A file in its place, or a directory that other users may write to."""
    plain, shared = tmp_path / "plain", tmp_path / "shared"
    plain.touch()
    shared.mkdir()
    shared.chmod(0o777)
    for path in (plain, shared):
        with pytest.raises(ArtifactsUnavailable):
            async with open_artifact_files(path):
                pass
    with pytest.raises(ValueError, match="room"):
        async with open_artifact_files(tmp_path, limit=0):
            pass


async def test_what_is_larger_than_this_store_takes_is_not_read(tmp_path: Path) -> None:
    async with open_artifact_files(tmp_path) as store:
        digest = await keep(store)
    async with open_artifact_files(tmp_path, limit=100) as small:
        with pytest.raises(ArtifactCorrupt, match="larger"):
            await small.get(digest, tenant=TENANT)


async def test_closing_leaves_no_descriptor(tmp_path: Path) -> None:
    async with open_artifact_files(tmp_path) as store:
        await keep(store)
    before = len(names_in(Path("/proc/self/fd")))
    for _ in range(3):
        async with open_artifact_files(tmp_path) as store:
            digest = await keep(store)
            await store.get(digest, tenant=TENANT)
            with pytest.raises(ArtifactMissing):
                await store.get(digest, tenant=TenantId("nobody"))
            await store.delete(digest, tenant=TENANT)
    assert len(names_in(Path("/proc/self/fd"))) <= before
