"""Calling into a module many times at little cost.

Decides nothing. wasmtime's own `Func` looks up a function's type anew at each call and wraps every export of a module
at once, which costs this module's 290 exports more than a whole pass may. So this file, and no other, leans on private
names of the pinned wasmtime, and its own tests watch them. It leaves alone the one exception that wasmtime keeps
for the whole process, so that two threads cannot swap theirs.
"""

import ctypes
from collections.abc import Callable
from typing import Any, Final, cast

import wasmtime
from wasmtime import _ffi as _wasmtime_ffi

_ffi: Any = _wasmtime_ffi
_I64: Final = int(_ffi.WASMTIME_I64.value)


class Exports:
    """The exports of one instance, each looked up when it is first asked for."""

    def __init__(self, store: wasmtime.Store, instance: wasmtime.Instance) -> None:
        self._store: Any = store
        self._instance: Any = instance
        self._found: dict[str, Callable[..., int]] = {}

    def memory(self) -> wasmtime.Memory:
        """The module's memory."""
        found = wasmtime.Memory.__new__(wasmtime.Memory)
        raw: Any = found
        raw._memory = self._export("memory").of.memory
        return found

    def function(self, name: str) -> Callable[..., int]:
        """A function that takes integers, and returns one (0 where it has no result). Raises `Trap`."""
        found = self._found.get(name)
        if found is None:
            found = self._found[name] = self._bound(name)
        return found

    def _export(self, name: str) -> Any:
        item = _ffi.wasmtime_extern_t()
        data = name.encode()
        buffer = ctypes.create_string_buffer(data)
        there = _ffi.wasmtime_instance_export_get(
            self._store._context(), ctypes.byref(self._instance._instance), buffer, len(data), ctypes.byref(item)
        )
        if not there:
            raise LookupError(name)
        return item

    def _kinds(self, name: str, function: Any) -> tuple[list[int], list[int]]:
        made: Any = wasmtime.Func
        typed: Any = made._from_raw(function)
        kind: Any = typed.type(self._store)
        takes = [_I64 if str(each) == "i64" else 0 for each in kind.params]
        gives = [_I64 if str(each) == "i64" else 0 for each in kind.results]
        return _KINDS.setdefault(name, (takes, gives))

    def _bound(self, name: str) -> Callable[..., int]:
        item = self._export(name)
        function = item.of.func
        takes, gives = _KINDS.get(name) or self._kinds(name, function)
        arguments = (_ffi.wasmtime_val_t * max(1, len(takes)))()
        results = (_ffi.wasmtime_val_t * max(1, len(gives)))()
        for place, each in enumerate(takes):
            arguments[place].kind = each
        places = [each.of for each in arguments][: len(takes)]
        context, by_reference = self._store._context(), ctypes.byref(function)
        counts = len(takes), len(gives)
        call, given = _ffi.wasmtime_func_call, results[0].of
        wide = gives == [_I64]
        make_trap = cast("Callable[[], Any]", ctypes.POINTER(_ffi.wasm_trap_t))

        # One place for a trap serves all calls that meet none.
        trap = make_trap()
        by_trap = ctypes.byref(trap)

        def bound(*values: int) -> int:
            nonlocal trap, by_trap
            for place, value in zip(places, values, strict=True):
                place.i64 = value
            error = call(context, by_reference, arguments, counts[0], results, counts[1], by_trap)
            if error:
                raise _error(error)
            if trap:
                met, trap = trap, make_trap()
                by_trap = ctypes.byref(trap)
                raise _trap(met)
            return int(given.i64 if wide else given.i32) if counts[1] else 0

        # The export's handle keeps what the reference points into.
        bound.__dict__["item"] = item
        return bound


_KINDS: Final[dict[str, tuple[list[int], list[int]]]] = {}
"""Types of functions by name: there is one module, and asking it costs more than a call."""


def _error(pointer: Any) -> wasmtime.WasmtimeError:
    made: Any = wasmtime.WasmtimeError
    return made._from_ptr(pointer)  # type: ignore[no-any-return]  # wasmtime's own constructor is not typed


def _trap(pointer: Any) -> wasmtime.Trap:
    made: Any = wasmtime.Trap
    return made._from_ptr(pointer)  # type: ignore[no-any-return]  # the same
