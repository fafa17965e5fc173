"""How a pass ends: with a value, with what was thrown, or with an error that says why. CAP-015."""

from typing import Final

from triolet.ports.code_executor import (
    CannotKeep,
    CodeExecutionRequest,
    CodeLimits,
    LimitExceeded,
    ProgramInvalid,
    ProgramUnsettled,
    ResultUnusable,
    Threw,
)
from triolet.spec_tests.cases.code_executor.setting import (
    LIMITS,
    ExecutorSubject,
    Host,
    run,
    value_of,
)
from triolet.spec_tests.claims import ensure, ensure_equal, ensure_raises
from triolet.spec_tests.definition import case


@case("CAP-015", needs=("javascript",))
async def a_value_comes_back_as_json(subject: ExecutorSubject) -> None:
    """What a program returns comes back as strict JSON, with its logs and what was spent."""
    source = (
        "async () => { console.log('said', {a: 1}); return {text: 'é\\ud83d\\ude00', list: [1, 0.5, null, true]}; }"
    )
    result = await run(subject, source)
    ensure_equal(result.logs, 'said {"a":1}\n', "the logs")
    ensure_equal(result.implementation, subject.port.implementation.name, "the implementation that is named")
    ensure(result.spent.wall_seconds > 0, "a pass takes time")
    ensure_equal(await value_of(subject, source), {"text": "é😀", "list": [1, 0.5, None, True]}, "the value")
    ensure_equal(await value_of(subject, "async () => {}"), None, "the value of a program that returns nothing")


@case("CAP-015", needs=("javascript",))
async def what_is_thrown_is_told(subject: ExecutorSubject) -> None:
    """A program that throws has a result that says what it threw."""
    for source, said in (
        ("async () => { throw new TypeError('bad') }", "TypeError: bad"),
        ("async () => { throw 'plain' }", "plain"),
        ("async () => { await Promise.reject(new Error('late')) }", "Error: late"),
    ):
        ending = (await run(subject, source)).ending
        ensure(isinstance(ending, Threw) and ending.text == said, f"thrown {said!r} is told as {ending!r}")


@case("CAP-015", needs=("javascript",))
async def only_one_async_function_is_a_program(subject: ExecutorSubject) -> None:
    """A source that is not one async function expression is refused before anything of it runs."""
    for source in (
        "async ( => 1",
        "() => 1",
        "1 + 1",
        "async () => 1); (files.read({}), async () => 2",
        "async () => 1], [files.read({}), async () => 2",
        "async () => 1 }",
        "",
    ):
        host = Host()
        with ensure_raises(ProgramInvalid, f"the source {source!r}"):
            await run(subject, source, host)
        ensure_equal(host.made, [], "calls of a program that was refused")


@case("CAP-015", needs=("javascript",))
async def a_value_without_json_is_an_error(subject: ExecutorSubject) -> None:
    """Functions, symbols, big integers, cycles and numbers beyond 2^53 are no value of a program."""
    for source in (
        "async () => () => 1",
        "async () => Symbol('a')",
        "async () => 10n",
        "async () => { const a = {}; a.a = a; return a }",
        "async () => 2 ** 60",
    ):
        with ensure_raises(ResultUnusable, f"the value of {source!r}"):
            await run(subject, source)


@case("CAP-015", needs=("javascript",))
async def a_promise_that_cannot_settle_ends(subject: ExecutorSubject) -> None:
    """A program that waits for nothing at all is told so, and does not wait for its time to pass."""
    with ensure_raises(ProgramUnsettled, "a promise that never settles") as caught:
        await run(subject, "async () => { await files.read({}); console.log('here'); await new Promise(() => {}) }")
    ensure_equal(caught.error.logs, "here\n", "the logs of the program")
    ensure_equal(caught.error.spent.calls, 1, "its calls")


@case("CAP-015", needs=("javascript",))
async def passes_share_nothing(subject: ExecutorSubject) -> None:
    """What one program leaves behind is not there for the next."""
    left = "async () => { globalThis.left = 1; Array.prototype.left = 2; Object.prototype.left = 3; JSON.left = 4; }"
    await run(subject, left)
    found = "async () => [typeof globalThis.left, typeof [].left, typeof ({}).left, typeof JSON.left]"
    ensure_equal(await value_of(subject, found), ["undefined"] * 4, "what the next program finds")


@case("CAP-015")
async def what_cannot_be_kept_is_refused(subject: ExecutorSubject) -> None:
    """Limits that an executor says it cannot keep are refused before anything runs; those it can, it keeps."""
    for limits in (CodeLimits(memory_bytes=1), CodeLimits(memory_bytes=1, cpu_seconds=0.001), LIMITS):
        refused = subject.port.check(limits, untrusted=True)
        ensure_equal(subject.port.check(limits, untrusted=True), refused, "the same question asked again")
        host = Host()
        request = CodeExecutionRequest(source="async () => 1", limits=limits)
        if refused:
            with ensure_raises(CannotKeep, "limits that cannot be kept"):
                await subject.port.execute(request, host)
        elif limits.memory_bytes == 1:
            with ensure_raises(LimitExceeded, "a program in one byte"):
                await subject.port.execute(request, host)


@case("SEC-010")
async def untrusted_programs_need_isolation(subject: ExecutorSubject) -> None:
    """An executor that does not isolate refuses what nobody trusts, and one that does takes it."""
    problems = subject.port.check(LIMITS, untrusted=True)
    isolated = subject.port.implementation.isolated
    ensure(bool(problems) is not isolated, f"isolated: {isolated}, and of untrusted programs it says {problems}")
    if problems:
        with ensure_raises(CannotKeep, "an untrusted program without isolation"):
            await subject.port.execute(CodeExecutionRequest(source="async () => 1", limits=LIMITS), Host())


ENDING: Final = (
    a_value_comes_back_as_json,
    what_is_thrown_is_told,
    only_one_async_function_is_a_program,
    a_value_without_json_is_an_error,
    a_promise_that_cannot_settle_ends,
    passes_share_nothing,
    what_cannot_be_kept_is_refused,
    untrusted_programs_need_isolation,
)
