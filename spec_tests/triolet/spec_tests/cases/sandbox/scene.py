"""Scenes of attacks: what stands outside as bait, the program that goes for it, and how success is seen from outside.

Decides how an attack is judged: it has to succeed first on a plain process, in a world of its own, and then must not on
the subject. One that does not succeed without protection says nothing, and the case says so. Every scene is bounded:
its own files, its own victim, listeners on loopback, at most 200 processes and 512 MiB. (CONF-005)
"""

import os
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Final

import attrs
import trio

from triolet.adapters.local_runner import TRUSTED_LIMITS, TRUSTED_POLICY, LocalRunner
from triolet.ports.sandbox import SandboxRequest, SandboxResult, run_to_end
from triolet.spec_tests.cases.sandbox.setting import (
    PYTHON,
    SandboxSubject,
    alive,
    limits_of,
    no_isolation,
    policy_of,
    python,
)
from triolet.spec_tests.claims import NotExercised, ensure, not_triggered

TRIED: Final = "tried"
"""What every program prints once it has made its attempt; without it, that nothing got out proves nothing."""

SETTLING_SECONDS: Final = 0.15
_VICTIM_SECONDS: Final = 30
_TICK_SECONDS: Final = 0.01


@attrs.frozen(kw_only=True, eq=False, weakref_slot=False)
class Attack:
    """A program, and whether it got what it was after. `limits` and `policy` are for the sandbox under attack."""

    program: str
    arguments: tuple[str, ...] = ()
    succeeded: Callable[[SandboxResult], Awaitable[bool]]
    limits: Mapping[str, Any] = attrs.field(factory=dict[str, Any])
    policy: Mapping[str, Any] = attrs.field(factory=dict[str, Any])
    wall_seconds: float = 8.0
    artifacts: tuple[str, ...] = ()
    unprotected: Callable[[tuple[str, ...]], Awaitable[bool]] | None = None
    """In place of the unisolated runner, where that one withstands too."""


Scene = Callable[[SandboxSubject | None], AbstractAsyncContextManager[Attack]]


async def succeeds_unprotected(scene: Scene) -> bool:
    """Whether the attack works on a plain process, in a world of its own."""
    async with scene(None) as attack:
        argv = python(attack.program, *attack.arguments)
        if attack.unprotected is not None:
            return await attack.unprotected(argv)
        limits = attrs.evolve(TRUSTED_LIMITS, wall_seconds=attack.wall_seconds)
        asked = SandboxRequest(argv=argv, policy=TRUSTED_POLICY, limits=limits)
        return await attack.succeeded(await run_to_end(LocalRunner(), asked))


async def ensure_held(subject: SandboxSubject, scene: Scene, what: str) -> None:
    """Raise `SpecViolation` if the attack works on the subject; `NotTriggered` if it works nowhere."""
    reason = no_isolation(subject)
    if reason is not None:
        raise NotExercised(reason=reason)
    if not await succeeds_unprotected(scene):
        not_triggered(f"{what}: does not work on this machine without protection either")
    async with scene(subject) as attack:
        asked = SandboxRequest(
            argv=python(attack.program, *attack.arguments),
            policy=policy_of(subject.port, **attack.policy),
            limits=attrs.evolve(limits_of(subject.port), **{"wall_seconds": attack.wall_seconds, **attack.limits}),
            artifacts=attack.artifacts,
        )
        refused = subject.port.check(asked.policy, asked.limits)
        if refused:
            raise NotExercised(reason=f"{subject.port.implementation.name} refuses {'; '.join(map(str, refused))}")
        result = await _while_ticking(subject, asked)
        if result.stopped is None and TRIED not in result.stdout.text:
            not_triggered(f"{what}: the program did not get as far ({result.stderr.text[-200:]})")
        ensure(not await attack.succeeded(result), what)


async def _while_ticking(subject: SandboxSubject, asked: SandboxRequest) -> SandboxResult:
    """Run it, and make sure that another task of this event loop ran all the while."""
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await trio.sleep(_TICK_SECONDS)
            ticks += 1

    started = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(tick)
        result = await run_to_end(subject.port, asked)
        nursery.cancel_scope.cancel()
    due = (trio.current_time() - started) / _TICK_SECONDS
    # A twentieth of what an idle machine gives: the attack may keep every processor busy.
    ensure(ticks >= due // 20, f"this event loop stood still: {ticks} ticks where {due:.0f} fit")
    return result


@asynccontextmanager
async def open_victim(token: str) -> AsyncGenerator[trio.Process]:
    """A process of the host, with `token` in its command line and its environment, that belongs to one scene."""
    program = f"import time; time.sleep({_VICTIM_SECONDS})"
    process = await trio.lowlevel.open_process(
        [PYTHON, "-I", "-S", "-c", program, token], env={"TRIOLET_VICTIM": token}
    )
    try:
        # Between fork and exec it has no command line of its own yet.
        while not alive(token):  # noqa: ASYNC110 -- nobody tells of an exec
            await trio.sleep(0.005)
        yield process
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()


@asynccontextmanager
async def removing(token: str) -> AsyncGenerator[None]:
    """Whatever has `token` in its command line is killed at the end, however it got away."""
    try:
        yield
    finally:
        for _ in range(3):
            for pid in alive(token):
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)


async def is_alive(token: str) -> bool:
    """Whether something with `token` in its command line still runs, after a moment to go."""
    await trio.sleep(SETTLING_SECONDS)
    return bool(alive(token))
