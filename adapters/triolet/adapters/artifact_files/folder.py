"""The directory behind a file store: names, atomic writes, verified reads. All of it blocks.

Decides what lies where: ``<tenant>/<digest>`` holds the payload and ``<tenant>/<digest>.type`` its content type,
where a tenant's folder is named by a digest, so that no text from outside becomes a path. A file appears under its
name only when its bytes are on the disk. Links, and whatever else is no plain file, are refused, never followed.
"""

import hashlib
import os
import re
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from triolet.ports.artifact_store import MAX_CONTENT_TYPE, ArtifactCorrupt, ArtifactHandle, ArtifactMissing
from triolet.ports.canonical import Digest
from triolet.ports.identity import TenantId

_DIGEST: Final = re.compile(r"sha256:([0-9a-f]{64})\Z")
_TEMPORARY: Final = ".new-"
_PIECE: Final = 1024 * 1024


class Folder:
    """One directory of artifacts, held open."""

    def __init__(self, path: Path) -> None:
        """Open or make the directory, and remove what a crash left half-written."""
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for name in os.listdir(self._root):  # noqa: PTH208 -- of a directory that is held open
            with suppress(OSError), _opened_directory(name, self._root) as tenant:
                _sweep(tenant)

    def close(self) -> None:
        """Release the directory."""
        os.close(self._root)

    def write(self, data: bytes, tenant: TenantId, content_type: str) -> ArtifactHandle:
        """Keep `data`; what is there already under its digest is looked at, and stays."""
        digest = Digest("sha256:" + hashlib.sha256(data).hexdigest())
        name = digest.partition(":")[2]
        with self._tenant(tenant, make=True) as directory:
            if not _exists(name, directory):
                # The type first: a payload that is there has one.
                _write_whole(f"{name}.type", content_type.encode("ascii"), directory)
                _write_whole(name, data, directory)
                os.fsync(directory)
            elif _read_plain(name, directory, digest, limit=len(data)) != data:
                raise ArtifactCorrupt(digest=digest, problem="its bytes are others")
            return ArtifactHandle(digest=digest, size=len(data), content_type=_type_of(name, directory, digest))

    def read(self, digest: Digest, tenant: TenantId) -> bytes:
        """The payload, if its bytes are those of the digest."""
        name = _name_of(digest)
        with self._tenant_of(digest, tenant) as directory:
            data = _read_plain(name, directory, digest, limit=None)
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
        name = _name_of(digest)
        with suppress(ArtifactMissing), self._tenant_of(digest, tenant) as directory:
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
        try:
            scope = self._tenant(tenant, make=False)
            directory = scope.__enter__()
        except FileNotFoundError:
            raise ArtifactMissing(digest=digest) from None
        try:
            yield directory
        finally:
            scope.__exit__(None, None, None)


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


def _read_plain(name: str, directory: int, digest: Digest, *, limit: int | None) -> bytes:
    with _opened_plain(name, directory, digest) as file:
        size = os.fstat(file).st_size
        if limit is not None and size > limit:
            raise ArtifactCorrupt(digest=digest, problem="it has another size")
        pieces: list[bytes] = []
        while piece := os.read(file, _PIECE):
            pieces.append(piece)
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


def _write_whole(name: str, data: bytes, directory: int) -> None:
    temporary = _TEMPORARY + secrets.token_hex(8)
    file = os.open(
        temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=directory
    )
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(file, view) :]
        os.fsync(file)
        os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=directory)
        raise
    finally:
        os.close(file)


def _sweep(directory: int) -> None:
    for name in os.listdir(directory):
        if name.startswith(_TEMPORARY):
            with suppress(OSError):
                os.unlink(name, dir_fd=directory)
