"""Start-up of each sandbox: from asking for an empty command to its result, beside a plain process.

Decides what is measured; printing and comparing is the bench's. An adapter that does not work here gives None.
"""

import subprocess
from collections.abc import Mapping
from contextlib import AsyncExitStack
from time import perf_counter

import attrs
import trio

from triolet.adapters.bubblewrap import open_bubblewrap
from triolet.adapters.bubblewrap.sandbox import unbounded_where_needed
from triolet.adapters.local_runner import TRUSTED_LIMITS, TRUSTED_POLICY, LocalRunner
from triolet.ports.sandbox import Limits, Policy, Sandbox, SandboxRequest, SandboxUnavailable, run_to_end


def sandbox_rows(rounds: int = 50) -> Mapping[str, float | None]:
    """Seconds of wall time, the median of `rounds`, by the name of the adapter; None where it is not there."""
    return trio.run(_rows, rounds)


async def _rows(rounds: int) -> Mapping[str, float | None]:
    rows: dict[str, float | None] = {"plain process": _plain(rounds)}
    rows["local-runner"] = await _median(LocalRunner(), TRUSTED_POLICY, TRUSTED_LIMITS, rounds)
    async with AsyncExitStack() as stack:
        try:
            isolated = await stack.enter_async_context(open_bubblewrap())
        except SandboxUnavailable:
            rows["bubblewrap"] = None
        else:
            limits = unbounded_where_needed(Limits(), isolated.groups)
            rows["bubblewrap"] = await _median(isolated, Policy(), limits, rounds)
            unmeasured = attrs.evolve(limits, memory_bytes=None, processes=None, cpu_seconds=None)
            rows["bubblewrap, no limits"] = await _median(isolated, Policy(), unmeasured, rounds)
    return rows


async def _median(sandbox: Sandbox, policy: Policy, limits: Limits, rounds: int) -> float:
    request = SandboxRequest(argv=("/usr/bin/true",), policy=policy, limits=limits)
    times: list[float] = []
    for _ in range(rounds):
        started = perf_counter()
        await run_to_end(sandbox, request)
        times.append(perf_counter() - started)
    return sorted(times)[rounds // 2]


def _plain(rounds: int) -> float:
    times: list[float] = []
    for _ in range(rounds):
        started = perf_counter()
        subprocess.run(["/usr/bin/true"], check=True)
        times.append(perf_counter() - started)
    return sorted(times)[rounds // 2]


if __name__ == "__main__":
    for name, seconds in sandbox_rows().items():
        print(f"{name:<24} {'not here' if seconds is None else f'{seconds * 1000:.1f} ms'}")
