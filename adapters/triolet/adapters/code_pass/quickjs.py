"""What holds for every executor whose guest is QuickJS in WebAssembly, wherever it runs.

Decides what such a guest keeps of a pass's limits, and how a host is told that the guest is not installed.
(CAP-015, SEC-010)
"""

from importlib.metadata import version
from typing import Final

import trio

from triolet.adapters.quickjs_guest.engine import CompiledGuest, GuestMissing, compiled_guest
from triolet.ports.code_executor import CodeLimits, ExecutorUnavailable
from triolet.ports.isolation import Implementation, Posture

MIN_MEMORY: Final = 8 << 20
"""Bytes below which the guest itself has too little room."""
_POSTURE: Final = Posture(
    filesystem="enforced", network="enforced", processes="enforced", memory="enforced", cpu="enforced"
)


def implementation(name: str) -> Implementation:
    """An executor of this name: its engine's version, and that it keeps every dimension."""
    return Implementation(name=name, version=version("wasmtime"), posture=_POSTURE)


def cannot_keep(limits: CodeLimits) -> tuple[str, ...]:
    """What of these limits this guest cannot keep."""
    if limits.memory_bytes < MIN_MEMORY:
        return (f"memory_bytes below {MIN_MEMORY}: the guest needs that much for itself",)
    return ()


async def compiled_for(name: str) -> CompiledGuest:
    """The compiled guest for the executor of this name: half a second in a thread, once in a process.

    Raises `ExecutorUnavailable` if the guest is not installed.
    """
    try:
        return await trio.to_thread.run_sync(compiled_guest)
    except GuestMissing as error:
        raise ExecutorUnavailable(implementation=name, problem=f"{error}; pip install 'triolet[code]'") from error
