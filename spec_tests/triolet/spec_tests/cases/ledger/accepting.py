"""Accepting: what is kept, under which key, in which order. DUR-001, 004, 005, STEER-001, SEC-002, STORE-002, 014."""

from triolet.ports.errors import Conflict, Misuse
from triolet.ports.identity import AgentId, Principal, SubmissionId, TenantId
from triolet.ports.wakeups import WORK, settled_topic
from triolet.spec_tests.cases.ledger.setting import (
    CLERK,
    LEASE,
    TENANT,
    LedgerSubject,
    accepted,
    at,
    claimed,
    ending,
    ensure_idle,
    ensure_refused,
    ensure_standing,
    work,
)
from triolet.spec_tests.claims import ensure, ensure_equal
from triolet.spec_tests.definition import case


@case("STORE-002", "DUR-001")
async def a_key_admits_once(subject: LedgerSubject) -> None:
    """The same work under its key is the same submission, wherever it stands; other work is refused."""
    ledger = subject.port
    first = await accepted(ledger, work("one", key="k"))
    again = await ledger.admit(work("two", key="k"))
    ensure_equal(again.submission.id, first.submission.id, "the submission of a repeated admission")
    ensure_equal(again.status, "ready", "where it stands")
    await ensure_refused(Conflict, ledger.admit, work("three", key="k", text="something else"))
    ensure_equal(len(await ledger.scan()), 1, "how many submissions there are")
    found = await ledger.find(CLERK, "k")
    ensure(found is not None and found.submission.id == "one", "it cannot be found by its key")
    other = await ledger.admit(work("four", key="k", principal=Principal(name="other", tenant=TENANT)))
    ensure_equal(other.submission.id, "four", "the submission of another principal under an equal key")


@case("DUR-001")
async def only_what_is_accepted_is_done(subject: LedgerSubject) -> None:
    """What was admitted is nobody's yet, and holds back nothing; once it is ready it is claimable, and once only."""
    ledger = subject.port
    await ledger.admit(work("one"))
    await ensure_idle(ledger, "work was claimed that is not accepted")
    await accepted(ledger, work("two"))
    await claimed(ledger, "two", "with one that is only admitted before it")
    for _ in range(2):
        ensure_equal((await ledger.mark_ready(TENANT, SubmissionId("two"))).status, "claimed", "a later mark_ready")


@case("DUR-004", "DUR-005")
async def a_conversation_is_done_in_order_one_by_one(subject: LedgerSubject) -> None:
    """The second is not claimable before the first has settled; another conversation's is."""
    ledger = subject.port
    for name in ("one", "two", "three"):
        await accepted(ledger, work(name))
    await accepted(ledger, work("far", where=at("far")))
    first = await claimed(ledger, "one", "of a conversation with three")
    await claimed(ledger, "far", "beside one that is under way")
    await ensure_idle(ledger, "two of one conversation are under way at once")
    await ledger.finalize(first, ending("one"))
    second = await claimed(ledger, "two", "behind the first")
    await ledger.release(second)
    await claimed(ledger, "two", "after it was given back")


@case("DUR-004")
async def a_worker_gets_work_for_its_agents_only(subject: LedgerSubject) -> None:
    """Work for others stays where it is, and holds back only its own conversation."""
    ledger = subject.port
    await accepted(ledger, work("theirs", agent=AgentId("other")))
    await accepted(ledger, work("mine", where=at("there")))
    mine = await ledger.claim("worker", agents=frozenset((AgentId("agent"),)), lease_seconds=LEASE)
    ensure_equal(getattr(getattr(mine, "submission", None), "id", None), "mine", "what was claimed for one agent")
    await ensure_standing(ledger, "theirs", "ready", "what is for another agent")


@case("STEER-001")
async def steering_needs_an_active_run(subject: LedgerSubject) -> None:
    """Refused where nothing was ever claimed; kept while the run is claimed, and between two of its attempts."""
    ledger = subject.port
    await ensure_refused(Conflict, ledger.admit, work("early", kind="steering"))
    await accepted(ledger, work("one"))
    await ensure_refused(Conflict, ledger.admit, work("soon", kind="steering"))
    claim = await claimed(ledger, "one", "the only one")
    await accepted(ledger, work("now", kind="steering"))
    await ledger.release(claim)
    await accepted(ledger, work("between", kind="steering"))


@case("SEC-002")
async def tenants_share_nothing(subject: LedgerSubject) -> None:
    """Another tenant's submission is unknown, and an equal key or conversation is another one."""
    ledger, theirs = subject.port, TenantId("other")
    await accepted(ledger, work("one", key="k"))
    await ensure_refused(Misuse, ledger.lookup, theirs, SubmissionId("one"))
    await ensure_refused(Misuse, ledger.commands, theirs, SubmissionId("one"))
    stranger = Principal(name=CLERK.name, tenant=theirs)
    await accepted(ledger, work("two", key="k", where=at(tenant=theirs), principal=stranger))
    ensure_equal([each.submission.id for each in await ledger.scan(tenant=theirs)], ["two"], "their listing")
    await claimed(ledger, "one", "the first of all")
    await claimed(ledger, "two", "an equal conversation of another tenant")


@case("STORE-014")
async def no_change_is_missed_by_who_watches(subject: LedgerSubject) -> None:
    """A watch that was open before a change is woken by it, also if it waits only afterwards."""
    ledger = subject.port
    async with ledger.watch(WORK) as ready, ledger.watch(settled_topic(SubmissionId("one"))) as settled:
        await accepted(ledger, work("one"))
        await ready.wait()
        claim = await claimed(ledger, "one", "the only one")
        await ledger.finalize(claim, ending("one"))
        await settled.wait()


@case("STORE-002", needs=("reopen",))
async def what_was_acknowledged_is_there_afterwards(subject: LedgerSubject) -> None:
    """Opened again, everything stands where it stood, and its places and epochs go on."""
    ledger = subject.port
    await accepted(ledger, work("one"))
    claim = await claimed(ledger, "one", "the only one")
    await accepted(ledger, work("two"))
    before = await ledger.scan(unsettled=False)
    async with subject.reopened() as again:
        ensure_equal(await again.scan(unsettled=False), before, "the listing")
        await again.release(claim)
        later = await claimed(again, "one", "after it was given back")
        ensure(later.epoch > claim.epoch, "an epoch was given out twice")
        third = await accepted(again, work("three"))
        ensure(third.sequence > before[-1].sequence, "a place was given out twice")


ACCEPTING = (
    a_key_admits_once,
    only_what_is_accepted_is_done,
    a_conversation_is_done_in_order_one_by_one,
    a_worker_gets_work_for_its_agents_only,
    steering_needs_an_active_run,
    tenants_share_nothing,
    no_change_is_missed_by_who_watches,
    what_was_acknowledged_is_there_afterwards,
)
