# ruff: noqa: ASYNC240 -- small local files of a scene; nothing here waits for a disk
"""What a sandbox says of itself, and that it refuses what it cannot hold before anything starts.

CAP-010, SEC-010, CAP-001.
"""

import secrets
import tempfile
from pathlib import Path

from triolet.ports.isolation import Dimension
from triolet.ports.sandbox import (
    AllowHosts,
    CommandNotStarted,
    Finished,
    Limits,
    Policy,
    SandboxDemand,
    SandboxRefused,
    SandboxRequest,
    Started,
    run_to_end,
)
from triolet.spec_tests.cases.sandbox.setting import (
    OPEN,
    UNLIMITED,
    SandboxSubject,
    limits_of,
    policy_of,
    python,
    request,
    run,
    run_python,
)
from triolet.spec_tests.claims import ensure, ensure_equal, ensure_raises
from triolet.spec_tests.definition import case


@case("CAP-010")
async def a_result_claims_no_more_than_its_sandbox(subject: SandboxSubject) -> None:
    """Every result names the implementation, with a posture that its policy may only have opened further."""
    own = subject.port.implementation
    result = await run(subject.port, "true")
    ensure_equal((result.implementation.name, result.implementation.version), (own.name, own.version), "who ran it")
    order = ("none", "partial", "enforced")
    for dimension, hold in result.implementation.posture.items():
        ensure(
            order.index(hold) <= order.index(own.posture.of(dimension)),
            f"a result says {dimension} {hold}, where the sandbox itself says {own.posture.of(dimension)}",
        )


@case("CAP-010")
async def an_open_network_is_no_isolation(subject: SandboxSubject) -> None:
    """What ran with the host's network, or files, is not reported as isolated."""
    for policy in (Policy(network="host"), OPEN):
        if subject.port.check(policy, UNLIMITED):
            continue
        result = await run_to_end(subject.port, SandboxRequest(argv=("true",), policy=policy, limits=UNLIMITED))
        ensure(not result.implementation.isolated, "a command with the host's network is reported as isolated")


@case("CAP-010", "SEC-010")
async def who_is_unisolated_meets_no_demand_for_isolation(subject: SandboxSubject) -> None:
    """A sandbox without isolation refuses private files and a closed network, and meets no demand for isolation."""
    posture = subject.port.implementation.posture
    refused = {refusal.subject for refusal in subject.port.check(Policy(), UNLIMITED)}
    closed: tuple[tuple[Dimension, str], ...] = (("filesystem", "policy.filesystem"), ("network", "policy.network"))
    for dimension, asked in closed:
        hold = posture.of(dimension)
        ensure(hold == "enforced" or asked in refused, f"{dimension} is {hold}, and a closed one is not refused")
    bounded: tuple[tuple[Dimension, str], ...] = (("memory", "memory_bytes"), ("cpu", "cpu_seconds"))
    for dimension, limit in bounded:
        names = {refusal.subject for refusal in subject.port.check(policy_of(subject.port), Limits())}
        held = posture.of(dimension) != "none"
        ensure(held or f"limits.{limit}" in names, f"{dimension} is not held, and a limit on it is not refused")
    demand = SandboxDemand(policy=policy_of(subject.port), limits=limits_of(subject.port))
    if not subject.port.implementation.isolated:
        ensure(bool(demand.refusals(subject.port)), "an unisolated sandbox meets a demand for isolation")


@case("SEC-010")
async def what_is_refused_never_starts(subject: SandboxSubject) -> None:
    """What `check` refuses, `execute` refuses, all of it at once, and nothing has run."""
    with tempfile.TemporaryDirectory(prefix="triolet-kit-") as folder:
        Path(folder).chmod(0o777)
        trace = Path(folder, secrets.token_hex(8))
        argv = python("import sys; open(sys.argv[1], 'w')", str(trace))
        odd = (
            (Policy(runtime="sha256:" + "0" * 64), UNLIMITED),
            (Policy(network=AllowHosts(names=("example.org",))), UNLIMITED),
            (Policy(), Limits()),
            (OPEN, UNLIMITED),
        )
        for policy, limits in odd:
            due = subject.port.check(policy, limits)
            ensure_equal(subject.port.check(policy, limits), due, "the same question to `check` again")
            if not due:
                continue
            with ensure_raises(SandboxRefused, f"executing what `check` refuses ({due[0]})") as caught:
                await run_to_end(subject.port, SandboxRequest(argv=argv, policy=policy, limits=limits))
            ensure(set(due) <= set(caught.error.refusals), "a refusal of `check` is not among those of `execute`")
            ensure(not trace.exists(), "a refused command ran")


@case("SEC-013")
async def what_is_malformed_never_starts(subject: SandboxSubject) -> None:
    """No program, too many arguments, an unlisted variable, a path upwards: refused, typed."""
    port = subject.port
    bad = (
        request(port),
        request(port, "true", "\0"),
        request(port, "true", *["x"] * 5_000),
        request(port, "true", environment={"NOT_LISTED": "1"}),
        request(port, "true", environment={"A=B": "1"}, policy={"environment": frozenset({"A=B"})}),
        request(port, "true", directory="../.."),
        request(port, "true", artifacts=("../*",)),
    )
    for each in bad:
        with ensure_raises(SandboxRefused, "a malformed request"):
            await run_to_end(port, each)


@case("CAP-001")
async def a_command_runs_and_says_how_it_ended(subject: SandboxSubject) -> None:
    """Started first, Finished last; exit status, signal, both streams, arguments as they were given."""
    async with subject.port.execute(request(subject.port, "true")) as stream:
        events = [event async for event in stream]
    ensure(isinstance(events[0], Started), "the first event is not Started")
    ensure(isinstance(events[-1], Finished), "the last event is not Finished")
    ensure_equal(sum(isinstance(event, Started | Finished) for event in events), 2, "events of start and end")
    words = ("a b", "$HOME", "'\"", "; false", "é\n")
    program = "import sys; print(sys.argv[1:]); print('else', file=sys.stderr); sys.exit(7)"
    result = await run_python(subject.port, program, *words)
    ensure_equal((result.status, result.signal, result.stopped), (7, None, None), "status, signal and limit")
    ensure_equal(result.stdout.text, f"{list(words)}\n", "standard output")
    ensure_equal(result.stderr.text, "else\n", "standard error")
    ensure(not result.succeeded, "a command that failed counts as successful")
    killed = await run_python(subject.port, "import os; os.kill(os.getpid(), 9)")
    ensure(killed.signal == 9 or killed.status == 128 + 9, "a command that was killed does not say so")


@case("CAP-001")
async def what_cannot_be_started_is_an_error(subject: SandboxSubject) -> None:
    """A program or a folder that is not there is `CommandNotStarted`, apart from any exit status."""
    with ensure_raises(CommandNotStarted, "a program that is not there"):
        await run(subject.port, "/usr/bin/not-there-at-all")
    with ensure_raises(CommandNotStarted, "a folder that is not there"):
        await run(subject.port, "true", directory="not/there")


DECLARING = (
    a_result_claims_no_more_than_its_sandbox,
    an_open_network_is_no_isolation,
    who_is_unisolated_meets_no_demand_for_isolation,
    what_is_refused_never_starts,
    what_is_malformed_never_starts,
    a_command_runs_and_says_how_it_ended,
    what_cannot_be_started_is_an_error,
)
