"""The folder that the demo's tools read.

Decides which files of a folder are offered, and that nothing outside it is ever read. Everything is bounded: how
deep and how much of the folder is looked at, how many files are offered, how large they are. It never writes, and
follows no link to another place. What is left out is counted by reason.
"""

import itertools
import os
import stat
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import attrs

from triolet.adapters.cli.demo.mentions import mentions
from triolet.ports.text import decode

MAX_FILES: Final = 200
MAX_FILE_BYTES: Final = 4 * 1024 * 1024
MAX_FOLDER_BYTES: Final = 64 * 1024 * 1024
MAX_ENTRIES: Final = 20_000
"""Entries that are looked at before the rest of the folder is left out."""
MAX_DEPTH: Final = 8
MAX_NAME: Final = 200
"""Characters of a file's name, with the folders that lead to it."""
PROBE_BYTES: Final = 8192
"""A NUL byte among so many at the beginning marks a binary file."""

_PREFERRED: Final = ("readme.md", "readme.txt", "readme", "index.md")


class UnusableFolder(Exception):
    """The folder cannot serve: it is missing, unreadable, no folder, or has no file that can be offered."""


@attrs.define(kw_only=True)
class FileUnavailable(Exception):
    """A file was there when the folder was opened and cannot be read now. A declared failure of the tools."""

    file: str
    problem: str


@attrs.frozen(kw_only=True, weakref_slot=False)
class Folder:
    """The files on offer. `names` are relative to `root`, with ``/`` between folders, sorted."""

    root: Path
    names: tuple[str, ...]
    left_out: Mapping[str, int]

    def read(self, name: str) -> str:
        """The whole text of one of `names`; what is not UTF-8 in it is U+FFFD. Raises `FileUnavailable`."""
        try:
            data = _read(self.root, name, MAX_FILE_BYTES + 1)
        except _LeftOut as error:
            raise FileUnavailable(file=name, problem=error.reason) from None
        if len(data) > MAX_FILE_BYTES:
            raise FileUnavailable(file=name, problem="too large")
        return decode(data)

    @property
    def default_name(self) -> str:
        """The file that a question is about if nobody says: a README or index, else the first."""
        by_name = {name.lower(): name for name in self.names}
        first = min(self.names, key=lambda name: (name.count("/"), name))
        return next((by_name[name] for name in _PREFERRED if name in by_name), first)


def open_folder(path: Path, question: str | None = None) -> Folder:
    """Look at the folder at `path`. Files that `question` mentions are offered before others.

    Raises `UnusableFolder` with a sentence for its user.
    """
    shown = f"{str(path)!r}"
    try:
        root = path.resolve(strict=True)
        if not root.is_dir():
            raise UnusableFolder(f"{shown} is no folder")
        with os.scandir(root):
            pass
    except FileNotFoundError:
        raise UnusableFolder(f"there is no folder {shown}") from None
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise UnusableFolder(f"the folder {shown} cannot be read: {reason}") from None
    return _choose(root, shown, question)


def _choose(root: Path, shown: str, question: str | None) -> Folder:
    left_out: Counter[str] = Counter()
    found = sorted(_walk(root, left_out))
    if question is not None:
        mentioned = set(mentions(question, found).names)
        found.sort(key=lambda name: (name not in mentioned, name))
    names: list[str] = []
    total = 0
    for name in found:
        if len(names) == MAX_FILES:
            left_out["beyond the first 200"] += 1
            continue
        try:
            size = _probe(root, name)
        except _LeftOut as error:
            left_out[error.reason] += 1
            continue
        if total + size > MAX_FOLDER_BYTES:
            left_out["beyond the first 64 MiB"] += 1
            continue
        total += size
        names.append(name)
    if not names:
        why = "it is empty" if not left_out else f"left out: {describe(left_out)}"
        raise UnusableFolder(f"the folder {shown} has no text file to ask about ({why})")
    return Folder(root=root, names=tuple(sorted(names)), left_out=dict(left_out))


def describe(left_out: Mapping[str, int]) -> str:
    """What was left out, for people: ``2 binary, 1 too large``."""
    return ", ".join(f"{count} {reason}" for reason, count in sorted(left_out.items()))


def _walk(root: Path, left_out: Counter[str]) -> Iterator[str]:
    """Names of what may be files, hidden ones aside, without following links to folders."""
    waiting = [(root, "", 0)]
    room = MAX_ENTRIES
    while waiting:
        folder, prefix, depth = waiting.pop()
        try:
            with os.scandir(folder) as listing:
                entries = list(itertools.islice(listing, room + 1))
        except OSError:
            left_out["unreadable folders"] += 1
            continue
        for entry in entries:
            if room == 0:
                left_out["or more beyond 20,000 entries"] = 1
                return
            room -= 1
            name = prefix + entry.name
            if entry.name.startswith("."):
                continue
            if not _is_plain(name):
                left_out["with a name that is too long or not plain text"] += 1
            elif not entry.is_dir(follow_symlinks=False):
                yield name
            elif depth + 1 < MAX_DEPTH:
                waiting.append((folder / entry.name, f"{name}/", depth + 1))
            else:
                left_out["folders that are too deep"] += 1


def _is_plain(name: str) -> bool:
    """Whether a model can be shown this name, and a terminal, exactly as it is."""
    return len(name) <= MAX_NAME and name.isprintable() and name == name.strip()


class _LeftOut(Exception):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def _probe(root: Path, name: str) -> int:
    """The size of a file that may be offered."""
    head = _read(root, name, PROBE_BYTES)
    if b"\0" in head:
        raise _LeftOut("binary")
    size = (root / name).stat().st_size
    if size > MAX_FILE_BYTES:
        raise _LeftOut("too large")
    return size


def _read(root: Path, name: str, limit: int) -> bytes:
    """Up to `limit` bytes of a plain file that really lies in `root`."""
    try:
        real = (root / name).resolve(strict=True)
        if not real.is_relative_to(root):
            raise _LeftOut("links to outside")
        # O_NONBLOCK: opening a FIFO must not wait for its writer. O_NOFOLLOW: the last step may have been swapped.
        descriptor = os.open(real, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise _LeftOut("not plain files")
            return file.read(limit)
    except (OSError, RuntimeError) as error:
        raise _LeftOut("unreadable") from error
