"""open_sqlite: a file with logs, ledger and sessions, opened for as long as a scope lasts.

Decides the order of opening and closing, and the bounds of the options. What is in the file is the other modules'.
"""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from math import isfinite
from typing import Final

import trio

from triolet.adapters.sqlite.backing_up import back_up
from triolet.adapters.sqlite.connecting import open_file
from triolet.adapters.sqlite.conversations import SqliteConversations
from triolet.adapters.sqlite.errors import InvalidOption, StoreContradicts
from triolet.adapters.sqlite.ledger import SqliteLedger
from triolet.adapters.sqlite.readers import Readers
from triolet.adapters.sqlite.sessions import SqliteSessions
from triolet.adapters.sqlite.soundness import require_sound_sqlite
from triolet.adapters.sqlite.verifying import Finding, verify
from triolet.adapters.sqlite.writer import Writer
from triolet.ports.ledger import WAITING_LIMIT
from triolet.ports.sources import Clock
from triolet.ports.wakeups import Topic

QUEUE_LIMIT: Final = 10_000
"""How many writes may wait for the writer."""
LONGEST_BUSY_SECONDS: Final = 86_400
"""A day: more is a mistake, and SQLite counts in a small number of milliseconds."""


class SqliteStore:
    """Everything in one file. `conversations`, `ledger` and `sessions` are the ports' adapters."""

    def __init__(
        self, path: str, writer: Writer, readers: Readers, clock: Clock, *, waiting_limit: int, scan_seconds: float
    ) -> None:
        self.path = path
        self._writer = writer
        self._readers = readers
        self.conversations = SqliteConversations(writer, readers)
        self.ledger = SqliteLedger(writer, readers, clock, waiting_limit=waiting_limit, scan_seconds=scan_seconds)
        self.sessions = SqliteSessions(writer, readers, clock)

    @property
    def commits(self) -> int:
        """How many commits this process has made; writes that waited together shared one."""
        return self._writer.commits

    async def backup(self, to: str | os.PathLike[str]) -> None:
        """Copy the file as it is at one moment, also while it is written to. An existing file is replaced, whole.

        Raises `NotAStore` where nothing can be kept at `to`, `StoreUnavailable` where it does not fit.
        """
        await trio.to_thread.run_sync(back_up, self.path, os.fspath(to))

    async def verify(self) -> tuple[Finding, ...]:
        """Read everything and follow every chain; what contradicts itself, at most 1,000 findings (STORE-006)."""
        return await self._readers.run(verify)


@asynccontextmanager
async def open_sqlite(
    path: str | os.PathLike[str],
    *,
    clock: Clock,
    busy_seconds: float = 5.0,
    scan_seconds: float = 1.0,
    queue_limit: int = QUEUE_LIMIT,
    waiting_limit: int = WAITING_LIMIT,
    max_pages: int | None = None,
    verified: bool = False,
) -> AsyncGenerator[SqliteStore]:
    """Open the file at `path`, and make it if it is not there.

    Leases are measured on `clock`. `busy_seconds` (at most a day) is how long another process's lock is waited for,
    `scan_seconds` how long a change by another process may go unnoticed, `queue_limit` how many writes may wait,
    `waiting_limit` how many unsettled submissions a conversation may have, `max_pages` how large the file may grow, in
    pages of 1 KiB. With `verified` everything in the file is read first, and nothing is opened that contradicts itself.
    Acquires a thread, a connection that writes and two that read; leaving the scope finishes the writes that wait.
    Raises `UnsoundSqlite`, `NotAStore`, `UnsupportedStore`, `StoreBusy`, `InvalidOption`: nothing was touched.
    `StoreContradicts`: nothing but the file's mode and counters was.
    """
    for name, seconds in (("busy_seconds", busy_seconds), ("scan_seconds", scan_seconds)):
        if not (seconds > 0 and isfinite(seconds)):
            raise InvalidOption(name=name, problem="is positive and finite")
    if busy_seconds > LONGEST_BUSY_SECONDS:
        raise InvalidOption(name="busy_seconds", problem=f"is at most {LONGEST_BUSY_SECONDS}")
    for name, count in (("queue_limit", queue_limit), ("waiting_limit", waiting_limit), ("max_pages", max_pages or 1)):
        if count < 1:
            raise InvalidOption(name=name, problem="is at least 1")
    require_sound_sqlite()
    name = os.path.abspath(path)  # noqa: ASYNC240, PTH100 -- it only joins names, and asks no disk
    woken: list[SqliteLedger] = []

    def wake(topic: Topic) -> None:
        for ledger in woken:
            ledger.wake(topic)

    def connect() -> tuple[Writer, Readers]:
        connection = open_file(name, busy_seconds=busy_seconds, max_pages=max_pages)
        try:
            readers = Readers(name, busy_seconds)
        except BaseException:
            connection.close()
            raise
        return Writer(connection, limit=queue_limit, busy_seconds=busy_seconds, woken=wake), readers

    # One step, so that a caller that is cancelled in between leaves nothing open.
    writer, readers = await trio.to_thread.run_sync(connect)
    try:
        store = SqliteStore(name, writer, readers, clock, waiting_limit=waiting_limit, scan_seconds=scan_seconds)
        woken.append(store.ledger)
        if verified and (findings := await store.verify()):
            raise StoreContradicts(found=len(findings), first=findings[0].problem)
        yield store
    finally:
        # Bounded by the writes that wait, each of which is; leaving must not lose what was taken.
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(writer.close)
            readers.close()
