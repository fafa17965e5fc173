"""Which SQLite libraries may be used.

Decides by the version alone: those with the WAL-reset fault, which can lose a commit as soon as a file has two
connections, are refused before a file is opened.
"""

from typing import Final

import apsw

from triolet.adapters.sqlite.errors import UnsoundSqlite

# The first sound release, and the two older branches into which the remedy was taken back.
_SOUND: Final = (3, 51, 3)
_SOUND_BRANCHES: Final = ((3, 50, 7), (3, 44, 6))


def is_sound(version: str) -> bool:
    """Whether SQLite of this version (three numbers and dots) keeps every commit."""
    number = tuple(int(part) for part in version.split("."))[:3]
    return number >= _SOUND or any(number[:2] == branch[:2] and number >= branch for branch in _SOUND_BRANCHES)


def require_sound_sqlite() -> None:
    """Refuse the library that apsw brought, with `UnsoundSqlite`, unless it is sound."""
    version = apsw.sqlite_lib_version()
    if not is_sound(version):
        raise UnsoundSqlite(version=version)
