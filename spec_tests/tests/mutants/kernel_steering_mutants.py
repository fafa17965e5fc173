"""Wrong kernels: steering, follow-ups, and input that waits."""

from typing import Any

import attrs

from tests.mutants.mutant import Mutant, Patches, always, kernel_mutant
from triolet.kernel import InputRefused
from triolet.kernel.joining import DRAIN
from triolet.kernel.machine.plan import Intake
from triolet.kernel.offers import offered
from triolet.ports.records import InputTaken


@kernel_mutant("STEER-001")
def admits_at_any_time(patches: Patches) -> None:
    """Steering is admitted whether there is a run or not."""

    def admit(_: Any) -> Any:
        async def always(self: Any, kind: Any, text: str, author: Any, id_: Any) -> Any:
            offer = offered(self._runtime, kind, text, self._principal, author, id_)
            return await self._runtime.capabilities.inputs.admit(self._journal.address, offer)

        return always

    patches.wrap("triolet.kernel.conversation.Conversation._admit", admit)


@kernel_mutant("STEER-001")
def is_deaf_while_suspended(patches: Patches) -> None:
    """A suspended run takes no steering."""

    def admit(original: Any) -> Any:
        async def deaf(self: Any, kind: Any, text: str, author: Any, id_: Any) -> Any:
            if self.suspended is not None:
                offer = offered(self._runtime, kind, text, self._principal, author, id_)
                return InputRefused(offer=offer, reason="suspended")
            return await original(self, kind, text, author, id_)

        return deaf

    patches.wrap("triolet.kernel.conversation.Conversation._admit", admit)


@kernel_mutant("STEER-001")
def shows_steering_before_it_records(patches: Patches) -> None:
    """Steering is put on record together with the response to it."""

    def flush(original: Any) -> Any:
        async def late(self: Any) -> None:
            pending = [record for _, record in self._pending]
            if pending and all(isinstance(each, InputTaken) and each.source == "steering" for each in pending):
                return
            await original(self)

        return late

    patches.wrap("triolet.kernel.interpreter.Interpreter._flush", flush)


@kernel_mutant("STEER-001")
def forgets_who_steered(patches: Patches) -> None:
    """Steering is recorded as the kernel's own."""

    def taken(original: Any) -> Any:
        return lambda inputs: tuple(attrs.evolve(record, author="kernel") for record in original(inputs))

    patches.wrap("triolet.kernel.machine.decide._taken", taken)


@kernel_mutant("RUN-014")
def steers_where_it_would_stop(patches: Patches) -> None:
    """Steering waits until the run would stop."""
    _intake_at_seam(patches, lambda _: ())


@kernel_mutant("RUN-014")
def stops_for_steering(patches: Patches) -> None:
    """Steering stops what is in flight."""

    def admit(original: Any) -> Any:
        async def stopping(self: Any, *args: Any) -> Any:
            admitted = await original(self, *args)
            if self._active is not None:
                self._active.request_stop()
            return admitted

        return stopping

    patches.wrap("triolet.kernel.conversation.Conversation._admit", admit)


@kernel_mutant("RUN-014")
def lets_all_steering_in(patches: Patches) -> None:
    """All that waits enters, whatever the policy says."""
    _intake_at_seam(patches, lambda intakes: tuple(attrs.evolve(each, drain="all") for each in intakes))


@kernel_mutant("RUN-015")
def follows_up_at_any_seam(patches: Patches) -> None:
    """A follow-up enters before the next request."""
    _intake_at_seam(patches, lambda intakes: (*intakes, Intake(kind="follow-up", drain="one")))
    patches.unguard("seam", InputTaken)


@kernel_mutant("RUN-015")
def prefers_follow_ups(patches: Patches) -> None:
    """Where a run would stop, follow-ups go before steering."""
    patches.wrap(
        "triolet.kernel.machine.plan._before_stopping", lambda original: lambda run: tuple(reversed(original(run)))
    )
    _intake_at_seam(patches, lambda _: ())


@kernel_mutant("STEER-002")
def takes_the_newest_first(patches: Patches) -> None:
    """What was offered last enters first."""

    def claim(_: Any) -> Any:
        async def newest(self: Any, intakes: Any) -> Any:
            for intake in intakes:
                claimed = await self._queue.claim_joining(self._address, intake.kind, DRAIN)
                self._claimed.update(admitted.offer.id for admitted in claimed)
                if claimed:
                    return tuple(reversed(claimed))
            return ()

        return newest

    patches.wrap("triolet.kernel.joining.InputJoining.claim", claim)


@kernel_mutant("STEER-002")
def offers_anew(patches: Patches) -> None:
    """A caller's key is not looked at."""
    patches.wrap(
        "triolet.kernel.conversation.offered",
        lambda original: (
            lambda runtime, kind, text, principal, author, _: original(runtime, kind, text, principal, author, None)
        ),
    )


@kernel_mutant("DUR-016")
def keeps_what_it_claimed(patches: Patches) -> None:
    """What was claimed in vain is not put back."""

    def put_back(_: Any) -> Any:
        async def nothing(self: Any) -> None:
            return

        return nothing

    patches.wrap("triolet.kernel.joining.InputJoining.put_back", put_back)


@kernel_mutant("DUR-016")
def drops_what_it_claimed(patches: Patches) -> None:
    """The queue is told that input is on record as soon as it was claimed."""

    def claim(original: Any) -> Any:
        async def hasty(self: Any, intakes: Any) -> Any:
            claimed = await original(self, intakes)
            await self.joined(tuple(admitted.offer.id for admitted in claimed))
            return claimed

        return hasty

    patches.wrap("triolet.kernel.joining.InputJoining.claim", claim)


@kernel_mutant("DUR-016")
def never_says_what_entered(patches: Patches) -> None:
    """The queue is not told what is on record."""

    def joined(_: Any) -> Any:
        async def nothing(self: Any, inputs: Any) -> None:
            return

        return nothing

    patches.wrap("triolet.kernel.joining.InputJoining.joined", joined)


@kernel_mutant("DUR-016")
def forgets_what_entered(patches: Patches) -> None:
    """What a queue gives out is new, whatever the log holds."""
    patches.wrap("triolet.kernel.machine.advance._taken_after", always(()))


def _intake_at_seam(patches: Patches, change: Any) -> None:
    def at_seam(original: Any) -> Any:
        def changed(state: Any, measured: Any) -> Any:
            plan = original(state, measured)
            actions = tuple(
                attrs.evolve(each, intake=change(each.intake)) if hasattr(each, "intake") else each
                for each in plan.actions
            )
            return attrs.evolve(plan, actions=actions)

        return changed

    patches.wrap("triolet.kernel.machine.plan._at_seam", at_seam)


STEERING_MUTANTS: tuple[Mutant, ...] = tuple(each for each in vars().values() if isinstance(each, Mutant))
