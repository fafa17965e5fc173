# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# apsw's stubs leave the types of bindings open.

"""A transaction: the statements that a unit of work makes on one connection, and whom it will wake.

Decides nothing about beginning and ending; `writer` and `readers` do that. Units of work are plain functions that take
one of these, so that several of them can share a commit.
"""

from collections.abc import Iterator
from typing import Any

import apsw

from triolet.ports.wakeups import Topic

Value = str | bytes | int | None
Row = tuple[Any, ...]
"""What a row holds is known from the statement; tables are strict, so the kinds of their columns are certain."""


class Transaction:
    """One open transaction. apsw keeps the prepared forms of its statements."""

    __slots__ = ("_execute", "topics")

    def __init__(self, connection: apsw.Connection) -> None:
        self._execute = connection.execute
        self.topics: set[Topic] = set()

    def run(self, statement: str, *values: Value) -> None:
        """Make a statement that gives no rows."""
        self._execute(statement, values)

    def one(self, statement: str, *values: Value) -> Row | None:
        """The first row, or None."""
        row: Row | None = self._execute(statement, values).fetchone()
        return row

    def all(self, statement: str, *values: Value) -> list[Row]:
        """Every row. For statements whose number of rows is bounded."""
        rows: list[Row] = self._execute(statement, values).fetchall()
        return rows

    def each(self, statement: str, *values: Value) -> Iterator[Row]:
        """The rows, one by one, fetched as they are asked for."""
        yield from self._execute(statement, values)

    def wake(self, topic: Topic) -> None:
        """Wake whoever waits for this topic, after the commit and only if there is one."""
        self.topics.add(topic)
