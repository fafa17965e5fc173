"""The memory queue of inputs: each clause of the ports, and generated histories against a plain model."""

from collections.abc import Awaitable, Callable
from typing import Any, Literal

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from tests.desk_samples import ACME, ANN, BOB, START
from triolet.adapters.memory import MemoryInputs, in_memory, inputs
from triolet.ports.admission import Admitted, InputKind, InputQueue, Offer, OfferReused, QueueFull
from triolet.ports.conversation_store import Address
from triolet.ports.errors import BrokenText, InvalidValue, Misuse
from triolet.ports.identity import ConversationId, InputId, Instant, Principal, TenantId
from triolet.ports.messages import Media, Text

HERE = Address(tenant=ACME, conversation=ConversationId("c1"))
THERE = Address(tenant=ACME, conversation=ConversationId("c2"))
THEIRS = Address(tenant=TenantId("other"), conversation=HERE.conversation)
ANY: Any = object()


def offer(
    name: str = "i1",
    kind: InputKind = "steering",
    principal: Principal = ANN,
    content: str = "stop",
    at: int = START,
) -> Offer:
    return Offer(
        id=InputId(name),
        kind=kind,
        principal=principal,
        author="ann",
        offered_at=Instant(at),
        parts=(Text(text=content), Media(media_type="image/png", base64="aGk=")),
    )


def names(admitted: tuple[Admitted, ...]) -> list[str]:
    return [each.offer.id for each in admitted]


def ids(*given_: str) -> tuple[InputId, ...]:
    return tuple(InputId(name) for name in given_)


async def queue_of(*offers: Offer, limit: int = 1_000) -> MemoryInputs:
    queue = MemoryInputs(limit=limit)
    for each in offers:
        await queue.admit(HERE, each)
    return queue


def test_it_is_bound_unless_the_host_says_otherwise() -> None:
    bound: InputQueue | None = in_memory(model=None).inputs
    assert isinstance(bound, MemoryInputs)
    assert in_memory(model=None, inputs=None).inputs is None


# --- admission ----------------------------------------------------------------------------------------


async def test_offers_get_their_places_in_order() -> None:
    queue = MemoryInputs()
    kinds: tuple[InputKind, ...] = ("steering", "follow-up", "steering")
    places = [await queue.admit(HERE, offer(f"i{number}", kind)) for number, kind in enumerate(kinds)]
    assert [place.sequence for place in places] == [1, 2, 3]
    assert [place.offer for place in places] == [offer(f"i{number}", kind) for number, kind in enumerate(kinds)]
    assert names(await queue.claim_joining(HERE, "steering", 10)) == ["i0", "i2"]
    assert names(await queue.claim_joining(HERE, "follow-up", 10)) == ["i1"]


async def test_the_same_offer_has_one_place_waiting_claimed_and_joined() -> None:
    queue = await queue_of(offer("i0"))
    place = await queue.admit(HERE, offer())
    # Whoever repeats an offer stamps it anew. The first time stands.
    later = offer(at=START + 5)
    assert await queue.admit(HERE, later) == place
    await queue.claim_joining(HERE, "steering", 10)
    assert await queue.admit(HERE, later) == place
    await queue.mark_joined(HERE, ids("i0", "i1"))
    assert await queue.admit(HERE, later) == place
    assert await queue.lookup(HERE, later) == place
    assert await queue.claim_joining(HERE, "steering", 10) == ()


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("other", [offer(content="go"), offer(kind="follow-up"), attrs.evolve(offer(), author="bob")])
async def test_another_offer_of_the_same_id_is_a_conflict(other: Offer, joined: bool) -> None:
    queue = await queue_of(offer())
    if joined:
        await queue.mark_joined(HERE, ids("i1"))
    with pytest.raises(OfferReused, match="input 'i1' was offered before with other content"):
        await queue.admit(HERE, other)
    found = await queue.lookup(HERE, other)
    assert found is not None
    assert found.offer == offer()


async def test_ids_are_their_principals_own() -> None:
    queue = await queue_of(offer())
    other = await queue.admit(HERE, offer(principal=BOB, content="go"))
    assert other.sequence == 2
    found = await queue.lookup(HERE, offer())
    assert found is not None
    assert found.sequence == 1
    # Whoever marks says ids only, so the two never stand claimed side by side.
    first = await queue.claim_joining(HERE, "steering", 10)
    assert [each.offer.principal for each in first] == [ANN]
    assert await queue.claim_joining(HERE, "steering", 10) == first
    await queue.mark_joined(HERE, ids("i1"))
    await queue.mark_joined(HERE, ids("i1"))
    second = await queue.claim_joining(HERE, "steering", 10)
    assert [each.offer.principal for each in second] == [BOB]
    await queue.mark_joined(HERE, ids("i1"))
    assert await queue.claim_joining(HERE, "steering", 10) == ()


async def test_one_id_in_two_kinds_is_not_claimed_twice_either() -> None:
    queue = await queue_of(offer(), offer(kind="follow-up", principal=BOB), offer("i2", "follow-up"))
    assert names(await queue.claim_joining(HERE, "steering", 1)) == ["i1"]
    # First in, first out: what came behind it does not overtake.
    assert await queue.claim_joining(HERE, "follow-up", 10) == ()
    await queue.mark_joined(HERE, ids("i1"))
    assert names(await queue.claim_joining(HERE, "follow-up", 10)) == ["i1", "i2"]


async def test_the_bound_counts_what_waits_and_what_is_claimed() -> None:
    queue = await queue_of(offer("i0"), offer("i1", "follow-up"), limit=2)
    await queue.claim_joining(HERE, "steering", 1)
    with pytest.raises(QueueFull, match="2 inputs are already waiting"):
        await queue.admit(HERE, offer("i2"))
    assert await queue.lookup(HERE, offer("i2")) is None
    # Another conversation has room, and a known offer needs none.
    await queue.admit(THERE, offer("i2"))
    await queue.admit(HERE, offer("i0"))
    with pytest.raises(OfferReused):
        await queue.admit(HERE, offer("i0", content="other"))
    await queue.mark_joined(HERE, ids("i0"))
    assert (await queue.admit(HERE, offer("i2"))).sequence == 3
    with pytest.raises(Misuse, match="limit is at least 1"):
        MemoryInputs(limit=0)


async def test_conversations_and_tenants_are_apart() -> None:
    queue = await queue_of(offer())
    for address in (THERE, THEIRS):
        assert await queue.lookup(address, offer()) is None
        assert await queue.claim_joining(address, "steering", 10) == ()
        await queue.mark_joined(address, ids("i1"))
        await queue.revert(address)
        assert (await queue.admit(address, offer(content="mine"))).sequence == 1
        await queue.mark_joined(address, ids("i1"))
    assert names(await queue.claim_joining(HERE, "steering", 10)) == ["i1"]


@pytest.mark.parametrize(
    ("address", "bad"),
    [
        (HERE, offer("\ud800")),
        (HERE, offer(content="\ud800")),
        (HERE, attrs.evolve(offer(), kind=ANY)),
        (HERE, attrs.evolve(offer(), parts=(ANY,))),
        (HERE, ANY),
        (attrs.evolve(HERE, tenant=TenantId("\0")), offer()),
        (attrs.evolve(HERE, conversation=ConversationId("\ud800")), offer()),
    ],
)
async def test_what_no_log_could_hold_is_refused(address: Address, bad: Offer) -> None:
    queue = MemoryInputs()
    with pytest.raises((InvalidValue, BrokenText)):
        await queue.admit(address, bad)
    assert await queue.claim_joining(address, "steering", 10) == ()


# --- joining ------------------------------------------------------------------------------------------


async def test_claiming_again_gives_the_same_first() -> None:
    queue = await queue_of(*(offer(f"i{number}") for number in range(4)))
    assert names(await queue.claim_joining(HERE, "steering", 2)) == ["i0", "i1"]
    assert names(await queue.claim_joining(HERE, "steering", 1)) == ["i0"]
    assert names(await queue.claim_joining(HERE, "steering", 3)) == ["i0", "i1", "i2"]
    await queue.mark_joined(HERE, ids("i1"))
    assert names(await queue.claim_joining(HERE, "steering", 10)) == ["i0", "i2", "i3"]
    assert await queue.claim_joining(HERE, "steering", 0) == ()


async def test_reverted_input_has_its_place_again() -> None:
    queue = await queue_of(offer("i0"), offer("i1"))
    await queue.claim_joining(HERE, "steering", 2)
    await queue.mark_joined(HERE, ids("i0"))
    for _ in range(2):
        await queue.revert(HERE)
    await queue.admit(HERE, offer("i2"))
    assert names(await queue.claim_joining(HERE, "steering", 10)) == ["i1", "i2"]


async def test_reverting_lets_the_other_principals_input_of_the_same_id_be() -> None:
    queue = await queue_of(offer(), offer(principal=BOB, kind="follow-up"))
    await queue.claim_joining(HERE, "steering", 1)
    assert await queue.claim_joining(HERE, "follow-up", 1) == ()
    await queue.revert(HERE)
    assert names(await queue.claim_joining(HERE, "follow-up", 1)) == ["i1"]


async def test_marking_what_is_unknown_or_not_claimed() -> None:
    queue = await queue_of(offer("i0"), offer("i1"))
    await queue.mark_joined(HERE, ids("nobody", "i1"))
    assert names(await queue.claim_joining(HERE, "steering", 10)) == ["i0"]
    await queue.mark_joined(HERE, ids("i1"))
    assert names(await queue.claim_joining(HERE, "steering", 10)) == ["i0"]


# --- how long joined input is known --------------------------------------------------------------------


async def test_joined_inputs_are_known_within_their_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "KNOWN_JOINED", 2)
    queue = await queue_of(*(offer(f"i{number}") for number in range(3)))
    await queue.mark_joined(HERE, ids("i0", "i1", "i2"))
    assert [await queue.lookup(HERE, offer(name)) is not None for name in ("i0", "i1", "i2")] == [False, True, True]
    assert (await queue.admit(HERE, offer("i0"))).sequence == 4


async def test_idle_conversations_are_known_within_their_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "IDLE_CONVERSATIONS", 2)
    queue = MemoryInputs()
    addresses = [attrs.evolve(HERE, conversation=ConversationId(f"c{number}")) for number in range(4)]
    busy, *idle = addresses
    await queue.admit(busy, offer("waits"))
    for number, address in enumerate(idle):
        for name in ("i1", "i2", "i3")[: 3 - number]:
            await queue.admit(address, offer(name))
            await queue.mark_joined(address, ids(name))
    assert [await queue.lookup(address, offer()) is not None for address in idle] == [False, True, True]
    assert names(await queue.claim_joining(busy, "steering", 10)) == ["waits"]
    # Its places never count back, and a used one is idle no more.
    assert (await queue.admit(idle[0], offer())).sequence == 4
    await queue.admit(idle[1], offer("more"))
    for number in range(4, 7):
        address = attrs.evolve(HERE, conversation=ConversationId(f"c{number}"))
        await queue.admit(address, offer())
        await queue.mark_joined(address, ids("i1"))
    assert names(await queue.claim_joining(idle[1], "steering", 10)) == ["more"]
    assert await queue.lookup(idle[2], offer()) is None
    assert (len(queue._queues), len(queue._idle)) == (5, 2)


async def test_a_cancelled_call_changes_nothing() -> None:
    queue = await queue_of(offer("i0"), offer("i1", principal=BOB))
    verbs: list[Callable[[], Awaitable[object]]] = [
        lambda: queue.admit(HERE, offer("i2")),
        lambda: queue.lookup(HERE, offer("i0")),
        lambda: queue.claim_joining(HERE, "steering", 10),
        lambda: queue.mark_joined(HERE, ids("i0")),
        lambda: queue.revert(HERE),
    ]
    for verb in verbs:
        with trio.CancelScope() as scope:
            scope.cancel()
            await verb()
        assert scope.cancelled_caught
    assert queue._queues[HERE].claimed == set()
    assert names(await queue.claim_joining(HERE, "steering", 10)) == ["i0", "i1"]


# --- generated histories ------------------------------------------------------------------------------


@attrs.define
class Entry:
    """One admitted offer, as plainly as it can be said."""

    address: Address
    admitted: Admitted
    state: Literal["waiting", "joined"] = "waiting"


class Plain:
    """A list of entries; each verb looks through all of it."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.entries: list[Entry] = []

    def at(self, address: Address, state: str) -> list[Entry]:
        return [entry for entry in self.entries if (entry.address, entry.state) == (address, state)]

    def admit(self, address: Address, new: Offer) -> Admitted | type[Exception]:
        for entry in self.entries:
            old = entry.admitted.offer
            if (entry.address, old.principal, old.id) == (address, new.principal, new.id):
                return entry.admitted if attrs.evolve(old, offered_at=new.offered_at) == new else OfferReused
        if len(self.at(address, "waiting")) >= self.limit:
            return QueueFull
        place = 1 + sum(entry.address == address for entry in self.entries)
        self.entries.append(Entry(address, Admitted(offer=new, sequence=ANY_SEQUENCE(place))))
        return self.entries[-1].admitted

    def claim(self, address: Address, kind: InputKind, limit: int) -> tuple[Admitted, ...]:
        waiting = [entry.admitted for entry in self.at(address, "waiting") if entry.admitted.offer.kind == kind]
        return tuple(waiting[:limit])

    def mark(self, address: Address, marked: tuple[InputId, ...]) -> None:
        for entry in self.at(address, "waiting"):
            if entry.admitted.offer.id in marked:
                entry.state = "joined"


ANY_SEQUENCE: Callable[[int], Any] = int
ADDRESSES = st.sampled_from([HERE, THERE, THEIRS])
KINDS: st.SearchStrategy[InputKind] = st.sampled_from(("steering", "follow-up"))
# Each principal has ids of its own here; equal ids of two principals have tests above.
OWNED = st.one_of(
    st.tuples(st.just(ANN), st.sampled_from(["a1", "a2", "a3", "a4"])),
    st.tuples(st.just(BOB), st.sampled_from(["b1", "b2", "b3"])),
)
STEPS = st.one_of(
    st.tuples(st.just("admit"), ADDRESSES, OWNED, KINDS, st.sampled_from(["x", "y"]), st.integers(0, 3)),
    st.tuples(st.just("claim"), ADDRESSES, KINDS, st.integers(0, 4)),
    st.tuples(st.just("mark"), ADDRESSES, st.lists(st.sampled_from(["a1", "a2", "b1", "b2", "zz"]), max_size=3)),
    st.tuples(st.just("revert"), ADDRESSES),
)


@given(steps=st.lists(STEPS, max_size=40), limit=st.integers(1, 4))
async def test_every_history_is_as_the_plain_model_says(steps: list[tuple[Any, ...]], limit: int) -> None:
    queue, plain = MemoryInputs(limit=limit), Plain(limit)
    for verb, address, *rest in steps:
        match verb:
            case "admit":
                (principal, name), kind, content, late = rest
                new = offer(name, kind, principal, content, START + late)
                expected = plain.admit(address, new)
                if isinstance(expected, Admitted):
                    assert await queue.admit(address, new) == expected
                else:
                    with pytest.raises(expected):
                        await queue.admit(address, new)
            case "claim":
                assert await queue.claim_joining(address, *rest) == plain.claim(address, *rest)
            case "mark":
                marked = ids(*rest[0])
                await queue.mark_joined(address, marked)
                plain.mark(address, marked)
            case _:
                await queue.revert(address)
        for entry in plain.entries:
            assert await queue.lookup(entry.address, entry.admitted.offer) == entry.admitted
