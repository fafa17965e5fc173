"""A claim while an attempt works under it: its lease, its signals, and the terms that it gives the attempt.

Decides when the ledger is looked at between two appends, and that an abort stops the attempt. It decides nothing of
what is recorded. (DUR-006, DUR-012, APPR-004)
"""

from collections.abc import Callable

import trio

from triolet.kernel.durable.verbs import DurableVerbs
from triolet.kernel.machine.observations import AbortWanted
from triolet.ports.admission import Admitted, InputKind, Offer
from triolet.ports.conversation_store import Address, Signals
from triolet.ports.errors import Unavailable
from triolet.ports.identity import CallId, InputId, SequenceNumber, SubmissionId
from triolet.ports.ledger import Abort, Claim, ClaimLost, Submission
from triolet.ports.outcomes import Outcome


class Holding:
    """A claim and what came in for it. It is the attempt's `Tenure`."""

    seals: bool = False
    patient: bool = False

    def __init__(self, verbs: DurableVerbs, claim: Claim, lease: float) -> None:
        self._verbs = verbs
        self._lease = lease
        self._bell = trio.Event()
        self._input_pending = claim.signals.input_pending or not verbs.hinted
        self._held_until = trio.current_time() + lease
        self.claim = claim
        self.inputs = ClaimedInputs(verbs, self)
        self.stop: Callable[[], None] | None = None
        """Asks the attempt to end its run; set while one is under way."""

    @property
    def abort(self) -> AbortWanted | None:
        """The first abort that nobody has dealt with."""
        for command in self.claim.commands:
            if isinstance(command.act, Abort):
                return AbortWanted(by=command.by, reason=command.reason)
        return None

    async def stash(self, call: CallId, outcome: Outcome) -> None:
        """See `Tenure.stash`."""
        await self._verbs.stash(self.claim, call, outcome)

    def heard(self, signals: Signals) -> None:
        """What an append or a renewal has told. Only a hint: the ledger is looked at before anything follows."""
        self._input_pending = signals.input_pending or not self._verbs.hinted
        if signals.abort_wanted and self.abort is None:
            self._bell.set()

    @property
    def input_pending(self) -> bool:
        """Whether it is worth asking for input."""
        return self._input_pending

    @property
    def records_first(self) -> bool:
        """See `Tenure.records_first`. Where nothing waits, nothing will be claimed."""
        return self._input_pending

    async def keep(self) -> None:
        """Renew the lease for ever, and stop the run once somebody wants its end.

        Raises `ClaimLost` when the claim is over: because the ledger says so, or because it could not be asked until
        the lease ran out.
        """
        while True:
            with trio.move_on_after(self._lease / 3):
                await self._bell.wait()
            self._bell = trio.Event()
            asked_at = trio.current_time()
            try:
                with trio.fail_after(max(0.0, self._held_until - asked_at)):
                    renewed = await self._verbs.renew(self.claim, self._lease)
            except (Unavailable, trio.TooSlowError) as error:
                if trio.current_time() >= self._held_until:
                    raise ClaimLost(submission=self.claim.submission.id, epoch=self.claim.epoch) from error
                continue
            self._held_until = asked_at + self._lease
            self.claim = renewed.claim
            self.heard(renewed.signals)
            if self.abort is not None and self.stop is not None:
                self.stop()


class ClaimedInputs:
    """The conversation's waiting input, as the attempt under one claim sees it: the `Joining` of that claim."""

    def __init__(self, verbs: DurableVerbs, holding: Holding) -> None:
        self._verbs = verbs
        self._holding = holding

    async def claim_joining(self, address: Address, kind: InputKind, limit: int) -> tuple[Admitted, ...]:
        """See `Joining.claim_joining`. Nobody is asked where nothing is known to wait."""
        if not self._holding.input_pending:
            return ()
        return tuple(
            as_admitted(each, kind) for each in await self._verbs.claim_joining(self._holding.claim, kind, limit)
        )

    async def mark_joined(self, address: Address, inputs: tuple[InputId, ...]) -> None:
        """See `Joining.mark_joined`."""
        await self._verbs.mark_joined(self._holding.claim, tuple(SubmissionId(each) for each in inputs))

    async def revert(self, address: Address) -> None:
        """See `Joining.revert`."""
        await self._verbs.revert(self._holding.claim)


def as_admitted(submission: Submission, kind: InputKind) -> Admitted:
    """A submission as input for a run. Its id is the submission's, so that the log tells which have joined."""
    offer = Offer(
        id=InputId(submission.id),
        kind=kind,
        principal=submission.principal,
        author=submission.author,
        offered_at=submission.offered_at,
        parts=submission.parts,
    )
    # Its place was the ledger's to keep: what comes from there comes in order.
    return Admitted(offer=offer, sequence=SequenceNumber(0), submission=submission.id)
