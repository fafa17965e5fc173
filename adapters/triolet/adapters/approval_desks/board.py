"""The board behind a desk: which requests lie there, which are answered, and who waits for them.

Decides what "again" means: a request that lies there already is the same one, an answered request gives its answer, and
one about other arguments takes the place of the earlier. It asks nobody and answers nothing by itself. (APPR-001)
"""

from collections.abc import Callable
from typing import Final

import attrs
import trio

from triolet.ports.approval import (
    PENDING,
    AlreadyAnswered,
    ApprovalRequest,
    ApprovalUnavailable,
    Decision,
    Pending,
)
from triolet.ports.errors import Misuse
from triolet.ports.identity import RequestId

OPEN_REQUESTS: Final = 1_000
"""How many requests may lie on a desk without an answer."""
KNOWN_ANSWERS: Final = 1_000
"""How many answers a desk gives again; the oldest are forgotten first, and would be asked for anew."""


@attrs.define(kw_only=True)
class NotOnTheDesk(Misuse):
    """An answer to a request that is not there: never made, withdrawn, or answered long ago."""

    request: RequestId

    @property
    def message(self) -> str:
        """Which request."""
        return f"request {self.request} is not on the desk"


class Slip:
    """One request on the board."""

    __slots__ = ("decision", "gone", "moved", "request")

    def __init__(self, request: ApprovalRequest) -> None:
        self.request = request
        self.decision: Decision | None = None
        self.gone = False
        """Nobody will answer it here any more: withdrawn, replaced or expired."""
        self.moved = trio.Event()
        """Set when one of these changed."""


class Board:
    """Requests and answers. `changed` is called after each change, in whichever task made it."""

    def __init__(self, desk: str, *, changed: Callable[[], None] | None = None) -> None:
        self._desk = desk
        self._changed = changed
        self._open: dict[RequestId, Slip] = {}
        self._answered: dict[RequestId, Slip] = {}
        self._problem: str | None = None

    @property
    def open(self) -> tuple[Slip, ...]:
        """What has no answer yet, oldest first."""
        return tuple(self._open.values())

    async def answer_to(self, request: ApprovalRequest, patience: float) -> Decision | Pending:
        """The answer, once there is one, or Pending after `patience` seconds or when nobody will answer here.

        Raises `ApprovalUnavailable` while the board is out of order, or if there are too many open requests.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        slip = self._lay(request)
        if slip.decision is None:
            self._check()
        with trio.move_on_after(patience):
            while slip.decision is None and not slip.gone:
                self._check()
                await slip.moved.wait()
        return slip.decision or PENDING

    def answer(self, request: RequestId, decision: Decision) -> None:
        """Put an answer to an open request. Raises `AlreadyAnswered` or `NotOnTheDesk`."""
        known = self._answered.get(request)
        if known is not None:
            if known.decision != decision:
                raise AlreadyAnswered(request=request)
            return
        if request not in self._open:
            raise NotOnTheDesk(request=request)
        slip = self._open.pop(request)
        slip.decision = decision
        self._answered[request] = slip
        if len(self._answered) > KNOWN_ANSWERS:
            del self._answered[next(iter(self._answered))]
        self._tell(slip)

    def remove(self, request: RequestId) -> bool:
        """Take a request off the board with its answer, if it has one. False if it was not there."""
        slip = self._open.pop(request, None)
        if slip is None:
            return self._answered.pop(request, None) is not None
        slip.gone = True
        self._tell(slip)
        return True

    def lapse(self, slip: Slip) -> None:
        """Nobody will answer this request here, though it stays: whoever asks for it hears Pending at once."""
        slip.gone = True
        self._tell(slip)

    def break_down(self, problem: str) -> None:
        """From now on, until `repair`, whoever waits or asks for what has no answer hears `ApprovalUnavailable`."""
        self._problem = problem
        for slip in self.open:
            self._tell(slip)

    def repair(self) -> None:
        """The board works again. What lay there still does."""
        self._problem = None
        for slip in self.open:
            # Where nobody was told of a break-down, somebody may be waiting for this very event.
            if not slip.gone and slip.moved.is_set():
                slip.moved = trio.Event()

    def _renew(self, slip: Slip) -> None:
        """The same request with another expiry: if it had lapsed, it is asked again."""
        if slip.gone:
            slip.gone = False
            slip.moved = trio.Event()
        if self._changed is not None:
            self._changed()

    def _lay(self, request: ApprovalRequest) -> Slip:
        slip = self._answered.get(request.id) or self._open.get(request.id)
        if slip is not None and slip.request.arguments == request.arguments:
            if slip.decision is None and slip.request != request:
                slip.request = request
                self._renew(slip)
            return slip
        self._check()
        if slip is None and len(self._open) >= OPEN_REQUESTS:
            raise ApprovalUnavailable(desk=self._desk, problem=f"{OPEN_REQUESTS} requests wait for an answer already")
        self.remove(request.id)
        slip = self._open[request.id] = Slip(request)
        if self._changed is not None:
            self._changed()
        return slip

    def _check(self) -> None:
        if self._problem is not None:
            raise ApprovalUnavailable(desk=self._desk, problem=self._problem)

    def _tell(self, slip: Slip) -> None:
        slip.moved.set()
        if self._changed is not None:
            self._changed()
