# pyright: reportUnknownMemberType=false
# apsw's stubs leave the types of bindings open.

"""Backing up a file that is in use.

Decides that a backup is of one moment and appears whole: it is made beside its place under a name of its own, made to
last, and then renamed. It takes no database's place that is in use, or that left a journal behind: the journal would be
taken for the backup's.
"""

import os
import secrets
from contextlib import closing
from pathlib import Path
from typing import Final

import apsw

from triolet.adapters.sqlite.errors import NotAStore, StoreUnavailable, translated

_JOURNALS: Final = ("-wal", "-shm", "-journal")


def back_up(path: str, to: str) -> None:
    """Copy the store at `path` to `to`. Blocks; for a thread of its own."""
    target = Path(to).absolute()
    unfinished = target.with_name(f"{target.name}.{secrets.token_hex(8)}.unfinished")
    try:
        _check(Path(path), target)
        with closing(apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)) as source:
            # One read transaction, whatever is written meanwhile.
            source.execute("VACUUM INTO ?", (str(unfinished),))
        _make_last(unfinished)
        unfinished.replace(target)
        _make_last(target.parent)
    except apsw.Error as error:
        raise translated(error) from error
    except OSError as error:
        raise StoreUnavailable(
            problem=f"the backup cannot be kept: {error.strerror or type(error).__name__}"
        ) from error
    finally:
        unfinished.unlink(missing_ok=True)


def _check(path: Path, target: Path) -> None:
    if target.is_dir() or not target.parent.is_dir():
        raise NotAStore(path=str(target), problem="it is a directory, or is in none")
    if target.exists() and target.samefile(path):
        raise NotAStore(path=str(target), problem="it is the very file that is to be backed up")
    for ending in _JOURNALS:
        if target.with_name(target.name + ending).exists():
            raise NotAStore(path=str(target), problem="a database is in use there, or was not closed")


def _make_last(path: Path) -> None:
    """Have the disk keep a file's content, or a directory's names."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
