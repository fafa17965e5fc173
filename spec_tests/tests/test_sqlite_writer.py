"""The thread that writes: what shares a commit, who waits how long, and that nothing which goes wrong ends it."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import apsw
import pytest
import trio

from triolet.adapters.clocks import SystemClock
from triolet.adapters.sqlite import SqliteStore, StoreBusy, StoreDamaged, StoreFull, StoreUnavailable, open_sqlite
from triolet.adapters.sqlite.errors import translated
from triolet.adapters.sqlite.transaction import Transaction
from triolet.adapters.sqlite.writer import Writer as FileWriter
from triolet.ports.conversation_store import Writer
from triolet.ports.errors import InvalidValue
from triolet.spec_tests.cases.conversation_store.setting import HERE, a_batch, at, first_batch


@pytest.fixture
async def store(tmp_path: Path) -> AsyncGenerator[SqliteStore]:
    async with open_sqlite(tmp_path / "store.db", clock=SystemClock(), busy_seconds=20, max_pages=400) as opened:
        yield opened


def writer_of(store: SqliteStore) -> FileWriter:
    return store.conversations._writer


async def waiting(store: SqliteStore, count: int) -> None:
    """Until this many writes are in line."""
    with trio.fail_after(10):
        while len(writer_of(store)._waiting) < count:  # noqa: ASYNC110 -- what it looks at is a thread's
            await trio.sleep(0.001)


async def begun(store: SqliteStore, name: str) -> Writer:
    await store.conversations.create(at(name), first_batch(at(name)))
    return await store.conversations.open_writer(at(name))


async def test_what_waits_together_is_one_commit(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "store.db", clock=SystemClock(), busy_seconds=20) as store:
        writers = [await begun(store, f"c{number}") for number in range(10)]
        holder = apsw.Connection(str(tmp_path / "store.db"))
        holder.execute("BEGIN IMMEDIATE")
        before = store.commits
        async with trio.open_nursery() as nursery:
            for number, writer in enumerate(writers):
                nursery.start_soon(_append, store, writer, f"b{number}")
            await waiting(store, 10)
            holder.execute("COMMIT")
        holder.close()
        assert store.commits == before + 1


async def _append(store: SqliteStore, writer: Writer, name: str, text: str = "hello") -> None:
    await store.conversations.append(writer, a_batch(name, text=text), expected=writer.tail)


async def test_one_that_does_not_fit_leaves_the_others_of_its_commit_alone(store: SqliteStore, tmp_path: Path) -> None:
    small, large, other = [await begun(store, name) for name in ("small", "large", "other")]
    holder = apsw.Connection(str(tmp_path / "store.db"))
    holder.execute("BEGIN IMMEDIATE")
    full: list[StoreFull] = []

    async def too_much() -> None:
        with pytest.raises(StoreFull) as refused:
            await _append(store, large, "large", "x" * 1_000_000)
        full.append(refused.value)

    async with trio.open_nursery() as nursery:
        for number, work in enumerate(
            (lambda: _append(store, small, "b"), too_much, lambda: _append(store, other, "b"))
        ):
            nursery.start_soon(work)
            await waiting(store, number + 1)
        holder.execute("COMMIT")
    holder.close()
    assert full[0].written == "no"
    tails = [(await store.conversations.inspect_tail(at(name))).sequence for name in ("small", "large", "other")]
    assert tails == [2, 1, 2]
    assert await store.verify() == ()


async def test_a_commit_that_was_undone_as_a_whole_fails_for_the_one_at_fault_alone(
    store: SqliteStore, tmp_path: Path
) -> None:
    """What SQLite does by itself on some full disks, done by hand: no savepoint is left to go back to."""
    writers = [await begun(store, name) for name in ("first", "second", "last")]
    holder = apsw.Connection(str(tmp_path / "store.db"))
    holder.execute("BEGIN IMMEDIATE")
    before, tried = store.commits, 0

    def undo(rows: Transaction) -> None:
        nonlocal tried
        tried += 1
        rows.run("ROLLBACK")
        raise translated(apsw.IOError("disk I/O error"))

    async def fail() -> None:
        with pytest.raises(StoreUnavailable) as refused:
            await writer_of(store).run(undo)
        assert refused.value.written == "no"

    async with trio.open_nursery() as nursery:
        nursery.start_soon(_append, store, writers[0], "b")
        nursery.start_soon(_append, store, writers[1], "b")
        await waiting(store, 2)
        nursery.start_soon(fail)
        await waiting(store, 3)
        nursery.start_soon(_append, store, writers[2], "b")
        await waiting(store, 4)
        holder.execute("COMMIT")
    holder.close()
    assert (tried, store.commits - before) == (2, 3)
    for writer in writers:
        assert (await store.conversations.inspect_tail(writer.address)).sequence == 2


async def test_a_commit_that_fails_says_so_to_each_and_that_it_may_be_found_later(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writers = [await begun(store, f"c{number}") for number in range(3)]
    holder = apsw.Connection(str(tmp_path / "store.db"))
    holder.execute("BEGIN IMMEDIATE")
    failed: list[StoreUnavailable] = []

    class FailingCommit:
        """The writer's connection, but for one commit."""

        def __init__(self, inner: apsw.Connection) -> None:
            self.inner = inner

        def execute(self, statement: str, *values: Any) -> Any:
            if statement == "COMMIT" and not failed_once:
                failed_once.append(True)
                raise apsw.IOError("disk I/O error")
            return self.inner.execute(statement, *values)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

    failed_once: list[bool] = []
    monkeypatch.setattr(writer_of(store), "_connection", FailingCommit(writer_of(store)._connection))

    async def attempt(writer: Writer) -> None:
        with pytest.raises(StoreUnavailable) as refused:
            await _append(store, writer, "b")
        failed.append(refused.value)

    async with trio.open_nursery() as nursery:
        for number, writer in enumerate(writers):
            nursery.start_soon(attempt, writer)
            await waiting(store, number + 1)
        holder.execute("COMMIT")
    holder.close()
    assert [error.written for error in failed] == ["unknown"] * 3
    assert len({id(error) for error in failed}) == 3
    # Repeating the same batch is safe, and tells.
    for writer in writers:
        await _append(store, writer, "b")
    assert await store.verify() == ()


@pytest.mark.parametrize(
    "statement",
    [
        "ROLLBACK",
        "COMMIT",
        "RELEASE operation",
        "SELECT * FROM nowhere",
        "INSERT INTO conversations VALUES (1, 2, 'no number', 4)",
    ],
)
async def test_nothing_that_a_unit_of_work_does_ends_the_thread(store: SqliteStore, statement: str) -> None:
    def spoil(rows: Transaction) -> None:
        rows.run(statement)
        raise ZeroDivisionError

    with trio.fail_after(10):
        with pytest.raises((ZeroDivisionError, StoreDamaged)):
            await writer_of(store).run(spoil)
        writer = await begun(store, "after")
        await _append(store, writer, "b")
    assert await store.verify() == ()


async def test_an_error_that_is_nobodys_reaches_its_caller_with_nothing_kept(store: SqliteStore) -> None:
    def break_down(rows: Transaction) -> None:
        rows.run("DELETE FROM conversations")
        raise ZeroDivisionError

    await begun(store, "here")
    with pytest.raises(ZeroDivisionError):
        await writer_of(store).run(break_down)
    assert len(await store.conversations.list(HERE.tenant)) == 1


async def test_f_020_each_waits_for_as_long_as_it_may_itself(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "store.db", clock=SystemClock(), busy_seconds=1) as store:
        early, late = await begun(store, "early"), await begun(store, "late")
        holder = apsw.Connection(str(tmp_path / "store.db"))
        holder.execute("BEGIN IMMEDIATE")
        busy = trio.Event()

        async def gives_up() -> None:
            with pytest.raises(StoreBusy):
                await _append(store, early, "b")
            busy.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(gives_up)
            await trio.sleep(0.6)
            nursery.start_soon(_append, store, late, "b")
            await busy.wait()
            # The later one has most of its time left, and nobody else's refusal is its own.
            holder.execute("COMMIT")
        holder.close()
        assert (await store.conversations.inspect_tail(late.address)).sequence == 2
        assert (await store.conversations.inspect_tail(early.address)).sequence == 1


async def test_who_is_cancelled_after_being_taken_gets_the_real_outcome(store: SqliteStore) -> None:
    entered, go_on = trio.Event(), trio.Event()
    token = trio.lowlevel.current_trio_token()

    def slow(rows: Transaction) -> str:
        trio.from_thread.run_sync(entered.set, trio_token=token)
        trio.from_thread.run(go_on.wait, trio_token=token)
        rows.run("INSERT INTO conversations VALUES ('acme', 'slow', 0, 0)")
        return "written"

    answers: list[str] = []
    async with trio.open_nursery() as nursery:

        async def ask() -> None:
            answers.append(await writer_of(store).run(slow))

        nursery.start_soon(ask)
        await entered.wait()
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await trio.sleep(0.05)
            assert not answers
            go_on.set()
    assert answers == ["written"]


async def test_leaving_finishes_what_waits(tmp_path: Path) -> None:
    async with trio.open_nursery() as nursery:
        async with open_sqlite(tmp_path / "store.db", clock=SystemClock(), busy_seconds=20) as store:
            writer = await begun(store, "here")
            holder = apsw.Connection(str(tmp_path / "store.db"))
            holder.execute("BEGIN IMMEDIATE")
            nursery.start_soon(_append, store, writer, "b")
            await waiting(store, 1)
            nursery.start_soon(trio.to_thread.run_sync, lambda: holder.execute("COMMIT"))
    holder.close()
    async with open_sqlite(tmp_path / "store.db", clock=SystemClock(), verified=True) as store:
        assert (await store.conversations.inspect_tail(at("here"))).sequence == 2


async def test_values_that_sqlite_cannot_hold_are_refused_by_type(store: SqliteStore) -> None:
    for value in (2**63, "half \ud800"):

        def insert(rows: Transaction, value: int | str = value) -> None:
            rows.run("INSERT INTO conversations VALUES ('t', 'c', 0, ?)", value)

        with pytest.raises(InvalidValue):
            await writer_of(store).run(insert)
