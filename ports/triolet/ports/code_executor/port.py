"""The CodeExecutor port and the live host of a pass.

Decides the contract: one pass, alone, bounded, and over when `execute` returns or raises. The host is a live object
of one pass; it is handed in, used one call at a time, and never stored. (CAP-015, SEC-010, SEC-014)
"""

from typing import Protocol

from triolet.ports.code_executor.errors import (
    CannotKeep,
    ExecutorUnavailable,
    LimitExceeded,
    ProgramInvalid,
    ProgramUnsettled,
    ResultUnusable,
)
from triolet.ports.code_executor.values import (
    CodeExecutionRequest,
    CodeExecutionResult,
    CodeLimits,
    HostCall,
    HostReply,
)
from triolet.ports.isolation import Implementation

__all__ = [
    "CannotKeep",
    "CodeExecutionHost",
    "CodeExecutor",
    "ExecutorUnavailable",
    "LimitExceeded",
    "ProgramInvalid",
    "ProgramUnsettled",
    "ResultUnusable",
]


class CodeExecutionHost(Protocol):
    """The one way out of a pass, bound to it. It ends with the pass and is never stored."""

    async def call(self, call: HostCall) -> HostReply:
        """Does: make one call on the host's own authority, and say what became of it.

        An executor calls this for bound names only, with strict JSON within the request's bounds, and never twice at
        once. Atomicity, Idempotency, Ordering: the host's. Cancellation: ends the call. Raises: what ends the pass;
        everything that the program may catch is a `HostFailure`. (RUN-016, SEC-014)
        """
        ...


class CodeExecutor(Protocol):
    """Runs programs in passes that share nothing.

    Lifetime: opened and closed by the host; one value serves many runs, also at once. A pass owns a realm, and
    whatever carries it, from the call of `execute` to its end. Emits: nothing by itself; the host counts calls.
    (CAP-001)
    """

    @property
    def implementation(self) -> Implementation:
        """Which implementation this is, and what it holds, as far as it is true for every pass (CAP-015)."""
        ...

    def check(self, limits: CodeLimits, *, untrusted: bool) -> tuple[str, ...]:
        """Does: name everything of this that could not be kept, without starting anything; empty if all can.

        Atomicity, Idempotency, Ordering: pure. Cancellation: never waits. Raises: nothing. (CAP-002, CAP-015, SEC-010)
        """
        ...

    async def execute(self, request: CodeExecutionRequest, host: CodeExecutionHost) -> CodeExecutionResult:
        """Does: check the request, run the program in a pass of its own, and say how it ended.

        A program that returns or throws is a result. Atomicity: none; calls that the program made were made, whatever
        becomes of the pass. Idempotency: none. Ordering: calls reach the host one at a time, in the order in which the
        program made them. Cancellation: stops the program at once, also in the middle of a computation, and releases
        everything before it propagates. Raises: `CannotKeep` and `ProgramInvalid` before anything ran; `LimitExceeded`,
        `ProgramUnsettled`, `ResultUnusable`, `ExecutorUnavailable`; and what `host` raised. (CAP-015, SEC-013)
        """
        ...
