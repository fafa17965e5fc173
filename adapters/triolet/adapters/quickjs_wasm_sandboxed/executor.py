"""The CodeExecutor over a child process under bubblewrap.

Decides nothing that the executor in this process does not: the guest, the gate and the limits are the same. What is
added is a second wall: were the WebAssembly engine itself at fault, the program would be in a process that has no
network, no file, no other process and a bounded address space, and that ends with a kill. (CAP-015, SEC-010)
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import trio

from triolet.adapters.code_pass.driving import drive, settings_of
from triolet.adapters.code_pass.gate import Gate
from triolet.adapters.code_pass.quickjs import cannot_keep, compiled_for, implementation
from triolet.adapters.code_pass.starting import one_of, refuse_unfit
from triolet.adapters.quickjs_guest.engine import CompiledGuest
from triolet.adapters.quickjs_wasm_sandboxed.command import PROGRAM, child_command, find_program
from triolet.adapters.quickjs_wasm_sandboxed.worker import ProcessWorker, open_child
from triolet.ports.code_executor import (
    CodeExecutionHost,
    CodeExecutionRequest,
    CodeExecutionResult,
    CodeLimits,
    ExecutorUnavailable,
    HostCall,
    HostReply,
)
from triolet.ports.errors import TrioletError

NAME: Final = "quickjs-wasm-sandboxed"
_PROBE_SECONDS: Final = 30.0


class QuickJsWasmSandboxed:
    """Programs in child processes. Made by `open_quickjs_wasm_sandboxed`."""

    def __init__(self, program: str, compiled: CompiledGuest, passes: int) -> None:
        self._command = child_command(program, compiled.descriptor)
        self._compiled = compiled
        self._passes = trio.CapacityLimiter(passes)
        self.implementation = implementation(NAME)

    def check(self, limits: CodeLimits, *, untrusted: bool) -> tuple[str, ...]:
        """Everything of this that could not be kept. It isolates, so `untrusted` asks nothing more of it."""
        return cannot_keep(limits)

    async def execute(self, request: CodeExecutionRequest, host: CodeExecutionHost) -> CodeExecutionResult:
        """Run one program in a process of its own."""
        refuse_unfit(self, request)
        async with one_of(self._passes):
            return await self._pass(request, host)

    async def _pass(self, request: CodeExecutionRequest, host: CodeExecutionHost) -> CodeExecutionResult:
        try:
            async with open_child(self._command, self._compiled.descriptor) as process:
                worker = ProcessWorker(process, settings_of(request), request.limits.cpu_seconds)
                gate = Gate(
                    request=request,
                    host=host,
                    implementation=NAME,
                    clock=trio.current_time,
                    cpu=lambda: worker.cpu_seconds,
                    logs=worker.logs,
                )
                with trio.move_on_after(request.limits.wall_seconds):
                    return await drive(worker, gate)
                raise gate.stopped("wall-seconds")
        except OSError as error:
            raise ExecutorUnavailable(implementation=NAME, problem=f"its process: {error.strerror}") from error


class _NoCalls:
    async def call(self, call: HostCall) -> HostReply:
        raise AssertionError("a program without bindings calls nothing")


@asynccontextmanager
async def open_quickjs_wasm_sandboxed(*, passes: int = 4) -> AsyncGenerator[QuickJsWasmSandboxed]:
    """Find bubblewrap, compile the guest, run one program to see that it works, and give the executor.

    Raises `ExecutorUnavailable`: bubblewrap or the guest is not installed, or this machine lets nobody make the
    namespaces that it needs. There is no falling back to less.
    """
    program = find_program()
    if program is None:
        raise ExecutorUnavailable(implementation=NAME, problem=f"{PROGRAM} is missing: apt-get install bubblewrap")
    compiled = await compiled_for(NAME)
    executor = QuickJsWasmSandboxed(program, compiled, passes)
    probe = CodeExecutionRequest(
        source="async () => 1", limits=CodeLimits(wall_seconds=_PROBE_SECONDS, cpu_seconds=_PROBE_SECONDS)
    )
    try:
        await executor.execute(probe, _NoCalls())
    except TrioletError as error:
        raise ExecutorUnavailable(implementation=NAME, problem=f"its probe failed: {error.message}") from error
    yield executor
