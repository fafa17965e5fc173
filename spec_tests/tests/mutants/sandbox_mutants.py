"""Wrong sandboxes: runners that boast, leak or give in, and bubblewrap with one wall taken out."""

import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import trio

from tests.mutants.mutant import Mutant, Patches, always
from triolet.adapters.commands.collecting import Found
from triolet.adapters.local_runner import LocalRunner
from triolet.ports.isolation import Implementation, Posture
from triolet.ports.sandbox import Limits, Policy, Refusal, SandboxEvent, SandboxRequest
from triolet.spec_tests import makers
from triolet.spec_tests.cases.sandbox import SANDBOX, SandboxSubject

SANDBOX_MUTANTS: list[Mutant] = []

_COMMANDS = "triolet.adapters.commands"
_LOCAL = "triolet.adapters.local_runner"
_BWRAP = "triolet.adapters.bubblewrap"

ENFORCED = Posture(filesystem="enforced", network="enforced", processes="enforced", memory="enforced", cpu="enforced")
BOAST = Implementation(name="boaster", version="1", posture=ENFORCED)


def _wrong(
    base: Any, *violates: str, meets: tuple[str, ...] = ()
) -> Callable[[Callable[[Patches], None]], Callable[[Patches], None]]:
    """A conforming subject with something patched."""

    def decorate(apply: Callable[[Patches], None]) -> Callable[[Patches], None]:
        @asynccontextmanager
        async def maker() -> AsyncGenerator[SandboxSubject]:
            with Patches() as patches:
                apply(patches)
                async with base() as subject:
                    yield subject

        why = (apply.__doc__ or "").partition("\n")[0].rstrip(".")
        SANDBOX_MUTANTS.append(
            Mutant(name=apply.__name__, why=why, violates=violates, suite=SANDBOX, open=maker, meets=meets)
        )
        return apply

    return decorate


class Boaster(LocalRunner):
    """A plain runner that says it is isolated, refuses nothing, and runs everything as it always did."""

    __slots__ = ()

    @property
    def implementation(self) -> Implementation:
        return BOAST

    def check(self, policy: Policy, limits: Limits) -> tuple[Refusal, ...]:
        return ()


@asynccontextmanager
async def _boaster() -> AsyncGenerator[SandboxSubject]:
    async with makers.local_runner() as honest:
        with Patches() as patches:
            patches.wrap(f"{_LOCAL}.session.LocalSession.implementation", lambda _: BOAST)
            port = Boaster(artifacts=honest.store, secrets=honest.port._secrets)  # type: ignore[attr-defined]
            yield attrs.evolve(honest, port=port, declines={})


@_wrong(_boaster, "CAP-010", "SEC-010", "SEC-013")
def calls_itself_isolated(patches: Patches) -> None:
    """A plain process runner says that it enforces everything."""


@_wrong(makers.local_runner, "CAP-010")
def results_boast(patches: Patches) -> None:
    """Results claim an isolation that the runner itself does not."""
    patches.wrap(f"{_LOCAL}.session.LocalSession.implementation", lambda own: attrs.evolve(own, posture=ENFORCED))


@_wrong(makers.local_runner, "CAP-010", "SEC-010")
def refuses_nothing(patches: Patches) -> None:
    """An unisolated runner takes policies and limits that it cannot hold."""
    patches.wrap(f"{_LOCAL}.runner._refusals", always(()))


@_wrong(makers.local_runner, "SEC-010")
def runs_what_it_refuses(patches: Patches) -> None:
    """What `check` refuses is run all the same."""

    def execute(self: Any, request: SandboxRequest) -> AbstractAsyncContextManager[AsyncIterator[SandboxEvent]]:
        events: AbstractAsyncContextManager[AsyncIterator[SandboxEvent]] = self._runner.events(request)
        return events

    patches.wrap(f"{_LOCAL}.runner.LocalRunner.execute", lambda _: execute)


@_wrong(makers.local_runner, "SEC-013")
def takes_malformed_requests(patches: Patches) -> None:
    """No request is looked at before it is run."""
    patches.wrap(f"{_LOCAL}.runner.request_refusals", always(()))


@_wrong(
    makers.local_runner,
    "CAP-001",
    meets=(
        "a_command_runs_and_says_how_it_ended",
        "what_cannot_be_started_is_an_error",
    ),
)
def runs_by_a_shell(patches: Patches) -> None:
    """The command and its arguments are one line for a shell, which also starts when the program is not there."""
    patches.wrap(
        f"{_LOCAL}.session.Child",
        lambda child: lambda argv, **rest: child(("/bin/sh", "-c", " ".join(argv)), **{**rest, "cwd": "/"}),
    )


@_wrong(
    _boaster,
    "SEC-013",
    "SEC-010",
    meets=(
        "output_is_bounded_and_counted",
        "attack_by_flooding",
    ),
)
def keeps_all_output(patches: Patches) -> None:
    """Whatever is written is kept."""
    patches.wrap(f"{_COMMANDS}.running.Capture", lambda capture: lambda limit: capture(limit * 1000))


@_wrong(makers.local_runner, "SEC-013")
def counts_nothing(patches: Patches) -> None:
    """What is dropped is not counted."""
    patches.wrap(
        f"{_COMMANDS}.capture.Capture.captured",
        lambda captured: lambda self: attrs.evolve(captured(self), dropped_bytes=0),
    )


@_wrong(makers.local_runner, "SEC-013")
def cuts_characters(patches: Patches) -> None:
    """Cuts go through characters."""
    patches.wrap(f"{_COMMANDS}.capture.whole_at_end", lambda _: lambda data: data)
    patches.wrap(f"{_COMMANDS}.capture.whole_at_start", lambda _: lambda data: data)


@_wrong(makers.local_runner, "SEC-013")
def waits_for_its_reader(patches: Patches) -> None:
    """Reading from the command stops until somebody takes the events."""

    async def drain(name: Any, stream: Any, capture: Any, feed: Any, scrubber: Any) -> None:
        while data := await stream.receive_some(4096):
            shown = capture.feed(data)
            if shown:
                feed.put_output(name, shown)
            while feed._text[name]:  # noqa: ASYNC110 -- a deliberately wrong one
                await trio.sleep(0.005)

    patches.wrap(f"{_COMMANDS}.running._drain", lambda _: drain)


def _naive_collect(folder: int, patterns: tuple[str, ...], limits: Limits) -> tuple[list[Found], list[Any]]:
    root = Path(f"/proc/self/fd/{folder}")
    paths: Iterable[Path] = sorted({path for pattern in patterns for path in root.glob(pattern)})
    return [Found(path=str(path.relative_to(root)), payload=path.read_bytes()) for path in paths if path.is_file()], []


@_wrong(
    _boaster,
    "SEC-013",
    "SEC-010",
    meets=(
        "artifacts_are_bounded",
        "attack_by_symbolic_artifacts",
        "attack_by_hard_linked_artifacts",
    ),
)
def collects_by_path(patches: Patches) -> None:
    """Artifacts are whatever a path leads to, of any size and number."""
    patches.wrap(f"{_COMMANDS}.running.collect", lambda _: _naive_collect)


@_wrong(
    makers.local_runner,
    "CAP-001",
    meets=(
        "nothing_of_the_group_outlives_its_command",
        "a_timeout_ends_the_whole_group",
        "cancelling_ends_the_whole_group",
    ),
)
def kills_only_the_shell(patches: Patches) -> None:
    """The command's own process is ended, and nothing that it started."""
    patches.wrap(
        f"{_COMMANDS}.child.Child.signal_group", lambda _: lambda self, number: self._popen.send_signal(number)
    )


@_wrong(makers.local_runner, "CAP-001", meets=("standard_input_is_empty",))
def leaves_input_open(patches: Patches) -> None:
    """Standard input is a pipe that nobody closes."""
    patches.wrap(f"{_LOCAL}.session.Child", lambda child: lambda argv, **rest: child(argv, stdin=os.pipe()[0], **rest))


@_wrong(makers.local_runner, "CAP-001", meets=("nothing_piles_up",))
def forgets_descriptors(patches: Patches) -> None:
    """A descriptor of the process is never closed."""

    def abandon(original: Any) -> Any:
        async def forgetful(self: Any) -> None:
            os.dup(self._pidfd)
            await original(self)

        return forgetful

    patches.wrap(f"{_COMMANDS}.child.Child.abandon", abandon)


@_wrong(makers.local_runner, "CAP-001", meets=("a_command_runs_and_says_how_it_ended",))
def leaves_a_task(patches: Patches) -> None:
    """A task goes on after the command."""

    def events(original: Any) -> Any:
        def started(self: Any, request: Any) -> Any:
            trio.lowlevel.spawn_system_task(trio.sleep_forever)
            return original(self, request)

        return started

    patches.wrap(f"{_COMMANDS}.running.Runner.events", events)


@_wrong(makers.local_runner, "SEC-006")
def hands_on_the_environment(patches: Patches) -> None:
    """Programs inherit the host's variables."""
    patches.wrap(
        f"{_LOCAL}.session.Child",
        lambda child: lambda argv, *, env, **rest: child(argv, env={**os.environ, **env}, **rest),
    )


@_wrong(makers.local_runner, "SEC-006")
def shows_secrets(patches: Patches) -> None:
    """Values of secrets come out with the output."""
    patches.wrap(f"{_COMMANDS}.scrubbing.Scrubber.feed", lambda _: lambda self, data: data)


@_wrong(makers.local_runner, "SEC-006")
def stores_secrets(patches: Patches) -> None:
    """Files that hold a secret's value are collected."""
    patches.wrap(f"{_COMMANDS}.scrubbing.Scrubber.finds", always(False))


@asynccontextmanager
async def open_unprotected(patches: Patches) -> AsyncGenerator[SandboxSubject]:
    """A boaster that keeps all output and collects by path: it withstands nothing at all."""
    keeps_all_output(patches)
    collects_by_path(patches)
    async with _boaster() as subject:
        yield subject


@_wrong(makers.bubblewrap, "SEC-010", "CAP-010")
def shares_the_network(patches: Patches) -> None:
    """Bubblewrap with the host's network."""
    patches.wrap(f"{_BWRAP}.arguments._apart", lambda original: lambda request: (*original(request), "--share-net"))


@_wrong(makers.bubblewrap, "SEC-010", "CAP-010")
def shows_the_root(patches: Patches) -> None:
    """Bubblewrap with all files of the host, to be read."""

    def files(request: SandboxRequest) -> Iterator[str]:
        yield from ("--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/run")
        yield from ("--tmpfs", "/work") if Path("/work").is_dir() else ("--tmpfs", "/mnt")

    patches.wrap(f"{_BWRAP}.arguments._files", lambda _: files)


@_wrong(makers.bubblewrap, "SEC-010", "CAP-010")
def opens_mounts_for_writing(patches: Patches) -> None:
    """Bubblewrap with every mount writable."""
    patches.wrap(
        f"{_BWRAP}.arguments._files",
        lambda original: (
            lambda request: original(
                attrs.evolve(
                    request,
                    policy=attrs.evolve(
                        request.policy,
                        mounts=tuple(attrs.evolve(mount, access="write") for mount in request.policy.mounts),
                    ),
                )
            )
        ),
    )


@_wrong(makers.bubblewrap, "SEC-010", "CAP-010")
def shares_the_processes(patches: Patches) -> None:
    """Bubblewrap with the host's process numbers, so that daemons get away."""

    def apart(request: SandboxRequest) -> Iterator[str]:
        yield from ("--unshare-user", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--die-with-parent")
        yield from ("--uid", "65534", "--gid", "65534")

    async def nothing(_: Any) -> None:
        await trio.lowlevel.checkpoint()

    patches.wrap(f"{_BWRAP}.arguments._apart", lambda _: apart)
    for name in ("emptied", "removed"):
        patches.wrap(f"{_BWRAP}.control_groups.Group.{name}", lambda _: nothing)


@_wrong(makers.bubblewrap, "SEC-010", "SEC-013", meets=("attack_by_forking", "attack_by_filling_memory"))
def sets_no_limits(patches: Patches) -> None:
    """Bubblewrap in control groups without limits."""
    patches.wrap(
        f"{_BWRAP}.control_groups.ControlGroups.make",
        lambda make: lambda self, **_: make(self, memory_bytes=None, processes=None),
    )
