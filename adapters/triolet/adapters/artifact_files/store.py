"""An ArtifactStore on a file system.

Decides that all blocking work is done in bounded threads, that a put which is cancelled leaves nothing half-done,
and how many bytes one artifact may have. What is where in the directory is
`triolet.adapters.artifact_files.folder`'s.
"""

from collections.abc import AsyncGenerator, AsyncIterable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, TypeVar

import trio

from triolet.adapters.artifact_files.folder import Folder
from triolet.adapters.artifact_payloads import check_content_type, collected
from triolet.ports.artifact_store import ArtifactHandle, ArtifactsUnavailable, ArtifactTooLarge
from triolet.ports.canonical import Digest
from triolet.ports.identity import TenantId

T = TypeVar("T")

FILE_BYTES: Final = 256 * 1024 * 1024
"""The largest artifact unless the host says otherwise, in bytes."""
_THREADS: Final = 4


class FileArtifacts:
    """Artifacts in one directory. Made by `open_artifact_files`."""

    def __init__(self, folder: Folder, *, limit: int) -> None:
        self._folder = folder
        self._limit = limit
        self._threads = trio.CapacityLimiter(_THREADS)

    async def put(
        self, payload: bytes | AsyncIterable[bytes], *, tenant: TenantId, content_type: str
    ) -> ArtifactHandle:
        """Keep a payload: readable whole once it is on the disk, and not before."""
        check_content_type(content_type)
        data = await collected(payload, self._limit)
        if len(data) > self._limit:
            raise ArtifactTooLarge(limit=self._limit)
        return await self._blocking(lambda: self._folder.write(data, tenant, content_type))

    async def get(self, digest: Digest, *, tenant: TenantId) -> bytes:
        """Read a payload, and prove it."""
        return await self._blocking(lambda: self._folder.read(digest, tenant))

    async def describe(self, digest: Digest, *, tenant: TenantId) -> ArtifactHandle:
        """Say size and content type."""
        return await self._blocking(lambda: self._folder.describe(digest, tenant))

    async def delete(self, digest: Digest, *, tenant: TenantId) -> None:
        """Forget a payload."""
        await self._blocking(lambda: self._folder.remove(digest, tenant))

    async def _blocking(self, work: Callable[[], T]) -> T:
        # Not abandoned on cancel: the caller gets to know what became of the write, and no thread outlives it.
        try:
            return await trio.to_thread.run_sync(work, limiter=self._threads)
        except OSError as error:
            problem = error.strerror or type(error).__name__
            raise ArtifactsUnavailable(problem=problem) from error


@asynccontextmanager
async def open_artifact_files(path: str | Path, *, limit: int = FILE_BYTES) -> AsyncGenerator[FileArtifacts]:
    """Open the store in directory `path`, which is made if it is not there; `limit` bounds one artifact, in bytes.

    Acquires a descriptor of the directory, and releases it on leaving. Temporary files that a crash left are
    removed; those that another process is writing are not. The file system has to have hard links. How much all
    artifacts take together is the disk's to bound. Raises `ArtifactsUnavailable` where the directory cannot be used, or
    other users may write to it; `ValueError` for a limit below 1.
    """
    if limit < 1:
        raise ValueError("an artifact has at least one byte of room")
    try:
        folder = await trio.to_thread.run_sync(Folder, Path(path), limit)
    except OSError as error:
        raise ArtifactsUnavailable(problem=error.strerror or type(error).__name__) from error
    try:
        yield FileArtifacts(folder, limit=limit)
    finally:
        folder.close()
