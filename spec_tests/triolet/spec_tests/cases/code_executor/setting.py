"""What the cases of the CodeExecutor share: passes to run, a host that keeps account, and a task that ticks.

Decides what is asked, never what is right. Programs are JavaScript; time is real, because programs are.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import attrs
import trio

from triolet.ports.code_executor import (
    Binding,
    CodeExecutionRequest,
    CodeExecutionResult,
    CodeExecutor,
    CodeLimits,
    FailureEnvelope,
    HostCall,
    HostFailure,
    HostReply,
    HostResult,
    LimitExceeded,
    LimitName,
    Returned,
    Threw,
)
from triolet.ports.strict_json import JsonText, JsonValue, parse
from triolet.spec_tests.claims import SpecViolation, ensure, ensure_equal, ensure_raises
from triolet.spec_tests.subject import Subject

T = TypeVar("T")


@attrs.frozen(kw_only=True, eq=False, weakref_slot=False)
class ExecutorSubject(Subject[CodeExecutor]):
    """A code executor under test.

    Traits that it may decline: `javascript`, if it runs no programs in it; `isolated`, if it says that it does not
    isolate: what is untrusted is then refused, and that is what is looked at.
    """


TRAITS: Final = ("javascript", "isolated")

BINDINGS: Final = (
    Binding(namespace="files", names=("read", "fail", "hang", "large")),
    Binding(namespace="notes", names=("read",)),
)
LIMITS: Final = CodeLimits(cpu_seconds=3.0, wall_seconds=6.0)
"""Generous: what these cases are about ends long before."""

FAILURE: Final = FailureEnvelope(
    tag="failure", reason="declared", message="there is no such file", type="Gone", payload={"name": "a"}
)


@attrs.define(kw_only=True, eq=False)
class Host:
    """A host that echoes. `made` lists what reached it; `most` is how many calls were under way at once."""

    made: list[tuple[str, str, str]] = attrs.field(factory=list[tuple[str, str, str]])
    under_way: int = 0
    most: int = 0
    patience: float = 1.0
    raises: Exception | None = None
    on_call: Callable[[], Awaitable[None]] | None = None

    async def call(self, call: HostCall) -> HostReply:
        """Answer as the name says."""
        self.made.append((call.namespace, call.name, call.arguments))
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await trio.lowlevel.checkpoint()
            if self.raises is not None:
                raise self.raises
            if self.on_call is not None:
                await self.on_call()
            if call.name == "hang":
                await trio.sleep(self.patience)
            if call.name == "fail":
                return HostFailure(envelope=FAILURE)
            if call.name == "large":
                return HostResult(value=JsonText('"' + "x" * 5_000 + '"'))
            return HostResult(value=call.arguments)
        finally:
            self.under_way -= 1


async def run(subject: ExecutorSubject, source: str, host: Host | None = None, **limits: Any) -> CodeExecutionResult:
    """Run a program. What the executor raises passes."""
    request = CodeExecutionRequest(source=source, bindings=BINDINGS, limits=attrs.evolve(LIMITS, **limits))
    return await subject.port.execute(request, host or Host())


async def value_of(subject: ExecutorSubject, source: str, host: Host | None = None, **limits: Any) -> JsonValue:
    """What a program returns; a violation if it throws."""
    result = await run(subject, source, host, **limits)
    if isinstance(result.ending, Threw):
        raise SpecViolation(problem=f"a program that should return threw: {result.ending.text[:200]}")
    return parse(result.ending.value)


async def ensure_stopped(
    subject: ExecutorSubject, source: str, limit: LimitName, host: Host | None = None, **limits: Any
) -> LimitExceeded:
    """Raise a violation unless the program is stopped at exactly this limit, and the next one runs."""
    with ensure_raises(LimitExceeded, f"a program at its limit ({limit})") as caught:
        await run(subject, source, host, **limits)
    ensure_equal(caught.error.limit, limit, "the limit that is named")
    ensure_equal(await value_of(subject, "async () => 7"), 7, "the next program's value")
    return caught.error


async def contained(subject: ExecutorSubject, source: str, **limits: Any) -> None:
    """Raise a violation unless the attack ends, in whatever way, and the next program runs in a realm of its own."""
    try:
        result = await run(subject, source, **limits)
    except LimitExceeded:
        pass
    else:
        ensure(isinstance(result.ending, Returned | Threw), "a pass ends in a value or in what was thrown")
    ensure_equal(await value_of(subject, "async () => [1, 2].map((n) => n + 1)"), [2, 3], "the next program's value")


@asynccontextmanager
async def ticking(least: int) -> AsyncGenerator[None]:
    """A task that ticks every 10 ms while the block runs; a violation if it was kept from it."""
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await trio.sleep(0.01)
            ticks += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(tick)
        yield
        nursery.cancel_scope.cancel()
    ensure(ticks >= least, f"the host ticked {ticks} times where {least} were due: a program holds up its host")
