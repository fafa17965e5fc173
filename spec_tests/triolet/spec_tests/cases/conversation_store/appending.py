"""Creating logs and appending to them: whole, once, in place, or not at all.

STORE-004, DUR-007.
"""

import attrs
import trio

from triolet.ports.batch import encode_batch
from triolet.ports.canonical import GENESIS
from triolet.ports.conversation_store import (
    Appended,
    BatchReused,
    ConversationExists,
    Tail,
    TailMoved,
    UnknownConversation,
    tail_after,
)
from triolet.ports.errors import Conflict
from triolet.ports.identity import Instant, SequenceNumber
from triolet.spec_tests.cases.conversation_store.setting import (
    HERE,
    NOWHERE,
    StoreSubject,
    a_batch,
    ensure_log,
    first_batch,
    started,
)
from triolet.spec_tests.claims import ensure, ensure_equal, ensure_raises
from triolet.spec_tests.definition import case


@case("STORE-004")
async def create_begins_a_log(subject: StoreSubject) -> None:
    """`create` gives a log that holds exactly its first batch."""
    first = first_batch()
    tail = await subject.port.create(HERE, first)
    ensure_equal(tail, tail_after(Tail(), encode_batch(first), 1), "the tail that `create` gives")
    await ensure_log(subject.port, HERE, [first], "a new log")


@case("STORE-004")
async def create_again_changes_nothing(subject: StoreSubject) -> None:
    """`create` with the same batch again gives the same tail, whatever has been appended since."""
    first, more = first_batch(), a_batch("b1")
    tail = await subject.port.create(HERE, first)
    writer = await subject.port.open_writer(HERE)
    await subject.port.append(writer, more, expected=writer.tail)
    ensure_equal(await subject.port.create(HERE, first), tail, "the tail that a repeated `create` gives")
    await ensure_log(subject.port, HERE, [first, more], "a log created twice")


@case("STORE-004")
async def create_never_replaces(subject: StoreSubject) -> None:
    """`create` with another first batch is refused and leaves the log as it is."""
    await subject.port.create(HERE, first_batch())
    with ensure_raises(ConversationExists, "creating a conversation that is there, with another batch"):
        await subject.port.create(HERE, first_batch(when=5))
    await ensure_log(subject.port, HERE, [first_batch()], "a log that somebody tried to create anew")


@case("STORE-004")
async def append_extends_the_log(subject: StoreSubject) -> None:
    """`append` numbers records without a gap and gives the tail that the published chain leads to."""
    writer = await started(subject.port)
    batches = [first_batch()]
    tail = writer.tail
    for number, size in enumerate((1, 3, 2)):
        batch = a_batch(f"b{number}", size)
        due = tail_after(tail, encode_batch(batch), size)
        appended = await subject.port.append(writer, batch, expected=tail)
        ensure_equal(appended, Appended(tail=due, replayed=False, signals=appended.signals), "what `append` answers")
        tail, batches = due, [*batches, batch]
    await ensure_log(subject.port, HERE, batches, "a log of four batches")


@case("STORE-004", "DUR-007")
async def append_again_writes_once(subject: StoreSubject) -> None:
    """A batch that is there already is answered with the tail that it led to, and written once."""
    writer = await started(subject.port)
    batches = [first_batch(), a_batch("b1", 2), a_batch("b2")]
    first = await subject.port.append(writer, batches[1], expected=writer.tail)
    second = await subject.port.append(writer, batches[2], expected=first.tail)
    for expected in (writer.tail, first.tail, second.tail):
        again = await subject.port.append(writer, batches[1], expected=expected)
        ensure(again.replayed, "a repeated batch is not said to be replayed")
        ensure_equal(again.tail, first.tail, "the tail of a repeated batch")
    await ensure_log(subject.port, HERE, batches, "a log to which a batch was appended four times")


@case("STORE-004", "DUR-007")
async def append_refuses_a_reused_identity(subject: StoreSubject) -> None:
    """Another batch under an identity that is taken is refused, and nothing is written."""
    writer = await started(subject.port)
    kept = a_batch("b1")
    appended = await subject.port.append(writer, kept, expected=writer.tail)
    for other in (a_batch("b1", text="other"), attrs.evolve(kept, at=Instant(7)), a_batch("b1", 2)):
        with ensure_raises(BatchReused, "appending another batch under the same identity"):
            await subject.port.append(writer, other, expected=appended.tail)
    await ensure_log(subject.port, HERE, [first_batch(), kept], "a log whose batch somebody tried to replace")


@case("STORE-004")
async def append_checks_the_sequence(subject: StoreSubject) -> None:
    """`append` where the log has moved on is refused, and nothing is written."""
    writer = await started(subject.port)
    kept = a_batch("b1")
    appended = await subject.port.append(writer, kept, expected=writer.tail)
    beyond = Tail(sequence=SequenceNumber(appended.tail.sequence + 1), digest=appended.tail.digest)
    for expected in (writer.tail, Tail(), beyond):
        with ensure_raises(TailMoved, f"appending at {expected.sequence} to a log that ends at 2"):
            await subject.port.append(writer, a_batch("b2"), expected=expected)
    await ensure_log(subject.port, HERE, [first_batch(), kept], "a log that was appended to at the wrong place")


@case("STORE-004")
async def append_checks_the_digest(subject: StoreSubject) -> None:
    """`append` with the right number and the digest of another history is refused, and nothing is written."""
    writer = await started(subject.port)
    with ensure_raises(TailMoved, "appending behind another history of the same length"):
        await subject.port.append(writer, a_batch("b1"), expected=attrs.evolve(writer.tail, digest=GENESIS))
    await ensure_log(subject.port, HERE, [first_batch()], "a log that was appended to with a wrong digest")


@case("STORE-004")
async def append_lets_one_of_two_win(subject: StoreSubject) -> None:
    """Of two appends at one place exactly one is written, and the other is a conflict."""
    writer = await started(subject.port)
    won: list[str] = []
    lost: list[str] = []

    async def attempt(name: str) -> None:
        try:
            await subject.port.append(writer, a_batch(name), expected=writer.tail)
            won.append(name)
        except Conflict:
            lost.append(name)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(attempt, "left")
        nursery.start_soon(attempt, "right")
    ensure_equal((len(won), len(lost)), (1, 1), "appends that won and lost")
    await ensure_log(subject.port, HERE, [first_batch(), a_batch(won[0])], "a log that two wanted to append to")


@case("STORE-004", "DUR-007")
async def a_cancelled_append_can_be_repeated(subject: StoreSubject) -> None:
    """After a cancelled `append`, repeating it says whether it had been written, and it is there once."""
    writer = await started(subject.port)
    batch = a_batch("b1", 3)
    with trio.CancelScope() as scope:
        scope.cancel()
        await subject.port.append(writer, batch, expected=writer.tail)
    tail = await subject.port.inspect_tail(HERE)
    written = tail != writer.tail
    again = await subject.port.append(writer, batch, expected=writer.tail)
    ensure_equal(again.replayed, written, "whether the repeated batch is said to be replayed")
    await ensure_log(subject.port, HERE, [first_batch(), batch], "a log whose append was cancelled and repeated")


@case("CAP-001")
async def an_unknown_conversation_is_said_to_be(subject: StoreSubject) -> None:
    """Every verb that needs a conversation answers `UnknownConversation` where there is none."""
    store = subject.port
    writer = await started(store)
    nowhere = attrs.evolve(writer, address=NOWHERE)
    with ensure_raises(UnknownConversation, "`open_writer` of no conversation"):
        await store.open_writer(NOWHERE)
    with ensure_raises(UnknownConversation, "`append` to no conversation"):
        await store.append(nowhere, a_batch("b1"), expected=writer.tail)
    with ensure_raises(UnknownConversation, "`read` of no conversation"):
        await store.read(NOWHERE)
    with ensure_raises(UnknownConversation, "`inspect_tail` of no conversation"):
        await store.inspect_tail(NOWHERE)
    with ensure_raises(UnknownConversation, "`load_checkpoint` of no conversation"):
        await store.load_checkpoint(NOWHERE)
    ensure_equal([row.conversation for row in await store.list(HERE.tenant)], [HERE.conversation], "conversations")


APPENDING = (
    create_begins_a_log,
    create_again_changes_nothing,
    create_never_replaces,
    append_extends_the_log,
    append_again_writes_once,
    append_refuses_a_reused_identity,
    append_checks_the_sequence,
    append_checks_the_digest,
    append_lets_one_of_two_win,
    a_cancelled_append_can_be_repeated,
    an_unknown_conversation_is_said_to_be,
)
