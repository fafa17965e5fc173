"""A Sandbox that keeps nothing away from what it runs: plain processes of this user, for commands that are trusted.

Decides that it calls itself unisolated, always, and refuses whatever asks for more than it holds: private files, a
closed network, limits on memory, processor time or processes. It bounds time and output, closes standard input, gives
each command its own process group and ends that group. What left the group may live on, and every result says so.
(CAP-010, F-042, F-043)
"""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Final

from triolet.adapters.commands.running import Runner
from triolet.adapters.local_runner.session import IMPLEMENTATION, opened
from triolet.ports.artifact_store import ArtifactStore
from triolet.ports.isolation import Implementation
from triolet.ports.sandbox import (
    Limits,
    Policy,
    Refusal,
    SandboxEvent,
    SandboxRefused,
    SandboxRequest,
    request_refusals,
)
from triolet.ports.secrets import SecretResolver


class LocalRunner:
    """Implements `triolet.ports.sandbox.Sandbox` without any isolation. Needs no opening and no closing."""

    __slots__ = ("_artifacts", "_runner", "_secrets")

    def __init__(self, *, artifacts: ArtifactStore | None = None, secrets: SecretResolver | None = None) -> None:
        """`artifacts` keeps what requests collect, `secrets` resolves their handles; requests that need one fail."""
        self._runner: Final = Runner(opens=opened, artifacts=artifacts, secrets=secrets)
        self._artifacts = artifacts
        self._secrets = secrets

    @property
    def implementation(self) -> Implementation:
        """Unisolated in every dimension."""
        return IMPLEMENTATION

    def check(self, policy: Policy, limits: Limits) -> tuple[Refusal, ...]:
        """Everything that needs more than a plain process."""
        return tuple(_refusals(policy, limits))

    def execute(self, request: SandboxRequest) -> AbstractAsyncContextManager[AsyncIterator[SandboxEvent]]:
        """Run it with this process's own rights. Raises as the port says."""
        refusals = (
            *self.check(request.policy, request.limits),
            *request_refusals(request, artifacts=self._artifacts is not None, secrets=self._secrets is not None),
        )
        if refusals:
            raise SandboxRefused(implementation=IMPLEMENTATION.name, refusals=refusals)
        return self._runner.events(request)


def _refusals(policy: Policy, limits: Limits) -> Iterator[Refusal]:
    if policy.runtime != "host":
        yield Refusal(subject="policy.runtime", reason="only 'host': there are no images here")
    if policy.filesystem != "host":
        yield Refusal(subject="policy.filesystem", reason="only 'host': nothing can be hidden from a plain process")
    if policy.mounts:
        yield Refusal(subject="policy.mounts", reason="a plain process cannot be given mounts, or kept to their modes")
    if policy.network != "host":
        yield Refusal(subject="policy.network", reason="only 'host': the network cannot be closed to a plain process")
    for name in ("cpu_seconds", "memory_bytes", "processes", "work_bytes"):
        if getattr(limits, name) is not None:
            yield Refusal(subject=f"limits.{name}", reason="not held for a whole tree of plain processes; ask for None")
    if not hasattr(os, "pidfd_open"):
        yield Refusal(subject="system", reason="this system has no process descriptors; Linux is needed")
