"""MemoryInputs: input for busy conversations, queued in this process.

Decides how much waits, and for how long it is known what has joined. Each conversation has one queue for each kind,
first in, first out (DUR-004). It never decides when input enters. (STEER-001, STEER-002, DUR-016)
"""

from collections import OrderedDict
from typing import Final

import attrs
import trio

from triolet.adapters.memory.inbox import InvalidBound
from triolet.ports.admission import Admitted, InputKind, Offer, OfferReused, QueueFull
from triolet.ports.conversation_store import Address
from triolet.ports.identity import InputId, Principal, SequenceNumber
from triolet.ports.schema import codec_for
from triolet.ports.text import require_clean

WAITING_INPUTS: Final = 1_000
"""How many inputs of both kinds may wait for one conversation, claimed ones included."""
KNOWN_JOINED: Final = 256
"""How many of a conversation's joined inputs are known still."""
IDLE_CONVERSATIONS: Final = 1_024
"""For how many conversations that nothing waits for that is known."""

_Key = tuple[Principal, InputId]


class _Queue:
    """The inputs of one conversation. `waiting` is in admission order; `claimed` are keys of some that wait."""

    __slots__ = ("claimed", "joined", "last", "waiting")

    def __init__(self, last: int) -> None:
        self.last = last
        self.waiting: dict[_Key, Admitted] = {}
        self.claimed: set[_Key] = set()
        self.joined: OrderedDict[_Key, Admitted] = OrderedDict()

    def find(self, key: _Key) -> Admitted | None:
        return self.waiting.get(key) or self.joined.get(key)

    @trio.lowlevel.enable_ki_protection
    def admit(self, offer: Offer) -> Admitted:
        self.last += 1
        admitted = Admitted(offer=offer, sequence=SequenceNumber(self.last))
        self.waiting[_key(offer)] = admitted
        return admitted

    @trio.lowlevel.enable_ki_protection
    def claim(self, kind: InputKind, limit: int) -> tuple[Admitted, ...]:
        claimed: dict[InputId, Admitted] = {}
        held = {key[1]: key for key in self.claimed}
        for key, admitted in self.waiting.items():
            if admitted.offer.kind != kind:
                continue
            # Whoever marks names ids only. So two principals' inputs of one id never stand claimed side by side.
            if len(claimed) >= limit or held.get(key[1], key) != key:
                break
            claimed[key[1]] = admitted
            held[key[1]] = key
        self.claimed.update(_key(admitted.offer) for admitted in claimed.values())
        return tuple(claimed.values())

    @trio.lowlevel.enable_ki_protection
    def join(self, inputs: tuple[InputId, ...]) -> None:
        for name in inputs:
            key = self._meant(name)
            if key is not None:
                self.joined[key] = self.waiting.pop(key)
                self.claimed.discard(key)
        while len(self.joined) > KNOWN_JOINED:
            self.joined.popitem(last=False)

    def _meant(self, name: InputId) -> _Key | None:
        """The input that is meant: the claimed one, else the oldest, unless this only says again what is known."""
        for key in self.claimed:
            if key[1] == name:
                return key
        if any(key[1] == name for key in self.joined):
            return None
        return next((key for key in self.waiting if key[1] == name), None)


class MemoryInputs:
    """Admission and Joining in this process's memory.

    At most `limit` (1,000) inputs wait for a conversation. Offering an input again tells its place also after it has
    joined: for the last 256 of a conversation, and while the conversation is among the 1,024 that were used last or
    something waits for it. After that an offer of the same id would be a new one. Two offers are the same if all but
    `offered_at` is equal; the first one's time stands.

    Lifetime: a plain value, nothing to open or close. One value serves many tasks of one Trio run, and no second
    thread. Emits: nothing. Cancellation, for every verb: before any effect or not at all.
    """

    __slots__ = ("_floor", "_idle", "_limit", "_queues")

    def __init__(self, *, limit: int = WAITING_INPUTS) -> None:
        if limit < 1:
            raise InvalidBound(name="limit", value=limit)
        self._limit = limit
        self._queues: dict[Address, _Queue] = {}
        self._idle: OrderedDict[Address, None] = OrderedDict()
        # No place below this is given any more, so that a conversation which was forgotten never counts back.
        self._floor = 0

    async def admit(self, address: Address, offer: Offer) -> Admitted:
        """See `Admission.admit`. Raises `InvalidValue` or `BrokenText`, too, for what no store could keep."""
        await trio.lowlevel.checkpoint_if_cancelled()
        require_clean(address.tenant, "tenant")
        require_clean(address.conversation, "conversation")
        codec_for(Offer).encode(offer)
        queue = self._queues.get(address) or _Queue(self._floor)
        known = queue.find(_key(offer))
        if known is not None:
            if attrs.evolve(known.offer, offered_at=offer.offered_at) != offer:
                raise OfferReused(id=offer.id)
            return known
        if len(queue.waiting) >= self._limit:
            raise QueueFull(limit=self._limit)
        admitted = queue.admit(offer)
        self._queues[address] = queue
        self._idle.pop(address, None)
        return admitted

    async def lookup(self, address: Address, offer: Offer) -> Admitted | None:
        """See `Admission.lookup`. It looks at the offer's principal and id alone."""
        await trio.lowlevel.checkpoint_if_cancelled()
        queue = self._queues.get(address)
        return None if queue is None else queue.find(_key(offer))

    async def claim_joining(self, address: Address, kind: InputKind, limit: int) -> tuple[Admitted, ...]:
        """See `Joining.claim_joining`. Of two principals' inputs with one id, the later waits for the earlier."""
        await trio.lowlevel.checkpoint_if_cancelled()
        queue = self._queues.get(address)
        return () if queue is None else queue.claim(kind, limit)

    async def mark_joined(self, address: Address, inputs: tuple[InputId, ...]) -> None:
        """See `Joining.mark_joined`. Also for what waits and is not claimed: the log may know better."""
        await trio.lowlevel.checkpoint_if_cancelled()
        queue = self._queues.get(address)
        if queue is None:
            return
        queue.join(inputs)
        if not queue.waiting:
            self._rest(address)

    async def revert(self, address: Address) -> None:
        """See `Joining.revert`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        queue = self._queues.get(address)
        if queue is not None:
            queue.claimed.clear()

    @trio.lowlevel.enable_ki_protection
    def _rest(self, address: Address) -> None:
        self._idle[address] = None
        self._idle.move_to_end(address)
        while len(self._idle) > IDLE_CONVERSATIONS:
            forgotten, _ = self._idle.popitem(last=False)
            self._floor = max(self._floor, self._queues.pop(forgotten).last)


def _key(offer: Offer) -> _Key:
    return offer.principal, offer.id
