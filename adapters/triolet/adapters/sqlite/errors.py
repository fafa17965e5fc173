"""What can go wrong between this adapter and a database file, and how SQLite's own errors become it.

Decides the family of each error, and that each one of a write says whether anything was written: ``no``, or
``unknown`` where a disk failed while it was made to keep a commit. Never puts a stored value into a message.
(CAP-001)
"""

from typing import Literal

import apsw
import attrs

from triolet.ports.errors import Corrupt, Misuse, TrioletError, Unavailable, bounded

Written = Literal["no", "unknown"]


@attrs.define(kw_only=True)
class StoreUnavailable(Unavailable):
    """The file could not be used this time. `written` says what became of a write: ``no``, or ``unknown``."""

    problem: str
    written: Written = "no"

    @property
    def message(self) -> str:
        """The problem, and whether something was written."""
        ending = "nothing was written" if self.written == "no" else "whether it was written is unknown"
        return f"the store is unavailable: {bounded(self.problem)}; {ending}"


@attrs.define(kw_only=True)
class StoreBusy(StoreUnavailable):
    """Another process held the file's lock for as long as this one was willing to wait. Nothing was written."""


@attrs.define(kw_only=True)
class StoreFull(StoreUnavailable):
    """The disk, or the size that the host allows, is used up. Nothing was written."""


@attrs.define(kw_only=True)
class StoreOverloaded(StoreUnavailable):
    """As many writes wait as may. This one was not taken in."""


@attrs.define(kw_only=True)
class StoreDamaged(Corrupt):
    """The file contradicts itself below the level of records. Nothing is repaired."""

    problem: str

    @property
    def message(self) -> str:
        """What was found."""
        return f"the store's file is damaged: {bounded(self.problem)}"


@attrs.define(kw_only=True)
class StoreContradicts(Corrupt):
    """The file was to be verified before it is used, and something in it contradicts something else."""

    found: int
    first: str

    @property
    def message(self) -> str:
        """How many contradictions, and the first."""
        return f"{self.found} contradictions in the store, the first: {bounded(self.first)}"


@attrs.define(kw_only=True)
class UnsupportedStore(Corrupt):
    """The file has a schema that this version does not know: a newer program wrote it. Nothing was touched."""

    found: int
    known: int

    @property
    def message(self) -> str:
        """Both versions."""
        return f"the store has schema version {self.found}, and this program knows {self.known}"


@attrs.define(kw_only=True)
class NotAStore(Misuse):
    """There is something else at this path, or nothing can be kept there. Nothing was touched."""

    path: str
    problem: str

    @property
    def message(self) -> str:
        """Where, and what is wrong."""
        return f"no store at {bounded(self.path)!r}: {bounded(self.problem)}"


@attrs.define(kw_only=True)
class UnsoundSqlite(Misuse):
    """The SQLite library that apsw brought may lose a commit when two connections meet at a WAL reset."""

    version: str

    @property
    def message(self) -> str:
        """Which library, and which would do."""
        return f"SQLite {self.version} has the WAL-reset fault; 3.51.3 or newer is needed: install a newer apsw"


@attrs.define(kw_only=True)
class InvalidOption(Misuse):
    """An option of `open_sqlite` that is out of its bounds."""

    name: str
    problem: str

    @property
    def message(self) -> str:
        """Which option, and what it has to be."""
        return f"{self.name} {self.problem}"


@attrs.define(kw_only=True)
class StoreClosed(Misuse):
    """The store's scope was left."""

    @property
    def message(self) -> str:
        """Says so."""
        return "the store is closed"


def translated(error: apsw.Error, *, committing: bool = False) -> TrioletError:
    """What an error of SQLite means to a caller, with the error as its cause.

    `committing` says that it came from the commit itself: where a disk fails then, the commit may be found after a
    crash or not. At any other time nothing of the transaction is kept.
    """
    made = _meaning(error, "unknown" if committing else "no")
    made.__cause__ = error
    return made


def _meaning(error: apsw.Error, if_failed: Written) -> TrioletError:
    # SQLite's own texts name tables, columns and files, never values.
    problem = f"{type(error).__name__}: {error}"
    match error:
        case apsw.BusyError() | apsw.LockedError() | apsw.ProtocolError():
            return StoreBusy(problem="another process holds its lock")
        case apsw.FullError():
            return StoreFull(problem="the disk is full, or the allowed size is reached")
        case apsw.ReadOnlyError() | apsw.PermissionsError() | apsw.CantOpenError() | apsw.AuthError():
            return StoreUnavailable(problem=problem)
        case apsw.IOError() | apsw.NoMemError() | apsw.InterruptError() | apsw.AbortError():
            return StoreUnavailable(problem=problem, written=if_failed)
        case apsw.TooBigError():
            return StoreUnavailable(problem="a value is larger than SQLite keeps")
        case apsw.CorruptError() | apsw.NotADBError() | apsw.FormatError() | apsw.ConstraintError() | apsw.SQLError():
            return StoreDamaged(problem=problem)
        case _:
            return StoreUnavailable(problem=problem, written=if_failed)
