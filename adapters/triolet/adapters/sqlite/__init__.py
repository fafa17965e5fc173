"""SQLite: logs, ledger and sessions in one file, for one machine and any number of its processes."""

from triolet.adapters.sqlite.errors import (
    InvalidOption,
    NotAStore,
    StoreBusy,
    StoreClosed,
    StoreContradicts,
    StoreDamaged,
    StoreFull,
    StoreOverloaded,
    StoreUnavailable,
    UnsoundSqlite,
    UnsupportedStore,
)
from triolet.adapters.sqlite.store import SqliteStore, open_sqlite
from triolet.adapters.sqlite.verifying import Finding

__all__ = [
    "Finding",
    "InvalidOption",
    "NotAStore",
    "SqliteStore",
    "StoreBusy",
    "StoreClosed",
    "StoreContradicts",
    "StoreDamaged",
    "StoreFull",
    "StoreOverloaded",
    "StoreUnavailable",
    "UnsoundSqlite",
    "UnsupportedStore",
    "open_sqlite",
]
