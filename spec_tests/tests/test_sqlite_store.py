"""The SQLite store on real files: its suite, processes that are killed, locks, full disks, damage, and costs."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import apsw
import pytest
import trio

from tests.kernel_world import script, talker
from tests.log_watch import LogWatch
from triolet.adapters.clocks import SystemClock
from triolet.adapters.ids import RandomIds
from triolet.adapters.memory import in_memory
from triolet.adapters.scripted_model import text, turn
from triolet.adapters.sqlite import (
    NotAStore,
    SqliteStore,
    StoreBusy,
    StoreFull,
    StoreOverloaded,
    UnsoundSqlite,
    UnsupportedStore,
    open_sqlite,
)
from triolet.adapters.sqlite.errors import InvalidOption, StoreClosed
from triolet.adapters.sqlite.soundness import is_sound
from triolet.kernel import Completed, open_kernel
from triolet.ports.conversation_store import Address, Checkpoint, CorruptLog, Tail, Writer
from triolet.ports.errors import Fenced
from triolet.spec_tests import CONVERSATION_STORE, LEDGER, Case, run_case
from triolet.spec_tests.cases.conversation_store.setting import HERE, TENANT, a_batch, at, first_batch
from triolet.spec_tests.sqlite_makers import sqlite_conversations, sqlite_ledger


@pytest.mark.parametrize("case", CONVERSATION_STORE.cases, ids=str)
async def test_the_store_keeps_its_promise(case: Case[Any]) -> None:
    ran = await run_case(CONVERSATION_STORE, case, sqlite_conversations)
    ran.require()
    assert ran.row.status == "passed", ran.row.reason


@pytest.mark.parametrize("case", LEDGER.cases, ids=str)
async def test_the_ledger_keeps_its_promise(case: Case[Any]) -> None:
    ran = await run_case(LEDGER, case, sqlite_ledger)
    ran.require()
    assert ran.row.status == "passed", ran.row.reason


def opened(path: Path, **options: Any) -> Any:
    return open_sqlite(path / "store.db", clock=SystemClock(), **options)


async def begun(store: SqliteStore, address: Address = HERE) -> Writer:
    await store.conversations.create(address, first_batch(address))
    return await store.conversations.open_writer(address)


# --- opening --------------------------------------------------------------------------------------------


async def test_what_is_no_store_is_not_touched(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    connection = apsw.Connection(str(other))
    connection.execute("CREATE TABLE theirs (value)")
    connection.close()
    junk = tmp_path / "junk.db"
    junk.write_bytes(b"this is no database, and it is long enough to be looked at as one " * 40)
    before = [path.read_bytes() for path in (other, junk)]
    for path in (other, junk, tmp_path, tmp_path / "no" / "such" / "folder.db"):
        with pytest.raises(NotAStore):
            async with open_sqlite(path, clock=SystemClock()):
                pass
    assert [path.read_bytes() for path in (other, junk)] == before


async def test_store_011_a_newer_schema_is_refused_before_any_write(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await begun(store)
    path = tmp_path / "store.db"
    connection = apsw.Connection(str(path))
    connection.pragma("user_version", 99)
    connection.close()
    before = path.read_bytes()
    with pytest.raises(UnsupportedStore) as refused:
        async with opened(tmp_path):
            pass
    assert (refused.value.found, refused.value.known) == (99, 1)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("version", "sound"),
    [("3.40.1", False), ("3.44.6", True), ("3.50.6", False), ("3.50.7", True), ("3.51.2", False), ("3.51.3", True)],
)
def test_a_library_with_the_wal_reset_fault_is_known(version: str, sound: bool) -> None:
    assert is_sound(version) is sound


async def test_such_a_library_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.40.1")
    with pytest.raises(UnsoundSqlite):
        async with opened(tmp_path):
            pass
    assert os.listdir(tmp_path) == []  # noqa: PTH208 -- no other task waits here


@pytest.mark.parametrize("option", [{"busy_seconds": 0}, {"scan_seconds": float("inf")}, {"queue_limit": 0}])
async def test_options_out_of_their_bounds_are_refused(tmp_path: Path, option: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption):
        async with opened(tmp_path, **option):
            pass


async def test_a_store_whose_scope_was_left_says_so(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        writer = await begun(store)
    with pytest.raises(StoreClosed):
        await store.conversations.append(writer, a_batch("b"), expected=writer.tail)
    with pytest.raises(StoreClosed):
        await store.conversations.inspect_tail(HERE)


# --- sharing --------------------------------------------------------------------------------------------

CHILD = """
import sys, trio
from triolet.adapters.clocks import SystemClock
from triolet.adapters.sqlite import open_sqlite
from triolet.spec_tests.cases.conversation_store.setting import a_batch, at, first_batch

async def main(path, name, batches):
    async with open_sqlite(path, clock=SystemClock(), busy_seconds=30) as store:
        address = at(name)
        tail = await store.conversations.create(address, first_batch(address))
        writer = await store.conversations.open_writer(address)
        for number in range(batches):
            tail = (await store.conversations.append(writer, a_batch(f"{name}-{number}"), expected=tail)).tail
            print(tail.sequence, tail.digest, flush=True)

trio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]))
"""


def child(path: Path, name: str, batches: int) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", CHILD, str(path / "store.db"), name, str(batches)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_f_020_many_processes_open_a_fresh_file_at_once(tmp_path: Path) -> None:
    children = [child(tmp_path, f"c{number}", 5) for number in range(8)]
    for each in children:
        out, err = each.communicate(timeout=120)
        assert each.returncode == 0, err
        assert len(out.splitlines()) == 5


async def test_dur_006_another_process_that_opens_a_log_fences_this_one(tmp_path: Path) -> None:
    async with opened(tmp_path) as store, opened(tmp_path) as other:
        writer = await begun(store)
        await other.conversations.open_writer(HERE)
        with pytest.raises(Fenced):
            await store.conversations.append(writer, a_batch("b"), expected=writer.tail)


async def test_f_020_a_held_lock_is_waited_for_and_then_named(tmp_path: Path) -> None:
    async with opened(tmp_path, busy_seconds=0.3) as store:
        writer = await begun(store)
        holder = apsw.Connection(str(tmp_path / "store.db"))
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy) as busy:
            await store.conversations.append(writer, a_batch("b"), expected=writer.tail)
        assert busy.value.written == "no"
        # Reading needs no lock.
        assert (await store.conversations.inspect_tail(HERE)) == writer.tail
        threading.Timer(0.1, lambda: holder.execute("COMMIT")).start()
        appended = await store.conversations.append(writer, a_batch("b"), expected=writer.tail)
        assert appended.tail.sequence == 2
        holder.close()


async def test_f_020_who_is_cancelled_in_line_never_wrote(tmp_path: Path) -> None:
    async with opened(tmp_path, busy_seconds=10) as store:
        writer = await begun(store)
        holder = apsw.Connection(str(tmp_path / "store.db"))
        holder.execute("BEGIN IMMEDIATE")
        with trio.move_on_after(0.2) as patience:
            await store.conversations.append(writer, a_batch("withdrawn"), expected=writer.tail)
        assert patience.cancelled_caught
        holder.execute("COMMIT")
        appended = await store.conversations.append(writer, a_batch("next"), expected=writer.tail)
        assert appended.tail.sequence == 2
        page = await store.conversations.read(HERE)
        assert [stored.batch.id for stored in page.batches][1:] == [a_batch("next").id]
        holder.close()


async def test_writes_that_wait_together_share_a_commit(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        writers = [await begun(store, at(f"c{number}")) for number in range(64)]
        before = store.commits
        async with trio.open_nursery() as nursery:
            for number, writer in enumerate(writers):
                nursery.start_soon(_append, store, writer, f"b{number}")
        assert store.commits - before < 20


async def test_one_that_is_refused_spoils_no_other_of_its_commit(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        writers = [await begun(store, at(f"c{number}")) for number in range(20)]
        refused: list[int] = []

        async def attempt(number: int, writer: Writer) -> None:
            expected = writer.tail if number % 3 else Tail()
            try:
                await store.conversations.append(writer, a_batch(f"b{number}"), expected=expected)
            except Exception:  # noqa: BLE001 -- counted, and looked at below
                refused.append(number)

        async with trio.open_nursery() as nursery:
            for number, writer in enumerate(writers):
                nursery.start_soon(attempt, number, writer)
        assert sorted(refused) == [number for number in range(20) if number % 3 == 0]
        for number in range(20):
            tail = await store.conversations.inspect_tail(at(f"c{number}"))
            assert tail.sequence == (1 if number in refused else 2)


async def _append(store: SqliteStore, writer: Writer, name: str) -> None:
    await store.conversations.append(writer, a_batch(name), expected=writer.tail)


async def test_sec_013_the_line_is_bounded(tmp_path: Path) -> None:
    async with opened(tmp_path, queue_limit=3) as store:
        writer = await begun(store)
        holder = apsw.Connection(str(tmp_path / "store.db"))
        holder.execute("BEGIN IMMEDIATE")
        overloaded: list[str] = []

        async def attempt(name: str) -> None:
            try:
                await _append(store, writer, name)
            except StoreOverloaded:
                overloaded.append(name)
                if len(overloaded) == 2:
                    nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(attempt, f"b{number}")
        assert len(overloaded) == 2
        holder.execute("COMMIT")
        holder.close()


async def test_a_full_file_is_said_and_everything_before_stands(tmp_path: Path) -> None:
    async with opened(tmp_path, max_pages=200) as store:
        writer = await begun(store)
        tail, kept = writer.tail, 0
        with pytest.raises(StoreFull) as full:
            for number in range(1_000):
                batch = a_batch(f"b{number}", text="x" * 3_000)
                tail = (await store.conversations.append(writer, batch, expected=tail)).tail
                kept += 1
        assert full.value.written == "no"
        assert kept > 10
        assert (await store.conversations.inspect_tail(HERE)) == tail
        assert await store.verify() == ()


# --- kills ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [1, 3, 10, 40])
async def test_store_010_what_was_acknowledged_outlives_a_kill(tmp_path: Path, after: int) -> None:
    process = child(tmp_path, "killed", 100_000)
    acknowledged = []
    assert process.stdout is not None
    for line in process.stdout:
        acknowledged.append(line.split())
        if len(acknowledged) == after:
            os.kill(process.pid, signal.SIGKILL)
    process.wait(timeout=60)
    process.stdout.close()
    assert process.stderr is not None
    process.stderr.close()
    async with opened(tmp_path) as store:
        digests, sequence = {}, 0
        page = await store.conversations.read(at("killed"), limit=10_000)
        for stored in page.batches:
            sequence = stored.first + len(stored.batch.records) - 1
            digests[str(sequence)] = stored.digest
        assert all(digests[number] == digest for number, digest in acknowledged)
        assert await store.verify() == ()
        # The next owner goes on.
        writer = await store.conversations.open_writer(at("killed"))
        await _append(store, writer, "later")


# --- keeping --------------------------------------------------------------------------------------------


async def test_a_backup_is_whole_while_the_file_is_written(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        writer = await begun(store)
        stop = trio.Event()

        async def write() -> None:
            tail, number = writer.tail, 0
            while not stop.is_set():
                batch = a_batch(f"b{number}", text="x" * 500)
                tail = (await store.conversations.append(writer, batch, expected=tail)).tail
                number += 1

        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            for _ in range(3):
                await store.backup(tmp_path / "copy.db")
            stop.set()
        assert "copy.db.unfinished" not in os.listdir(tmp_path)  # noqa: PTH208 -- no other task waits here
        with pytest.raises(NotAStore):
            await store.backup(tmp_path / "no" / "such" / "folder.db")
    async with open_sqlite(tmp_path / "copy.db", clock=SystemClock()) as copy:
        assert await copy.verify() == ()
        assert (await copy.conversations.inspect_tail(HERE)).sequence >= 1


async def test_f_019_nothing_of_a_deleted_conversation_is_left(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        writer = await begun(store)
        await _append(store, writer, "b")
        assert await store.conversations.delete(HERE)
        assert not await store.conversations.delete(HERE)
        connection = apsw.Connection(str(tmp_path / "store.db"))
        for (table,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            if "conversation" in columns:
                assert connection.execute(
                    f"SELECT count(*) FROM {table} WHERE conversation = ?", (HERE.conversation,)
                ).fetchone() == (0,)
        connection.close()


async def test_f_019_an_append_writes_as_much_on_a_long_log_as_on_a_short_one(tmp_path: Path) -> None:
    wal = tmp_path / "store.db-wal"
    async with opened(tmp_path) as store:
        writer = await begun(store)
        connection = apsw.Connection(str(tmp_path / "store.db"))
        tail, costs = writer.tail, []
        for number in range(2_020):
            measured = number in range(20, 40) or number >= 2_000
            if measured:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            batch = a_batch(f"b{number:06}", text="x" * 400)
            tail = (await store.conversations.append(writer, batch, expected=tail)).tail
            if measured:
                costs.append(wal.stat().st_size)
        connection.close()
    short, long = sum(costs[:20]), sum(costs[20:])
    print(f"bytes an append: {short / 20:.0f} on a short log, {long / 20:.0f} at 100 times the length")
    assert long <= 1.2 * short


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("UPDATE batches SET body = CAST(replace(body, 'hello', 'jello') AS BLOB) WHERE last = 2", "corrupt"),
        ("DELETE FROM batches WHERE last = 2", "corrupt"),
        ("UPDATE batches SET records = 2 WHERE last = 2", "corrupt"),
        ("UPDATE checkpoints SET digest = 'sha256:00'", "checkpoint"),
    ],
)
async def test_verify_finds_what_contradicts_itself(tmp_path: Path, statement: str, problem: str) -> None:
    async with opened(tmp_path) as store:
        writer = await begun(store)
        tail = writer.tail
        for number in range(3):
            tail = (await store.conversations.append(writer, a_batch(f"b{number}"), expected=tail)).tail
        await store.conversations.save_checkpoint(writer, Checkpoint(tail=tail, machine_version=1, body=b"{}"))
        assert await store.verify() == ()
        connection = apsw.Connection(str(tmp_path / "store.db"))
        connection.execute(statement)
        connection.close()
        [finding] = await store.verify()
        assert (finding.tenant, finding.conversation) == (TENANT, HERE.conversation)
        assert problem in finding.problem
        if problem == "corrupt":
            with pytest.raises(CorruptLog):
                await store.conversations.read(HERE)


# --- class P --------------------------------------------------------------------------------------------


async def test_a_conversation_outlives_its_process(tmp_path: Path) -> None:
    agent = talker()
    for turn_ in range(3):
        async with opened(tmp_path) as store:
            bound = in_memory(model=script(turn(text(f"answer {turn_}"))), conversations=store.conversations)
            async with open_kernel(agents=[agent], capabilities=bound) as kernel, kernel.conversation("talk") as talk:
                assert len(talk.history) == 2 * turn_
                assert isinstance(await talk.run(agent, "go"), Completed)


async def test_f_016_two_kernels_on_one_file_take_turns_or_refuse(tmp_path: Path, log_watch: LogWatch) -> None:
    log_watch.open_runs_are_fine = True
    agent = talker()
    async with opened(tmp_path) as first, opened(tmp_path) as second:
        kernels = [
            open_kernel(
                agents=[agent],
                capabilities=in_memory(
                    model=script(turn(text("yes")), turn(text("again"))),
                    conversations=each.conversations,
                    ids=RandomIds(),
                ),
            )
            for each in (first, second)
        ]
        async with kernels[0] as one, kernels[1] as two, one.conversation("talk") as mine:
            await mine.run(agent, "one")
            async with two.conversation("talk") as theirs:
                await theirs.run(agent, "two")
                with pytest.raises(Fenced):
                    await mine.run(agent, "three")
                assert len(theirs.history) == 4
        assert await first.verify() == ()
