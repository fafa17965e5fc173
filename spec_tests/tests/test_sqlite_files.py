"""Files of the SQLite store: what may stand where, bad input, verification, backups, and what a look-up costs."""

import os
import stat
from pathlib import Path
from typing import Any

import apsw
import pytest
import trio

from tests.ledgers import AGENT, TENANT, HandClock, end_of, open_stores, submission
from triolet.adapters.clocks import SystemClock
from triolet.adapters.sqlite import (
    InvalidOption,
    NotAStore,
    StoreContradicts,
    StoreUnavailable,
    open_sqlite,
)
from triolet.adapters.sqlite.ledger_book import SqliteBook
from triolet.adapters.sqlite.ledger_reads import scan
from triolet.adapters.sqlite.transaction import Transaction
from triolet.ports.conversation_store import Checkpoint, UnknownConversation
from triolet.ports.errors import InvalidValue, Misuse
from triolet.ports.identity import AgentId, ConversationId, Epoch, Instant, SequenceNumber, TenantId
from triolet.ports.session_store import SessionCreate, SessionId
from triolet.spec_tests.cases.conversation_store.setting import HERE, a_batch, at, first_batch


def names_in(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}


async def a_store(path: Path) -> None:
    """A file with a log of three batches, some accepted work, and a session."""
    async with open_sqlite(path, clock=HandClock()) as store:
        await store.conversations.create(HERE, first_batch())
        writer = await store.conversations.open_writer(HERE)
        tail = writer.tail
        for number in range(2):
            tail = (await store.conversations.append(writer, a_batch(f"b{number}"), expected=tail)).tail
        work = submission("s1", HERE.conversation)
        await store.ledger.shared.submit(work, first_batch(work.address))
        await store.sessions.create(SessionCreate(id=SessionId("s"), tenant=TENANT, schema_version=1))


def changed(path: Path, *statements: str) -> None:
    connection = apsw.Connection(str(path))
    for statement in statements:
        connection.execute(statement)
    connection.close()


# --- opening --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", [{"busy_seconds": 1e9}, {"waiting_limit": 0}, {"max_pages": -1}])
async def test_an_option_out_of_its_bounds_makes_no_file(tmp_path: Path, option: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption):
        async with open_sqlite(tmp_path / "store.db", clock=SystemClock(), **option):
            pass
    assert names_in(tmp_path) == set()


async def test_a_file_that_can_only_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store.db"
    await a_store(path)
    before = path.read_bytes()
    path.chmod(stat.S_IRUSR)
    if os.access(path, os.W_OK):
        # A superuser may write anyway; SQLite then says that it can, so it is told otherwise.
        monkeypatch.setattr(apsw, "Connection", ReadOnly)
    with pytest.raises(NotAStore) as refused:
        async with open_sqlite(path, clock=SystemClock()):
            pass
    assert "read" in refused.value.problem
    assert path.read_bytes() == before


class ReadOnly(apsw.Connection):
    def readonly(self, name: str) -> bool:
        return True


async def test_who_is_cancelled_while_opening_leaves_nothing_open(tmp_path: Path) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        async with open_sqlite(tmp_path / "store.db", clock=SystemClock()):
            pass
    await a_store(tmp_path / "store.db")
    # The last connection that is closed takes the journal with it.
    assert names_in(tmp_path) == {"store.db"}


async def test_a_body_that_raises_closes_all_the_same(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        async with open_sqlite(tmp_path / "store.db", clock=SystemClock()) as store:
            await store.conversations.create(HERE, first_batch())
            raise ZeroDivisionError
    assert names_in(tmp_path) == {"store.db"}


# --- input ----------------------------------------------------------------------------------------------


async def test_input_that_no_store_can_keep_is_refused_by_type_or_not_found(tmp_path: Path) -> None:
    half = at("half \ud800")
    async with open_sqlite(tmp_path / "store.db", clock=SystemClock()) as store:
        logs = store.conversations
        with pytest.raises(Misuse):
            await logs.create(half, first_batch())
        for verb in (logs.inspect_tail, logs.read, logs.load_checkpoint, logs.open_writer):
            with pytest.raises(UnknownConversation):
                await verb(half)
        assert await logs.delete(half) is False
        assert await logs.list(TenantId("half \ud800")) == ()
        assert await store.sessions.get(TENANT, SessionId("half \ud800")) is None
        assert await store.ledger.forget(half) is False
        await logs.create(HERE, first_batch())
        with pytest.raises(InvalidValue):
            await logs.open_writer(HERE, Epoch(2**63))
        writer = await logs.open_writer(HERE)
        with pytest.raises(InvalidValue):
            await logs.save_checkpoint(writer, Checkpoint(tail=writer.tail, machine_version=2**70, body=b""))
        assert (await logs.read(HERE, after=SequenceNumber(2**70))).batches == ()
        assert await store.verify() == ()


# --- verifying ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("UPDATE batches SET batch = 'another' WHERE last = 2", "identity"),
        ("DELETE FROM conversations", "not there"),
        ("UPDATE submissions SET state = CAST('{}' AS BLOB)", "does not read"),
        ("UPDATE lanes SET due = NULL", "line of work"),
        ("UPDATE lanes SET agent = 'another'", "line of work"),
        ("DELETE FROM lanes", "line of work"),
        ("UPDATE sessions SET body = '{}'", "session"),
        ("UPDATE batches SET digest = zeroblob(32) WHERE last = 3", "digests"),
    ],
)
async def test_store_006_verification_finds_each_damage_and_can_be_had_at_opening(
    tmp_path: Path, statement: str, problem: str
) -> None:
    path = tmp_path / "store.db"
    await a_store(path)
    async with open_sqlite(path, clock=HandClock(), verified=True) as store:
        assert await store.verify() == ()
    changed(path, statement)
    async with open_sqlite(path, clock=HandClock()) as store:
        findings = await store.verify()
    assert any(problem in finding.problem for finding in findings), findings
    with pytest.raises(StoreContradicts) as refused:
        async with open_sqlite(path, clock=HandClock(), verified=True):
            raise AssertionError("it is not opened")
    assert (refused.value.found, refused.value.first) == (len(findings), findings[0].problem)
    assert names_in(tmp_path) == {"store.db"}


async def test_a_settlement_that_is_not_the_runs_end_is_found(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with open_stores("sqlite", tmp_path, HandClock()) as stores:
        work = submission("s1")
        assert stores.ledger.shared is not None
        await stores.ledger.shared.submit(work, first_batch(work.address))
        claim = await stores.claimed()
        await stores.ledger.finalize(claim, end_of(work))
    async with open_sqlite(path, clock=HandClock()) as store:
        [finding] = await store.verify()
    assert finding.conversation == work.address.conversation
    assert "settled otherwise" in finding.problem


# --- backups --------------------------------------------------------------------------------------------


async def test_a_backup_never_takes_the_place_of_a_database_in_use(tmp_path: Path) -> None:
    path, link = tmp_path / "store.db", tmp_path / "link.db"
    await a_store(path)
    link.symlink_to(path)
    other = tmp_path / "other.db"
    async with open_sqlite(path, clock=HandClock()) as store, open_sqlite(other, clock=HandClock()) as in_use:
        await in_use.conversations.create(at("theirs"), first_batch(at("theirs")))
        for place in (path, link, other, tmp_path):
            with pytest.raises(NotAStore):
                await store.backup(place)
        writer = await store.conversations.open_writer(HERE)
        await store.conversations.append(writer, a_batch("b9"), expected=writer.tail)
        assert len(await in_use.conversations.list(HERE.tenant)) == 1
    async with open_sqlite(path, clock=HandClock(), verified=True) as store:
        assert (await store.conversations.inspect_tail(HERE)).sequence == 4
    assert not [name for name in names_in(tmp_path) if "unfinished" in name]


async def test_backups_to_one_place_at_once_leave_one_whole_copy(tmp_path: Path) -> None:
    await a_store(tmp_path / "store.db")
    async with open_sqlite(tmp_path / "store.db", clock=HandClock()) as store:
        async with trio.open_nursery() as nursery:
            for _ in range(6):
                nursery.start_soon(store.backup, tmp_path / "copy.db")
    assert names_in(tmp_path) == {"store.db", "copy.db"}
    async with open_sqlite(tmp_path / "copy.db", clock=HandClock(), verified=True) as copy:
        assert (await copy.conversations.inspect_tail(HERE)).sequence == 3
        assert len(await copy.ledger.scan()) == 1
        assert await copy.sessions.get(TENANT, SessionId("s")) is not None


async def test_a_backup_that_fails_leaves_the_older_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await a_store(tmp_path / "store.db")
    async with open_sqlite(tmp_path / "store.db", clock=HandClock()) as store:
        await store.backup(tmp_path / "copy.db")
        before = (tmp_path / "copy.db").read_bytes()

        def fails(_: int) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", fails)
            with pytest.raises(StoreUnavailable):
                await store.backup(tmp_path / "copy.db")
    assert (tmp_path / "copy.db").read_bytes() == before
    assert names_in(tmp_path) == {"store.db", "copy.db"}


# --- costs ----------------------------------------------------------------------------------------------


async def test_claiming_and_scanning_look_into_an_index_and_sort_nothing(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "store.db", clock=HandClock()):
        pass
    connection = apsw.Connection(str(tmp_path / "store.db"))
    seen: list[str] = []

    def trace(_: object, statement: str, __: object) -> bool:
        seen.append(statement)
        return True

    connection.set_exec_trace(trace)
    rows = Transaction(connection)
    book = SqliteBook(rows, Instant(0))
    book.claimable(frozenset((AGENT,)))
    book.claimable(None)
    book.lane(HERE)
    for tenant, conversation in ((None, None), (TENANT, ConversationId("c"))):
        scan(rows, tenant, conversation, SequenceNumber(0), 10, unsettled=True)
    connection.set_exec_trace(None)
    assert len(seen) >= 6
    for statement in seen:
        values = tuple("x" for _ in range(statement.count("?")))
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]
        assert all("SEARCH" in step or "USING COVERING INDEX" in step for step in plan), (statement, plan)
        assert not any("TEMP B-TREE" in step for step in plan), (statement, plan)
    connection.close()


async def test_claiming_costs_alike_however_much_is_meant_for_others(tmp_path: Path) -> None:
    """Counted in steps of SQLite's machine, not in time."""

    async def steps_of_a_claim(folder: Path, others: int) -> int:
        folder.mkdir()  # noqa: ASYNC240 -- no other task waits here
        async with open_stores("sqlite", folder, HandClock()) as stores:
            async with trio.open_nursery() as nursery:
                for number in range(others):
                    work = submission(f"o{number}", f"c{number}", agent=AgentId("theirs"))
                    assert stores.ledger.shared is not None
                    nursery.start_soon(stores.ledger.shared.submit, work, first_batch(work.address))
        connection = apsw.Connection(str(folder / "store.db"))
        steps = 0

        def count() -> bool:
            nonlocal steps
            steps += 1
            return False

        connection.set_progress_handler(count, 1)
        SqliteBook(Transaction(connection), Instant(2**50)).claimable(frozenset((AGENT,)))
        connection.close()
        return steps

    few, many = await steps_of_a_claim(tmp_path / "few", 3), await steps_of_a_claim(tmp_path / "many", 300)
    assert many <= few + 5
