"""Joining: how waiting input gets from the queue into one run, and out of the queue once it is on record.

Decides when the queue is told what: claimed before it is decided on, joined after it is on record, put back when the
run ends without it. A queue that could not be told gives the input out again; what the log holds already does not enter
a second time, and the queue is told again (DUR-016). When input may enter is the plan's.
"""

from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Final

import trio

from triolet.kernel.journal import Journal
from triolet.kernel.machine.plan import Intake
from triolet.ports.admission import Admitted, Joining
from triolet.ports.errors import Unavailable
from triolet.ports.identity import InputId

TELL_SECONDS: Final = 5.0
"""How long telling the queue about what is on record may take."""
DRAIN: Final = 100
"""Inputs that enter at one seam at most; the others wait for the next."""


class InputJoining:
    """One run's side of the queue. Without a bound queue nothing ever waits."""

    __slots__ = ("_address", "_arrived", "_claimed", "_coming", "_journal", "_queue", "_unsure")

    def __init__(self, queue: Joining | None, journal: Journal) -> None:
        self._queue = queue
        self._journal = journal
        self._address = journal.address
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
            claimed = await self._claim_new(self._queue, intake)
            if claimed:
                return claimed
        return ()

    async def _claim_new(self, queue: Joining, intake: Intake) -> tuple[Admitted, ...]:
        limit = 1 if intake.drain == "one" else DRAIN
        told: set[InputId] = set()
        while True:
            # Cancelled in between, the queue may or may not have given something out.
            self._unsure = True
            claimed = await queue.claim_joining(self._address, intake.kind, limit)
            self._unsure = False
            self._claimed.update(admitted.offer.id for admitted in claimed)
            taken = self._journal.state.taken
            known = {each.offer.id for each in claimed if (each.offer.id, each.offer.offered_at) in taken}
            if not known <= told:
                # The log is the authority (DUR-016), and until the queue has heard what it holds nothing else enters.
                with trio.move_on_after(TELL_SECONDS) as patience:
                    await queue.mark_joined(self._address, tuple(known))
                    self._claimed -= known
                if patience.cancelled_caught:
                    return ()
            new = tuple(each for each in claimed if each.offer.id not in known)
            if new or known <= told:
                return new
            told |= known

    async def claim_before_stopping(self, intakes: tuple[Intake, ...]) -> tuple[Admitted, ...]:
        """As `claim`, for a run that would stop: what is being offered meanwhile gets its chance, within bounds."""
        if self._queue is None or not intakes:
            return ()
        arrived = self._arrived = trio.Event()
        claimed = await self.claim(intakes)
        if claimed or not (self._coming or arrived.is_set()):
            return claimed
        with trio.move_on_after(TELL_SECONDS):
            while not claimed and (self._coming or arrived.is_set()):
                if self._coming:
                    await arrived.wait()
                arrived = self._arrived = trio.Event()
                claimed = await self.claim(intakes)
        return claimed

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
        """These are on record: the queue must not give them out again. Shielded, so that cancelling cannot split it.

        A queue that is away or does not answer is told again by whoever gets them from it next.
        """
        if self._queue is None or not inputs:
            return
        with trio.move_on_after(TELL_SECONDS, shield=True), suppress(Unavailable):
            await self._queue.mark_joined(self._address, inputs)
            self._claimed.difference_update(inputs)

    async def put_back(self) -> None:
        """Put back what was claimed and did not enter. Shielded and bounded.

        A queue that is away gives what stays claimed to whoever claims next.
        """
        if self._queue is None or not (self._claimed or self._unsure):
            return
        with trio.move_on_after(TELL_SECONDS, shield=True), suppress(Unavailable):
            await self._queue.revert(self._address)
            self._claimed.clear()
            self._unsure = False
