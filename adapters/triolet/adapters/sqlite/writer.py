# pyright: reportUnknownMemberType=false
# apsw's stubs leave the types of bindings open.

"""The writer: one thread, one connection, and as many operations in one commit as happen to wait for it.

Decides what shares a commit, that each operation is undone by itself if it raises, and what a cancelled caller knows.
An operation that still waits is withdrawn, and nothing of it happens; once it is taken, its caller waits for its real
outcome. An operation counts as taken when the file's lock is held. (STORE-004, DUR-007, F-020)
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar, cast

import apsw
import attrs
import outcome
import trio

from triolet.adapters.sqlite.errors import StoreClosed, StoreOverloaded, translated
from triolet.adapters.sqlite.transaction import Transaction
from triolet.ports.errors import TrioletError
from triolet.ports.wakeups import Topic

T = TypeVar("T")

GROUP: Final = 256
"""How many operations share a commit at most."""


@attrs.define(eq=False)
class _Operation:
    """A unit of work that waits for its turn, and the task that waits for it."""

    work: Callable[[Transaction], Any]
    task: trio.lowlevel.Task
    token: trio.lowlevel.TrioToken
    taken: bool = False


class Writer:
    """Runs units of work on the writing connection. `limit` bounds how many may wait."""

    def __init__(self, connection: apsw.Connection, limit: int, woken: Callable[[Topic], None]) -> None:
        self._connection = connection
        self._limit = limit
        self._woken = woken
        self._waiting: deque[_Operation] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self.commits = 0
        """How many commits there were; fewer than operations where some shared one."""
        self._thread = threading.Thread(target=self._serve, name="triolet sqlite writer", daemon=True)
        self._thread.start()

    async def run(self, work: Callable[[Transaction], T]) -> T:
        """Do `work` in a transaction, commit it, and return what it returned.

        Raises what it raises, with nothing of it kept; `StoreOverloaded`, `StoreClosed`, and what SQLite's errors mean.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        operation = _Operation(work, trio.lowlevel.current_task(), trio.lowlevel.current_trio_token())
        with self._changed:
            if self._closed:
                raise StoreClosed
            if len(self._waiting) >= self._limit:
                raise StoreOverloaded(problem=f"{self._limit} writes are waiting")
            self._waiting.append(operation)
            self._changed.notify()

        def withdraw(_: object) -> trio.lowlevel.Abort:
            with self._changed:
                if operation.taken:
                    return trio.lowlevel.Abort.FAILED
                self._waiting.remove(operation)
                return trio.lowlevel.Abort.SUCCEEDED

        return cast("T", await trio.lowlevel.wait_task_rescheduled(withdraw))

    def close(self) -> None:
        """Finish what waits, end the thread and close the connection. Blocks for that long; for another thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()
        self._connection.close()

    def _serve(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._closed:
                    self._changed.wait()
                if not self._waiting:
                    return
            try:
                self._connection.execute("BEGIN IMMEDIATE")
            except apsw.Error as error:
                # Nobody was taken yet; whoever waited until now has waited for as long as is allowed.
                self._answer([(each, outcome.Error(translated(error))) for each in self._take()], set())
                continue
            self._commit(self._take())

    def _take(self) -> list[_Operation]:
        with self._changed:
            taken = [self._waiting.popleft() for _ in range(min(GROUP, len(self._waiting)))]
            for operation in taken:
                operation.taken = True
        return taken

    def _commit(self, group: Sequence[_Operation]) -> None:
        answers: list[tuple[_Operation, outcome.Outcome[Any]]] = []
        topics: set[Topic] = set()
        failure: TrioletError | None = None
        for operation in group:
            if failure is None:
                answers.append((operation, self._one(operation, topics)))
                if not self._connection.in_transaction:
                    # A full disk or a failed read may have undone everything, whatever savepoints there were.
                    failure = _failure_of(answers[-1][1])
        if failure is None:
            try:
                self._connection.execute("COMMIT")
                self.commits += 1
            except apsw.Error as error:
                failure = translated(error, committing=True)
                self._roll_back()
        if failure is not None:
            answers, topics = [(operation, outcome.Error(failure)) for operation in group], set()
        self._answer(answers, topics)

    def _one(self, operation: _Operation, topics: set[Topic]) -> outcome.Outcome[Any]:
        transaction = Transaction(self._connection)
        try:
            self._connection.execute("SAVEPOINT operation")
            value = operation.work(transaction)
            self._connection.execute("RELEASE operation")
        except BaseException as error:  # noqa: BLE001 -- whatever it is, it belongs to the caller, in another thread
            meant: BaseException = translated(error) if isinstance(error, apsw.Error) else error
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK TO operation")
                self._connection.execute("RELEASE operation")
            return outcome.Error(meant)
        topics |= transaction.topics
        return outcome.Value(value)

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _answer(self, answers: Sequence[tuple[_Operation, outcome.Outcome[Any]]], topics: set[Topic]) -> None:
        by_token: dict[trio.lowlevel.TrioToken, list[tuple[_Operation, outcome.Outcome[Any]]]] = {}
        for operation, answer in answers:
            by_token.setdefault(operation.token, []).append((operation, answer))
        for token, mine in by_token.items():
            try:
                token.run_sync_soon(self._deliver, mine, topics)
            except trio.RunFinishedError:
                # Whoever asked is gone with its whole event loop; the commit stands.
                continue

    def _deliver(self, answers: Sequence[tuple[_Operation, outcome.Outcome[Any]]], topics: set[Topic]) -> None:
        for operation, answer in answers:
            trio.lowlevel.reschedule(operation.task, answer)
        for topic in topics:
            self._woken(topic)


def _failure_of(answer: outcome.Outcome[Any]) -> TrioletError:
    error = answer.error if isinstance(answer, outcome.Error) else None
    if isinstance(error, TrioletError):
        return error
    raise AssertionError("a transaction ends only by an error of SQLite")
