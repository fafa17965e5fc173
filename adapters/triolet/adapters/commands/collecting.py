"""Artifacts: plain files of a work folder that a program may have filled with traps.

Decides what counts as a plain file: opened without following any link, below the folder that was opened before the
program began, of one name only, of bounded size. Everything else that a pattern names is refused with its reason.
Nothing is written and nothing outside the folder is ever opened. (SEC-010, SEC-013)
"""

import os
import stat
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Final

import attrs

from triolet.ports.sandbox import ArtifactRefused, Limits

MAX_ENTRIES: Final = 10_000
"""Entries that are looked at before the rest of the folder is left alone."""
MAX_DEPTH: Final = 16

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK, opening a named pipe would wait for ever.
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@attrs.frozen(kw_only=True, weakref_slot=False)
class Found:
    """A plain file's path and bytes."""

    path: str
    payload: bytes


def collect(folder: int, patterns: tuple[str, ...], limits: Limits) -> tuple[list[Found], list[ArtifactRefused]]:
    """Read what `patterns` name below the open directory `folder`, in the order of paths. Blocks while it reads."""
    found: list[Found] = []
    refused: list[ArtifactRefused] = []
    room = limits.artifact_bytes
    for path, problem in _matching(folder, patterns):
        if len(refused) >= limits.artifact_count:
            break
        if problem:
            refused.append(ArtifactRefused(path=path, reason=problem))
        elif len(found) >= limits.artifact_count:
            refused.append(ArtifactRefused(path=path, reason=f"more than {limits.artifact_count} artifacts"))
        else:
            taken = _read(folder, path, room)
            if isinstance(taken, str):
                refused.append(ArtifactRefused(path=path, reason=taken))
            else:
                found.append(Found(path=path, payload=taken))
                room -= len(taken)
    return found, refused


def _matching(folder: int, patterns: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """The paths that match, with what is wrong with each from its name alone, or ''."""
    seen = 0
    waiting: list[tuple[str, int]] = [("", 0)]
    while waiting:
        prefix, depth = waiting.pop(0)
        try:
            opened = _open_below(folder, prefix, _FOLDER)
        except OSError:
            continue
        try:
            entries = sorted(_entries(opened, MAX_ENTRIES - seen))
        finally:
            os.close(opened)
        seen += len(entries)
        for name, is_folder in entries:
            path = f"{prefix}/{name}" if prefix else name
            if is_folder:
                if depth < MAX_DEPTH:
                    waiting.append((path, depth + 1))
            elif any(fnmatchcase(path, pattern) for pattern in patterns):
                yield _shown(path)
    if seen >= MAX_ENTRIES:
        yield "…", f"the work folder holds more than {MAX_ENTRIES} entries; the rest was not looked at"


def _entries(opened: int, room: int) -> Iterator[tuple[str, bool]]:
    with os.scandir(opened) as entries:
        for entry in entries:
            if room <= 0:
                return
            room -= 1
            yield entry.name, entry.is_dir(follow_symlinks=False)


def _shown(path: str) -> tuple[str, str]:
    try:
        path.encode()
    except UnicodeEncodeError:
        return path.encode("utf-8", "replace").decode(), "its name is not UTF-8"
    return path, ""


def _open_below(folder: int, path: str, flags: int) -> int:
    """Open `path` below `folder`, one name at a time, so that no part of it can be a link."""
    names = path.split("/") if path else []
    if not names:
        return os.open(".", flags, dir_fd=folder)
    at = folder
    try:
        for name in names[:-1]:
            inner = os.open(name, _FOLDER, dir_fd=at)
            if at != folder:
                os.close(at)
            at = inner
        return os.open(names[-1], flags, dir_fd=at)
    finally:
        if at != folder:
            os.close(at)


def _read(folder: int, path: str, room: int) -> bytes | str:
    """The file's bytes, or why it is refused."""
    try:
        opened = _open_below(folder, path, _FILE)
    except OSError as error:
        return (
            "it is a symbolic link" if error.errno == 40 else f"it cannot be opened ({os.strerror(error.errno or 0)})"
        )
    try:
        status = os.fstat(opened)
        if not stat.S_ISREG(status.st_mode):
            return "it is no plain file"
        if status.st_nlink != 1:
            return "it has more than one name, so it may be somebody else's file"
        if status.st_size > room:
            return f"it is too large: {status.st_size} bytes, with {room} left"
        with os.fdopen(os.dup(opened), "rb") as file:
            # It may have grown since: whoever writes need not be gone.
            payload = file.read(room + 1)
        return payload if len(payload) <= room else f"it is too large: more than {room} bytes"
    finally:
        os.close(opened)
