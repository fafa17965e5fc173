# pyright: reportUnknownMemberType=false
# apsw's stubs leave the types of bindings open.

"""The writer: one thread, one connection, and as many operations in one commit as happen to wait for it.

Decides what shares a commit, that each operation fails by itself if it raises, and what a cancelled caller knows.
An operation that still waits is withdrawn, and nothing of it happens; once it is taken, its caller waits for its real
outcome. An operation counts as taken when the file's lock is held, and waits no longer than it may for that; nobody
waits for another's patience. Nothing that goes wrong ends the thread. (STORE-004, DUR-007, F-020)
"""

import copy
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice
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
_AGAIN_SECONDS: Final = 0.02
"""The longest pause between two tries for a lock."""


@attrs.define(eq=False)
class _Operation:
    """A unit of work that waits for its turn until `until` (monotonic seconds), and the task that waits for it.

    One that is to be done `alone` was in a commit that was undone as a whole, for which one of them has the reason.
    """

    work: Callable[[Transaction], Any]
    task: trio.lowlevel.Task
    token: trio.lowlevel.TrioToken
    until: float
    taken: bool = False
    alone: bool = False


_Answers = list[tuple[_Operation, outcome.Outcome[Any]]]


class Writer:
    """Runs units of work on the writing connection. `limit` bounds how many may wait, `busy_seconds` for how long."""

    def __init__(
        self, connection: apsw.Connection, *, limit: int, busy_seconds: float, woken: Callable[[Topic], None]
    ) -> None:
        self._connection = connection
        self._limit = limit
        self._busy_seconds = busy_seconds
        self._woken = woken
        self._waiting: deque[_Operation] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self.commits = 0
        """How many commits there were; fewer than operations where some shared one."""
        connection.set_busy_handler(self._is_worth_waiting)
        self._thread = threading.Thread(target=self._serve, name="triolet sqlite writer", daemon=True)
        self._thread.start()

    # An interrupt between taking a place in line and waiting there would leave an answer without its task.
    @trio.lowlevel.enable_ki_protection
    async def run(self, work: Callable[[Transaction], T]) -> T:
        """Do `work` in a transaction, commit it, and return what it returned.

        Raises what it raises, with nothing of it kept; `StoreOverloaded`, `StoreClosed`, and what SQLite's errors mean.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        until = time.monotonic() + self._busy_seconds
        operation = _Operation(work, trio.lowlevel.current_task(), trio.lowlevel.current_trio_token(), until)
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
        """Finish what waits, end the thread and close the connection. Blocks for that long; for another thread.

        What waits in vain for another process's lock does so for `busy_seconds` at most.
        """
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
            except apsw.BusyError as error:
                self._answer(_refused(self._overdue(), translated(error)), set())
                # Some locks are refused without asking for patience; whoever is not overdue tries again.
                time.sleep(_AGAIN_SECONDS)
            except apsw.Error as error:
                self._answer(_refused(self._take(), translated(error)), set())
            else:
                self._commit(self._take())

    def _is_worth_waiting(self, tries: int) -> bool:
        # SQLite asks this while another process holds the lock; the pauses double from a millisecond on.
        with self._changed:
            if not self._waiting or self._waiting[0].until <= time.monotonic():
                return False
        time.sleep(min(_AGAIN_SECONDS, 0.001 * 2 ** min(tries, 10)))
        return True

    def _take(self) -> list[_Operation]:
        with self._changed:
            alone = next((place for place, each in enumerate(islice(self._waiting, GROUP)) if each.alone), GROUP)
            return self._taken(min(max(alone, 1), len(self._waiting)))

    def _overdue(self) -> list[_Operation]:
        now = time.monotonic()
        with self._changed:
            return self._taken(sum(1 for operation in self._waiting if operation.until <= now))

    def _taken(self, count: int) -> list[_Operation]:
        # They stand in the order of their coming, and so in that of their patience.
        taken = [self._waiting.popleft() for _ in range(count)]
        for operation in taken:
            operation.taken = True
        return taken

    def _commit(self, group: Sequence[_Operation]) -> None:
        answers: _Answers = []
        topics: set[Topic] = set()
        for operation in group:
            answers.append((operation, self._one(operation, topics)))
            if not self._connection.in_transaction:
                # A full disk or a failed read may undo everything, whatever savepoints there were.
                if len(group) > 1:
                    self._put_back(group)
                else:
                    self._answer(answers, set())
                return
        try:
            self._connection.execute("COMMIT")
        except apsw.Error as error:
            self._roll_back()
            # Also for those who were refused: what they were refused for may be undone.
            self._answer(_refused(group, translated(error, committing=True)), set())
            return
        self.commits += 1
        self._answer(answers, topics)

    def _put_back(self, group: Sequence[_Operation]) -> None:
        """Nothing of the group was kept: each is done by itself, so that only the one at fault hears of it."""
        with self._changed:
            for operation in reversed(group):
                operation.taken, operation.alone = False, True
                self._waiting.appendleft(operation)

    def _one(self, operation: _Operation, topics: set[Topic]) -> outcome.Outcome[Any]:
        transaction = Transaction(self._connection)
        try:
            self._connection.execute("SAVEPOINT operation")
            value = operation.work(transaction)
            self._connection.execute("RELEASE operation")
        except BaseException as error:  # noqa: BLE001 -- whatever it is, it belongs to the caller, in another thread
            self._undo()
            return outcome.Error(translated(error) if isinstance(error, apsw.Error) else error)
        topics |= transaction.topics
        return outcome.Value(value)

    def _undo(self) -> None:
        """Undo one operation, or everything if that cannot be done."""
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK TO operation")
                self._connection.execute("RELEASE operation")
        except apsw.Error:
            self._roll_back()

    def _roll_back(self) -> None:
        # Where even this fails, the next BEGIN says so to its callers.
        with suppress(apsw.Error):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def _answer(self, answers: _Answers, topics: set[Topic]) -> None:
        by_token: dict[trio.lowlevel.TrioToken, _Answers] = {}
        for operation, answer in answers:
            by_token.setdefault(operation.token, []).append((operation, answer))
        for token, mine in by_token.items():
            try:
                token.run_sync_soon(self._deliver, mine, topics)
            except trio.RunFinishedError:
                # Whoever asked is gone with its whole event loop; the commit stands.
                continue

    def _deliver(self, answers: _Answers, topics: set[Topic]) -> None:
        for operation, answer in answers:
            trio.lowlevel.reschedule(operation.task, answer)
        for topic in topics:
            self._woken(topic)


def _refused(group: Sequence[_Operation], failure: TrioletError) -> _Answers:
    """An error of its own for each, since tasks raise theirs side by side."""
    answers: _Answers = []
    for operation in group:
        mine = copy.copy(failure)
        mine.__cause__ = failure.__cause__
        answers.append((operation, outcome.Error(mine)))
    return answers
