"""MemoryInbox: answers that wait in this process for whoever resumes their run.

Decides how many are kept. It refuses what another inbox could not keep, and checks nothing else of an answer: whether
it counts is the machine's part. (APPR-005)
"""

from typing import Final

import attrs
import trio

from triolet.ports.approval import AlreadyAnswered, Decision
from triolet.ports.errors import Misuse, Unavailable
from triolet.ports.identity import RequestId
from triolet.ports.schema import codec_for
from triolet.ports.text import require_clean

KEPT_ANSWERS: Final = 10_000


@attrs.define(kw_only=True)
class InboxFull(Unavailable):
    """The inbox holds as many answers as it may. This one was not kept; taking up suspended runs makes room."""

    limit: int

    @property
    def message(self) -> str:
        """The bound."""
        return f"{self.limit} answers are already kept"


@attrs.define(kw_only=True)
class InvalidBound(Misuse):
    """A bound that would leave no room at all."""

    name: str
    value: int

    @property
    def message(self) -> str:
        """Which bound."""
        return f"{self.name} is at least 1, not {self.value}"


class MemoryInbox:
    """Answers in this process's memory, at most `limit` (10,000) of them.

    Lifetime: a plain value, nothing to open or close. One value serves many tasks of one Trio run, and no second
    thread. Emits: nothing. Cancellation, for every verb: before any effect or not at all.
    """

    __slots__ = ("_answers", "_limit")

    def __init__(self, *, limit: int = KEPT_ANSWERS) -> None:
        if limit < 1:
            raise InvalidBound(name="limit", value=limit)
        self._limit = limit
        self._answers: dict[RequestId, Decision] = {}

    async def post(self, request: RequestId, decision: Decision) -> None:
        """See `Inbox.post`. Raises `InboxFull`, and `InvalidValue` or `BrokenText` for what no store could keep."""
        await trio.lowlevel.checkpoint_if_cancelled()
        require_clean(request, "request")
        codec_for(Decision).encode(decision)
        known = self._answers.get(request)
        if known is not None:
            if known != decision:
                raise AlreadyAnswered(request=request)
            return
        if len(self._answers) >= self._limit:
            raise InboxFull(limit=self._limit)
        self._answers[request] = decision

    async def take(self, requests: tuple[RequestId, ...]) -> dict[RequestId, Decision]:
        """See `Inbox.take`. In the order of `requests`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        return {request: self._answers[request] for request in requests if request in self._answers}

    @trio.lowlevel.enable_ki_protection
    async def discard(self, requests: tuple[RequestId, ...]) -> None:
        """See `Inbox.discard`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        for request in requests:
            self._answers.pop(request, None)
