# pyright: reportUnknownMemberType=false
# apsw's stubs leave the types of bindings open.

"""The tables, and which files are stores.

Decides the schema and its version, and tells apart a new file, a store of this version, a store of another one and
something else, before anything is written (STORE-011). Every table's key begins with the tenant (SEC-002). Tables are
strict, and keyed by what they are looked up by, so that an append touches a few pages however long its log is (F-019).
"""

from typing import Final

import apsw

from triolet.adapters.sqlite.errors import NotAStore, UnsupportedStore
from triolet.adapters.sqlite.ledger_schema import LEDGER_TABLES

SCHEMA_VERSION: Final = 1
APPLICATION_ID: Final = 0x54_52_4C_54
"""``TRLT``: in the file's header, where ``file`` and SQLite's own tools show it."""
PAGE_BYTES: Final = 1024
"""Small pages, since each page that a commit touches is written whole."""

# `last` is the number of a batch's last record, `body` its exact bytes; the last row is the tail. `digest` is 32 bytes.
_LOG_TABLES: Final = """
CREATE TABLE conversations (
    tenant TEXT NOT NULL,
    conversation TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, conversation)
) STRICT, WITHOUT ROWID;
CREATE TABLE batches (
    tenant TEXT NOT NULL,
    conversation TEXT NOT NULL,
    last INTEGER NOT NULL,
    records INTEGER NOT NULL,
    batch TEXT NOT NULL,
    digest BLOB NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (tenant, conversation, last)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX batches_by_identity ON batches (tenant, conversation, batch);
CREATE TABLE checkpoints (
    tenant TEXT NOT NULL,
    conversation TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    digest TEXT NOT NULL,
    machine_version INTEGER NOT NULL,
    seal BLOB NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (tenant, conversation)
) STRICT, WITHOUT ROWID;
CREATE TABLE sessions (
    tenant TEXT NOT NULL,
    session TEXT NOT NULL,
    revision INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (tenant, session)
) STRICT, WITHOUT ROWID;
"""

TABLES: Final = _LOG_TABLES + LEDGER_TABLES


def is_new(connection: apsw.Connection, path: str) -> bool:
    """Whether nothing is in this database yet. Raises `NotAStore` or `UnsupportedStore`; writes nothing.

    For within a transaction, so that what is read is of one moment.
    """
    application, version, tables = (
        connection.pragma("application_id"),
        connection.pragma("user_version"),
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone(),
    )
    if application == 0 and version == 0 and tables == (0,):
        return True
    if application != APPLICATION_ID:
        raise NotAStore(path=path, problem="it is another program's database")
    if version != SCHEMA_VERSION:
        raise UnsupportedStore(found=version, known=SCHEMA_VERSION)
    return False


def create_tables(connection: apsw.Connection) -> None:
    """Make the tables, within the caller's transaction."""
    connection.execute(TABLES)
    connection.pragma("application_id", APPLICATION_ID)
    connection.pragma("user_version", SCHEMA_VERSION)
