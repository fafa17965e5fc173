"""Makers for the ledgers that this project ships.

Decides nothing. ``triolet certify triolet.spec_tests.ledger_makers:memory_ledger --port ledger`` uses one.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio

from triolet.adapters.memory import MemoryLedger
from triolet.ports.identity import Instant
from triolet.ports.ledger import Ledger
from triolet.spec_tests.cases.ledger import LedgerSubject


class LeverClock:
    """A clock that stands still until somebody moves it."""

    def __init__(self) -> None:
        self._now = 1_700_000_000_000_000

    def now(self) -> Instant:
        """Where it stands."""
        return Instant(self._now)

    async def advance(self, seconds: float) -> None:
        """Move it on."""
        await trio.lowlevel.checkpoint_if_cancelled()
        self._now += int(seconds * 1_000_000)


@asynccontextmanager
async def memory_ledger() -> AsyncGenerator[LedgerSubject]:
    """The memory Ledger. Reopening goes through its saved bytes."""
    clock = LeverClock()
    ledger = MemoryLedger(clock)

    @asynccontextmanager
    async def reopen() -> AsyncGenerator[Ledger]:
        yield MemoryLedger.load(ledger.save(), clock)

    posture = {"durability": "this process's memory"}
    yield LedgerSubject(port=ledger, reopen=reopen, advance=clock.advance, posture=posture)
