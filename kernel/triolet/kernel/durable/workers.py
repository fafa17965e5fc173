"""Workers: the tasks of one process that claim accepted work and see it through attempt by attempt.

Decides how many claims this process holds, how long it waits for more, and what becomes of a claim after its attempt: a
wait, a retry with backoff, an operator's business, or nothing where somebody else owns it by now. It settles nothing by
itself, and loses nothing by being stopped. (DUR-003, DUR-014, APPR-004, RUN-007)
"""

from contextlib import suppress
from math import inf
from typing import Final
from zlib import crc32

import attrs
import trio

from triolet.kernel.durable.attempt import Attempt, Observe, Waits
from triolet.kernel.durable.first_request import InputUnfit
from triolet.kernel.durable.holding import Holding
from triolet.kernel.durable.verbs import DurableVerbs
from triolet.kernel.runtime import DefinitionChanged, Runtime, UnknownAgent, UnpricedModel
from triolet.kernel.scopes import open_plain_nursery
from triolet.ports.conversation_store import Writer
from triolet.ports.errors import Corrupt, Fenced, Misuse, TrioletError, Unavailable, bounded
from triolet.ports.identity import MICROSECONDS, SubmissionId, after
from triolet.ports.ledger import Abort, Claim, Idle, OperatorWait, Retry, Trouble
from triolet.ports.wakeups import WORK, Watch

SHORTEST_WAIT: Final = 0.01
"""Seconds that pass between two looks without a wake-up: a ledger's clock may be a little ahead of this process's."""
GIVE_BACK_SECONDS: Final = 5.0
"""How long giving a claim back may take. If that fails, its lease runs out."""


@attrs.define(kw_only=True)
class InvalidWorkers(Misuse):
    """Workers whose numbers make no sense. Nothing was started."""

    problem: str

    @property
    def message(self) -> str:
        """Which number."""
        return f"workers: {self.problem}"


@attrs.frozen(kw_only=True, weakref_slot=False)
class WorkerPolicy:
    """How a process works.

    `concurrency` (1 to 10,000) is how many claims it holds at once. `lease_seconds` (1 to 3,600) is how long a claim
    outlives a process that went silent; it is renewed after a third of that. `attempts` (1 to 1,000) is how often work
    that makes no progress is claimed before it becomes an operator's business (DUR-014); the wait before the next one
    starts at `retry_seconds` and doubles up to `most_retry_seconds`, less up to a half that spreads the retries.
    `drain_seconds` is how long attempts under way may go on once the scope is left; what has not ended by then is given
    back, and goes on elsewhere.
    """

    concurrency: int = 16
    lease_seconds: float = 30.0
    attempts: int = 8
    retry_seconds: float = 1.0
    most_retry_seconds: float = 300.0
    drain_seconds: float = 30.0

    def __attrs_post_init__(self) -> None:
        checks = (
            ("concurrency", type(self.concurrency) is int and 1 <= self.concurrency <= 10_000),
            ("lease_seconds", 1 <= self.lease_seconds <= 3_600),
            ("attempts", type(self.attempts) is int and 1 <= self.attempts <= 1_000),
            ("retry_seconds", 0 <= self.retry_seconds <= self.most_retry_seconds),
            ("most_retry_seconds", self.most_retry_seconds <= 86_400),
            ("drain_seconds", 0 <= self.drain_seconds < inf),
        )
        for name, fine in checks:
            if not fine:
                raise InvalidWorkers(problem=f"{name} is out of its bounds")


DEFAULT_WORKERS: Final = WorkerPolicy()


class Workers:
    """The workers of one scope. Leaving it drains them."""

    def __init__(
        self, runtime: Runtime, verbs: DurableVerbs, name: str, policy: WorkerPolicy, observe: Observe | None
    ) -> None:
        self.name = name
        """Who claims; it stands in the records of the attempts."""
        self._runtime = runtime
        self._verbs = verbs
        self._policy = policy
        self._observe = observe
        self._agents = frozenset(runtime.agents)
        self._slots = trio.Semaphore(policy.concurrency)
        self._active: set[SubmissionId] = set()
        self._draining = False
        self._claiming = trio.CancelScope()

    @property
    def active(self) -> frozenset[SubmissionId]:
        """The submissions that attempts of these workers are at."""
        return frozenset(self._active)

    def drain(self) -> None:
        """Claim nothing more. What is under way goes on. Idempotent."""
        self._draining = True
        self._claiming.cancel()

    async def serve(self) -> None:
        """Claim and work until drained; then return once the last attempt has ended."""
        async with open_plain_nursery() as nursery:
            with self._claiming:
                async with self._verbs.ledger.watch(WORK) as watch:
                    await self._claim(nursery, watch)

    async def _claim(self, nursery: trio.Nursery, watch: Watch) -> None:
        failures = 0
        while not self._draining:
            await self._slots.acquire()
            try:
                claimed = await self._verbs.claim(self.name, self._agents, self._policy.lease_seconds)
                failures = 0
            except BaseException as error:
                self._slots.release()
                if not isinstance(error, Unavailable | Fenced):
                    raise
                failures += 1
                await trio.sleep(self._backoff(self.name, failures))
                continue
            if isinstance(claimed, Idle):
                self._slots.release()
                with trio.move_on_after(self._patience(claimed)):
                    await watch.wait()
                continue
            nursery.start_soon(self._work, *claimed)

    def _patience(self, idle: Idle) -> float:
        scan = self._verbs.ledger.scan_seconds
        due = inf if idle.next_at is None else max(0.0, (idle.next_at - self._runtime.clock.now()) / MICROSECONDS)
        return max(SHORTEST_WAIT, min(due, inf if scan is None else scan))

    async def _work(self, claim: Claim, writer: Writer | None) -> None:
        submission = claim.submission.id
        holding = Holding(self._verbs, claim, self._policy.lease_seconds)
        self._active.add(submission)
        try:
            # A claim that is over is somebody else's: nothing more is written for it, here or in giving it back.
            with suppress(Fenced):
                await self._attempt(holding, writer)
        except trio.Cancelled:
            with trio.move_on_after(GIVE_BACK_SECONDS, shield=True), suppress(Fenced, Unavailable):
                await self._verbs.release(holding.claim, not_before=None, failed=False)
            raise
        finally:
            self._active.discard(submission)
            self._slots.release()

    async def _attempt(self, holding: Holding, writer: Writer | None) -> None:
        claim = holding.claim
        if writer is None:
            await self._hand_over(holding, "corrupt-log", "the conversation's log is gone")
            return
        attempt = Attempt(self._runtime, self._verbs, holding, writer, self._observe)
        if claim.attempts > self._policy.attempts and holding.abort is None:
            detail = f"{claim.attempts - 1} attempts made no progress"
            await self._hand_over(holding, "retries-exhausted", detail)
            return
        waits: Waits | None = None
        try:
            async with open_plain_nursery() as nursery:
                nursery.start_soon(holding.keep)
                waits = await attempt.run()
                nursery.cancel_scope.cancel()
        except Fenced:
            raise
        except Exception as error:  # noqa: BLE001 -- whatever broke, the work is accepted: it is tried again or shown
            await self._failed(holding, error)
            return
        if waits is not None:
            await self._suspend(holding, attempt.dealt_with, waits)

    async def _suspend(self, holding: Holding, dealt_with: tuple[str, ...], waits: Waits) -> None:
        # Left untaken, they would end the wait at once.
        if dealt_with:
            await self._verbs.take(holding.claim, dealt_with)
        await self._verbs.suspend(holding.claim, waits.waits, waits.until)

    async def _failed(self, holding: Holding, error: Exception) -> None:
        trouble = _trouble_of(error)
        # An abort is not given up: it is tried again for as long as the log can be read.
        if trouble is not None and (holding.abort is None or trouble == "corrupt-log"):
            await self._hand_over(holding, trouble, _told(error))
            return
        wait = self._backoff(holding.claim.submission.id, holding.claim.attempts)
        await self._verbs.release(holding.claim, not_before=after(self._runtime.clock.now(), wait), failed=True)

    async def _hand_over(self, holding: Holding, trouble: Trouble, detail: str) -> None:
        # An answer or a resolution keeps until somebody can go on. What asked for this very attempt is dealt with, and
        # so is an abort that could not even be recorded.
        dealt_with = (Retry, Abort) if trouble == "corrupt-log" else (Retry,)
        told = tuple(command.key for command in holding.claim.commands if isinstance(command.act, dealt_with))
        waits = Waits(waits=(OperatorWait(trouble=trouble, detail=detail),), until=None)
        await self._suspend(holding, told, waits)

    def _backoff(self, what: str, failures: int) -> float:
        doubled: float = self._policy.retry_seconds * 2 ** min(failures - 1, 30)
        # Spread so that what failed together does not come back together, and the same whenever it is asked.
        return min(self._policy.most_retry_seconds, doubled) * (1 - crc32(f"{what} {failures}".encode()) / 2**33)


def _trouble_of(error: Exception) -> Trouble | None:
    match error:
        case Corrupt():
            return "corrupt-log"
        case DefinitionChanged():
            return "definition-changed"
        case UnknownAgent():
            return "unknown-agent"
        case InputUnfit() | UnpricedModel():
            return "invalid-input"
        case _:
            return None


def _told(error: Exception) -> str:
    # Only errors of this project are known to hold nobody's text.
    return bounded(error.message) if isinstance(error, TrioletError) else type(error).__name__
