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
_EMPTY: Final = frozenset({"environ_get", "environ_sizes_get", "clock_time_get"})


def refusals(store: wasmtime.Store, module: wasmtime.Module) -> list[Any]:
    """The module's imports, in its order. Raises `ValueError` for a module that wants anything but WASI."""
    answers: list[Any] = []
    for wanted in module.imports:
        kind = wanted.type
        if wanted.module != _PREVIEW or not isinstance(kind, wasmtime.FuncType):
            raise ValueError(f"this guest wants {wanted.module}.{wanted.name}")
        answers.append(wasmtime.Func(store, kind, _answer(str(wanted.name))))
    return answers


def _answer(name: str) -> Callable[..., int | None]:
    if name == "proc_exit":
        return _leave
    # Where a result has a place in the guest's memory it is left at zero: an empty environment, the epoch.
    code = 0 if name in _EMPTY else _BADF if name.startswith(("fd_", "path_")) else _NOSYS

    def refuse(*_: int) -> int:
        return code

    return refuse


def _leave(*_: int) -> None:
    raise RuntimeError("the guest ended itself")
