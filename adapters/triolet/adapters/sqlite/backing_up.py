# pyright: reportUnknownMemberType=false
# apsw's stubs leave the types of bindings open.

"""Backing up a file that is in use.

Decides that a backup is of one moment and appears whole: it is made beside its place, made to last, and then renamed.
"""

import os
from pathlib import Path

import apsw

from triolet.adapters.sqlite.errors import NotAStore, translated


def back_up(path: str, to: str) -> None:
    """Copy the store at `path` to `to`. Blocks; for a thread of its own."""
    target = Path(to).absolute()
    unfinished = target.with_name(f"{target.name}.unfinished")
    if target.is_dir() or not target.parent.is_dir():
        raise NotAStore(path=to, problem="it is a directory, or is in none")
    try:
        unfinished.unlink(missing_ok=True)
        source = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            # One read transaction, whatever is written meanwhile.
            source.execute("VACUUM INTO ?", (str(unfinished),))
        finally:
            source.close()
        with unfinished.open("rb+") as file:
            os.fsync(file.fileno())
        unfinished.replace(target)
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except apsw.Error as error:
        unfinished.unlink(missing_ok=True)
        raise translated(error) from error
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise NotAStore(path=to, problem=f"it cannot be written: {type(error).__name__}") from error
