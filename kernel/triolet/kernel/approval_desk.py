"""One run's requests at the host's desk: offered, waited for, withdrawn.

Decides how long a desk is waited for, and turns whatever it does into an observation. What an answer, silence or a
failure means is the machine's. It never answers by itself.
"""

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Final

import trio

from triolet.kernel.machine.observations import ApprovalAnswered, ApprovalSilent, Observation, SteeredWhileWaiting
from triolet.kernel.runtime import Runtime
from triolet.kernel.scopes import open_plain_nursery
from triolet.ports.approval import Approval, ApprovalRequest, Decision, Pending
from triolet.ports.identity import MICROSECONDS, RequestId

WITHDRAW_SECONDS: Final = 5.0
"""How long taking requests off the desk may take."""


EXPIRY_SLACK: Final = 0.001
"""Seconds by which a desk may give up early on a request and still count as having waited it out."""


class ApprovalDesk:
    """The desk as one run sees it. Without a bound desk nobody answers."""

    __slots__ = ("_clock", "_desk", "_given_up", "_lying", "_offered")

    def __init__(self, runtime: Runtime, left: Iterable[ApprovalRequest]) -> None:
        """`left` are the requests that an earlier attempt has left at the desk."""
        self._clock = runtime.clock
        self._desk: Approval | None = runtime.capabilities.approval
        self._offered: set[RequestId] = set()
        self._lying = {request.id for request in left}
        self._given_up: set[RequestId] = set()

    async def offer(self, requests: Iterable[ApprovalRequest]) -> list[Observation]:
        """Ask about each request once, without patience: a ready answer commits with its request (APPR-003)."""
        seen: list[Observation] = []
        for request in requests:
            if request.id in self._offered or self._desk is None:
                continue
            self._offered.add(request.id)
            self._lying.add(request.id)
            answer = await self._ask(self._desk, request, 0.0)
            if isinstance(answer, ApprovalAnswered):
                seen.append(answer)
        return seen

    async def wait(
        self, requests: Iterable[ApprovalRequest], steered: Callable[[], Awaitable[None]] | None
    ) -> Observation | None:
        """Wait for the next thing that happens to open requests; None if nobody in this process will answer them.

        `steered` returns when newer input has arrived, where that matters.
        """
        seen: list[Observation] = []
        async with open_plain_nursery() as watchers:

            async def watch(happening: Callable[[], Awaitable[Observation | None]]) -> None:
                observation = await happening()
                if observation is not None and not seen:
                    seen.append(observation)
                    watchers.cancel_scope.cancel()

            if steered is not None:
                watchers.start_soon(watch, partial(self._await_input, steered))
            async with open_plain_nursery() as askers:
                for request in requests:
                    if request.id not in self._given_up:
                        askers.start_soon(watch, partial(self._await_answer, request))
            # Everybody who was asked has given up: input alone answers nothing.
            watchers.cancel_scope.cancel()
        return seen[0] if seen else None

    def overdue(self, requests: Iterable[ApprovalRequest]) -> list[ApprovalRequest]:
        """The requests whose time is up: all that an attempt without patience waits for."""
        now = self._clock.now()
        return [each for each in requests if each.expires_at is not None and each.expires_at <= now]

    def give_up(self, request: ApprovalRequest) -> None:
        """Wait no more for this request: what was seen of it changed nothing."""
        self._given_up.add(request.id)

    async def withdraw(self, still_open: Iterable[ApprovalRequest]) -> None:
        """Take off the desk what lies there and is open no more. Shielded, bounded, and never a reason to fail."""
        if self._desk is None or not self._lying:
            return
        keep = {request.id for request in still_open}
        gone = [request for request in self._lying if request not in keep]
        if not gone:
            return
        with trio.move_on_after(WITHDRAW_SECONDS, shield=True):
            for request in gone:
                self._lying.discard(request)
                try:
                    await self._desk.withdraw(request)
                except Exception:  # noqa: BLE001 -- the desk's failure, and the run does not need the desk for this
                    # The request is settled on record; a desk that keeps showing it can do no harm.
                    continue

    async def _await_answer(self, request: ApprovalRequest) -> Observation | None:
        if self._desk is None:
            self._given_up.add(request.id)
            return None
        # Trio's clock measures the wait: a wall clock that is slewed meanwhile must not turn an expiry into a shrug.
        patience = self._patience(request)
        over = trio.current_time() + patience - EXPIRY_SLACK
        answer = await self._ask(self._desk, request, patience)
        if answer is not None:
            return answer
        if trio.current_time() >= over:
            at = max(self._clock.now(), request.expires_at or self._clock.now())
            return ApprovalSilent(call=request.call, why="expired", at=at)
        self._given_up.add(request.id)
        return None

    async def _await_input(self, steered: Callable[[], Awaitable[None]]) -> Observation | None:
        await steered()
        return SteeredWhileWaiting(at=self._clock.now())

    async def _ask(self, desk: Approval, request: ApprovalRequest, patience: float) -> Observation | None:
        try:
            # A desk that overstays the patience it was given must not outlast the request.
            with trio.move_on_after(patience if patience > 0 else WITHDRAW_SECONDS):
                answer: Decision | Pending = await desk.request(request, patience=patience)
                if isinstance(answer, Decision):
                    return ApprovalAnswered(call=request.call, decision=answer, at=self._clock.now())
        except Exception:  # noqa: BLE001 -- whatever a desk raises is its failure, and silence says what follows
            return ApprovalSilent(call=request.call, why="unavailable", at=self._clock.now())
        return None

    def _patience(self, request: ApprovalRequest) -> float:
        if request.expires_at is None:
            return float("inf")
        # After a resume its time may be long up: the desk is asked once more what is known, and silence expires it.
        return max(0, request.expires_at - self._clock.now()) / MICROSECONDS
