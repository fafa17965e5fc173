# pyright: reportUnknownMemberType=false
# apsw's stubs leave the types of bindings open.

"""Connections to one file: opened, checked, and set as the store needs them.

Decides the order of the settings, that a file of somebody else's is not touched, and how long another process's lock is
waited for (F-020). It runs in whichever thread calls it, and holds nothing.
"""

import os
import time
from collections.abc import Callable
from typing import Final, TypeVar

import apsw

from triolet.adapters.sqlite.errors import NotAStore, StoreBusy, translated
from triolet.adapters.sqlite.schema import PAGE_BYTES, create_tables, is_new
from triolet.ports.errors import TrioletError

T = TypeVar("T")

_AGAIN_SECONDS: Final = 0.01
"""Between two tries of what SQLite does not wait for by itself, such as the switch to WAL."""


def open_file(path: str, *, busy_seconds: float, max_pages: int | None) -> apsw.Connection:
    """The writing connection. A new file gets its tables. Raises `NotAStore`, `UnsupportedStore` or `StoreBusy`."""
    if os.path.isdir(path):  # noqa: PTH112 -- SQLite's own name for the file, which need be no path of Python's
        raise NotAStore(path=path, problem="it is a directory")
    connection = _connect(path, apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE, busy_seconds)
    try:
        _patiently(lambda: _prepare(connection, path, max_pages), busy_seconds)
    except BaseException:
        connection.close()
        raise
    return connection


def open_reader(path: str, *, busy_seconds: float) -> apsw.Connection:
    """A connection that reads a file which `open_file` has prepared."""
    connection = _connect(path, apsw.SQLITE_OPEN_READWRITE, busy_seconds)
    try:
        connection.pragma("query_only", True)
    except apsw.Error as error:
        connection.close()
        raise translated(error) from error
    return connection


def _connect(path: str, flags: int, busy_seconds: float) -> apsw.Connection:
    try:
        connection = apsw.Connection(path, flags=flags)
    except apsw.Error as error:
        raise NotAStore(path=path, problem=f"{type(error).__name__}: {error}") from error
    connection.set_busy_timeout(int(busy_seconds * 1_000))
    return connection


def _prepare(connection: apsw.Connection, path: str, max_pages: int | None) -> None:
    if connection.readonly("main"):
        raise NotAStore(path=path, problem="it can only be read")
    try:
        with _reading(connection):
            new = is_new(connection, path)
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise NotAStore(path=path, problem="it is no database") from error
    if new:
        connection.pragma("page_size", PAGE_BYTES)
    if connection.pragma("journal_mode", "wal") != "wal":
        raise NotAStore(path=path, problem="it cannot be kept in WAL mode")
    connection.pragma("synchronous", "full")
    connection.pragma("foreign_keys", True)
    if max_pages is not None:
        connection.pragma("max_page_count", max_pages)
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have been first.
        if is_new(connection, path):
            create_tables(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


class _reading:  # noqa: N801 -- a context manager in the shape of a function
    """A read transaction, so that what is read is of one moment."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN")

    def __exit__(self, *_: object) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")


def _patiently(work: Callable[[], T], busy_seconds: float) -> T:
    until = time.monotonic() + busy_seconds
    while True:
        try:
            return work()
        except (apsw.BusyError, apsw.LockedError) as error:
            if time.monotonic() >= until:
                raise StoreBusy(problem="another process holds its lock") from error
            time.sleep(_AGAIN_SECONDS)
        except apsw.Error as error:
            raise translated(error) from error
        except TrioletError:
            raise
