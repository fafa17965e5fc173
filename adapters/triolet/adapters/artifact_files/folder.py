"""The directory behind a file store: names, atomic writes, verified reads. All of it blocks.

Decides what lies where: ``<tenant>/<digest>`` holds the payload and ``<tenant>/<digest>.type`` its content type,
where a tenant's folder is named by a digest, so that no text from outside becomes a path. A file appears under its
name only when its bytes are on the disk. Links, and whatever else is no plain file, are refused, never followed.
"""

import errno
import fcntl
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from triolet.adapters.artifact_payloads import digest_of
from triolet.ports.artifact_store import MAX_CONTENT_TYPE, ArtifactCorrupt, ArtifactHandle, ArtifactMissing
from triolet.ports.canonical import Digest
from triolet.ports.identity import TenantId

_DIGEST: Final = re.compile(r"sha256:([0-9a-f]{64})\Z")
_TEMPORARY: Final = ".new-"
_PIECE: Final = 1024 * 1024


class Folder:
    """One directory of artifacts, held open. `limit` bounds one artifact, in bytes."""

    def __init__(self, path: Path, limit: int) -> None:
        """Open or make the directory, and remove what a crash left half-written.

        `PermissionError` where other users may write to it: they could put a folder of their own in a tenant's place.
        """
        self._limit = limit
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if os.fstat(self._root).st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise PermissionError(errno.EPERM, "others may write to its directory")
            for name in os.listdir(self._root):  # noqa: PTH208 -- of a directory that is held open
                with suppress(OSError), _opened_directory(name, self._root) as tenant:
                    _sweep(tenant)
        except BaseException:
            os.close(self._root)
            raise

    def close(self) -> None:
        """Release the directory."""
        os.close(self._root)

    def write(self, data: bytes, tenant: TenantId, content_type: str) -> ArtifactHandle:
        """Keep `data`; what is there already under its digest is looked at, and stays."""
        digest = digest_of(data)
        name = digest.partition(":")[2]
        with self._tenant(tenant, make=True) as directory:
            # The type first, and on the disk: a payload that is there has one. Whatever came first stands.
            if not _exists(f"{name}.type", directory) and _add(f"{name}.type", content_type.encode("ascii"), directory):
                os.fsync(directory)
            there = _exists(name, directory) or not _add(name, data, directory)
            if there and _read_plain(name, directory, digest, limit=len(data)) != data:
                raise ArtifactCorrupt(digest=digest, problem="its bytes are others")
            # Also for what was there: whoever put it may not have got as far as this.
            os.fsync(directory)
            return ArtifactHandle(digest=digest, size=len(data), content_type=_type_of(name, directory, digest))

    def read(self, digest: Digest, tenant: TenantId) -> bytes:
        """The payload, if its bytes are those of the digest."""
        name = _name_of(digest)
        with self._tenant_of(digest, tenant) as directory:
            data = _read_plain(name, directory, digest, limit=self._limit)
        if hashlib.sha256(data).hexdigest() != name:
            raise ArtifactCorrupt(digest=digest, problem="its bytes are others")
        return data

    def describe(self, digest: Digest, tenant: TenantId) -> ArtifactHandle:
        """Size and content type, as they stand."""
        name = _name_of(digest)
        with self._tenant_of(digest, tenant) as directory, _opened_plain(name, directory, digest) as file:
            size = os.fstat(file).st_size
            return ArtifactHandle(digest=digest, size=size, content_type=_type_of(name, directory, digest))

    def remove(self, digest: Digest, tenant: TenantId) -> None:
        """Forget the payload, if it is there."""
        with suppress(ArtifactMissing), self._tenant_of(digest, tenant) as directory:
            name = _name_of(digest)
            for each in (name, f"{name}.type"):
                with suppress(FileNotFoundError):
                    os.unlink(each, dir_fd=directory)
            os.fsync(directory)

    @contextmanager
    def _tenant(self, tenant: TenantId, *, make: bool) -> Generator[int]:
        name = hashlib.sha256(b"triolet/tenant\0" + tenant.encode("utf-8", "surrogatepass")).hexdigest()[:40]
        if make:
            with suppress(FileExistsError):
                os.mkdir(name, mode=0o700, dir_fd=self._root)
                os.fsync(self._root)
        with _opened_directory(name, self._root) as directory:
            yield directory

    @contextmanager
    def _tenant_of(self, digest: Digest, tenant: TenantId) -> Generator[int]:
        with ExitStack() as stack:
            try:
                directory = stack.enter_context(self._tenant(tenant, make=False))
            except FileNotFoundError:
                raise ArtifactMissing(digest=Digest(digest[:100])) from None
            yield directory


def _name_of(digest: Digest) -> str:
    found = _DIGEST.match(digest)
    if found is None:
        raise ArtifactMissing(digest=Digest(digest[:100]))
    return found[1]


@contextmanager
def _opened_directory(name: str, parent: int) -> Generator[int]:
    directory = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        yield directory
    finally:
        os.close(directory)


@contextmanager
def _opened_plain(name: str, directory: int, digest: Digest) -> Generator[int]:
    try:
        # Not blocking: opening a pipe that somebody put here must not wait for its other end.
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    except FileNotFoundError:
        raise ArtifactMissing(digest=digest) from None
    except OSError as error:
        raise ArtifactCorrupt(digest=digest, problem="it is no plain file") from error
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise ArtifactCorrupt(digest=digest, problem="it is no plain file")
        yield file
    finally:
        os.close(file)


def _read_plain(name: str, directory: int, digest: Digest, *, limit: int) -> bytes:
    with _opened_plain(name, directory, digest) as file:
        if os.fstat(file).st_size > limit:
            raise ArtifactCorrupt(digest=digest, problem="it is larger than it can be")
        pieces: list[bytes] = []
        while limit >= 0 and (piece := os.read(file, min(_PIECE, limit + 1))):
            pieces.append(piece)
            # A file that grows while it is read ends here too.
            limit -= len(piece)
        return b"".join(pieces)


def _type_of(name: str, directory: int, digest: Digest) -> str:
    try:
        text = _read_plain(f"{name}.type", directory, digest, limit=MAX_CONTENT_TYPE).decode("ascii")
    except ArtifactMissing:
        raise ArtifactCorrupt(digest=digest, problem="it has no content type") from None
    except UnicodeDecodeError as error:
        raise ArtifactCorrupt(digest=digest, problem="its content type is no text") from error
    return text


def _exists(name: str, directory: int) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _add(name: str, data: bytes, directory: int) -> bool:
    """Let `data` appear under `name`, whole; False if there is something of that name."""
    temporary = _TEMPORARY + secrets.token_hex(8)
    file = os.open(
        temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=directory
    )
    try:
        # Held for as long as this is being written: who opens the directory meanwhile leaves it alone.
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        view = memoryview(data)
        while view:
            view = view[os.write(file, view) :]
        os.fsync(file)
        # A link, since a rename would replace what another process put there.
        os.link(temporary, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
    except FileExistsError:
        return False
    finally:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=directory)
        os.close(file)
    return True


def _sweep(directory: int) -> None:
    for name in os.listdir(directory):
        if name.startswith(_TEMPORARY):
            with suppress(OSError):
                _remove_abandoned(name, directory)


def _remove_abandoned(name: str, directory: int) -> None:
    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(name, dir_fd=directory)
    finally:
        os.close(file)
