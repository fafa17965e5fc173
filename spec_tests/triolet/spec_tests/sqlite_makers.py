# pyright: reportUnknownMemberType=false
# apsw's stubs leave the types of bindings open.

"""Makers for the SQLite adapters; they need the `sqlite` extra.

Decides nothing. ``triolet certify triolet.spec_tests.sqlite_makers:sqlite_conversations --port conversation-store``
uses one.
"""

import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import apsw
import trio

from triolet.adapters.clocks import SystemClock
from triolet.adapters.sqlite import open_sqlite
from triolet.ports.conversation_store import Address, ConversationStore
from triolet.ports.ledger import Ledger
from triolet.spec_tests.cases.conversation_store import StoreSubject
from triolet.spec_tests.cases.ledger import LedgerSubject
from triolet.spec_tests.ledger_makers import LeverClock


@asynccontextmanager
async def sqlite_conversations() -> AsyncGenerator[StoreSubject]:
    """The ConversationStore in a file. Reopening is another store on it; damage is done below the adapter."""
    with tempfile.TemporaryDirectory(prefix="triolet-") as folder:
        path = Path(folder) / "store.db"

        @asynccontextmanager
        async def reopen() -> AsyncGenerator[ConversationStore]:
            async with open_sqlite(path, clock=SystemClock()) as again:
                yield again.conversations

        @asynccontextmanager
        async def damage(address: Address) -> AsyncGenerator[ConversationStore]:
            await trio.to_thread.run_sync(_flip_a_byte, path, address)
            async with open_sqlite(path, clock=SystemClock()) as again:
                yield again.conversations

        async with open_sqlite(path, clock=SystemClock()) as store:
            posture = {"durability": "one file, SQLite in WAL mode, synchronous=FULL"}
            yield StoreSubject(port=store.conversations, reopen=reopen, damage=damage, posture=posture)


@asynccontextmanager
async def sqlite_ledger() -> AsyncGenerator[LedgerSubject]:
    """The Ledger in a file. Reopening is another store on it."""
    clock = LeverClock()
    with tempfile.TemporaryDirectory(prefix="triolet-") as folder:
        path = Path(folder) / "store.db"

        @asynccontextmanager
        async def reopen() -> AsyncGenerator[Ledger]:
            async with open_sqlite(path, clock=clock) as again:
                yield again.ledger

        async with open_sqlite(path, clock=clock) as store:
            posture = {"durability": "one file, SQLite in WAL mode, synchronous=FULL"}
            yield LedgerSubject(port=store.ledger, reopen=reopen, advance=clock.advance, posture=posture)


def _flip_a_byte(path: Path, address: Address) -> None:
    where = "WHERE tenant = ? AND conversation = ? ORDER BY last DESC LIMIT 1"
    key = (address.tenant, address.conversation)
    connection = apsw.Connection(str(path))
    try:
        [(last, body)] = connection.execute(f"SELECT last, body FROM batches {where}", key)
        changed = bytearray(body)
        changed[len(changed) // 2] ^= 1
        connection.execute(
            "UPDATE batches SET body = ? WHERE tenant = ? AND conversation = ? AND last = ?",
            (bytes(changed), *key, last),
        )
    finally:
        connection.close()
