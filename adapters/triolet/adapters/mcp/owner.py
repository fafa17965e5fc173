"""The owner of a connection: the one task in which every session of it begins and ends.

Decides when another session is tried, how long it waits before that, and when it gives up until somebody asks again.
All others leave word: give me a session, this one is of no more use, close. It never raises what a connection does into
the nursery that it lives in. (F-033, F-035, F-036)
"""

from typing import Final

import trio

from triolet.adapters.mcp.errors import McpUnavailable
from triolet.adapters.mcp.session import Session, Terms, hold_session
from triolet.adapters.mcp.wire import WireLost

_HANDSHAKE_AND_LIST: Final = 2
"""Messages that come in every session before anybody is served."""
_MARGIN: Final = 8.0
"""Seconds beyond the polite end within which an owner has ended, or is cancelled."""


class Owner:
    """Sessions with one server, one after the other. `notices` counts what may have changed its catalogue."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._trouble: Exception | None = None
        self._round = 0
        self._changed = trio.Event()
        self._wanted = trio.Event()
        self._closing = False
        self._over = trio.Event()
        self._scope = trio.CancelScope()
        self._began = False
        self.session: Session | None = None
        self.notices = 0

    async def run(self, *, task_status: "trio.TaskStatus[None]") -> None:
        """Own sessions until `close`."""
        task_status.started()
        self._began = True
        try:
            with self._scope:
                await self._own()
        finally:
            self.session = None
            self._closing = True
            self._tell()
            self._over.set()

    async def first_session(self) -> None:
        """Wait until there was a session. Raises why the first attempt came to nothing."""
        while self.notices == 0:
            if self._trouble is not None:
                raise self._trouble
            await self._wait()

    async def get_session(self) -> Session:
        """A session that can be used, waiting for the attempts that are due. Raises `McpUnavailable`, and others."""
        seen = self._round
        if self._trouble is not None and not self._closing:
            seen += 1
            self._wanted.set()
        while True:
            if self._closing:
                raise McpUnavailable(source=self._terms.source, reason="closed", problem="the source is closed")
            if self.session is not None:
                return self.session
            if self._trouble is not None and self._round >= seen:
                raise self._trouble
            await self._wait()

    def retire(self, session: Session) -> None:
        """This session serves nobody any more, though its end may still be under way."""
        if self.session is session:
            self.session = None

    async def close(self) -> None:
        """End all of it, from any task. Returns when it has ended, within a bound."""
        self._closing = True
        self._wanted.set()
        if self.session is not None:
            self.session.leave.set()
        self._tell()
        if not self._began:
            return
        with trio.move_on_after(self._terms.times.close + _MARGIN):
            await self._over.wait()
            return
        self._scope.cancel()

    async def _own(self) -> None:
        failed = 0
        while not self._closing:
            answered = self._terms.diagnostics.messages
            before = self.notices
            try:
                lost = await hold_session(self._terms, self._noticed, self._opened)
            except Exception as error:  # noqa: BLE001 -- authority, secrets: told to whoever wants a session
                await self._give_up(error)
                failed = 0
                continue
            self.session = None
            if self._closing:
                return
            # A session that served somebody counts as one; one that only began to is another failed attempt.
            served = self.notices > before and self._terms.diagnostics.messages - answered > _HANDSHAKE_AND_LIST
            failed = 0 if served else failed + 1
            if failed >= self._terms.times.tries or self.notices == 0:
                await self._give_up(self._unavailable(lost))
                failed = 0
            elif failed:
                await trio.sleep(self._wait_after(failed))

    async def _give_up(self, error: Exception) -> None:
        """Tell what stands in the way, and wait until somebody wants a session all the same."""
        self._trouble = error
        self._tell()
        self._wanted = trio.Event()
        if not self._closing:
            await self._wanted.wait()
        self._round += 1
        self._trouble = None

    def _wait_after(self, failed: int) -> float:
        times = self._terms.times
        return float(min(times.first_wait * 2 ** (failed - 1), times.longest_wait))

    def _unavailable(self, lost: WireLost) -> McpUnavailable:
        return McpUnavailable(source=self._terms.source, reason=lost.reason, problem=lost.problem)

    def _opened(self, session: Session) -> None:
        self.session = session
        self.notices += 1
        self._tell()

    def _noticed(self, _: str) -> None:
        self.notices += 1

    def _tell(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def _wait(self) -> None:
        await self._changed.wait()
