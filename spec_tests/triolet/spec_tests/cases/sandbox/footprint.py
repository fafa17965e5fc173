"""What this process holds of the system, so that two moments can be compared.

Decides what counts: its children (zombies too), descriptors, threads that are not Trio's idle workers, resident memory,
files in a temporary folder of its own, and control groups that bear its number. It ends nothing.
"""

import os
import tempfile
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import attrs


@attrs.frozen(kw_only=True, weakref_slot=False)
class Footprint:
    """One moment."""

    children: frozenset[int]
    descriptors: frozenset[str]
    threads: frozenset[str]
    files: frozenset[str]
    memory_bytes: int


@contextmanager
def private_temporary_folder() -> Generator[Path]:
    """A folder in which everything that asks for a temporary file gets it, for as long as the scope lasts."""
    before = tempfile.tempdir
    with tempfile.TemporaryDirectory(prefix="triolet-kit-") as folder:
        # Nobody else's: what others leave in the common one is not this subject's fault.
        Path(folder).chmod(0o755)
        tempfile.tempdir = folder
        try:
            yield Path(folder)
        finally:
            tempfile.tempdir = before


def footprint(temporary: Path) -> Footprint:
    """What is held now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    groups = Path("/sys/fs/cgroup").glob(f"**/triolet-{os.getpid()}-*")
    return Footprint(
        children=frozenset(_children()),
        descriptors=frozenset(_descriptors()),
        threads=frozenset(each.name for each in threading.enumerate() if not each.name.startswith("Trio thread")),
        files=frozenset(str(path) for path in (*temporary.iterdir(), *groups)),
        memory_bytes=pages * os.sysconf("SC_PAGE_SIZE"),
    )


def _descriptors() -> list[str]:
    # The one that looks is closed again by the time that it is asked about.
    return [entry.name for entry in list(Path("/proc/self/fd").iterdir()) if os.path.lexists(entry)]


def _children() -> list[int]:
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == os.getpid():
                found.append(int(entry.name))
    return found
