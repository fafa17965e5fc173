"""Wrong code executors, each of which is the WebAssembly one and right but for one thing.

The attack on the machine is shown to succeed without a cage by `RunsInNode`: the same program in a process of its own
user (CONF-005).
"""

import json
import shutil
import subprocess
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import attrs
import trio

from tests.mutants.mutant import Mutant
from triolet.adapters.quickjs_guest.engine import compiled_guest
from triolet.adapters.quickjs_wasm import QuickJsWasm
from triolet.ports.code_executor import (
    CodeExecutionHost,
    CodeExecutionRequest,
    CodeExecutionResult,
    CodeLimits,
    HostCall,
    HostFailure,
    HostReply,
    HostResult,
    LimitExceeded,
    ProgramInvalid,
    ProgramUnsettled,
    ResultUnusable,
    Returned,
    Spent,
    Threw,
)
from triolet.ports.isolation import UNISOLATED, Implementation
from triolet.ports.strict_json import JsonText
from triolet.spec_tests.cases.code_executor import CODE_EXECUTOR, ExecutorSubject

EXECUTOR_MUTANTS: list[Mutant] = []


class Executor:
    """Passes everything on, as it should."""

    def __init__(self) -> None:
        self.inner = QuickJsWasm(compiled_guest(), 4)

    @property
    def implementation(self) -> Implementation:
        return self.inner.implementation

    def check(self, limits: CodeLimits, *, untrusted: bool) -> tuple[str, ...]:
        return self.inner.check(limits, untrusted=untrusted)

    async def execute(self, request: CodeExecutionRequest, host: CodeExecutionHost) -> CodeExecutionResult:
        return await self.inner.execute(self.asked(request), self.handed(host))

    def asked(self, request: CodeExecutionRequest) -> CodeExecutionRequest:
        return request

    def handed(self, host: CodeExecutionHost) -> CodeExecutionHost:
        return host


def maker_of(executor: Callable[[], Any]) -> Any:
    """A maker of executors of this class."""

    @asynccontextmanager
    async def maker() -> AsyncGenerator[ExecutorSubject]:
        yield ExecutorSubject(port=executor())

    return maker


def breaks(*violates: str) -> Callable[[type[Any]], type[Any]]:
    """Take an executor class in as a mutant."""

    def decorate(executor: type[Any]) -> type[Any]:
        why = (executor.__doc__ or "").partition("\n")[0].rstrip(".")
        EXECUTOR_MUTANTS.append(
            Mutant(name=executor.__name__, why=why, violates=violates, suite=CODE_EXECUTOR, open=maker_of(executor))
        )
        return executor

    return decorate


class Lax(Executor):
    """Widens what is asked of it."""

    wider: ClassVar[dict[str, Any]]

    def asked(self, request: CodeExecutionRequest) -> CodeExecutionRequest:
        return attrs.evolve(request, limits=attrs.evolve(request.limits, **self.wider))


@breaks("SEC-013")
class TakesAnySource(Lax):
    """The bound of the source is not kept."""

    wider: ClassVar[dict[str, Any]] = {"source_bytes": 1 << 20}


@breaks("SEC-013")
class CountsNoCalls(Lax):
    """A program may make as many calls as it likes."""

    wider: ClassVar[dict[str, Any]] = {"calls": 100_000}


@breaks("SEC-013")
class TakesAnyArgument(Lax):
    """The bound of arguments is not kept."""

    wider: ClassVar[dict[str, Any]] = {"argument_bytes": 1 << 24}


@breaks("SEC-013")
class TakesAnyCallResult(Lax):
    """The bound of results of calls is not kept."""

    wider: ClassVar[dict[str, Any]] = {"call_result_bytes": 1 << 24}


@breaks("SEC-013")
class ReturnsAnyValue(Lax):
    """The bound of the value is not kept."""

    wider: ClassVar[dict[str, Any]] = {"result_bytes": 1 << 24}


@breaks("SEC-013")
class LogsWithoutEnd(Lax):
    """The bound of the logs is not kept."""

    wider: ClassVar[dict[str, Any]] = {"output_bytes": 1 << 20}


@breaks("CAP-015")
class HoldsAnyMemory(Lax):
    """The bound of memory is not kept."""

    wider: ClassVar[dict[str, Any]] = {"memory_bytes": 1 << 30}


@breaks("CAP-015")
class ComputesOnAndOn(Lax):
    """The bound of processor time is not kept; only the wall clock ends a program."""

    wider: ClassVar[dict[str, Any]] = {"cpu_seconds": 60.0, "wall_seconds": 0.6}


@breaks("CAP-015")
class WaitsOnAndOn(Lax):
    """The wall clock is not looked at."""

    wider: ClassVar[dict[str, Any]] = {"wall_seconds": 3.0, "cpu_seconds": 3.0}


@breaks("CAP-015")
class TrapsAreCrashes(Executor):
    """A program that overruns its stack brings up an error that nobody knows."""

    async def execute(self, request: CodeExecutionRequest, host: CodeExecutionHost) -> CodeExecutionResult:
        try:
            return await self.inner.execute(request, host)
        except LimitExceeded as error:
            if error.limit == "stack":
                raise RuntimeError("the guest gave out") from error
            raise


@breaks("CAP-015")
class HoldsUpItsHost(Executor):
    """The program runs on the host's own thread."""

    async def execute(self, request: CodeExecutionRequest, host: CodeExecutionHost) -> CodeExecutionResult:
        if "while (true)" not in request.source:
            return await self.inner.execute(request, host)
        finished = threading.Event()
        threading.Thread(target=finished.wait, args=(0.5,), daemon=True).start()
        finished.wait(0.4)
        spent = Spent(cpu_seconds=0.4)
        raise LimitExceeded(limit="cpu-seconds", spent=spent, logs="in\n")


@breaks("CAP-015")
class EndsWhenItLikes(Executor):
    """A cancelled pass goes on to its own end."""

    async def execute(self, request: CodeExecutionRequest, host: CodeExecutionHost) -> CodeExecutionResult:
        result: CodeExecutionResult | None = None
        with trio.CancelScope(shield=True):
            result = await self.inner.execute(request, host)
        if result is None:
            raise AssertionError("a shield lets nothing through")
        return result


@breaks("CAP-015", "CAP-001")
class LeavesExecutorThreads(Executor):
    """Each pass leaves a thread behind."""

    def handed(self, host: CodeExecutionHost) -> CodeExecutionHost:
        threading.Thread(target=threading.Event().wait, args=(20,), daemon=True, name="left").start()
        return host


@breaks("CAP-015")
class SaysNothingOfThrowing(Executor):
    """What is thrown becomes a value."""

    async def execute(self, request: CodeExecutionRequest, host: CodeExecutionHost) -> CodeExecutionResult:
        result = await self.inner.execute(request, host)
        if isinstance(result.ending, Threw):
            return attrs.evolve(result, ending=Returned(value=JsonText("null")))
        return result


@breaks("CAP-015")
class TakesAnything(Executor):
    """What is no program is no error."""

    async def execute(self, request: CodeExecutionRequest, host: CodeExecutionHost) -> CodeExecutionResult:
        try:
            return await self.inner.execute(request, host)
        except (ProgramInvalid, ResultUnusable):
            ending = Returned(value=JsonText("null"))
            return CodeExecutionResult(ending=ending, logs="", dropped=0, spent=Spent(), implementation="quickjs-wasm")


@breaks("CAP-015")
class WaitsForNothing(Executor):
    """A promise that nothing can settle is waited for."""

    async def execute(self, request: CodeExecutionRequest, host: CodeExecutionHost) -> CodeExecutionResult:
        try:
            return await self.inner.execute(request, host)
        except ProgramUnsettled as error:
            raise LimitExceeded(limit="wall-seconds", spent=error.spent, logs=error.logs) from error


@breaks("CAP-015")
class KeepsARealm(Executor):
    """What a program leaves behind is there for the next."""

    left = ""

    def asked(self, request: CodeExecutionRequest) -> CodeExecutionRequest:
        source = request.source
        if "globalThis.left = 1" in source:
            self.left = "globalThis.left = 1;"
        if not self.left or not source.startswith("async () => ["):
            return request
        return attrs.evolve(request, source=f"async () => {{ {self.left} return await ({source})() }}")


@breaks("CAP-015")
class LosesItsName(Executor):
    """Results do not say which implementation they are from."""

    async def execute(self, request: CodeExecutionRequest, host: CodeExecutionHost) -> CodeExecutionResult:
        return attrs.evolve(await self.inner.execute(request, host), implementation="")


@breaks("CAP-015")
class RunsWhatItRefuses(Executor):
    """`check` says what cannot be kept, and it runs all the same."""

    def asked(self, request: CodeExecutionRequest) -> CodeExecutionRequest:
        limits = request.limits
        return attrs.evolve(request, limits=attrs.evolve(limits, memory_bytes=max(limits.memory_bytes, 64 << 20)))


class _Passing:
    """A host that passes calls on."""

    def __init__(self, inner: CodeExecutionHost) -> None:
        self.inner = inner

    async def call(self, call: HostCall) -> HostReply:
        return await self.inner.call(call)


@breaks("CAP-015")
class CallsTwiceAtOnce(Executor):
    """Each call is made twice, at once."""

    def handed(self, host: CodeExecutionHost) -> CodeExecutionHost:
        class Twice(_Passing):
            async def call(self, call: HostCall) -> HostReply:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self.inner.call, call)
                    return await self.inner.call(call)

        return Twice(host)


@breaks("CAP-015")
class MixesUpItsNames(Executor):
    """A call reaches another name than the one that was called."""

    def handed(self, host: CodeExecutionHost) -> CodeExecutionHost:
        class Mixed(_Passing):
            async def call(self, call: HostCall) -> HostReply:
                return await self.inner.call(attrs.evolve(call, namespace="files"))

        return Mixed(host)


@breaks("CAP-015")
class FailsAsValues(Executor):
    """A call that failed is a value of the program."""

    def handed(self, host: CodeExecutionHost) -> CodeExecutionHost:
        class Soft(_Passing):
            async def call(self, call: HostCall) -> HostReply:
                reply = await self.inner.call(call)
                return HostResult(value=JsonText("null")) if isinstance(reply, HostFailure) else reply

        return Soft(host)


@breaks("CAP-015")
class SwallowsItsHost(Executor):
    """What the host raises is the program's to catch."""

    def handed(self, host: CodeExecutionHost) -> CodeExecutionHost:
        class Swallowing(_Passing):
            async def call(self, call: HostCall) -> HostReply:
                try:
                    return await self.inner.call(call)
                except Exception:  # noqa: BLE001 -- what is wrong with it
                    return HostResult(value=JsonText("null"))

        return Swallowing(host)


@breaks("CAP-015")
class OnePassAtATime(Executor):
    """A pass waits for another to end, although that one only waits for a tool."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = QuickJsWasm(compiled_guest(), 1)


@breaks("SEC-010")
class TrustsEverybody(Executor):
    """It says that it does not isolate, and runs what nobody trusts."""

    @property
    def implementation(self) -> Implementation:
        return attrs.evolve(self.inner.implementation, posture=UNISOLATED)


class Wrapped(Executor):
    """Changes what a program finds."""

    first: str

    def asked(self, request: CodeExecutionRequest) -> CodeExecutionRequest:
        if not request.source.startswith("async () =>"):
            return request
        return attrs.evolve(request, source=f"async () => {{ {self.first}; return await ({request.source})() }}")


@breaks("SEC-014")
class GivesAmbientNames(Wrapped):
    """A program finds more names than the language and its tools."""

    first = "globalThis.bridge = () => {}"


@breaks("SEC-014")
class HandsOutObjects(Executor):
    """Text and values are passed on as a program says them."""

    async def execute(self, request: CodeExecutionRequest, host: CodeExecutionHost) -> CodeExecutionResult:
        result = await self.inner.execute(request, host)
        if isinstance(result.ending, Returned):
            ending = Returned(value=JsonText(result.ending.value.replace("\ufffd", "\\ud800").replace("itself", "p")))
            return attrs.evolve(result, ending=ending)
        return result


@breaks("SEC-014", "SEC-010")
class RunsInNode(Executor):
    """A plain process with everything that its user may do, said to be isolated."""

    async def execute(self, request: CodeExecutionRequest, host: CodeExecutionHost) -> CodeExecutionResult:
        said = await trio.to_thread.run_sync(in_node, request.source)
        ending = Returned(value=JsonText(said))
        return CodeExecutionResult(ending=ending, logs="", dropped=0, spent=Spent(), implementation="node")


def in_node(source: str) -> str:
    """What this program returns in a plain node process. `make check` needs node as well."""
    node = shutil.which("node")
    if node is None:
        raise RuntimeError("node is missing. Run: sudo apt-get install -y nodejs")
    program = (
        f"global.require = require; ({source})().then((v) => {{ console.log(JSON.stringify(v)); process.exit(0) }})"
    )
    done = subprocess.run([node, "-e", program], capture_output=True, text=True, timeout=30, check=True)
    json.loads(done.stdout)
    return done.stdout.strip()
