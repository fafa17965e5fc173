"""The ledger's contract, verb by verb, on the ledger in memory and on the one in a file: the same for both."""

import math
from collections.abc import AsyncGenerator
from pathlib import Path

import attrs
import pytest
import trio

from tests.ledgers import (
    AGENT,
    ANN,
    KINDS,
    TENANT,
    HandClock,
    Kind,
    Stores,
    command,
    end_batch,
    end_of,
    open_stores,
    settlement_of,
    submission,
)
from triolet.ports.admission import QueueFull
from triolet.ports.approval import ApprovalRequest, Decision
from triolet.ports.canonical import GENESIS
from triolet.ports.conversation_store import (
    Address,
    LimitOutOfBounds,
    Signals,
    TailMoved,
    UnknownConversation,
    Writer,
    WriterFenced,
)
from triolet.ports.errors import Fenced, InvalidValue, Misuse
from triolet.ports.identity import (
    AgentId,
    CallId,
    ConversationId,
    Epoch,
    Principal,
    RequestId,
    RunId,
    SequenceNumber,
    SubmissionId,
    TenantId,
    after,
)
from triolet.ports.ledger import (
    Abort,
    Answer,
    ApprovalWait,
    Claim,
    ClaimLost,
    CommandReused,
    Idle,
    KeyReused,
    NoActiveRun,
    OperatorWait,
    OtherEnding,
    Resolve,
    Retry,
    SharedVerbs,
    Standing,
    StillUnsettled,
    Submission,
    UnknownSubmission,
    UnknownWait,
    Wait,
)
from triolet.ports.outcomes import ToolSuccess, UnknownCall
from triolet.ports.strict_json import JsonText
from triolet.ports.wakeups import WORK, settled_topic
from triolet.spec_tests.cases.conversation_store.setting import a_batch, first_batch

CALL = CallId("s1-1-0")


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    given: Kind = request.param
    return given


@pytest.fixture
async def stores(kind: Kind, tmp_path: Path) -> AsyncGenerator[Stores]:
    async with open_stores(kind, tmp_path, HandClock()) as opened:
        yield opened


def shared_of(stores: Stores) -> SharedVerbs:
    assert stores.ledger.shared is not None
    return stores.ledger.shared


def names(found: tuple[Submission, ...]) -> list[str]:
    return [each.id for each in found]


def approval(*, steerable: bool = False) -> ApprovalWait:
    request = ApprovalRequest(
        id=RequestId("r1"),
        run=RunId("s1"),
        conversation=ConversationId("talk"),
        agent=AGENT,
        call=CALL,
        tool="pay",
        principal=ANN,
        summary="pay",
        targets=(),
        risk="high",
        preview="{}",
        arguments=GENESIS,
        expires_at=None,
        denial="terminal",
    )
    return ApprovalWait(request=request, steerable=steerable)


YES = Answer(request=RequestId("r1"), decision=Decision(verdict="approved", by=ANN))
UNKNOWN = UnknownWait(unknown=UnknownCall(call=CALL, tool="pay", reason="crashed"))
DEAD = OperatorWait(trouble="retries-exhausted", detail="")


# --- admission ------------------------------------------------------------------------------------------


async def test_dur_001_what_is_only_admitted_is_not_worked_on(stores: Stores) -> None:
    work = submission("s1")
    admitted = await stores.ledger.admit(work)
    assert (admitted.status, admitted.submission, admitted.sequence) == ("admitted", work, 1)
    assert (await stores.idle()).next_at is None
    ready = await stores.ledger.mark_ready(TENANT, work.id)
    assert ready == await stores.ledger.mark_ready(TENANT, work.id)
    assert (await stores.claimed()).submission == work


async def test_store_002_the_same_key_is_the_same_work(stores: Stores) -> None:
    first = await stores.ledger.admit(submission("s1", key="k"))
    again = attrs.evolve(submission("other id", key="k"), offered_at=after(stores.clock.now(), 5))
    assert await stores.ledger.admit(again) == first
    assert await stores.ledger.find(ANN, "k") == first
    with pytest.raises(KeyReused) as refused:
        await stores.ledger.admit(submission("s2", key="k", text="something else"))
    assert refused.value.submission == "s1"
    assert await stores.ledger.scan() == (first,)


async def test_sec_002_keys_are_scoped_by_tenant_and_principal(stores: Stores) -> None:
    people = [ANN, Principal(name="bob", tenant=TENANT), Principal(name="ann", tenant=TenantId("other"))]
    for number, person in enumerate(people):
        await stores.ledger.admit(submission(f"s{number}", key="k", principal=person, text=str(number)))
    for number, person in enumerate(people):
        found = await stores.ledger.find(person, "k")
        assert found is not None
        assert found.submission.id == f"s{number}"
    assert await stores.ledger.find(Principal(name="bob", tenant=TenantId("other")), "k") is None
    with pytest.raises(UnknownSubmission):
        await stores.ledger.lookup(TenantId("other"), SubmissionId("s0"))
    with pytest.raises(UnknownSubmission):
        await stores.ledger.post(TenantId("other"), SubmissionId("s0"), command("c", Abort()))


async def test_many_who_ask_at_once_under_one_key_are_admitted_once(stores: Stores) -> None:
    answers: list[Standing] = []

    async def ask(number: int) -> None:
        answers.append(await stores.ledger.admit(submission(f"s{number}", key="k")))

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(ask, number)
    assert len({answer.submission.id for answer in answers}) == 1
    assert len(await stores.ledger.scan()) == 1


async def test_what_no_store_can_keep_is_refused_with_nothing_kept(stores: Stores) -> None:
    good = submission("s1")
    for bad in (
        attrs.evolve(good, key=""),
        attrs.evolve(good, key="k" * 201),
        attrs.evolve(good, key="nul\0"),
        attrs.evolve(good, address=Address(tenant=TENANT, conversation=ConversationId("half \ud800"))),
        attrs.evolve(good, principal=Principal(name="ann", tenant=TenantId("other"))),
        submission("s1", text="half \udc00"),
    ):
        with pytest.raises(Misuse):
            await stores.ledger.admit(bad)
    assert await stores.ledger.scan() == ()
    assert await stores.ledger.find(ANN, "half \ud800") is None
    with pytest.raises(UnknownSubmission):
        await stores.ledger.lookup(TENANT, SubmissionId("half \ud800"))


async def test_sec_013_a_conversation_has_a_bound_and_others_do_not_feel_it(kind: Kind, tmp_path: Path) -> None:
    async with open_stores(kind, tmp_path, HandClock(), waiting_limit=2) as stores:
        await stores.submitted("s1")
        await stores.submitted("s2")
        with pytest.raises(QueueFull):
            await stores.ledger.admit(submission("s3"))
        assert (await stores.ledger.admit(submission("s1"))).status == "ready"
        await stores.submitted("s4", "elsewhere")
        claim = await stores.claimed()
        await stores.ledger.finalize(claim, end_of(claim.submission))
        await stores.submitted("s3")


# --- owning ---------------------------------------------------------------------------------------------


async def test_dur_004_a_conversation_goes_in_order_and_others_do_not_wait_for_it(stores: Stores) -> None:
    for name, conversation in (("s1", "a"), ("s2", "a"), ("s3", "b")):
        await stores.submitted(name, conversation)
        stores.clock.move(1)
    first, other = await stores.claimed(), await stores.claimed()
    assert (first.submission.id, other.submission.id) == ("s1", "s3")
    await stores.idle()
    await stores.ledger.finalize(first, end_of(first.submission))
    assert (await stores.claimed()).submission.id == "s2"


async def test_dur_005_what_is_accepted_late_does_not_overtake_a_run_that_has_begun(stores: Stores) -> None:
    await stores.ledger.admit(submission("s1"))
    await stores.submitted("s2")
    claim = await stores.claimed()
    assert claim.submission.id == "s2"
    await stores.ledger.mark_ready(TENANT, SubmissionId("s1"))
    await stores.idle()
    await stores.ledger.suspend(claim, (DEAD,), until=None)
    await stores.idle()
    await stores.ledger.post(TENANT, SubmissionId("s2"), command("again", Retry()))
    claim = await stores.claimed()
    assert claim.submission.id == "s2"
    await stores.ledger.finalize(claim, end_of(claim.submission))
    assert (await stores.claimed()).submission.id == "s1"


async def test_dur_006_a_lease_that_is_over_lets_another_claim_and_fences_the_first(stores: Stores) -> None:
    work = await stores.submitted("s1")
    old = await stores.claimed("first", lease_seconds=10)
    assert (old.epoch, old.attempts, old.resumed) == (1, 1, False)
    assert (await stores.idle()).next_at == old.lease_until == after(stores.clock.now(), 10)
    stores.clock.move(10)
    new = await stores.claimed("second")
    assert (new.epoch, new.attempts, new.resumed, new.worker) == (2, 2, True, "second")
    verbs = (
        stores.ledger.renew(old, lease_seconds=1),
        stores.ledger.release(old),
        stores.ledger.suspend(old, (DEAD,), until=None),
        stores.ledger.stash(old, CALL, ToolSuccess(output=JsonText("1"))),
        stores.ledger.take(old, ()),
        stores.ledger.claim_joining(old, "steering", 1),
        stores.ledger.mark_joined(old, ()),
        stores.ledger.revert(old),
        stores.ledger.reserve(old, b"{}"),
        stores.ledger.finalize(old, end_of(work)),
    )
    for verb in verbs:
        with pytest.raises(ClaimLost):
            await verb
    assert (await stores.ledger.figures()).fenced == len(verbs)
    assert (await stores.ledger.lookup(TENANT, work.id)).worker == "second"


async def test_a_lease_that_ran_out_is_renewed_if_nobody_has_claimed(stores: Stores) -> None:
    await stores.submitted("s1")
    claim = await stores.claimed(lease_seconds=10)
    stores.clock.move(60)
    renewed = await stores.ledger.renew(claim, lease_seconds=10, at_least=Epoch(7))
    assert (renewed.claim.epoch, renewed.claim.lease_until) == (7, after(stores.clock.now(), 10))
    await stores.idle()
    with pytest.raises(ClaimLost):
        await stores.ledger.renew(claim, lease_seconds=10)
    await stores.ledger.release(renewed.claim)
    assert (await stores.claimed()).epoch == 8


async def test_what_is_given_back_is_claimable_again_when_it_is_time(stores: Stores) -> None:
    await stores.submitted("s1")
    claim = await stores.claimed()
    later = after(stores.clock.now(), 30)
    await stores.ledger.release(claim, not_before=later, failed=True)
    await stores.ledger.release(claim, not_before=later, failed=True)
    assert (await stores.idle()).next_at == later
    stores.clock.move(30)
    claim = await stores.claimed()
    assert claim.attempts == 2
    await stores.ledger.release(claim)
    assert (await stores.claimed()).attempts == 2


@pytest.mark.parametrize("seconds", [0, -1, math.inf, math.nan])
async def test_a_lease_that_makes_no_sense_is_refused(stores: Stores, seconds: float) -> None:
    await stores.submitted("s1")
    with pytest.raises(InvalidValue):
        await stores.ledger.claim("w", agents=None, lease_seconds=seconds)
    with pytest.raises(InvalidValue):
        await stores.ledger.claim("", agents=None, lease_seconds=1)
    assert (await stores.claimed()).attempts == 1


async def test_only_work_for_ones_own_agents_is_claimed(stores: Stores) -> None:
    await stores.submitted("s1", "a", agent=AgentId("other"))
    stores.clock.move(1)
    await stores.submitted("s2", "b")
    assert await stores.ledger.claim("w", agents=frozenset(), lease_seconds=1) == Idle(next_at=None)
    claim = await stores.ledger.claim("w", agents=frozenset((AGENT, AgentId("nobody's"))), lease_seconds=1)
    assert isinstance(claim, Claim)
    assert claim.submission.id == "s2"
    # Nobody is woken for what is due to somebody else, be it sooner.
    theirs = await stores.claimed(lease_seconds=0.5)
    assert theirs.submission.id == "s1"
    idle = await stores.ledger.claim("w", agents=frozenset((AGENT,)), lease_seconds=1)
    assert idle == Idle(next_at=claim.lease_until)
    assert (await stores.idle()).next_at == theirs.lease_until


async def test_the_longest_claimable_goes_first_whatever_agent_it_is_for(stores: Stores) -> None:
    for number, agent in enumerate(("b", "a", "", "c", "a")):
        await stores.submitted(f"s{number}", f"c{number}", agent=AgentId(agent))
        stores.clock.move(1)
    assert [(await stores.claimed()).submission.id for _ in range(5)] == ["s0", "s1", "s2", "s3", "s4"]


# --- waiting and telling --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wait", "about", "other"),
    [
        (approval(), YES, Resolve(call=CALL, outcome=None)),
        (UNKNOWN, Resolve(call=CALL, outcome=None), Resolve(call=CallId("s1-9-9"), outcome=None)),
        (DEAD, Retry(), YES),
        (DEAD, Abort(), YES),
    ],
)
async def test_appr_004_a_wait_holds_no_worker_and_ends_by_what_is_about_it(
    stores: Stores, wait: Wait, about: Answer, other: Answer
) -> None:
    work = await stores.submitted("s1")
    await stores.submitted("s2")
    claim = await stores.claimed()
    await stores.ledger.suspend(claim, (wait,), until=None)
    await stores.ledger.suspend(claim, (wait,), until=None)
    standing = await stores.ledger.lookup(TENANT, work.id)
    assert (standing.status, standing.waits, standing.worker, standing.lease_until) == (
        "suspended",
        (wait,),
        None,
        None,
    )
    assert (await stores.idle()).next_at is None
    assert (await stores.ledger.post(TENANT, work.id, command("c1", other))).status == "suspended"
    assert (await stores.ledger.post(TENANT, work.id, command("c2", about))).status == "ready"
    claim = await stores.claimed()
    assert (claim.submission.id, claim.resumed) == ("s1", True)
    assert [each.key for each in claim.commands] == ["c1", "c2"]


async def test_a_command_that_came_before_the_wait_is_not_missed(stores: Stores) -> None:
    work = await stores.submitted("s1")
    claim = await stores.claimed()
    await stores.ledger.post(TENANT, work.id, command("early", YES))
    await stores.ledger.suspend(claim, (UNKNOWN, approval()), until=None)
    assert (await stores.claimed()).submission == work


async def test_a_wait_may_have_its_time(stores: Stores) -> None:
    await stores.submitted("s1")
    claim = await stores.claimed()
    until = after(stores.clock.now(), 60)
    await stores.ledger.suspend(claim, (approval(),), until=until)
    assert (await stores.idle()).next_at == until
    stores.clock.move(60)
    assert (await stores.claimed()).resumed


async def test_f_023_steering_ends_a_wait_that_says_so(stores: Stores) -> None:
    for steerable, status in ((False, "suspended"), (True, "ready")):
        conversation = str(steerable)
        work = await stores.submitted(f"s-{steerable}", conversation)
        claim = await stores.claimed()
        await stores.ledger.suspend(claim, (approval(steerable=steerable),), until=None)
        await stores.submitted(f"steer-{steerable}", conversation, kind="steering")
        assert (await stores.ledger.lookup(TENANT, work.id)).status == status


async def test_dur_012_commands_are_kept_once_and_dealt_with_in_order(stores: Stores) -> None:
    work = await stores.submitted("s1")
    await stores.ledger.post(TENANT, work.id, command("a", Abort()))
    await stores.ledger.post(TENANT, work.id, attrs.evolve(command("a", Abort()), at=stores.clock.now()))
    await stores.ledger.post(TENANT, work.id, command("b", YES))
    with pytest.raises(CommandReused):
        await stores.ledger.post(TENANT, work.id, command("a", Retry()))
    claim = await stores.claimed()
    assert [each.key for each in claim.commands] == ["a", "b"]
    assert claim.signals == Signals(abort_wanted=True, input_pending=True)
    await stores.ledger.take(claim, ("a", "nobody's"))
    await stores.ledger.take(claim, ("a",))
    await stores.ledger.post(TENANT, work.id, command("a", Abort()))
    kept = await stores.ledger.commands(TENANT, work.id)
    assert [(each.command.key, each.taken) for each in kept] == [("a", True), ("b", False)]
    await stores.ledger.post(TENANT, work.id, command("a", Retry()))
    renewed = await stores.ledger.renew(claim, lease_seconds=10)
    assert [each.key for each in renewed.claim.commands] == ["b", "a"]
    assert renewed.signals == Signals(abort_wanted=False, input_pending=True)


async def test_a_command_lifts_what_a_ready_one_waits_for_and_leaves_a_settled_one_alone(stores: Stores) -> None:
    work = await stores.submitted("s1")
    claim = await stores.claimed()
    await stores.ledger.release(claim, not_before=after(stores.clock.now(), 1_000))
    await stores.idle()
    await stores.ledger.post(TENANT, work.id, command("a", Abort()))
    claim = await stores.claimed()
    await stores.ledger.finalize(claim, end_of(work))
    settled = await stores.ledger.lookup(TENANT, work.id)
    assert await stores.ledger.post(TENANT, work.id, command("late", Abort())) == settled
    assert await stores.ledger.commands(TENANT, work.id) == ()


# --- joining and ending ---------------------------------------------------------------------------------


async def test_steer_001_steering_needs_a_run_that_is_active(stores: Stores) -> None:
    await stores.submitted("s1")
    with pytest.raises(NoActiveRun):
        await stores.ledger.admit(submission("early", kind="steering"))
    claim = await stores.claimed()
    await stores.submitted("now", kind="steering")
    await stores.ledger.finalize(claim, end_of(claim.submission))
    with pytest.raises(NoActiveRun):
        await stores.ledger.admit(submission("late", "elsewhere", kind="steering"))


async def test_dur_016_what_joins_is_given_again_until_it_is_on_record(stores: Stores) -> None:
    work = await stores.submitted("s1")
    claim = await stores.claimed()
    inputs = [await stores.submitted(f"i{number}", kind="steering") for number in range(3)]
    await stores.submitted("f", kind="follow-up")
    assert await stores.ledger.claim_joining(claim, "steering", 2) == tuple(inputs[:2])
    assert await stores.ledger.claim_joining(claim, "steering", 3) == tuple(inputs)
    await stores.ledger.mark_joined(claim, (inputs[0].id, SubmissionId("nobody")))
    await stores.ledger.mark_joined(claim, (inputs[0].id,))
    stores.clock.move(60)
    again = await stores.claimed("another")
    assert again.joining == tuple(inputs[1:])
    await stores.ledger.revert(again)
    assert names(await stores.ledger.claim_joining(again, "steering", 9)) == ["i1", "i2"]
    await stores.ledger.finalize(again, end_of(work))
    standings = {each.submission.id: each for each in await stores.ledger.scan(unsettled=False)}
    assert {name: each.status for name, each in standings.items()} == {
        "s1": "settled",
        "i0": "settled",
        "i1": "ready",
        "i2": "ready",
        "f": "ready",
    }
    assert standings[inputs[0].id].settlement == settlement_of(inputs[0], work, stores.clock.now())
    # What did not join becomes work of its own, in its place.
    assert (await stores.claimed()).submission == inputs[1]


async def test_dur_011_one_ending_is_reserved_and_reached_again_by_whoever_comes_later(stores: Stores) -> None:
    work = await stores.submitted("s1")
    claim = await stores.claimed()
    await stores.ledger.stash(claim, CALL, ToolSuccess(output=JsonText("1")))
    await stores.ledger.stash(claim, CALL, ToolSuccess(output=JsonText("2")))
    await stores.ledger.reserve(claim, b"the end")
    await stores.ledger.reserve(claim, b"the end")
    with pytest.raises(OtherEnding):
        await stores.ledger.reserve(claim, b"another end")
    stores.clock.move(60)
    again = await stores.claimed("another")
    assert (again.reserved, dict(again.stash)) == (b"the end", {CALL: ToolSuccess(output=JsonText("1"))})
    settlement = await stores.ledger.finalize(again, end_of(work))
    assert settlement == settlement_of(work, work, stores.clock.now())
    stores.clock.move(60)
    assert await stores.ledger.finalize(again, end_of(work)) == settlement
    assert await stores.ledger.finalize(claim, end_of(work)) == settlement
    with pytest.raises(OtherEnding):
        await stores.ledger.finalize(again, end_of(work, "aborted"))
    with pytest.raises(ClaimLost):
        await stores.ledger.renew(again, lease_seconds=1)


# --- both at once ---------------------------------------------------------------------------------------


async def submitted_shared(stores: Stores, name: str, conversation: str = "talk") -> Submission:
    work = submission(name, conversation)
    await shared_of(stores).submit(work, first_batch(work.address))
    return work


async def claimed_shared(stores: Stores) -> tuple[Claim, Writer]:
    found = await shared_of(stores).claim_writer("worker", agents=None, lease_seconds=10)
    assert not isinstance(found, Idle)
    claim, writer = found
    assert writer is not None
    return claim, writer


async def test_store_002_shared_verbs_do_what_their_parts_do(stores: Stores) -> None:
    work = submission("s1")
    for _ in range(2):
        standing = await shared_of(stores).submit(work, first_batch(work.address))
        assert (standing.status, standing.sequence) == ("ready", 1)
    # The log's epoch is ahead of the ledger's.
    await stores.conversations.open_writer(work.address, Epoch(5))
    claim, writer = await claimed_shared(stores)
    assert (claim.epoch, writer.epoch) == (6, 6)
    settled = end_of(work)
    batch = end_batch(claim, settled)
    appended = await shared_of(stores).settle(claim, writer, batch, expected=writer.tail, settled=settled)
    assert (appended.tail.sequence, appended.replayed) == (2, False)
    again = await shared_of(stores).settle(claim, writer, batch, expected=writer.tail, settled=settled)
    assert (again.tail, again.replayed) == (appended.tail, True)
    assert (await stores.ledger.lookup(TENANT, work.id)).status == "settled"
    with pytest.raises(OtherEnding):
        other = end_of(work, "aborted")
        await shared_of(stores).settle(claim, writer, end_batch(claim, other), expected=writer.tail, settled=other)


async def test_a_shared_verb_that_fails_in_one_part_changes_neither(stores: Stores) -> None:
    work = await submitted_shared(stores, "s1")
    claim, writer = await claimed_shared(stores)
    settled = end_of(work)
    stale = attrs.evolve(writer.tail, sequence=SequenceNumber(9))
    with pytest.raises(TailMoved):
        await shared_of(stores).settle(claim, writer, end_batch(claim, settled), expected=stale, settled=settled)
    assert (await stores.ledger.lookup(TENANT, work.id)).status == "claimed"
    stores.clock.move(60)
    await claimed_shared(stores)
    with pytest.raises(Fenced):
        await shared_of(stores).settle(claim, writer, end_batch(claim, settled), expected=writer.tail, settled=settled)
    assert (await stores.conversations.inspect_tail(work.address)) == writer.tail
    with pytest.raises(WriterFenced):
        await stores.conversations.append(writer, a_batch("late"), expected=writer.tail)


async def test_a_conversation_that_was_deleted_is_claimed_without_a_writer(stores: Stores) -> None:
    work = await submitted_shared(stores, "s1")
    await stores.conversations.delete(work.address)
    found = await shared_of(stores).claim_writer("worker", agents=None, lease_seconds=10)
    assert not isinstance(found, Idle)
    assert (found[0].submission, found[1]) == (work, None)
    with pytest.raises(UnknownConversation):
        await stores.conversations.open_writer(work.address)


async def test_an_append_tells_what_waits_for_its_claim(stores: Stores) -> None:
    work = await submitted_shared(stores, "s1")
    claim, writer = await claimed_shared(stores)
    tail = writer.tail

    async def told(name: str) -> Signals:
        nonlocal tail
        appended = await stores.conversations.append(writer, a_batch(name), expected=tail)
        tail = appended.tail
        return appended.signals

    assert await told("b1") == Signals()
    await stores.submitted("elsewhere", "another conversation")
    assert await told("b2") == Signals()
    await stores.submitted("f", kind="follow-up")
    assert await told("b3") == Signals(input_pending=True)
    await stores.ledger.claim_joining(claim, "follow-up", 1)
    assert await told("b4") == Signals()
    await stores.ledger.post(TENANT, work.id, command("c", Abort()))
    assert await told("b5") == Signals(abort_wanted=True, input_pending=True)
    await stores.ledger.take(claim, ("c",))
    assert await told("b6") == Signals()


# --- seen from outside ----------------------------------------------------------------------------------


async def test_ops_001_figures_count_what_is_there(stores: Stores) -> None:
    began = stores.clock.now()
    waits: tuple[Wait, ...] = (approval(), UNKNOWN, DEAD)
    for number, wait in enumerate(waits):
        await stores.submitted(f"w{number}", f"c{number}")
        await stores.ledger.suspend(await stores.claimed(), (wait,), until=None)
        stores.clock.move(1)
    since = stores.clock.now()
    await stores.submitted("r", "ready")
    await stores.ledger.admit(submission("a", "admitted"))
    stores.clock.move(1)
    figures = await stores.ledger.figures()
    assert dict(figures.by_status) == {"suspended": 3, "ready": 1, "admitted": 1}
    assert (figures.now, figures.oldest_unsettled, figures.oldest_ready) == (stores.clock.now(), began, since)
    assert (figures.approvals, figures.unknown, figures.dead, figures.fenced) == (1, 1, 1, 0)


async def test_dur_014_a_scan_goes_through_everything_in_order_and_in_pages(stores: Stores) -> None:
    for number in range(6):
        await stores.submitted(f"s{number}", f"c{number % 2}")
    await stores.ledger.admit(submission("theirs", principal=Principal(name="bob", tenant=TenantId("other"))))
    for _ in range(2):
        claim = await stores.claimed()
        await stores.ledger.finalize(claim, end_of(claim.submission))

    async def scanned(**options: object) -> list[str]:
        found = await stores.ledger.scan(**options)  # type: ignore[arg-type]
        return [each.submission.id for each in found]

    assert await scanned() == ["s2", "s3", "s4", "s5", "theirs"]
    assert await scanned(limit=2) == ["s2", "s3"]
    assert await scanned(limit=2, after=SequenceNumber(4)) == ["s4", "s5"]
    assert await scanned(tenant=TENANT, unsettled=False) == ["s0", "s1", "s2", "s3", "s4", "s5"]
    assert await scanned(tenant=TENANT, conversation=ConversationId("c1")) == ["s3", "s5"]
    for limit in (0, 1_001):
        with pytest.raises(LimitOutOfBounds):
            await stores.ledger.scan(limit=limit)
    with pytest.raises(InvalidValue):
        await stores.ledger.scan(conversation=ConversationId("c1"))


async def test_a_conversation_is_forgotten_as_a_whole_and_never_before_its_end(stores: Stores) -> None:
    work = await stores.submitted("s1")
    with pytest.raises(StillUnsettled):
        await stores.ledger.forget(work.address)
    claim = await stores.claimed()
    await stores.ledger.finalize(claim, end_of(work))
    assert await stores.ledger.forget(work.address)
    assert not await stores.ledger.forget(work.address)
    assert await stores.ledger.find(ANN, work.key) is None
    assert (await stores.ledger.admit(submission("s2"))).sequence == 2


async def test_everything_is_there_after_reopening(kind: Kind, tmp_path: Path) -> None:
    clock = HandClock()
    async with open_stores(kind, tmp_path, clock) as stores:
        await submitted_shared(stores, "s1")
        for name in ("s2", "s3"):
            await stores.submitted(name)
        claim, _ = await claimed_shared(stores)
        await stores.ledger.post(TENANT, claim.submission.id, command("c", YES))
        await stores.ledger.stash(claim, CALL, ToolSuccess(output=JsonText("1")))
        await stores.ledger.reserve(claim, b"end")
        before = await stores.ledger.scan(unsettled=False)
    clock.move(60)
    async with open_stores(kind, tmp_path, clock) as stores:
        assert await stores.ledger.scan(unsettled=False) == before
        again, writer = await claimed_shared(stores)
        assert (again.epoch, again.resumed, again.reserved) == (2, True, b"end")
        assert (len(again.stash), [each.key for each in again.commands]) == (1, ["c"])
        assert writer.epoch == 2
        with pytest.raises(ClaimLost):
            await stores.ledger.renew(claim, lease_seconds=1)


async def test_store_014_a_change_between_looking_and_waiting_is_not_missed(stores: Stores) -> None:
    async with stores.ledger.watch(WORK) as work_watch:
        await stores.submitted("s1")
        with trio.fail_after(5):
            await work_watch.wait()
    claim = await stores.claimed()
    async with (
        stores.ledger.watch(settled_topic(claim.submission.id)) as mine,
        stores.ledger.watch(settled_topic(SubmissionId("another"))) as another,
    ):
        await stores.ledger.finalize(claim, end_of(claim.submission))
        with trio.fail_after(5):
            await mine.wait()
        with trio.move_on_after(0) as patience:
            await another.wait()
        assert patience.cancelled_caught
