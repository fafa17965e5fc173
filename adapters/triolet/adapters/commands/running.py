"""A command from its start to its result, in the same order on every adapter.

Decides that reading never stops while a command runs, that its end is waited for by the process and never by the end of
a pipe, that everything is ended before anything is collected, and that a reader of events is never waited for. (F-042,
F-043, SEC-013)
"""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final, cast

import attrs
import trio

from triolet.adapters.commands.capture import Capture
from triolet.adapters.commands.child import read
from triolet.adapters.commands.collecting import collect
from triolet.adapters.commands.feed import Feed
from triolet.adapters.commands.scrubbing import Scrubber
from triolet.adapters.commands.session import Opens, Session
from triolet.ports.artifact_store import ArtifactStore
from triolet.ports.sandbox import (
    Artifact,
    ArtifactCollected,
    ArtifactRefused,
    Finished,
    SandboxEvent,
    SandboxRequest,
    SandboxResult,
    SandboxUnavailable,
    Started,
    StopReason,
    StreamName,
)
from triolet.ports.secrets import Secret, SecretResolver

ENDING_SECONDS: Final = 10.0
"""How long ending and reaping may take, under a shield, before a command is given up on."""

DRAIN_SECONDS: Final = 0.5
"""How long pipes are read after everything was ended. Somebody who got away may hold them open for ever."""

BINARY: Final = "application/octet-stream"


@attrs.frozen(kw_only=True, eq=False)
class Runner:
    """Runs requests that were found acceptable, on sessions that `opens` starts."""

    opens: Opens
    artifacts: ArtifactStore | None
    secrets: SecretResolver | None

    @asynccontextmanager
    async def events(self, request: SandboxRequest) -> AsyncGenerator[AsyncIterator[SandboxEvent]]:
        """The events of one command. Leaving ends it."""
        feed = Feed()
        work = trio.CancelScope(shield=True)

        async def drive() -> None:
            # Shielded, since its one way out is that the scope below is left, which always happens.
            with work:
                try:
                    await self._run(request, feed)
                except Exception as error:  # noqa: BLE001 -- handed to the reader of events, who is its caller
                    feed.close(_bare(error))
                else:
                    feed.close()

        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(drive, name="sandbox command")
                try:
                    yield feed
                finally:
                    work.cancel()
        except BaseExceptionGroup as group:
            # `drive` raises nothing, so this is the one error of the body.
            if len(group.exceptions) != 1:
                raise
            raise group.exceptions[0] from group.exceptions[0].__cause__

    async def _run(self, request: SandboxRequest, feed: Feed) -> None:
        secrets = await self._resolve(request)
        scrubber = Scrubber(secrets.values())
        async with self.opens(request, secrets) as session:
            feed.put(Started(implementation=session.implementation))
            result = await self._result(request, session, feed, scrubber, secrets)
        # Only now: whoever sees the last event finds nothing of the command left.
        feed.put(Finished(result=result))

    async def _resolve(self, request: SandboxRequest) -> Mapping[str, Secret]:
        if self.secrets is None:
            return {}
        return {each.variable: await self.secrets.resolve(each.handle) for each in request.secrets}

    async def _result(
        self,
        request: SandboxRequest,
        session: Session,
        feed: Feed,
        scrubber: Scrubber,
        secrets: Mapping[str, Secret],
    ) -> SandboxResult:
        limit = request.limits.output_bytes
        captures: dict[StreamName, Capture] = {"stdout": Capture(limit), "stderr": Capture(limit)}
        started = trio.current_time()
        async with trio.open_nursery() as readers:
            streams: tuple[tuple[StreamName, trio.lowlevel.FdStream], ...] = (
                ("stdout", session.child.stdout),
                ("stderr", session.child.stderr),
            )
            for name, stream in streams:
                readers.start_soon(_drain, name, stream, captures[name], feed, Scrubber(secrets.values()))
            stopped: StopReason | None = "wall-clock"
            try:
                with trio.move_on_after(request.limits.wall_seconds):
                    stopped = await _first(session)
                wall = trio.current_time() - started
                usage = session.usage(wall)
            finally:
                with trio.CancelScope(shield=True, deadline=trio.current_time() + ENDING_SECONDS) as ending:
                    await session.end()
            if ending.cancelled_caught:
                raise SandboxUnavailable(
                    implementation=session.implementation.name, problem="the command could not be ended in time"
                )
            readers.cancel_scope.deadline = trio.current_time() + DRAIN_SECONDS
        ended_by_itself = stopped is None
        status, signal = await session.status() if ended_by_itself else (None, None)
        stopped = stopped or session.met()
        artifacts, refused = await self._collect(request, session, feed, scrubber)
        return SandboxResult(
            status=status,
            signal=signal,
            stopped=stopped,
            stdout=captures["stdout"].captured(),
            stderr=captures["stderr"].captured(),
            usage=usage,
            artifacts=artifacts,
            refused=refused,
            cleanup=session.cleanup,
            implementation=session.implementation,
        )

    async def _collect(
        self, request: SandboxRequest, session: Session, feed: Feed, scrubber: Scrubber
    ) -> tuple[tuple[Artifact, ...], tuple[ArtifactRefused, ...]]:
        if not request.artifacts or self.artifacts is None:
            return (), ()
        found, refused = await trio.to_thread.run_sync(collect, session.folder(), request.artifacts, request.limits)
        artifacts: list[Artifact] = []
        for each in found:
            if scrubber.finds(each.payload):
                refused.append(ArtifactRefused(path=each.path, reason="it holds the value of a secret"))
                continue
            handle = await self.artifacts.put(each.payload, tenant=request.tenant, content_type=BINARY)
            artifact = Artifact(path=each.path, handle=handle)
            artifacts.append(artifact)
            feed.put(ArtifactCollected(artifact=artifact))
        return tuple(artifacts), tuple(refused)


async def _first(session: Session) -> StopReason | None:
    """Wait for the command's end, which gives None, or for the limit that it meets before."""
    reasons: list[StopReason] = []
    async with trio.open_nursery() as nursery:

        async def watch() -> None:
            reasons.append(await session.overrun())
            nursery.cancel_scope.cancel()

        nursery.start_soon(watch)
        await session.child.ended()
        nursery.cancel_scope.cancel()
    return reasons[0] if reasons else None


async def _drain(
    name: StreamName, stream: trio.lowlevel.FdStream, capture: Capture, feed: Feed, scrubber: Scrubber
) -> None:
    while True:
        data = await read(stream)
        clean = scrubber.feed(data) if data else scrubber.rest()
        shown = capture.feed(clean)
        if shown:
            feed.put_output(name, shown)
        if not data:
            return


def _bare(error: BaseException) -> BaseException:
    """The one error in nested groups, where there is one."""
    bare = error
    while isinstance(bare, BaseExceptionGroup):
        inner = cast("BaseExceptionGroup[BaseException]", bare).exceptions
        if len(inner) != 1:
            return error
        bare = inner[0]
    return bare
