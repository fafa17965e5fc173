"""One guest: a fresh JavaScript realm in a fresh WebAssembly store, driven until it rests.

Decides how a program is evaluated, how its calls and its value are read out, and what each trap means. Everything here
is synchronous and belongs to one thread at a time; whoever drives it interrupts it through its cell's epoch. It
trusts nothing that the guest says: lengths are checked before anything is copied.
"""

import struct
import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any, Final

import wasmtime

from triolet.adapters.quickjs_guest.calling import Exports
from triolet.adapters.quickjs_guest.cell import Cell
from triolet.adapters.quickjs_guest.prelude import PRELUDE
from triolet.adapters.quickjs_guest.realm import Bridge, Realm, Realms, written_parts
from triolet.adapters.quickjs_guest.steps import Settings, Step

_EXCEPTION: Final = 6
_UNDEFINED: Final = 3 << 32
_TAGS: Final = 32
_COMPILE_ONLY: Final = 1 << 5
_STRICT: Final = 1 << 3
_PAGE: Final = 65536
_PENDING, _FULFILLED, _REJECTED = 0, 1, 2
_OVERRUN: Final = (
    wasmtime.TrapCode.STACK_OVERFLOW,
    wasmtime.TrapCode.MEMORY_OUT_OF_BOUNDS,
    wasmtime.TrapCode.TABLE_OUT_OF_BOUNDS,
    wasmtime.TrapCode.INDIRECT_CALL_TO_NULL,
    wasmtime.TrapCode.BAD_SIGNATURE,
    wasmtime.TrapCode.UNREACHABLE,
)
_OUT_OF_MEMORY: Final = "InternalError: out of memory"


_ASSEMBLY: Final = threading.Lock()
"""wasmtime keeps one table of host functions for the process, and fills it without a lock of its own."""


class _Interrupted(Exception):
    """The program was stopped before it came to run."""


class _Unreadable(Exception):
    """The guest cannot be made sense of any more."""


class Guest:
    """A realm with one program. Not safe for two threads at once."""

    def __init__(self, cell: Cell, settings: Settings, realms: Realms | None = None) -> None:
        self._cell = cell
        self._settings = settings
        self._promise = _UNDEFINED
        self._store: Any = None
        self._realms = realms
        self._bridge: Bridge | None = None
        self._interrupted = False

    def start(self) -> Step:
        """Set the realm up, evaluate the program, and drive it to its first rest."""
        return self._guarded(self._start)

    def resume(self, call: int, good: bool, text: str) -> Step:
        """Settle a call with JSON text and drive the program to its next rest."""

        def settle() -> Step:
            said = self._string(text)
            if _tag(said) == _EXCEPTION:
                return Step("memory")
            arguments = (self._int(call), self._int(int(good)), said)
            if _tag(self._invoke(self._opened.settle, *arguments)) == _EXCEPTION:
                return self._thrown(self._exception())
            return self._drive()

        return self._guarded(settle)

    def logs(self) -> tuple[str, int]:
        """What the program logged, also after it was stopped, and how many characters did not fit."""
        at = -1 if self._bridge is None else self._bridge.log_at
        if at < 0:
            return "", 0
        try:
            head = self._read(at, 8)
            used, dropped = struct.unpack("<II", head)
            if used > self._settings.output_bytes:
                raise _Unreadable
            return self._read(at + 8, used).decode("utf-8", "replace"), dropped
        except _Unreadable:
            return "", 0

    def interrupt(self) -> None:
        """Stop the program, now and whenever it would run again. From any thread."""
        self._interrupted = True
        self._cell.engine.increment_epoch()

    def close(self) -> None:
        """Give everything back but the cell."""
        if self._store is not None:
            with _ASSEMBLY:
                self._store.close()

    def _arm(self) -> None:
        # First the deadline, then the look: an interruption from between the two is not lost.
        self._store.set_epoch_deadline(1)
        if self._interrupted:
            raise _Interrupted

    def _guarded(self, action: Callable[[], Step]) -> Step:
        try:
            if self._store is not None:
                self._arm()
            return action()
        except _Interrupted:
            return Step("cpu")
        except wasmtime.Trap as trap:
            if trap.trap_code is wasmtime.TrapCode.INTERRUPT:
                return Step("cpu")
            # This build of QuickJS does not look at its stack, so a recursion that is too deep ends in one of these.
            return Step("stack") if trap.trap_code in _OVERRUN else Step("broken", str(trap.trap_code))
        except (wasmtime.WasmtimeError, _Unreadable, RuntimeError) as error:
            return Step("broken", type(error).__name__)

    def prepare(self) -> Realm:
        """Set a realm up in which nothing has run, not even a bridge opened. Instead of `start`."""
        self._assemble()
        return self._prepared()

    @property
    def _opened(self) -> Bridge:
        if self._bridge is None:
            raise AssertionError("the bridge is open before a program runs")
        return self._bridge

    def _start(self) -> Step:
        self._assemble()
        if self._realms is None:
            realm = self._prepared()
        else:
            realm = self._realms.of(self._settings)
            self._become(realm)
        self._runtime, self._context, self._scratch = realm[:3]
        held = self._memory.size(self._store) * _PAGE
        self._f("JS_SetMemoryLimit", self._runtime, max(_PAGE, self._settings.memory_bytes - held))
        self._bridge = realm.bridge or self._open_bridge(realm.make)
        if self._bridge is None:
            return Step("memory")
        if self._realms is not None and realm.bridge is None:
            self._realms.keep(self._settings, self._as_it_is(realm.make, self._bridge))
        return self._evaluate()

    def _assemble(self) -> None:
        self._store = store = wasmtime.Store(self._cell.engine)
        store.set_limits(memory_size=self._settings.memory_bytes, instances=1, tables=4, memories=1)
        self._arm()
        module, refusals = self._cell.loaded()
        with _ASSEMBLY:
            instance = wasmtime.Instance(store, module, refusals.made_in(store))
        self._exports = Exports(store, instance)
        self._memory = self._exports.memory()

    def _prepared(self) -> Realm:
        self._f("_initialize")
        self._runtime = self._f("JS_NewRuntime")
        self._context = self._f("JS_NewContext", self._runtime)
        # An argument vector of up to three values, and places for lengths.
        self._scratch = self._allocate(64)
        make = self._eval(PRELUDE, "bridge", 0)
        if not self._context or _tag(make) == _EXCEPTION:
            raise _Unreadable
        return self._as_it_is(make, None)

    def _as_it_is(self, make: int, bridge: Bridge | None) -> Realm:
        pages = self._memory.size(self._store)
        parts = written_parts(self._read(0, pages * _PAGE))
        return Realm(self._runtime, self._context, self._scratch, make, pages, parts, bridge)

    def _become(self, realm: Realm) -> None:
        missing = realm.pages - self._memory.size(self._store)
        if missing > 0:
            self._memory.grow(self._store, missing)
        for at, data in realm.parts:
            self._memory.write(self._store, data, at)

    def _open_bridge(self, make: int) -> Bridge | None:
        """The bridge for these settings; None where the program's memory does not suffice for it."""
        manifest = self._parsed(self._settings.manifest)
        made = self._invoke(make, manifest, self._int(self._settings.output_bytes))
        if _tag(made) == _EXCEPTION:
            return None
        take, settle, finish, describe, log = (self._property(made, name) for name in (*Bridge._fields[:4], "log"))
        at = self._f("JS_GetUint8Array", self._context, self._scratch, log)
        return Bridge(take, settle, finish, describe, at or -1)

    def _evaluate(self) -> Step:
        # The source is one expression if it is one in two kinds of brackets.
        squares = self._eval(f"[{self._settings.source}\n]", "program", _COMPILE_ONLY | _STRICT)
        if _tag(squares) == _EXCEPTION:
            return self._refused()
        self._free(squares)
        function = self._eval(f"({self._settings.source}\n)", "program", _STRICT)
        if _tag(function) == _EXCEPTION:
            return self._refused()
        if not self._f("JS_IsAsyncFunction", function):
            return Step("invalid", "not an async function expression")
        self._promise = self._invoke(function)
        if _tag(self._promise) == _EXCEPTION:
            return self._thrown(self._exception())
        return self._drive()

    def _refused(self) -> Step:
        text = self._described(self._exception())
        return Step("memory") if text.startswith(_OUT_OF_MEMORY) else Step("invalid", text)

    def _drive(self) -> Step:
        while True:
            ran = self._f("JS_ExecutePendingJob", self._runtime, self._scratch)
            if ran < 0:
                # A job's own error is what rejected promises are for; the realm's exception is cleared.
                self._free(self._exception())
            elif ran == 0:
                break
        state = self._f("JS_PromiseState", self._context, self._promise)
        if state == _PENDING:
            return self._wanted()
        value = self._f("JS_PromiseResult", self._context, self._promise)
        if state == _REJECTED:
            return self._thrown(value)
        text = self._invoke(self._opened.finish, value)
        if _tag(text) == _EXCEPTION:
            described = self._described(self._exception())
            return Step("memory") if described.startswith(_OUT_OF_MEMORY) else Step("unusable", described)
        said = self._text(text)
        return Step("returned", said) if said else Step("unusable", "a value that has no JSON")

    def _wanted(self) -> Step:
        taken = self._invoke(self._opened.take)
        if _tag(taken) == _EXCEPTION:
            return self._thrown(self._exception())
        said = self._text(taken)
        if not said:
            return Step("unsettled")
        call, tool, text = said.split(" ", 2)
        return Step("call", text, int(call), int(tool))

    def _thrown(self, value: int) -> Step:
        text = self._described(value)
        return Step("memory") if text.startswith(_OUT_OF_MEMORY) else Step("threw", text)

    def _described(self, value: int) -> str:
        text = self._invoke(self._opened.describe, value)
        if _tag(text) == _EXCEPTION:
            self._free(self._exception())
            return _OUT_OF_MEMORY
        return self._text(text)

    # The C interface, as much of it as is used.

    def _f(self, name: str, *arguments: Any) -> Any:
        return self._exports.function(name)(*arguments)

    def _exception(self) -> int:
        return int(self._f("JS_GetException", self._context))

    def _free(self, value: int) -> None:
        if _tag(value) < 0:
            self._f("JS_FreeValue", self._context, value)

    def _int(self, number: int) -> int:
        return number & 0xFFFFFFFF

    def _property(self, value: int, name: str) -> int:
        at = self._write(name.encode())
        found = self._f("JS_GetPropertyStr", self._context, value, at)
        self._f("free", at)
        return int(found)

    def _eval(self, source: str, name: str, flags: int) -> int:
        data = source.encode("utf-8", "replace")
        at, file = self._write(data), self._write(name.encode())
        value = self._f("JS_Eval", self._context, at, len(data), file, flags)
        self._f("free", at)
        self._f("free", file)
        return int(value)

    def _parsed(self, text: str) -> int:
        data = text.encode()
        at, file = self._write(data), self._write(b"bridge")
        value = self._f("JS_ParseJSON", self._context, at, len(data), file)
        self._f("free", at)
        self._f("free", file)
        return int(value)

    def _string(self, text: str) -> int:
        data = text.encode("utf-8", "replace")
        at = self._write(data)
        value = self._f("JS_NewStringLen", self._context, at, len(data))
        self._f("free", at)
        return int(value)

    def _invoke(self, function: int, *arguments: int) -> int:
        if arguments:
            packed = struct.pack(f"<{len(arguments)}q", *arguments)
            self._memory.write(self._store, packed, self._scratch)
        result = self._f("JS_Call", self._context, function, _UNDEFINED, len(arguments), self._scratch)
        for argument in arguments:
            self._free(argument)
        return int(result)

    def _text(self, value: int) -> str:
        at = self._f("JS_ToCStringLen2", self._context, self._scratch, value, 0)
        if not at:
            raise _Unreadable
        (size,) = struct.unpack("<I", self._read(self._scratch, 4))
        if size > self._settings.message_bytes:
            # What nobody will take is not copied whole: its beginning, which names the call, is too long as well.
            text = self._read(at, self._settings.message_bytes + 1).decode("utf-8", "replace")
        else:
            text = self._read(at, size).decode("utf-8", "replace")
        self._f("JS_FreeCString", self._context, at)
        self._free(value)
        return text

    def _allocate(self, size: int) -> int:
        at = int(self._f("malloc", size))
        if not at:
            raise _Unreadable
        return at

    def _write(self, data: bytes) -> int:
        at = self._allocate(len(data) + 1)
        self._memory.write(self._store, data + b"\0", at)
        return at

    def _read(self, at: int, size: int) -> bytes:
        if at < 0 or size < 0 or at + size > self._memory.data_len(self._store):
            raise _Unreadable
        return bytes(self._memory.read(self._store, at, at + size))


_REALMS: Final[dict[str, Realms]] = {}


def prepared_realms(compiled: str) -> Realms:
    """The realms that guests compiled there begin as; prepared once in a process, before any program ran."""
    realms = _REALMS.get(compiled)
    if realms is None:
        with closing(Cell(compiled)) as cell, closing(Guest(cell, Settings("", {}, 64 << 20, 0, _PAGE))) as first:
            realms = _REALMS.setdefault(compiled, Realms(first.prepare()))
    return realms


def _tag(value: int) -> int:
    return value >> _TAGS
