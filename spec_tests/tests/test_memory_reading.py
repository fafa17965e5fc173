"""The memory ConversationStore: listings, pages and checkpoints."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.memory_samples import AT, HERE, TENANT, batch, filled, first, opened
from triolet.adapters.memory import MemoryConversations
from triolet.ports.conversation_store import (
    Address,
    Checkpoint,
    ConversationSummary,
    LimitOutOfBounds,
    StoredBatch,
    Tail,
)
from triolet.ports.identity import (
    ConversationId,
    Instant,
    SequenceNumber,
    TenantId,
)


async def test_listing_pages_in_the_order_of_ids() -> None:
    store = MemoryConversations()
    names = ["b", "a", "Z", "é", "a1", "😀", "\uffff"]
    tails: dict[str, Tail] = {}
    for place, name in enumerate(names):
        address = Address(tenant=TENANT, conversation=ConversationId(name))
        tails[name] = await store.create(address, first(address, at=AT + place))
    order = sorted(names, key=lambda name: name.encode())
    rows = await store.list(TENANT)
    assert rows == tuple(
        ConversationSummary(
            conversation=ConversationId(name), created_at=Instant(AT + names.index(name)), tail=tails[name]
        )
        for name in order
    )
    paged: list[str] = []
    for _ in range(len(names)):
        page = await store.list(TENANT, after=ConversationId(paged[-1]) if paged else None, limit=2)
        assert len(page) <= 2
        paged.extend(row.conversation for row in page)
    assert paged == order
    # What is after need not be there.
    assert [row.conversation for row in await store.list(TENANT, after=ConversationId("a0"), limit=1)] == ["a1"]
    assert await store.list(TenantId("nobody")) == ()


async def test_listing_shows_what_changed_since() -> None:
    store, writer = await opened()
    await store.list(TENANT)
    new = Address(tenant=TENANT, conversation=ConversationId("c0"))
    await store.create(new, first(new))
    appended = await store.append(writer, batch("b"), expected=writer.tail)
    assert [(row.conversation, row.tail.sequence) for row in await store.list(TENANT)] == [("c0", 1), ("c1", 2)]
    assert (await store.list(TENANT))[1].tail == appended.tail
    await store.delete(HERE)
    assert [row.conversation for row in await store.list(TENANT)] == ["c0"]


@pytest.mark.parametrize("limit", [0, -1, 1001])
async def test_a_listing_limit_has_bounds(limit: int) -> None:
    store, _ = await opened()
    with pytest.raises(LimitOutOfBounds, match="1 to 1000"):
        await store.list(TENANT, limit=limit)
    assert len(await store.list(TENANT, limit=1000)) == 1


# --- read ---------------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 5), max_size=12), st.integers(0, 70), st.integers(1, 20))
async def test_a_page_holds_the_fewest_whole_batches_that_reach_the_limit(
    sizes: list[int], after: int, limit: int
) -> None:
    store, _, stored = await filled(*sizes)
    rest = [row for row in stored if row.first + len(row.batch.records) - 1 > after]
    expected: list[StoredBatch] = []
    while rest and sum(len(row.batch.records) for row in expected) < limit:
        expected.append(rest.pop(0))
    page = await store.read(HERE, after=SequenceNumber(after), limit=limit)
    assert page.batches == tuple(expected)
    assert page.more == bool(rest)


@given(st.lists(st.integers(1, 5), max_size=12), st.integers(1, 20))
async def test_pages_cover_the_log_once(sizes: list[int], limit: int) -> None:
    store, _, stored = await filled(*sizes)
    rows: list[StoredBatch] = []
    after = SequenceNumber(0)
    for _ in stored:
        page = await store.read(HERE, after=after, limit=limit)
        rows.extend(page.batches)
        after = SequenceNumber(rows[-1].first + len(rows[-1].batch.records) - 1)
        if not page.more:
            break
    assert rows == stored
    assert (await store.read(HERE, after=after)).batches == ()


@pytest.mark.parametrize("limit", [0, -1, 10_001])
async def test_a_page_limit_has_bounds(limit: int) -> None:
    store, _ = await opened()
    with pytest.raises(LimitOutOfBounds, match="1 to 10000"):
        await store.read(HERE, limit=limit)
    assert len((await store.read(HERE, limit=10_000)).batches) == 1


# --- checkpoints --------------------------------------------------------------------------------------


async def test_a_checkpoint_replaces_an_older_one_and_yields_to_a_newer_one() -> None:
    store, writer, _ = await filled(1)
    tail = await store.inspect_tail(HERE)
    assert await store.load_checkpoint(HERE) is None
    early = Checkpoint(tail=writer.tail, machine_version=1, body=b"early")
    late = Checkpoint(tail=tail, machine_version=1, body=b"late")
    other = Checkpoint(tail=tail, machine_version=2, body=b"other machine")
    for saved, kept in [(early, early), (late, late), (early, late), (late, late), (other, other)]:
        await store.save_checkpoint(writer, saved)
        assert await store.load_checkpoint(HERE) == kept
