"""Programs that would not stop: by time, by memory, by recursion; and that nothing is left of them. CAP-015, F-045."""

import os
import threading
from functools import partial
from pathlib import Path
from typing import Any, Final

import trio

from triolet.ports.code_executor import LimitExceeded
from triolet.spec_tests.cases.code_executor.setting import (
    ExecutorSubject,
    Host,
    contained,
    ensure_stopped,
    run,
    ticking,
    value_of,
)
from triolet.spec_tests.claims import ensure, ensure_equal
from triolet.spec_tests.definition import case

_SLOW_SECONDS: Final = 5.0
_LOOPS: Final = (
    "async () => { console.log('in'); while (true) {} }",
    "async () => { console.log('in'); for (;;) await null }",
    "async () => { console.log('in'); /^(a+)+$/.test('a'.repeat(60) + 'b') }",
)
_LATE_LOOPS: Final = (
    "async () => { const e = new Error(); Object.defineProperty(e, 'message', {get() { for (;;); }}); throw e }",
    "async () => { throw {message: {toString() { for (;;); }}} }",
    "async () => ({toJSON() { for (;;); }})",
    "async () => new Proxy({}, {ownKeys() { for (;;); }})",
    "async () => ({get a() { for (;;); }})",
    "async () => { console.log({toJSON() { for (;;); }}) }",
    "async () => { files.read({get a() { for (;;); }}) }",
    "async () => ({then() { for (;;); }})",
)


@case("CAP-015", needs=("javascript",))
async def an_endless_loop_ends_at_its_limit(subject: ExecutorSubject) -> None:
    """Loops, endless promise chains and catastrophic expressions end at the CPU limit; their logs survive (F-045)."""
    for source in _LOOPS:
        stopped = await ensure_stopped(subject, source, "cpu-seconds", cpu_seconds=0.15)
        ensure(stopped.spent.cpu_seconds < 1.5, f"it used {stopped.spent.cpu_seconds:.2f} s where 0.15 were allowed")
        ensure_equal(stopped.logs, "in\n", "what it had logged")


@case("CAP-015", needs=("javascript",))
async def reading_a_value_is_inside_the_limit(subject: ExecutorSubject) -> None:
    """A getter, a proxy, a toJSON or a toString that loops is stopped like the program itself (F-045)."""
    for source in _LATE_LOOPS:
        await ensure_stopped(subject, source, "cpu-seconds", cpu_seconds=0.05)


@case("CAP-015", needs=("javascript",))
async def a_program_does_not_hold_up_its_host(subject: ExecutorSubject) -> None:
    """While a program computes, the host's tasks go on (F-045)."""
    async with ticking(10):
        await ensure_stopped(subject, _LOOPS[0], "cpu-seconds", cpu_seconds=0.4)


@case("CAP-015", needs=("javascript",))
async def the_wall_clock_ends_a_pass(subject: ExecutorSubject) -> None:
    """A call that does not answer, and a program that computes beyond its time, end when the wall clock says so."""
    host = Host(patience=4.0)
    await ensure_stopped(subject, "async () => { await files.hang({}) }", "wall-seconds", host, wall_seconds=0.4)
    ensure_equal(host.under_way, 0, "calls that are still under way")
    await ensure_stopped(subject, _LOOPS[0], "wall-seconds", wall_seconds=0.5)


@case("CAP-015", needs=("javascript",))
async def memory_is_bounded(subject: ExecutorSubject) -> None:
    """A memory bomb ends the pass, or is caught by the program, and never takes more than its bound."""
    bomb = "const held = []; for (let n = 0; n < 400; n++) held.push(new Uint8Array(1 << 20).fill(n));"
    await ensure_stopped(subject, f"async () => {{ {bomb} return held.length }}", "memory-bytes", memory_bytes=32 << 20)
    caught = f"async () => {{ try {{ {bomb} }} catch (e) {{ return 'caught' }} return 'held' }}"
    ensure_equal(await value_of(subject, caught, memory_bytes=32 << 20), "caught", "a bomb that is caught")
    text = "async () => { let s = 'x'; for (let n = 0; n < 40; n++) s += s; return s.length }"
    await contained(subject, text, memory_bytes=32 << 20)
    await contained(subject, "async () => { const a = []; for (;;) a.push([a.length]) }", memory_bytes=32 << 20)


@case("CAP-015", needs=("javascript",))
async def recursion_is_contained(subject: ExecutorSubject) -> None:
    """Recursion without end, in code, JSON, expressions, sorts and sources, ends the pass and nothing else."""
    for source in (
        "async () => { const f = () => f() + 1; return f() }",
        "async () => { const f = () => { try { return f() } catch (e) { return f() } }; return f() }",
        "async () => { let s = '['; for (let n = 0; n < 18; n++) s += s; return JSON.parse(s) }",
        "async () => { let a = []; for (let n = 0; n < 100000; n++) a = [a]; return a }",
        "async () => { let a = []; for (let n = 0; n < 100000; n++) a = [a]; return await files.read({a}) }",
        "async () => { let s = 'a'; for (let n = 0; n < 14; n++) s = '(' + s + s + ')'; new RegExp(s).test('') }",
        f"async () => {'(' * 20_000}1{')' * 20_000}",
        "async () => { const a = new Array(60000).fill(1); const f = (...b) => f(...b); return f(...a) }",
    ):
        await contained(subject, source, memory_bytes=64 << 20)


@case("CAP-015", needs=("javascript",))
async def cancelling_ends_a_pass_at_once(subject: ExecutorSubject) -> None:
    """Cancelled in a computation or in a call, a pass ends at once, and the next program runs."""
    for source in (_LOOPS[0], "async () => { await files.hang({}) }"):
        host = Host(patience=4.0)
        with trio.move_on_after(0.3) as scope:
            await run(subject, source, host)
        ensure(scope.cancelled_caught, "a cancelled pass did not end by its cancellation")
        late = trio.current_time() - scope.deadline
        ensure(late < 1.0, f"a cancelled pass took {late:.2f} s more")
        ensure_equal(host.under_way, 0, "calls that are still under way")
    ensure_equal(await value_of(subject, "async () => 7"), 7, "the next program's value")


@case("CAP-015", needs=("javascript",))
async def nothing_is_left_of_a_hundred_passes(subject: ExecutorSubject) -> None:
    """Success, failure, limits and cancellation leave no thread, no descriptor and no process behind."""
    await _one_of_each(subject)
    before = _held()
    # Where each pass is a process that takes long to start, thirty tell as much.
    made = 0
    until = trio.current_time() + _SLOW_SECONDS
    for made in range(20):
        await _one_of_each(subject)
        if made >= 5 and trio.current_time() > until:
            break
    after = _held()
    ensure(
        all(now <= then + 2 for then, now in zip(before, after, strict=True)),
        f"threads, descriptors and children grew from {before} to {after} over {5 * made + 5} passes",
    )


async def _one_of_each(subject: ExecutorSubject) -> None:
    # At once, since processes take a while to start.
    async with trio.open_nursery() as nursery:
        nursery.start_soon(value_of, subject, "async () => files.read({})")
        nursery.start_soon(run, subject, "async () => { throw 1 }")
        nursery.start_soon(partial(_stopped, subject, "async () => { for (;;); }", cpu_seconds=0.01))
        nursery.start_soon(partial(_stopped, subject, "async () => files.read({})", calls=0))
        nursery.start_soon(_cancelled, subject)


async def _cancelled(subject: ExecutorSubject) -> None:
    with trio.move_on_after(0.03):
        await run(subject, "async () => { await files.hang({}) }")


async def _stopped(subject: ExecutorSubject, source: str, **limits: Any) -> None:
    try:
        await run(subject, source, **limits)
    except LimitExceeded:
        return


def _held() -> tuple[int, int, int]:
    own = Path("/proc/self")
    descriptors = len(list((own / "fd").iterdir())) if own.is_dir() else 0
    children = own / "task" / str(os.getpid()) / "children"
    processes = len(children.read_text().split()) if children.is_file() else 0
    return threading.active_count(), descriptors, processes


STOPPING: Final = (
    an_endless_loop_ends_at_its_limit,
    reading_a_value_is_inside_the_limit,
    a_program_does_not_hold_up_its_host,
    the_wall_clock_ends_a_pass,
    memory_is_bounded,
    recursion_is_contained,
    cancelling_ends_a_pass_at_once,
    nothing_is_left_of_a_hundred_passes,
)
