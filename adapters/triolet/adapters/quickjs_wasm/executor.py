"""The CodeExecutor over WebAssembly in this process.

Decides what it can keep, and how long each resource of a pass lives. WebAssembly is the cage: the guest has its own
memory, no import that does anything, and an engine to itself that can be interrupted. A flaw in the WebAssembly
engine itself would end that; `quickjs_wasm_sandboxed` puts a process around it. (CAP-015, SEC-010)
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import trio

from triolet.adapters.code_pass.driving import drive, settings_of
from triolet.adapters.code_pass.gate import Gate
from triolet.adapters.code_pass.quickjs import cannot_keep, compiled_for, implementation
from triolet.adapters.code_pass.scopes import unwrapped
from triolet.adapters.code_pass.starting import one_of, refuse_unfit
from triolet.adapters.quickjs_guest.cell import Cell, Cells
from triolet.adapters.quickjs_guest.engine import CompiledGuest
from triolet.adapters.quickjs_guest.guest import Guest, prepared_realms
from triolet.adapters.quickjs_wasm.worker import ThreadWorker
from triolet.ports.code_executor import (
    CodeExecutionHost,
    CodeExecutionRequest,
    CodeExecutionResult,
    CodeLimits,
)

NAME: Final = "quickjs-wasm"


class QuickJsWasm:
    """Programs in this process. Made by `open_quickjs_wasm`."""

    def __init__(self, compiled: CompiledGuest, passes: int) -> None:
        self._cells = Cells(compiled.path)
        self._realms = prepared_realms(compiled.path)
        self._passes = trio.CapacityLimiter(passes)
        self._threads = trio.CapacityLimiter(passes)
        self.implementation = implementation(NAME)

    def check(self, limits: CodeLimits, *, untrusted: bool) -> tuple[str, ...]:
        """Everything of this that could not be kept. It isolates, so `untrusted` asks nothing more of it."""
        return cannot_keep(limits)

    async def execute(self, request: CodeExecutionRequest, host: CodeExecutionHost) -> CodeExecutionResult:
        """Run one program in a pass of its own."""
        refuse_unfit(self, request)
        async with one_of(self._passes):
            return await self._pass(request, host)

    def close(self) -> None:
        """Give back what passes ran in. No pass runs any more."""
        self._cells.close()

    async def _pass(self, request: CodeExecutionRequest, host: CodeExecutionHost) -> CodeExecutionResult:
        with self._cells.one() as cell:
            return await self._pass_in(cell, request, host)

    async def _pass_in(self, cell: Cell, request: CodeExecutionRequest, host: CodeExecutionHost) -> CodeExecutionResult:
        guest = Guest(cell, settings_of(request), self._realms)
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
    compiled = await compiled_for(NAME)
    # In a thread as well, so that making the executor finds it there.
    await trio.to_thread.run_sync(prepared_realms, compiled.path)
    executor = QuickJsWasm(compiled, passes)
    try:
        yield executor
    finally:
        executor.close()
