"""A Sandbox on Linux namespaces, by way of the program `bwrap`.

Decides what can be enforced on this machine by running bwrap once, as it will be run, and by making a control group;
and refuses whatever needs more: images, lists of reachable names, limits without a control group, folders that the
program's user could not write. It never falls back to anything weaker. (CAP-010, SEC-006, SEC-010, SEC-013)
"""

import os
import shutil
import stat
import subprocess
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import attrs
import trio

from triolet.adapters.bubblewrap.arguments import USER
from triolet.adapters.bubblewrap.control_groups import ControlGroups, find_control_groups
from triolet.adapters.bubblewrap.seccomp import filter_program
from triolet.adapters.bubblewrap.session import Fixture
from triolet.adapters.bubblewrap.starting import opened
from triolet.adapters.commands.running import Runner
from triolet.ports.artifact_store import ArtifactStore
from triolet.ports.isolation import Implementation, Posture
from triolet.ports.sandbox import (
    Limits,
    Policy,
    Refusal,
    SandboxEvent,
    SandboxRefused,
    SandboxRequest,
    SandboxUnavailable,
    request_refusals,
    run_to_end,
)
from triolet.ports.secrets import SecretResolver

NAME: Final = "bubblewrap"
_OWN_TARGETS: Final = ("/", "/proc", "/dev", "/sys", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/run")


class Bubblewrap:
    """Implements `triolet.ports.sandbox.Sandbox`. Opened by `open_bubblewrap`."""

    __slots__ = ("_artifacts", "_fixture", "_runner", "_secrets")

    def __init__(
        self, fixture: Fixture, *, artifacts: ArtifactStore | None = None, secrets: SecretResolver | None = None
    ) -> None:
        self._fixture: Final = fixture
        self._artifacts = artifacts
        self._secrets = secrets
        self._runner: Final = Runner(opens=partial(opened, fixture), artifacts=artifacts, secrets=secrets)

    @property
    def implementation(self) -> Implementation:
        """Isolated; memory and processor time only with control groups."""
        return self._fixture.implementation

    @property
    def groups(self) -> ControlGroups:
        """The control groups that were found here."""
        return self._fixture.groups

    @property
    def details(self) -> str:
        """For people: what was found on this machine."""
        seccomp = "seccomp" if self._fixture.seccomp else "no seccomp filter for this machine"
        user = "own user" if self._fixture.user is None else f"user {self._fixture.user}"
        return f"{self.implementation.version}; {user}; {seccomp}; {self._fixture.groups.described}"

    def check(self, policy: Policy, limits: Limits) -> tuple[Refusal, ...]:
        """Everything that bubblewrap cannot enforce on this machine."""
        return tuple(_refusals(policy, limits, self._fixture.groups))

    def execute(self, request: SandboxRequest) -> AbstractAsyncContextManager[AsyncIterator[SandboxEvent]]:
        """Run it in namespaces of its own. Raises as the port says."""
        refusals = (
            *self.check(request.policy, request.limits),
            *_unusable_mounts(request.policy, self._fixture.user),
            *request_refusals(request, artifacts=self._artifacts is not None, secrets=self._secrets is not None),
        )
        if refusals:
            raise SandboxRefused(implementation=NAME, refusals=refusals)
        return self._runner.events(request)


@asynccontextmanager
async def open_bubblewrap(
    *,
    artifacts: ArtifactStore | None = None,
    secrets: SecretResolver | None = None,
    program: str | None = None,
    user: int | None = None,
) -> AsyncGenerator[Bubblewrap]:
    """Find bwrap, run it once, and give a sandbox of it.

    `program` is the path of bwrap, by default the one on PATH. `user` is who commands run as where this process is
    root; by default the user that owns nothing. Raises `SandboxUnavailable` if it does not work here.
    """
    found = program or shutil.which("bwrap")
    if found is None:
        raise SandboxUnavailable(implementation=NAME, problem="bwrap is not installed; apt-get install bubblewrap")
    groups = find_control_groups()
    groups.sweep()
    held = frozenset(groups.bases)
    fixture = Fixture(
        program=found,
        user=(USER if user is None else user) if os.geteuid() == 0 else None,
        seccomp=filter_program(),
        groups=groups,
        implementation=Implementation(
            name=NAME,
            version=await trio.to_thread.run_sync(_version, found),
            posture=Posture(
                filesystem="enforced",
                network="enforced",
                processes="enforced",
                memory="enforced" if "memory" in held else "none",
                cpu="enforced" if "cpu" in held else "none",
            ),
        ),
    )
    sandbox = Bubblewrap(fixture, artifacts=artifacts, secrets=secrets)
    await _probe(sandbox, groups)
    yield sandbox


async def _probe(sandbox: Bubblewrap, groups: ControlGroups) -> None:
    """One whole run of an empty command: whether namespaces are allowed here cannot be read off any setting."""
    limits = unbounded_where_needed(Limits(wall_seconds=20.0), groups)
    result = await run_to_end(sandbox, SandboxRequest(argv=("/usr/bin/true",), policy=Policy(), limits=limits))
    if not result.succeeded:
        problem = result.stderr.text.strip() or f"an empty command ended with {result.status}"
        raise SandboxUnavailable(implementation=NAME, problem=problem)


def unbounded_where_needed(limits: Limits, groups: ControlGroups) -> Limits:
    """`limits`, without those that need a control group which cannot be made here."""
    return attrs.evolve(
        limits,
        memory_bytes=limits.memory_bytes if "memory" in groups.bases else None,
        processes=limits.processes if "pids" in groups.bases else None,
        cpu_seconds=limits.cpu_seconds if "cpu" in groups.bases else None,
    )


def _version(program: str) -> str:
    try:
        told = subprocess.run([program, "--version"], capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError) as error:
        raise SandboxUnavailable(implementation=NAME, problem=f"{program} cannot be run") from error
    return told.stdout.strip()[:100]


def _refusals(policy: Policy, limits: Limits, groups: ControlGroups) -> Iterator[Refusal]:
    if policy.runtime != "host":
        yield Refusal(subject="policy.runtime", reason="only 'host': images cannot be verified or unpacked here")
    if policy.filesystem != "private":
        yield Refusal(subject="policy.filesystem", reason="only 'private': give mounts for what is to be seen")
    if policy.network not in ("none", "host"):
        yield Refusal(subject="policy.network", reason="only 'none' or 'host': names cannot be told apart here")
    for mount in policy.mounts:
        if mount.target.rstrip("/") in ("", *_OWN_TARGETS) or mount.target.startswith(("/proc/", "/dev/", "/sys/")):
            yield Refusal(subject="policy.mounts", reason=f"{mount.target} is the sandbox's own")
    for limit, controller in (("memory_bytes", "memory"), ("processes", "pids"), ("cpu_seconds", "cpu")):
        if getattr(limits, limit) is not None and controller not in groups.bases:
            yield Refusal(subject=f"limits.{limit}", reason=f"no control group with {controller} can be made here")


def _unusable_mounts(policy: Policy, user: int | None) -> Iterator[Refusal]:
    """Where the program's user is not this process's, a folder that it cannot write is said now and not found out."""
    for mount in policy.mounts:
        try:
            status = Path(mount.source).stat()
        except OSError as error:
            yield Refusal(subject="policy.mounts", reason=f"{mount.source}: {error.strerror}")
            continue
        if mount.access == "write" and user is not None and not _writable(status, user):
            yield Refusal(subject="policy.mounts", reason=f"{mount.source} cannot be written by user {user}")


def _writable(status: os.stat_result, user: int) -> bool:
    if status.st_uid == user:
        return bool(status.st_mode & stat.S_IWUSR)
    if status.st_gid == user:
        return bool(status.st_mode & stat.S_IWGRP)
    return bool(status.st_mode & stat.S_IWOTH)
