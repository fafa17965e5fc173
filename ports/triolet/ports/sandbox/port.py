"""The contract of a sandbox, its errors, and how to wait for a result.

Decides what every implementation promises. A plain process runner satisfies it too, and says by its posture that it is
no security boundary. (CAP-001, CAP-010, SEC-010)
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import attrs

from triolet.ports.errors import Misuse, Unavailable, bounded
from triolet.ports.isolation import Implementation
from triolet.ports.sandbox.policy import Limits, Policy, Refusal
from triolet.ports.sandbox.request import SandboxRequest
from triolet.ports.sandbox.result import Finished, SandboxEvent, SandboxResult


@attrs.define(kw_only=True)
class SandboxRefused(Misuse):
    """A policy, limit or request that this implementation cannot hold. Nothing was started."""

    implementation: str
    refusals: tuple[Refusal, ...]

    @property
    def message(self) -> str:
        """Which implementation, and everything that it cannot hold."""
        return bounded(f"{self.implementation} refuses: {'; '.join(map(str, self.refusals))}", 1_000)


@attrs.define(kw_only=True)
class SandboxUnavailable(Unavailable):
    """The implementation itself could not be set up. The command did not run."""

    implementation: str
    problem: str

    @property
    def message(self) -> str:
        """Which implementation, and what is wrong."""
        return f"{self.implementation} is unavailable: {bounded(self.problem)}"


@attrs.define(kw_only=True)
class CommandNotStarted(Misuse):
    """The sandbox is fine, but the program or the directory is not there, or is not executable. Nothing ran."""

    problem: str

    @property
    def message(self) -> str:
        """What is wrong."""
        return f"the command could not be started: {bounded(self.problem)}"


class Sandbox(Protocol):
    """Runs commands, each under its own policy and limits.

    Lifetime: opened and closed by the host; one value serves many requests at a time. Everything that a request
    acquired (processes, descriptors, control groups, folders) is released when its scope is left, on success, failure,
    time-out and cancellation alike. Emits: the events of each request, to its caller only; output stays out of spans
    and logs. (CAP-001, CAP-013)
    """

    @property
    def implementation(self) -> Implementation:
        """Which implementation this is, and what it can hold. Never changes while it is open (CAP-010)."""
        ...

    def check(self, policy: Policy, limits: Limits) -> tuple[Refusal, ...]:
        """Does: name everything in these that cannot be enforced here; empty if they can be.

        Atomicity: pure. Idempotency: the same answer each time. Ordering: none. Cancellation: does not wait.
        Raises: nothing. (CAP-010, SEC-010)
        """
        ...

    def execute(self, request: SandboxRequest) -> AbstractAsyncContextManager[AsyncIterator[SandboxEvent]]:
        """Does: run a command. Entering gives the events: `Started`, then output and artifacts, last `Finished`.

        Atomicity: all refusals come before anything is started. Idempotency: none; every request runs again.
        Ordering: events of one stream in order; artifacts by path, after the command has ended. A slow reader of
        events holds up neither the command nor its limits. Cancellation, and leaving the scope early: the command and
        what it started are ended, escalating to a kill, within a bounded time. Raises: `SandboxRefused`,
        `SandboxUnavailable`, `CommandNotStarted`; the resolver's and the artifact store's own errors. A command that
        fails, or meets a limit, is a result and no error. (SEC-006, SEC-010, SEC-013)
        """
        ...


async def run_to_end(sandbox: Sandbox, request: SandboxRequest) -> SandboxResult:
    """Run a command, let its live events go by, and give its result. Raises what `Sandbox.execute` raises."""
    async with sandbox.execute(request) as events:
        async for event in events:
            if isinstance(event, Finished):
                return event.result
    raise SandboxUnavailable(implementation=sandbox.implementation.name, problem="it ended without a result")
