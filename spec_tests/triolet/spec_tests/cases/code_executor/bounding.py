"""Bounds on everything that crosses: source, arguments, results, logs, values, and how often. SEC-013."""

from typing import Final

from triolet.ports.code_executor import ProgramInvalid
from triolet.spec_tests.cases.code_executor.setting import ExecutorSubject, Host, ensure_stopped, run, value_of
from triolet.spec_tests.claims import ensure, ensure_equal, ensure_raises
from triolet.spec_tests.definition import case


@case("SEC-013", needs=("javascript",))
async def a_source_is_bounded(subject: ExecutorSubject) -> None:
    """A program longer than its bound in bytes is refused."""
    source = "async () => 'é'"
    size = len(source.encode())
    ensure_equal(await value_of(subject, source, source_bytes=size), "é", "a source of just its bound")
    with ensure_raises(ProgramInvalid, "a source one byte longer than its bound"):
        await run(subject, source, source_bytes=size - 1)


@case("SEC-013", needs=("javascript",))
async def calls_are_counted(subject: ExecutorSubject) -> None:
    """A program that makes more calls than it may is stopped, and no call beyond reaches the host."""
    host = Host()
    source = "async () => { for (let n = 0; n < 3000; n++) try { await files.read({n}) } catch (e) {} }"
    await ensure_stopped(subject, source, "calls", host, calls=7)
    ensure_equal(len(host.made), 7, "calls that reached the host")
    host = Host()
    await ensure_stopped(subject, "async () => files.read({})", "calls", host, calls=0)
    ensure_equal(host.made, [], "calls of a program that may make none")
    exactly = "async () => { for (let n = 0; n < 500; n++) await files.read({n}); return 1 }"
    ensure_equal(await value_of(subject, exactly, calls=500), 1, "a program of exactly as many calls as it may make")


@case("SEC-013", needs=("javascript",))
async def arguments_are_bounded(subject: ExecutorSubject) -> None:
    """An argument beyond its bound rejects in the program and never reaches the host."""
    host = Host()
    source = (
        "async () => { const got = []; for (const n of [50, 200, 5000000])"
        " try { got.push((await files.read({a: 'x'.repeat(n)})).a.length) } catch (e) { got.push(e.tag) } return got }"
    )
    value = await value_of(subject, source, host, argument_bytes=100)
    ensure_equal(value, [50, "refused", "refused"], "what the program sees")
    ensure_equal(len(host.made), 1, "calls that reached the host")


@case("SEC-013", needs=("javascript",))
async def results_of_calls_are_bounded(subject: ExecutorSubject) -> None:
    """A result beyond its bound rejects in the program instead of entering it."""
    source = "async () => { try { return (await files.large({})).length } catch (e) { return e.tag } }"
    ensure_equal(await value_of(subject, source), 5_000, "a result within its bound")
    ensure_equal(await value_of(subject, source, call_result_bytes=4_000), "refused", "one beyond it")


@case("SEC-013", needs=("javascript",))
async def values_are_bounded(subject: ExecutorSubject) -> None:
    """A value beyond its bound is an error, and what was thrown is cut."""
    await ensure_stopped(subject, "async () => 'x'.repeat(5000)", "result-bytes", result_bytes=1_000)
    await ensure_stopped(subject, "async () => 'x'.repeat(20000000)", "result-bytes", result_bytes=1_000)
    result = await run(subject, "async () => { throw 'y'.repeat(5000) }", result_bytes=1_000)
    ensure(len(str(getattr(result.ending, "text", ""))) <= 1_000, "what was thrown is beyond its bound")


@case("SEC-013", needs=("javascript",))
async def logs_are_bounded(subject: ExecutorSubject) -> None:
    """Logs are kept up to their bound, and what is beyond is counted."""
    source = "async () => { for (let n = 0; n < 100; n++) console.log('é'.repeat(50)) }"
    result = await run(subject, source, output_bytes=300)
    ensure(len(result.logs.encode()) <= 300, "logs are beyond their bound")
    ensure_equal(len(result.logs) + result.dropped, 5_100, "characters kept and counted")
    ensure(result.logs.startswith("é" * 50 + "\n"), "the beginning is what is kept")


BOUNDING: Final = (
    a_source_is_bounded,
    calls_are_counted,
    arguments_are_bounded,
    results_of_calls_are_bounded,
    values_are_bounded,
    logs_are_bounded,
)
