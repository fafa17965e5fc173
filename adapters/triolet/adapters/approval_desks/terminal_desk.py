"""The terminal desk: a person answers at a terminal, one request after the other.

Decides when a request is shown and what ends showing it: an answer, its expiry, or its withdrawal. Silence is never a
yes, and nothing that was typed before a request was shown can answer it. It needs the `cli` extra and POSIX.
(APPR-001, APPR-002)
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import trio

from triolet.adapters.approval_desks.board import Board, Slip
from triolet.adapters.approval_desks.question import (
    PROMPT,
    REASON_PROMPT,
    answer_from,
    reason_from,
    show_choices,
    show_question,
)
from triolet.adapters.approval_desks.terminal import NoTerminal, Terminal, open_terminal
from triolet.adapters.clocks import SystemClock
from triolet.ports.approval import ApprovalRequest, ApprovalUnavailable, Decision, GrantTerms, Pending
from triolet.ports.identity import MICROSECONDS, Principal, RequestId
from triolet.ports.sources import Clock

DESK: Final = "terminal"
SYSTEM_CLOCK: Final = SystemClock()
AGAIN: Final = GrantTerms(scope="conversation")
"""What ``a`` gives: the same tool with exactly these arguments, for the rest of the conversation."""

CLOCKS_APART: Final = 2.0
"""Seconds. If the wall clock was set back by more while a request was shown, it is shown again."""
SURELY_LATER: Final = 0.01


@asynccontextmanager
async def open_terminal_desk(
    *, person: str = "terminal", terminal: int = 0, clock: Clock = SYSTEM_CLOCK
) -> AsyncGenerator["TerminalDesk"]:
    """A desk at the terminal that the descriptor `terminal` (standard input) is open on.

    Questions are shown on that same terminal, wherever the program's output goes. `person` answers, in the tenant of
    whoever asks. `clock` must be the kernel's: it says when a request has expired. Raises `ApprovalUnavailable` if
    there is no terminal. On leaving, what is still open stays unanswered.
    """
    try:
        with open_terminal(terminal) as opened:
            desk = TerminalDesk(opened, person, clock)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(desk.serve)
                try:
                    yield desk
                finally:
                    nursery.cancel_scope.cancel()
    except NoTerminal as error:
        raise ApprovalUnavailable(desk=DESK, problem=str(error)) from error
    except BaseExceptionGroup as group:
        # `serve` raises nothing but its cancellation; so one exception is what the body raised.
        first, *others = group.exceptions
        if others:
            raise
        raise first from first.__cause__


class TerminalDesk:
    """A person at a terminal. Made by `open_terminal_desk`.

    Requests are shown one at a time, in the order in which they came, whether or not anybody waits for them: with
    patience 0 the answer is there when the same request is made again. One that expires behind others is never
    shown, and whoever waits for it waits out its patience. When the person ends the input (Ctrl-D), every open and
    every later request is Pending at once. When the terminal is gone, it is `ApprovalUnavailable`.

    Emits: nothing. Cancellation: as the port says.
    """

    def __init__(self, terminal: Terminal, person: str, clock: Clock) -> None:
        self._terminal = terminal
        self._person = person
        self._clock = clock
        self._board = Board(DESK, changed=self._look)
        self._work = trio.Event()
        self._shown: tuple[Slip, trio.CancelScope] | None = None
        self._left = False

    async def request(self, request: ApprovalRequest, *, patience: float) -> Decision | Pending:
        """See `Approval.request`."""
        if self._left or self._left_of(request) <= 0:
            patience = 0
        return await self._board.answer_to(request, patience)

    async def withdraw(self, request: RequestId) -> None:
        """See `Approval.withdraw`. The question disappears, even while it is being answered."""
        await trio.lowlevel.checkpoint_if_cancelled()
        self._board.remove(request)

    async def serve(self) -> None:
        """Show requests until the person leaves or the terminal is gone. Run once, by `open_terminal_desk`."""
        try:
            while not self._left:
                slip = next((slip for slip in self._board.open if not slip.gone), None)
                if slip is None:
                    self._work = trio.Event()
                    await self._work.wait()
                else:
                    await self._ask(slip)
        except NoTerminal as error:
            self._board.break_down(str(error))

    async def _ask(self, slip: Slip) -> None:
        request = slip.request
        seconds = self._left_of(request)
        if seconds <= 0:
            self._board.lapse(slip)
            return
        decision: Decision | None = None
        with trio.move_on_after(seconds) as scope:
            self._shown = (slip, scope)
            try:
                decision = await self._converse(request)
                self._left = decision is None
            finally:
                self._shown = None
        if self._left:
            self._leave()
        elif slip.gone:
            # Also where an answer came in the same moment: nobody asks for it any more.
            await self._say("gone", "withdrawn; nothing was decided here")
        elif decision is not None:
            self._board.answer(request.id, decision)
        elif slip.request is request:
            seconds = self._left_of(request)
            if 0 < seconds < CLOCKS_APART:
                # The wall clock and Trio's run apart a little, and whoever waits goes by the former.
                await trio.sleep(seconds + SURELY_LATER)
            if self._left_of(request) <= 0:
                self._board.lapse(slip)
                await self._say("expired", "nobody has answered; nothing was allowed")

    async def _converse(self, request: ApprovalRequest) -> Decision | None:
        """The person's answer to exactly this request; None if the person has left."""
        sheet = self._terminal.sheet()
        waiting = sum(not slip.gone for slip in self._board.open) - 1
        show_question(sheet.page, request, self._clock.now(), waiting)
        # First shown, then listened to: what was typed before is no answer to it.
        await self._terminal.write(sheet.text + PROMPT)
        self._terminal.forget_typed()
        while True:
            line = await self._terminal.line()
            answer = None if line is None else answer_from(line)
            if line is None:
                return None
            if answer is None:
                sheet = self._terminal.sheet()
                show_choices(sheet.page)
                await self._terminal.write(sheet.text + PROMPT)
                continue
            reason = ""
            if answer == "reason":
                await self._terminal.write(REASON_PROMPT)
                said = await self._terminal.line()
                if said is None:
                    return None
                reason = reason_from(said)
            return Decision(
                verdict="approved" if answer in ("yes", "again") else "denied",
                by=Principal(name=self._person, tenant=request.principal.tenant),
                reason=reason,
                arguments=request.arguments,
                grant=AGAIN if answer == "again" else None,
            )

    def _left_of(self, request: ApprovalRequest) -> float:
        """Seconds until the request expires."""
        if request.expires_at is None:
            return float("inf")
        return (request.expires_at - self._clock.now()) / MICROSECONDS

    def _leave(self) -> None:
        for slip in self._board.open:
            self._board.lapse(slip)

    def _look(self) -> None:
        """The board has changed."""
        self._work.set()
        if self._shown is not None:
            slip, scope = self._shown
            if slip.gone:
                scope.cancel()

    async def _say(self, label: str, text: str) -> None:
        sheet = self._terminal.sheet()
        sheet.page.blank()
        sheet.page.row(None, label, (text, ""))
        await self._terminal.write(sheet.text)
