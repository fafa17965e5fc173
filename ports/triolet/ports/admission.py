"""Admission and Joining: input for a conversation that is already busy (STEER-001, STEER-002).

Decides what an input is before it is history: offered by somebody, admitted in an order, claimed for a run, joined once
it is on record. These are the first two parts of the submission ledger. It never decides when input enters; the
machine does, and only at a seam.
"""

from typing import Literal, Protocol

import attrs

from triolet.ports.conversation_store import Address
from triolet.ports.errors import Conflict, Unavailable
from triolet.ports.identity import InputId, Instant, Principal, SequenceNumber, SubmissionId
from triolet.ports.messages import Part

InputKind = Literal["steering", "follow-up"]
"""Steering enters before the next model request; a follow-up when the run would otherwise stop."""


@attrs.frozen(kw_only=True, weakref_slot=False)
class Offer:
    """Input that somebody offers. `id` is the offerer's idempotency key, scoped by tenant and principal."""

    id: InputId
    kind: InputKind
    principal: Principal
    author: str
    offered_at: Instant
    parts: tuple[Part, ...]


@attrs.frozen(kw_only=True, weakref_slot=False)
class Admitted:
    """The offer has its place: the order in which inputs of its kind enter. `submission` is its receipt's, if any."""

    offer: Offer
    sequence: SequenceNumber
    submission: SubmissionId | None = None


@attrs.define(kw_only=True)
class OfferReused(Conflict):
    """This id was offered before, with other content. The first one stands."""

    id: InputId

    @property
    def message(self) -> str:
        """Which id."""
        return f"input {self.id!r} was offered before with other content"


@attrs.define(kw_only=True)
class QueueFull(Unavailable):
    """The conversation has as many waiting inputs as it may. Nothing was admitted."""

    limit: int

    @property
    def message(self) -> str:
        """The bound."""
        return f"{self.limit} inputs are already waiting"


class Admission(Protocol):
    """Where offers come in.

    Lifetime: as the adapter that implements it. Emits: nothing by itself. (CAP-001)
    """

    async def admit(self, address: Address, offer: Offer) -> Admitted:
        """Does: give the offer its place behind all earlier ones of the conversation.

        Atomicity: admitted or not. Idempotency: the same offer again gives the same place (also after it has joined);
        another one under its id is `OfferReused`. Ordering: first in, first out per conversation (DUR-004).
        Cancellation: admitted or not; offering again is safe and tells. Raises: `OfferReused`, `QueueFull`:
        nothing admitted.
        """
        ...

    async def lookup(self, address: Address, offer: Offer) -> Admitted | None:
        """Does: find an offer by its id.

        Atomicity: one consistent view. Idempotency: reads. Ordering: none. Cancellation: nothing changed. Raises:
        nothing of its own.
        """
        ...


class Joining(Protocol):
    """How admitted input gets into a run.

    Lifetime: as the adapter that implements it. Emits: nothing by itself. (CAP-001)
    """

    async def claim_joining(self, address: Address, kind: InputKind, limit: int) -> tuple[Admitted, ...]:
        """Does: claim up to `limit` of the waiting inputs of a kind, oldest first.

        Atomicity: all of them, or none. Idempotency: what is claimed and neither joined nor reverted is given again,
        first. Ordering: admission order. Cancellation: claimed or not; claiming again gives the same. Raises: nothing
        of its own.
        """
        ...

    async def mark_joined(self, address: Address, inputs: tuple[InputId, ...]) -> None:
        """Does: forget inputs that are on record now, so that none is delivered twice (DUR-016).

        Atomicity: all or none. Idempotency: again harmless. Ordering: none. Cancellation: marked or not; the log is
        the authority, and whoever claims skips what it holds. Raises: nothing of its own.
        """
        ...

    async def revert(self, address: Address) -> None:
        """Does: put everything that is claimed and not joined back, in its place (DUR-016).

        Atomicity: all or none. Idempotency: again harmless. Ordering: each is where it was. Cancellation: as above.
        Raises: nothing of its own.
        """
        ...


class InputQueue(Admission, Joining, Protocol):
    """Both, in one adapter: what `Capabilities.inputs` takes."""
