"""What the guest may ask of the system: nothing.

Decides the answer to each of the WASI calls that the module imports. Every one refuses, but for a clock that stands
still: no file, no environment, no time and no randomness reaches the guest (SEC-014).
"""

from collections.abc import Callable
from typing import Any, Final

import wasmtime

_BADF: Final = 8
_NOSYS: Final = 52
_PREVIEW: Final = "wasi_snapshot_preview1"

# The start of a bare reactor asks for these; "there is none" lets it go on.
_EMPTY: Final = frozenset({"environ_get", "environ_sizes_get"})


class Refusals:
    """The answers to what one module imports. Reading its imports costs more than making the answers."""

    def __init__(self, module: wasmtime.Module) -> None:
        """Raises `ValueError` for a module that wants anything but WASI."""
        self._wanted: list[tuple[wasmtime.FuncType, Callable[..., int | None], bool]] = []
        for wanted in module.imports:
            kind = wanted.type
            if wanted.module != _PREVIEW or not isinstance(kind, wasmtime.FuncType):
                raise ValueError(f"this guest wants {wanted.module}.{wanted.name}")
            is_clock = wanted.name == "clock_time_get"
            self._wanted.append((kind, _epoch if is_clock else _answer(str(wanted.name)), is_clock))

    def made_in(self, store: wasmtime.Store) -> list[Any]:
        """The module's imports in this store, in the module's order."""
        return [wasmtime.Func(store, kind, answer, access_caller=caller) for kind, answer, caller in self._wanted]


def _answer(name: str) -> Callable[..., int | None]:
    if name == "proc_exit":
        return _leave
    # Where a count has a place in the guest's memory it is left at zero: an empty environment.
    code = 0 if name in _EMPTY else _BADF if name.startswith(("fd_", "path_")) else _NOSYS

    def refuse(*_: int) -> int:
        return code

    return refuse


def _epoch(caller: wasmtime.Caller, _: int, __: int, at: int) -> int:
    memory = caller["memory"]
    if isinstance(memory, wasmtime.Memory) and 0 <= at <= memory.data_len(caller) - 8:
        memory.write(caller, bytes(8), at)
    return 0


def _leave(*_: int) -> None:
    # To come back from here is a trap: the guest has nothing to go on with.
    return None
