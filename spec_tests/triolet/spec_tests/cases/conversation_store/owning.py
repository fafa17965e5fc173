"""Who may write: epochs, fencing, tenants, deletion, checkpoints.

STORE-004, STORE-007, DUR-006, SEC-002.
"""

import attrs

from triolet.ports.conversation_store import Checkpoint, UnknownConversation, WriterFenced
from triolet.ports.errors import Fenced, TrioletError
from triolet.ports.identity import Epoch, TenantId
from triolet.spec_tests.cases.conversation_store.setting import (
    HERE,
    TENANT,
    StoreSubject,
    a_batch,
    at,
    ensure_log,
    filled,
    first_batch,
    started,
)
from triolet.spec_tests.claims import SpecViolation, ensure, ensure_equal, ensure_raises, lever
from triolet.spec_tests.definition import case

_OTHERS = TenantId("others")


@case("DUR-006")
async def epochs_only_grow(subject: StoreSubject) -> None:
    """`open_writer` allots the next epoch, gives the current one again, and refuses a lower one."""
    store = subject.port
    first = await started(store)
    second = await store.open_writer(HERE)
    ensure(second.epoch > first.epoch, "a second writer has no higher epoch than the first")
    same = await store.open_writer(HERE, second.epoch)
    ensure_equal(same, second, "the right to the current epoch, opened again")
    far = await store.open_writer(HERE, Epoch(second.epoch + 10))
    ensure_equal(far.epoch, second.epoch + 10, "an epoch that was asked for")
    with ensure_raises(WriterFenced, "`open_writer` of an epoch below the current one"):
        await store.open_writer(HERE, second.epoch)
    after = await store.open_writer(HERE)
    ensure(after.epoch > far.epoch, "the epoch that the log allots is not above all before")
    ensure_equal(after.tail, await store.inspect_tail(HERE), "the tail that a writer is told")


@case("DUR-006", "STORE-004")
async def a_fenced_writer_writes_nothing(subject: StoreSubject) -> None:
    """Once a higher epoch is open, a lower one's appends are refused, even of a batch that is there."""
    store = subject.port
    old = await started(store)
    kept = a_batch("b1")
    appended = await store.append(old, kept, expected=old.tail)
    new = await store.open_writer(HERE)
    for batch in (a_batch("b2"), kept):
        with ensure_raises(WriterFenced, "an append of a writer that has been replaced"):
            await store.append(old, batch, expected=appended.tail)
    mine = a_batch("b3")
    await store.append(new, mine, expected=new.tail)
    await ensure_log(store, HERE, [first_batch(), kept, mine], "a log with an old and a new writer")


@case("DUR-006", needs=("reopen",))
async def fencing_outlives_the_store(subject: StoreSubject) -> None:
    """An epoch stays refused after the store has been opened again."""
    old = await started(subject.port)
    await subject.port.open_writer(HERE)
    async with lever(subject.reopen, "reopen")() as store:
        with ensure_raises(WriterFenced, "an append of a writer that was replaced before the store was reopened"):
            await store.append(old, a_batch("b1"), expected=old.tail)
        with ensure_raises(WriterFenced, "`open_writer` of an epoch that was replaced before"):
            await store.open_writer(HERE, old.epoch)


@case("SEC-002")
async def tenants_are_strangers(subject: StoreSubject) -> None:
    """Equal conversation ids of two tenants are two logs: listed, read, written and deleted apart."""
    store = subject.port
    theirs = at("here", _OTHERS)
    await filled(store, 1)
    with ensure_raises(UnknownConversation, "reading another tenant's conversation"):
        await store.read(theirs)
    with ensure_raises(UnknownConversation, "owning another tenant's conversation"):
        await store.open_writer(theirs)
    ensure_equal(await store.list(_OTHERS), (), "conversations of a tenant that has none")
    await started(store, theirs)
    await ensure_log(store, theirs, [first_batch(theirs)], "the other tenant's log")
    await ensure_log(store, HERE, [first_batch(), a_batch("b0")], "this tenant's log")
    ensure(await store.delete(theirs), "deleting the other tenant's conversation found none")
    ensure_equal([row.conversation for row in await store.list(TENANT)], [HERE.conversation], "what is left")


@case("CAP-001")
async def delete_removes_everything(subject: StoreSubject) -> None:
    """`delete` says whether there was one; afterwards there is no log, no row, no checkpoint, and a new one is new."""
    store = subject.port
    writer, tail, _ = await filled(store, 2)
    await store.save_checkpoint(writer, Checkpoint(tail=tail, machine_version=1, body=b"x"))
    ensure_equal(await store.delete(HERE), True, "deleting a conversation")
    ensure_equal(await store.delete(HERE), False, "deleting it again")
    ensure_equal(await store.list(TENANT), (), "conversations")
    with ensure_raises(UnknownConversation, "reading a deleted conversation"):
        await store.read(HERE)
    with ensure_raises(UnknownConversation, "appending to a deleted conversation"):
        await store.append(writer, a_batch("b9"), expected=tail)
    anew = await started(store)
    await ensure_log(store, HERE, [first_batch()], "a conversation created after a deleted one")
    ensure_equal(await store.load_checkpoint(HERE), None, "the checkpoint of a new conversation")
    await store.append(anew, a_batch("b0"), expected=anew.tail)


@case("DUR-006")
async def delete_fences_the_writer(subject: StoreSubject) -> None:
    """A right to a deleted conversation is none to one that is created later under the same id."""
    store = subject.port
    await started(store)
    old = await store.open_writer(HERE)
    await store.delete(HERE)
    await store.create(HERE, first_batch())
    tail = await store.inspect_tail(HERE)
    try:
        await store.append(old, a_batch("b1"), expected=tail)
    except Fenced:
        return
    except TrioletError as error:
        raise SpecViolation(problem=f"it is refused with {type(error).__name__}, not as fenced") from error
    raise SpecViolation(problem="a writer of a deleted conversation appended to its successor")


@case("DUR-006", "STORE-007")
async def a_fenced_writer_keeps_no_checkpoint(subject: StoreSubject) -> None:
    """`save_checkpoint` of a writer that has been replaced is refused."""
    store = subject.port
    old = await started(store)
    await store.open_writer(HERE)
    mark = Checkpoint(tail=old.tail, machine_version=1, body=b"old")
    with ensure_raises(WriterFenced, "a checkpoint of a writer that has been replaced"):
        await store.save_checkpoint(old, mark)
    ensure_equal(await store.load_checkpoint(HERE), None, "the checkpoint")


@case("STORE-007")
async def a_checkpoint_is_the_latest_or_none(subject: StoreSubject) -> None:
    """`load_checkpoint` gives the latest by its tail, whole, and None where there is none."""
    store = subject.port
    writer, tail, _ = await filled(store, 1, 1)
    ensure_equal(await store.load_checkpoint(HERE), None, "the checkpoint of a log that has none")
    late = Checkpoint(tail=tail, machine_version=3, body=bytes(range(256)))
    early = attrs.evolve(late, tail=writer.tail, body=b"early")
    await store.save_checkpoint(writer, early)
    ensure_equal(await store.load_checkpoint(HERE), early, "the only checkpoint")
    await store.save_checkpoint(writer, late)
    await store.save_checkpoint(writer, early)
    ensure_equal(await store.load_checkpoint(HERE), late, "the checkpoint after an earlier one was saved once more")
    await store.save_checkpoint(writer, late)
    ensure_equal(await store.load_checkpoint(HERE), late, "the checkpoint after it was saved once more")
    await ensure_log(store, HERE, [first_batch(), a_batch("b0"), a_batch("b1")], "a log with checkpoints")


OWNING = (
    epochs_only_grow,
    a_fenced_writer_writes_nothing,
    fencing_outlives_the_store,
    tenants_are_strangers,
    delete_removes_everything,
    delete_fences_the_writer,
    a_fenced_writer_keeps_no_checkpoint,
    a_checkpoint_is_the_latest_or_none,
)
