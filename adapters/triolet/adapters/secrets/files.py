"""Secrets from files, as container platforms provide them.

Decides that a secret's file is a plain file directly in the given directory, that nobody but its owner and group may
read it, and that one newline at its end is the editor's. It reads a file each time, and keeps nothing.
"""

import os
import re
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

import trio

from triolet.ports.secrets import (
    MAX_SECRET,
    Secret,
    SecretHandle,
    SecretMissing,
    SecretRefused,
    SecretsUnavailable,
)

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}\Z")


class SecretFiles:
    """Secrets by handle: the handle's name is the file's, and holds no path.

    With `links` a link is followed, once the host trusts what is in the directory; container platforms use them.
    """

    def __init__(self, directory: str | Path, *, links: bool = False) -> None:
        self._directory = Path(directory)
        self._links = links

    async def resolve(self, handle: SecretHandle) -> Secret:
        """Read the file that stands for `handle`."""
        if not _NAME.match(handle.name):
            raise SecretMissing(handle=handle)
        return await trio.to_thread.run_sync(self._read, handle)

    def _read(self, handle: SecretHandle) -> Secret:
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if self._links else os.O_NOFOLLOW)
        try:
            file = os.open(self._directory / handle.name, flags)
        except FileNotFoundError:
            raise SecretMissing(handle=handle) from None
        except OSError as error:
            if not self._links and _is_link(self._directory / handle.name):
                raise SecretRefused(handle=handle, problem="is a link") from None
            raise SecretsUnavailable(handle=handle, problem=error.strerror or type(error).__name__) from error
        try:
            data = self._checked(handle, file)
        finally:
            os.close(file)
        try:
            text = data.decode()
        except UnicodeDecodeError:
            # Not chained: the error would carry the value.
            raise SecretRefused(handle=handle, problem="is no UTF-8 text") from None
        return Secret(handle, text.removesuffix("\n"))

    def _checked(self, handle: SecretHandle, file: int) -> bytes:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise SecretRefused(handle=handle, problem="is no plain file")
        if status.st_mode & stat.S_IRWXO:
            raise SecretRefused(handle=handle, problem="is open to every user of the machine")
        data = os.read(file, MAX_SECRET + 2)
        if len(data) > MAX_SECRET + 1:
            raise SecretRefused(handle=handle, problem=f"is longer than {MAX_SECRET} bytes")
        return data


def _is_link(path: Path) -> bool:
    with suppress(OSError):
        return path.is_symlink()
    return False
