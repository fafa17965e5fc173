# pyright: reportUnknownMemberType=false
# apsw's stubs leave the types of bindings open.

"""Readers: a few connections that only read, each used by one thread at a time.

Decides that a read is a short transaction of its own, that it sees everything acknowledged before it began (STORE-003),
and that a cancelled reader is waited for: it takes no longer than its page.
"""

from collections.abc import Callable
from typing import Final, TypeVar

import apsw
import trio

from triolet.adapters.sqlite.connecting import open_reader
from triolet.adapters.sqlite.errors import StoreClosed, translated
from triolet.adapters.sqlite.transaction import Transaction

T = TypeVar("T")

READERS: Final = 2


class Readers:
    """The reading connections of one file."""

    def __init__(self, path: str, busy_seconds: float) -> None:
        self._limiter = trio.CapacityLimiter(READERS)
        self._free: list[apsw.Connection] = []
        self._closed = False
        try:
            for _ in range(READERS):
                self._free.append(open_reader(path, busy_seconds=busy_seconds))
        except BaseException:
            self.close()
            raise

    async def run(self, work: Callable[[Transaction], T]) -> T:
        """Do `work` in a read transaction. Raises what it raises, and what SQLite's errors mean."""
        if self._closed:
            raise StoreClosed
        return await trio.to_thread.run_sync(self._read, work, limiter=self._limiter)

    def close(self) -> None:
        """Close the connections. One that is in use is closed by who uses it."""
        self._closed = True
        while self._free:
            self._free.pop().close()

    def _read(self, work: Callable[[Transaction], T]) -> T:
        try:
            connection = self._free.pop()
        except IndexError:
            # Who waited for a thread while the store was closed.
            raise StoreClosed from None
        try:
            connection.execute("BEGIN")
            return work(Transaction(connection))
        except apsw.Error as error:
            raise translated(error) from error
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._free.append(connection)
            if self._closed:
                self.close()
