# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# apsw's stubs leave the types of bindings open.

"""A transaction: the statements that a unit of work makes on one connection, and whom it will wake.

Decides nothing about beginning and ending; `writer` and `readers` do that. Units of work are plain functions that take
one of these, so that several of them can share a commit.
"""

from collections.abc import Iterator
from typing import Any

import apsw

from triolet.ports.errors import InvalidValue
from triolet.ports.wakeups import Topic

Value = str | bytes | int | None
Row = tuple[Any, ...]
"""What a row holds is known from the statement; tables are strict, so the kinds of their columns are certain."""


class Transaction:
    """One open transaction. apsw keeps the prepared forms of its statements.

    A number beyond 64 bits is `InvalidValue`. Text that no store can keep is `InvalidValue` where it would be written;
    where something is looked for under it, there is none.
    """

    __slots__ = ("_execute", "topics")

    def __init__(self, connection: apsw.Connection) -> None:
        self._execute = connection.execute
        self.topics: set[Topic] = set()

    def run(self, statement: str, *values: Value) -> None:
        """Make a statement that gives no rows."""
        try:
            self._execute(statement, values)
        except (OverflowError, UnicodeEncodeError) as error:
            raise _unkept(error) from error

    def one(self, statement: str, *values: Value) -> Row | None:
        """The first row, or None."""
        row: Row | None = self._rows(statement, values).fetchone()
        return row

    def all(self, statement: str, *values: Value) -> list[Row]:
        """Every row. For statements whose number of rows is bounded."""
        rows: list[Row] = self._rows(statement, values).fetchall()
        return rows

    def each(self, statement: str, *values: Value) -> Iterator[Row]:
        """The rows, one by one, fetched as they are asked for."""
        yield from self._rows(statement, values)

    def wake(self, topic: Topic) -> None:
        """Wake whoever waits for this topic, after the commit and only if there is one."""
        self.topics.add(topic)

    def _rows(self, statement: str, values: tuple[Value, ...]) -> apsw.Cursor:
        try:
            return self._execute(statement, values)
        except UnicodeEncodeError:
            # Bytes equal no text in a strict table, so nothing is found; whole text takes no detour.
            return self._execute(statement, tuple(_as_bytes(value) for value in values))
        except OverflowError as error:
            raise _unkept(error) from error


def _as_bytes(value: Value) -> Value:
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) and not _is_whole(value) else value


def _is_whole(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _unkept(error: OverflowError | UnicodeEncodeError) -> InvalidValue:
    problem = "a number is beyond 64 bits" if isinstance(error, OverflowError) else "text holds a lone surrogate"
    return InvalidValue(subject="stored value", violations=(("", problem),))
