"""The CodeExecutor over WebAssembly in this process.

Decides what it can keep, and how long each resource of a pass lives. WebAssembly is the cage: the guest has its own
memory, no import that does anything, and an engine of its own that can be interrupted. A flaw in the WebAssembly
engine itself would end that; `quickjs_wasm_sandboxed` puts a process around it. (CAP-015, SEC-010)
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Final

import trio

from triolet.adapters.code_pass.driving import drive, settings_of
from triolet.adapters.code_pass.gate import Gate, refuse_source
from triolet.adapters.code_pass.scopes import unwrapped
from triolet.adapters.quickjs_guest.engine import CompiledGuest, GuestMissing, compiled_guest
from triolet.adapters.quickjs_guest.guest import Guest, prepared_realm
from triolet.adapters.quickjs_wasm.worker import ThreadWorker
from triolet.ports.code_executor import (
    CannotKeep,
    CodeExecutionHost,
    CodeExecutionRequest,
    CodeExecutionResult,
    CodeLimits,
    ExecutorUnavailable,
)
from triolet.ports.isolation import Implementation, Posture

NAME: Final = "quickjs-wasm"
MIN_MEMORY: Final = 8 << 20
"""Bytes below which the guest itself has too little room."""
_POSTURE: Final = Posture(
    filesystem="enforced", network="enforced", processes="enforced", memory="enforced", cpu="enforced"
)


def cannot_keep(limits: CodeLimits) -> tuple[str, ...]:
    """What of these limits this guest cannot keep."""
    if limits.memory_bytes < MIN_MEMORY:
        return (f"memory_bytes below {MIN_MEMORY}: the guest needs that much for itself",)
    return ()


class QuickJsWasm:
    """Programs in this process. Made by `open_quickjs_wasm`."""

    def __init__(self, compiled: CompiledGuest, passes: int) -> None:
        self._compiled = compiled
        self._realm = prepared_realm(compiled.path)
        self._passes = trio.CapacityLimiter(passes)
        self._threads = trio.CapacityLimiter(passes)
        self.implementation = Implementation(name=NAME, version=version("wasmtime"), posture=_POSTURE)

    def check(self, limits: CodeLimits, *, untrusted: bool) -> tuple[str, ...]:
        """Everything of this that could not be kept. It isolates, so `untrusted` asks nothing more of it."""
        return cannot_keep(limits)

    async def execute(self, request: CodeExecutionRequest, host: CodeExecutionHost) -> CodeExecutionResult:
        """Run one program in a pass of its own."""
        problems = self.check(request.limits, untrusted=request.untrusted)
        if problems:
            raise CannotKeep(implementation=NAME, problems=problems)
        refuse_source(request)
        # On behalf of the pass, not of the task: a call of one pass may run another.
        place = object()
        await self._passes.acquire_on_behalf_of(place)
        try:
            return await self._pass(request, host)
        finally:
            self._passes.release_on_behalf_of(place)

    async def _pass(self, request: CodeExecutionRequest, host: CodeExecutionHost) -> CodeExecutionResult:
        guest = Guest(self._compiled.path, settings_of(request), self._realm)
        worker = ThreadWorker(guest, request.limits.cpu_seconds, self._threads)
        gate = Gate(
            request=request,
            host=host,
            implementation=NAME,
            clock=trio.current_time,
            cpu=lambda: worker.cpu_seconds,
            logs=worker.logs,
        )
        result: CodeExecutionResult | None = None
        try:
            with trio.move_on_after(request.limits.wall_seconds), unwrapped():
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(worker.watch)
                    result = await drive(worker, gate)
                    nursery.cancel_scope.cancel()
            if result is None:
                raise gate.stopped("wall-seconds")
            return result
        finally:
            # The nursery has ended, so no thread is in the guest any more.
            guest.close()


@asynccontextmanager
async def open_quickjs_wasm(*, passes: int = 4) -> AsyncGenerator[QuickJsWasm]:
    """Compile the guest, and give an executor of up to `passes` passes at once; others wait for their turn.

    Compiling takes about half a second of a processor, in a thread, once in a process. Raises `ExecutorUnavailable` if
    the guest is not installed (``pip install 'triolet[code]'``).
    """
    try:
        compiled = await trio.to_thread.run_sync(compiled_guest)
    except GuestMissing as error:
        raise ExecutorUnavailable(implementation=NAME, problem=f"{error}; pip install 'triolet[code]'") from error
    # In a thread as well, so that making the executor finds it there.
    await trio.to_thread.run_sync(prepared_realm, compiled.path)
    yield QuickJsWasm(compiled, passes)
