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

from triolet.adapters.secrets.refusals import NO_TEXT, TOO_LONG, text_of
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
            problem = _problem_of(file)
            found = problem or _content(handle, file)
        except OSError as error:
            raise SecretsUnavailable(handle=handle, problem=error.strerror or type(error).__name__) from error
        finally:
            os.close(file)
        if isinstance(found, str):
            raise SecretRefused(handle=handle, problem=found)
        return found


def _problem_of(file: int) -> str | None:
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode):
        return "is no plain file"
    if status.st_mode & stat.S_IRWXO:
        return "is open to every user of the machine"
    return None


def _content(handle: SecretHandle, file: int) -> Secret | str:
    # Says what is wrong instead of raising it: a traceback that shows variables would show the value.
    data = b""
    while len(data) <= MAX_SECRET + 1 and (piece := os.read(file, MAX_SECRET + 2 - len(data))):
        data += piece
    data = data.removesuffix(b"\n")
    if len(data) > MAX_SECRET:
        return TOO_LONG
    text = text_of(data)
    return NO_TEXT if text is None else Secret(handle, text)


def _is_link(path: Path) -> bool:
    with suppress(OSError):
        return path.is_symlink()
    return False
