"""HeldDesk: a desk whose every answer a test gives by hand.

Decides nothing: it notes what it is asked, keeps whoever asks waiting on Trio's clock, and passes on what it is told.
"""

from typing import Final

import trio

from triolet.adapters.approval_desks.board import Board, NotOnTheDesk
from triolet.ports.approval import AlreadyAnswered, ApprovalRequest, Decision, GrantTerms, Pending
from triolet.ports.identity import Principal, RequestId
from triolet.ports.strict_json import JsonText

TESTER: Final = Principal(name="tester")


class HeldDesk:
    """A desk for tests.

    `requests` are all distinct requests in the order in which they came; a repetition is none. `asked` counts every
    call of `request`. `withdrawn` are the ids of every call of `withdraw`, in order.

    Lifetime: a plain value. Emits: nothing. Cancellation: as the port says; a cancelled `request` leaves its request.
    """

    def __init__(self) -> None:
        self.requests: list[ApprovalRequest] = []
        self.asked = 0
        self.withdrawn: list[RequestId] = []
        self._board = Board("held")
        self._prepared: dict[RequestId, Decision] = {}
        self._came = trio.Event()

    @property
    def open(self) -> tuple[ApprovalRequest, ...]:
        """What lies on the desk without an answer, oldest first."""
        return tuple(slip.request for slip in self._board.open)

    async def request(self, request: ApprovalRequest, *, patience: float) -> Decision | Pending:
        """See `Approval.request`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        self.asked += 1
        if request not in self.requests:
            self.requests.append(request)
        came, self._came = self._came, trio.Event()
        came.set()
        prepared = self._prepared.get(request.id)
        if prepared is not None:
            await self._board.answer_to(request, 0)
            del self._prepared[request.id]
            self._board.answer(request.id, prepared)
        return await self._board.answer_to(request, patience)

    async def withdraw(self, request: RequestId) -> None:
        """See `Approval.withdraw`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        self.withdrawn.append(request)
        self._board.remove(request)

    async def arrived(self, count: int) -> None:
        """Wait until there are at least `count` distinct requests in `requests`."""
        while len(self.requests) < count:
            await self._came.wait()

    def answer(self, request: RequestId, decision: Decision) -> None:
        """Answer a request, also before it comes. Raises `AlreadyAnswered` if it has another answer."""
        try:
            self._board.answer(request, decision)
        except NotOnTheDesk:
            if self._prepared.setdefault(request, decision) != decision:
                raise AlreadyAnswered(request=request) from None

    def approve(
        self,
        request: ApprovalRequest,
        *,
        by: Principal = TESTER,
        reason: str = "",
        edited: JsonText | None = None,
        grant: GrantTerms | None = None,
    ) -> None:
        """Say yes to exactly what this request shows."""
        decision = Decision(
            verdict="approved", by=by, reason=reason, arguments=request.arguments, edited=edited, grant=grant
        )
        self.answer(request.id, decision)

    def deny(self, request: ApprovalRequest, *, by: Principal = TESTER, reason: str = "") -> None:
        """Say no to exactly what this request shows."""
        self.answer(request.id, Decision(verdict="denied", by=by, reason=reason, arguments=request.arguments))

    def fail(self, problem: str) -> None:
        """From now on, until `recover`, whoever waits or asks hears `ApprovalUnavailable`, unless it is answered."""
        self._board.break_down(problem)

    def recover(self) -> None:
        """The desk can be reached again. What lay on it still does."""
        self._board.repair()
