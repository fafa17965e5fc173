"""What a fresh pass of a program and one call of a tool cost, in processor time of this process and in time.

Decides the workload; the rows are made of it in `bench.rows`.
"""

import time
from typing import Final

import attrs

from triolet.adapters.quickjs_wasm import QuickJsWasm, open_quickjs_wasm
from triolet.ports.code_executor import (
    Binding,
    CodeExecutionRequest,
    CodeLimits,
    HostCall,
    HostReply,
    HostResult,
)

_BINDINGS: Final = (Binding(namespace="tools", names=("echo",)),)


@attrs.frozen(kw_only=True)
class CodeRow:
    """One figure, in microseconds: the best of several rounds."""

    name: str
    cpu_us: float
    wall_us: float


class _Echo:
    async def call(self, call: HostCall) -> HostReply:
        return HostResult(value=call.arguments)


async def measure_code(*, rounds: int = 7, passes: int = 30, calls: int = 1_000) -> tuple[CodeRow, CodeRow]:
    """A fresh pass, and one host call inside of a pass. The calls' row has the pass taken off."""
    async with open_quickjs_wasm() as executor:
        await _run(executor, passes, 0)
        fresh = [await _run(executor, passes, 0) for _ in range(rounds)]
        calling = [await _run(executor, 1, calls) for _ in range(rounds)]
    cpu, wall = min(each[0] for each in fresh) / passes, min(each[1] for each in fresh) / passes
    return (
        CodeRow(name="fresh pass", cpu_us=cpu, wall_us=wall),
        CodeRow(
            name="host call",
            cpu_us=(min(each[0] for each in calling) - cpu) / calls,
            wall_us=(min(each[1] for each in calling) - wall) / calls,
        ),
    )


async def _run(executor: QuickJsWasm, passes: int, calls: int) -> tuple[float, float]:
    source = f"async () => {{ for (let n = 0; n < {calls}; n++) await tools.echo({{n}}); return 1 }}"
    request = CodeExecutionRequest(source=source, bindings=_BINDINGS, limits=CodeLimits(calls=max(1, calls)))
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(passes):
        await executor.execute(request, _Echo())
    return (time.process_time() - cpu) * 1e6, (time.perf_counter() - wall) * 1e6
