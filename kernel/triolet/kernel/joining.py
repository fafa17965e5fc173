"""Joining: how waiting input gets from the queue into one run, and out of the queue once it is on record.

Decides when the queue is told what: claimed before it is decided on, joined after it is on record, put back when the
run ends without it (DUR-016). When input may enter is the plan's.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import trio

from triolet.kernel.machine.plan import Intake
from triolet.ports.admission import Admitted, InputQueue
from triolet.ports.conversation_store import Address
from triolet.ports.identity import InputId

TELL_SECONDS: Final = 5.0
"""How long telling the queue about what is on record may take."""
DRAIN: Final = 100
"""Inputs that enter at one seam at most; the others wait for the next."""


class InputJoining:
    """One run's side of the queue. Without a bound queue nothing ever waits."""

    def __init__(self, queue: InputQueue | None, address: Address) -> None:
        self._queue = queue
        self._address = address
        self._claimed: set[InputId] = set()
        self._unsure = False
        self._arrived = trio.Event()
        self._coming = 0

    @property
    def bound(self) -> bool:
        """Whether there is a queue."""
        return self._queue is not None

    @contextmanager
    def coming(self) -> Generator[None]:
        """Somebody in this process is offering input: the run does not stop over it."""
        self._coming += 1
        try:
            yield
        finally:
            self._coming -= 1
            self._arrived.set()

    async def claim(self, intakes: tuple[Intake, ...]) -> tuple[Admitted, ...]:
        """Claim what waits of the first kind that has anything."""
        if self._queue is None:
            return ()
        for intake in intakes:
            limit = 1 if intake.drain == "one" else DRAIN
            # Cancelled in between, the queue may or may not have given something out.
            self._unsure = True
            claimed = await self._queue.claim_joining(self._address, intake.kind, limit)
            self._unsure = False
            self._claimed.update(admitted.offer.id for admitted in claimed)
            if claimed:
                return claimed
        return ()

    async def claim_before_stopping(self, intakes: tuple[Intake, ...]) -> tuple[Admitted, ...]:
        """As `claim`, for a run that would stop: what is being offered meanwhile gets its chance, within bounds."""
        with trio.move_on_after(TELL_SECONDS):
            while intakes:
                self._arrived = trio.Event()
                claimed = await self.claim(intakes)
                if claimed:
                    return claimed
                if self._coming:
                    await self._arrived.wait()
                elif not self._arrived.is_set():
                    break
        return ()

    async def steering_waits(self) -> bool:
        """Whether steering waits in the queue."""
        return bool(await self.claim((Intake(kind="steering", drain="one"),)))

    async def steering_arrived(self) -> None:
        """Return once steering waits in the queue."""
        while True:
            self._arrived = trio.Event()
            if await self.steering_waits():
                return
            await self._arrived.wait()

    async def joined(self, inputs: tuple[InputId, ...]) -> None:
        """These are on record: the queue must not give them out again. Shielded, so that cancelling cannot split it."""
        if self._queue is None or not inputs:
            return
        with trio.move_on_after(TELL_SECONDS, shield=True):
            await self._queue.mark_joined(self._address, inputs)
            self._claimed.difference_update(inputs)

    async def put_back(self) -> None:
        """Put back what was claimed and did not enter. Shielded and bounded."""
        if self._queue is None or not (self._claimed or self._unsure):
            return
        with trio.move_on_after(TELL_SECONDS, shield=True):
            await self._queue.revert(self._address)
            self._claimed.clear()
            self._unsure = False
