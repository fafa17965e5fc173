"""What the cases of the Sandbox share: the subject, the mildest request that it takes, and programs to run.

Decides what is run, never what is right. Programs are written in Python, which has to be in the sandbox's runtime at
the usual place; without it the cases say that they were not exercised.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

import attrs

from triolet.ports.artifact_store import ArtifactStore
from triolet.ports.sandbox import (
    CommandNotStarted,
    Limits,
    Policy,
    Refusal,
    Sandbox,
    SandboxRequest,
    SandboxResult,
    run_to_end,
)
from triolet.ports.secrets import SecretHandle
from triolet.spec_tests.claims import NotExercised
from triolet.spec_tests.subject import Subject

PYTHON: Final = "/usr/bin/python3"

OPEN: Final = Policy(filesystem="host", network="host")
UNLIMITED: Final = Limits(cpu_seconds=None, memory_bytes=None, processes=None, work_bytes=None)


@attrs.frozen(kw_only=True, weakref_slot=False)
class KnownSecret:
    """A secret that the subject's resolver knows, with the value that must show up nowhere."""

    handle: SecretHandle
    value: str


@attrs.frozen(kw_only=True, eq=False, weakref_slot=False)
class SandboxSubject(Subject[Sandbox]):
    """A sandbox under test.

    `store` is the artifact store that it puts artifacts into, `secret` one that its resolver knows. A sandbox that
    calls itself unisolated declines the trait ``isolation``.
    """

    store: ArtifactStore | None = None
    secret: KnownSecret | None = None


def policy_of(sandbox: Sandbox, **changes: Any) -> Policy:
    """The most closed policy that this sandbox holds, with `changes`."""
    closed = Policy(**changes)
    opened = attrs.evolve(closed, filesystem="host", network="host")
    refused = {refusal.subject for refusal in sandbox.check(closed, UNLIMITED)}
    return opened if refused & {"policy.filesystem", "policy.network"} else closed


def limits_of(sandbox: Sandbox, **changes: Any) -> Limits:
    """The usual limits, without those that this sandbox refuses, with `changes`."""
    limits = Limits(wall_seconds=8.0, memory_bytes=256 * 1024 * 1024, cpu_seconds=8.0)
    refused = refused_limits(sandbox.check(policy_of(sandbox), limits))
    return attrs.evolve(limits, **{**dict.fromkeys(refused), **changes})


def refused_limits(refusals: tuple[Refusal, ...]) -> list[str]:
    """The names of the limits among what was refused."""
    return [each.subject.removeprefix("limits.") for each in refusals if each.subject.startswith("limits.")]


async def run(
    sandbox: Sandbox,
    *argv: str,
    policy: Mapping[str, Any] | None = None,
    limits: Mapping[str, Any] | None = None,
    **fields: Any,
) -> SandboxResult:
    """Run a command with what this sandbox holds."""
    return await run_to_end(sandbox, request(sandbox, *argv, policy=policy, limits=limits, **fields))


def request(
    sandbox: Sandbox,
    *argv: str,
    policy: Mapping[str, Any] | None = None,
    limits: Mapping[str, Any] | None = None,
    **fields: Any,
) -> SandboxRequest:
    """A request with what this sandbox holds."""
    return SandboxRequest(
        argv=argv,
        policy=policy_of(sandbox, **(policy or {})),
        limits=limits_of(sandbox, **(limits or {})),
        **fields,
    )


def python(program: str, *arguments: str) -> tuple[str, ...]:
    """The command that runs a Python program. Raises `NotExercised` without an interpreter."""
    if not Path(PYTHON).exists():
        raise NotExercised(reason=f"there is no {PYTHON} on this machine, and the programs are written in Python")
    return (PYTHON, "-I", "-S", "-c", program, *arguments)


async def run_python(sandbox: Sandbox, program: str, *arguments: str, **options: Any) -> SandboxResult:
    """Run a Python program with what this sandbox holds."""
    try:
        return await run(sandbox, *python(program, *arguments), **options)
    except CommandNotStarted as error:
        raise NotExercised(reason=f"{PYTHON} is not in this sandbox's runtime") from error


def alive(token: str) -> list[int]:
    """The processes of this machine, zombies apart, that have `token` in their command line."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            # A zombie has no command line any more.
            if token.encode() in words:
                found.append(int(entry.name))
    return found


def no_isolation(subject: SandboxSubject) -> str | None:
    """Why attacks say nothing about this subject, or None."""
    implementation = cast("Any", subject.port).implementation
    return None if implementation.isolated else f"{implementation.name} calls itself unisolated"
