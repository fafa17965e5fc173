"""Control groups: the one thing that measures and bounds a whole tree of processes, in version 1, 2, or both at once.

Decides by trying where groups can be made and which of memory, processes and processor time they hold there. A process
is put in before it runs anything, so that none of its descendants can be outside. Groups of a host that was killed are
removed by the next one. (SEC-013)
"""

import os
import secrets
import signal
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

import attrs
import trio

Controller = Literal["memory", "pids", "cpu"]

_PREFIX: Final = "triolet-"
_V1_NAMES: Final[Mapping[Controller, str]] = {"memory": "memory", "pids": "pids", "cpu": "cpuacct"}
_V1_FILES: Final[Mapping[Controller, str]] = {
    "memory": "memory.limit_in_bytes",
    "pids": "pids.max",
    "cpu": "cpuacct.usage",
}
_V2_FILES: Final[Mapping[Controller, str]] = {"memory": "memory.max", "pids": "pids.max", "cpu": "cpu.stat"}
_LOOK_SECONDS: Final = 0.005


@attrs.frozen(kw_only=True, eq=False)
class ControlGroups:
    """Where groups can be made: for each controller the folder, and the version it speaks."""

    bases: Mapping[Controller, tuple[Path, Literal[1, 2]]]

    @property
    def described(self) -> str:
        """For people: which controllers, in which version."""
        if not self.bases:
            return "no writable control groups"
        return "control groups " + ", ".join(f"{name} (v{version})" for name, (_, version) in self.bases.items())

    def make(self, *, memory_bytes: int | None, processes: int | None) -> "Group":
        """A new group with these limits, empty. Raises `OSError`; then nothing is left."""
        name = f"{_PREFIX}{os.getpid()}-{secrets.token_hex(6)}"
        group = Group(places={each: (base / name, version) for each, (base, version) in self.bases.items()})
        try:
            group.create(memory_bytes=memory_bytes, processes=processes)
        except OSError:
            group.remove()
            raise
        return group

    def sweep(self) -> None:
        """Remove the groups of hosts that are no more, where they are empty."""
        for base in {base for base, _ in self.bases.values()}:
            for left in base.glob(f"{_PREFIX}*-*"):
                owner = left.name.removeprefix(_PREFIX).partition("-")[0]
                if owner.isdigit() and not Path("/proc", owner).exists():
                    with suppress(OSError):
                        left.rmdir()


@attrs.frozen(kw_only=True, eq=False)
class Group:
    """One group, in each hierarchy that it needs."""

    places: Mapping[Controller, tuple[Path, Literal[1, 2]]]

    def create(self, *, memory_bytes: int | None, processes: int | None) -> None:
        """Make the folders and set the limits. Raises `OSError`."""
        for path in self._folders():
            path.mkdir()
        if memory_bytes is not None:
            path, version = self.places["memory"]
            _write(path / _limit_file("memory", version), memory_bytes)
            with suppress(OSError):  # not every kernel counts swap; without it, there may be none
                if version == 1:
                    _write(path / "memory.memsw.limit_in_bytes", memory_bytes)
                else:
                    _write(path / "memory.swap.max", 0)
        if processes is not None:
            path, version = self.places["pids"]
            _write(path / _limit_file("pids", version), processes)

    def add(self, pid: int) -> None:
        """Put a process in, with all that it will start. Raises `OSError`."""
        for path in self._folders():
            _write(path / "cgroup.procs", pid)

    def cpu_seconds(self) -> float | None:
        """Processor time that all of it has used; None where that is not measured."""
        if "cpu" not in self.places:
            return None
        path, version = self.places["cpu"]
        if version == 1:
            return int(_read(path / "cpuacct.usage") or 0) / 1e9
        return _figures(path / "cpu.stat").get("usage_usec", 0) / 1e6

    def peak_memory_bytes(self) -> int | None:
        """The most memory that all of it held at one time; None where that is not measured."""
        if "memory" not in self.places:
            return None
        path, version = self.places["memory"]
        text = _read(path / ("memory.max_usage_in_bytes" if version == 1 else "memory.peak"))
        return int(text) if text else None

    def memory_kills(self) -> int:
        """How many processes were killed for want of memory."""
        if "memory" not in self.places:
            return 0
        path, version = self.places["memory"]
        return _figures(path / ("memory.oom_control" if version == 1 else "memory.events")).get("oom_kill", 0)

    def kill(self) -> None:
        """Kill everything in it."""
        for path in self._folders():
            for text in _read(path / "cgroup.procs").split():
                with suppress(ProcessLookupError):
                    os.kill(int(text), signal.SIGKILL)

    async def emptied(self) -> None:
        """Kill what is there until nothing is. Bounded by the caller."""
        # A group tells nobody that it became empty in version 1, so looking is the only way.
        while any(_read(path / "cgroup.procs") for path in self._folders()):
            self.kill()
            await trio.sleep(_LOOK_SECONDS)

    def remove(self) -> bool:
        """Remove the folders; False if one of them is still in use."""
        done = True
        for path in self._folders():
            try:
                path.rmdir()
            except FileNotFoundError:
                continue
            except OSError:
                done = False
        return done

    async def removed(self) -> None:
        """Remove it, as soon as the system lets go of it. Bounded by the caller."""
        while not self.remove():  # noqa: ASYNC110 -- nobody is told
            await trio.sleep(_LOOK_SECONDS)

    def _folders(self) -> list[Path]:
        return sorted({path for path, _ in self.places.values()})


def find_control_groups() -> ControlGroups:
    """Look where this process is, try to make a group there, and keep what works."""
    bases: dict[Controller, tuple[Path, Literal[1, 2]]] = {}
    for name, path, version in _candidates():
        if name not in bases and _works(name, path, version):
            bases[name] = (path, version)
    return ControlGroups(bases=bases)


def _candidates() -> Iterator[tuple[Controller, Path, Literal[1, 2]]]:
    own = dict(_own_groups())
    for kind, options, root, mounted in _mounts():
        if kind == "cgroup2" and "" in own:
            inside = Path(mounted, os.path.relpath(own[""], root))
            # Processes and controllers exclude each other in one group, so the one above is tried as well.
            for path in dict.fromkeys((inside, inside.parent)):
                if Path(mounted) in (path, *path.parents):
                    for name in _V2_FILES:
                        yield name, path, 2
        elif kind == "cgroup":
            for name, v1_name in _V1_NAMES.items():
                if v1_name in options.split(",") and v1_name in own:
                    yield name, Path(mounted, os.path.relpath(own[v1_name], root)), 1


def _own_groups() -> Iterator[tuple[str, str]]:
    for line in _read(Path("/proc/self/cgroup")).splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            yield name, path


def _mounts() -> Iterator[tuple[str, str, str, str]]:
    """Type, options, root and place of each mounted hierarchy."""
    for line in _read(Path("/proc/self/mountinfo")).splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            fields = before.split(" ")
            yield kind, options, fields[3], fields[4]


def _works(name: Controller, base: Path, version: Literal[1, 2]) -> bool:
    trial = base / f"{_PREFIX}{os.getpid()}-{secrets.token_hex(6)}"
    try:
        trial.mkdir()
    except OSError:
        return False
    try:
        file = trial / _limit_file(name, version)
        return file.exists() and os.access(trial / "cgroup.procs", os.W_OK) and os.access(file, os.R_OK)
    finally:
        with suppress(OSError):
            trial.rmdir()


def _limit_file(name: Controller, version: Literal[1, 2]) -> str:
    return _V1_FILES[name] if version == 1 else _V2_FILES[name]


def _figures(path: Path) -> dict[str, int]:
    pairs = (line.split() for line in _read(path).splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def _write(path: Path, value: int) -> None:
    path.write_text(f"{value}\n", encoding="ascii")
