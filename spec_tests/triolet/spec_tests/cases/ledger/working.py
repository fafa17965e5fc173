"""Working: leases, waits, joins, settlements. DUR-002, 006, 011, 012, 014, 016, APPR-004, STEER-002, OPS-001, 002."""

from triolet.ports.errors import Conflict
from triolet.ports.identity import SubmissionId
from triolet.ports.ledger import Abort, Claim, Ledger, Resolve, Retry
from triolet.ports.outcomes import ToolSuccess
from triolet.ports.strict_json import JsonText
from triolet.spec_tests.cases.ledger.setting import (
    CALL,
    LEASE,
    LOST,
    TENANT,
    TROUBLE,
    UNKNOWN,
    LedgerSubject,
    accepted,
    claimed,
    ending,
    ensure_idle,
    ensure_refused,
    ensure_standing,
    told,
    work,
)
from triolet.spec_tests.claims import ensure, ensure_equal
from triolet.spec_tests.definition import case

ONE = SubmissionId("one")
DONE = ToolSuccess(output=JsonText("1"))


@case("DUR-006", needs=("advance",))
async def a_claim_that_is_over_changes_nothing(subject: LedgerSubject) -> None:
    """Once somebody newer has claimed, every verb under the older claim is refused, and says so."""
    ledger = subject.port
    await accepted(ledger, work("one"))
    await accepted(ledger, work("two", kind="follow-up"))
    old = await claimed(ledger, "one", "the first time")
    await subject.let_pass(LEASE + 1)
    new = await claimed(ledger, "one", "after the lease was over")
    ensure(new.epoch > old.epoch, "a later claim has no higher epoch")
    await _ensure_fenced(ledger, old)
    standing = await ensure_standing(ledger, "one", "claimed", "what a lost claim tried to change")
    ensure_equal(standing.epoch, new.epoch, "the epoch of the owner")
    await ledger.renew(new, lease_seconds=LEASE)
    ensure_equal((await ledger.figures()).fenced, 10, "how many writes of the lost claim were refused")


async def _ensure_fenced(ledger: Ledger, old: Claim) -> None:
    await ensure_refused(LOST, ledger.renew, old, lease_seconds=LEASE)
    await ensure_refused(LOST, ledger.release, old)
    await ensure_refused(LOST, ledger.suspend, old, (UNKNOWN,), until=None)
    await ensure_refused(LOST, ledger.stash, old, CALL, DONE)
    await ensure_refused(LOST, ledger.take, old, ("k",))
    await ensure_refused(LOST, ledger.claim_joining, old, "follow-up", 1)
    await ensure_refused(LOST, ledger.mark_joined, old, (SubmissionId("two"),))
    await ensure_refused(LOST, ledger.revert, old)
    await ensure_refused(LOST, ledger.reserve, old, b"{}")
    await ensure_refused(LOST, ledger.finalize, old, ending("one"))


@case("DUR-006", needs=("advance",))
async def a_lease_that_is_renewed_lasts(subject: LedgerSubject) -> None:
    """Nobody else claims while it is renewed in time; a late renewal counts while nobody has."""
    ledger = subject.port
    await accepted(ledger, work("one"))
    claim = await claimed(ledger, "one", "the only one")
    for _ in range(3):
        await subject.let_pass(LEASE * 0.9)
        await ensure_idle(ledger, "work was claimed whose lease is not over")
        claim = (await ledger.renew(claim, lease_seconds=LEASE)).claim
    await subject.let_pass(LEASE + 1)
    await ledger.renew(claim, lease_seconds=LEASE)
    await ensure_idle(ledger, "work was claimed whose lease was renewed late")


@case("DUR-005")
async def a_run_that_has_begun_is_not_overtaken(subject: LedgerSubject) -> None:
    """What was admitted earlier and accepted later waits until the run that has begun is settled, owned or not."""
    ledger = subject.port
    await ledger.admit(work("early"))
    await accepted(ledger, work("one"))
    claim = await claimed(ledger, "one", "the only one that is accepted")
    await ledger.mark_ready(TENANT, SubmissionId("early"))
    await ensure_idle(ledger, "two submissions of one conversation were owned at once")
    await ledger.suspend(claim, (TROUBLE,), until=None)
    await ensure_idle(ledger, "work was claimed while a run of its conversation waits")
    await ledger.post(TENANT, ONE, told("again", Retry()))
    claim = await claimed(ledger, "one", "the run that has begun")
    await ledger.release(claim)
    await ledger.finalize(await claimed(ledger, "one", "the run that was given back"), ending("one"))
    await claimed(ledger, "early", "what was accepted late, in its turn")


@case("APPR-004", "DUR-005", needs=("advance",))
async def a_wait_holds_no_worker_and_misses_no_word(subject: LedgerSubject) -> None:
    """It ends by word about it, early or late, and by its time; by nothing else, and it keeps its place."""
    ledger = subject.port
    await accepted(ledger, work("one"))
    await accepted(ledger, work("two"))
    claim = await claimed(ledger, "one", "the first time")
    await ledger.suspend(claim, (UNKNOWN,), until=None)
    standing = await ensure_standing(ledger, "one", "suspended", "what waits")
    ensure_equal((standing.worker, standing.waits), (None, (UNKNOWN,)), "who holds it, and what for")
    await ledger.post(TENANT, ONE, told("other", Retry()))
    await ensure_idle(ledger, "a wait was ended by something else, or passed by what is behind it")
    await ledger.post(TENANT, ONE, told("word", Resolve(call=CALL, outcome=DONE)))
    claim = await claimed(ledger, "one", "after word came")
    ensure_equal([command.key for command in claim.commands], ["other", "word"], "the commands of its claim")
    await ledger.suspend(claim, (UNKNOWN,), until=None)
    claim = await claimed(ledger, "one", "with word that was there before the wait")
    await ledger.take(claim, ("other", "word"))
    until = (await ledger.figures()).now + 10_000_000
    await ledger.suspend(claim, (UNKNOWN,), until=type(claim.lease_until)(until))
    idle = await ensure_idle(ledger, "a wait has ended before its time")
    ensure_equal(idle.next_at, until, "when time alone will make something claimable")
    await subject.let_pass(11)
    await claimed(ledger, "one", "after its time")


@case("DUR-012", "SEC-011")
async def a_command_counts_once_and_leaves_its_trail(subject: LedgerSubject) -> None:
    """The same again changes nothing, another under its key is refused, and what was taken stays readable."""
    ledger = subject.port
    await accepted(ledger, work("one"))
    for _ in range(2):
        await ledger.post(TENANT, ONE, told("stop", Abort()))
    await ensure_refused(Conflict, ledger.post, TENANT, ONE, told("stop", Abort(), reason="another"))
    claim = await claimed(ledger, "one", "the only one")
    ensure_equal([command.key for command in claim.commands], ["stop"], "the untaken commands")
    ensure(claim.signals.abort_wanted, "a claim does not tell that an abort waits")
    await ledger.take(claim, ("stop",))
    await ledger.post(TENANT, ONE, told("stop", Abort()))
    kept = await ledger.commands(TENANT, ONE)
    ensure_equal([(each.command.key, each.taken) for each in kept], [("stop", True)], "the trail")
    await ledger.finalize(claim, ending("one"))
    await ledger.post(TENANT, ONE, told("late", Abort()))
    ensure_equal(len(await ledger.commands(TENANT, ONE)), 1, "the trail of settled work")


@case("DUR-016", "STEER-002")
async def input_joins_once_or_goes_back(subject: LedgerSubject) -> None:
    """Given in order, and the same again until it is joined or put back; what joined settles with its run."""
    ledger = subject.port
    await accepted(ledger, work("one"))
    for name in ("a", "b", "c"):
        await accepted(ledger, work(name, kind="follow-up"))
    claim = await claimed(ledger, "one", "the head")
    ensure(claim.signals.input_pending, "a claim does not tell that input waits")
    for _ in range(2):
        given = await ledger.claim_joining(claim, "follow-up", 2)
        ensure_equal([each.id for each in given], ["a", "b"], "what was given")
    await ledger.mark_joined(claim, (SubmissionId("a"),))
    await ledger.revert(claim)
    again = await ledger.claim_joining(claim, "follow-up", 5)
    ensure_equal([each.id for each in again], ["b", "c"], "what was given after it was put back")
    await ledger.finalize(claim, ending("one"))
    joined = await ensure_standing(ledger, "a", "settled", "what had joined")
    ensure_equal(joined.settlement and joined.settlement.run, "one", "the run that it settled with")
    await claimed(ledger, "b", "what did not join, as work of its own")


@case("DUR-002", "DUR-011")
async def an_ending_is_reserved_and_settles_once(subject: LedgerSubject) -> None:
    """The exact batch is kept for whoever comes next; the settlement stands, whoever asks again."""
    ledger = subject.port
    await accepted(ledger, work("one"))
    claim = await claimed(ledger, "one", "the only one")
    for _ in range(2):
        await ledger.reserve(claim, b'{"the":"batch"}')
    await ensure_refused(Conflict, ledger.reserve, claim, b'{"another":"batch"}')
    await ledger.release(claim)
    claim = await claimed(ledger, "one", "after it was given back")
    ensure_equal(claim.reserved, b'{"the":"batch"}', "what was reserved")
    first = await ledger.finalize(claim, ending("one"))
    ensure_equal(await ledger.finalize(claim, ending("one")), first, "the settlement, asked for again")
    await ensure_refused(Conflict, ledger.finalize, claim, ending("one", turns=2))
    standing = await ensure_standing(ledger, "one", "settled", "what was finalized")
    ensure_equal(standing.settlement, first, "its settlement")
    await ensure_idle(ledger, "settled work was claimed")


@case("DUR-014", needs=("advance",))
async def attempts_are_counted_until_work_gets_on(subject: LedgerSubject) -> None:
    """A failed attempt and a lost one count, a clean return does not; a retry by an operator starts again."""
    ledger = subject.port
    await accepted(ledger, work("one"))
    claim = await claimed(ledger, "one", "the first time")
    await ledger.stash(claim, CALL, DONE)
    await ledger.release(claim)
    claim = await claimed(ledger, "one", "after a clean return")
    ensure_equal((claim.attempts, dict(claim.stash)), (1, {CALL: DONE}), "the attempts and the stash after a return")
    soon = (await ledger.figures()).now + 5_000_000
    await ledger.release(claim, not_before=type(claim.lease_until)(soon), failed=True)
    await ensure_idle(ledger, "work was claimed before its time")
    await subject.let_pass(6)
    claim = await claimed(ledger, "one", "after a failed attempt")
    ensure_equal(claim.attempts, 2, "the attempts after a failed one")
    await subject.let_pass(LEASE + 1)
    claim = await claimed(ledger, "one", "after a lost attempt")
    ensure_equal(claim.attempts, 3, "the attempts after a lost one")
    await ledger.suspend(claim, (TROUBLE,), until=None)
    ensure_equal((await ledger.figures()).dead, 1, "what waits for an operator")
    await ledger.post(TENANT, ONE, told("again", Retry()))
    claim = await claimed(ledger, "one", "after an operator said so")
    ensure_equal(claim.attempts, 1, "the attempts after a retry")


@case("OPS-001", "OPS-002", needs=("advance",))
async def what_is_open_can_be_counted(subject: LedgerSubject) -> None:
    """How much is where, since when, and how many outcomes are unknown."""
    ledger = subject.port
    ensure_equal((await ledger.figures()).oldest_unsettled, None, "the oldest of nothing")
    first = await accepted(ledger, work("one"))
    await subject.let_pass(5)
    await accepted(ledger, work("two"))
    claim = await claimed(ledger, "one", "the first")
    await ledger.suspend(claim, (UNKNOWN,), until=None)
    figures = await ledger.figures()
    ensure_equal(dict(figures.by_status), {"suspended": 1, "ready": 1}, "how much is where")
    ensure_equal(figures.oldest_unsettled, first.admitted_at, "since when the oldest is open")
    ensure_equal((figures.unknown, figures.approvals, figures.dead), (1, 0, 0), "what is waited for")
    await ledger.post(TENANT, ONE, told("word", Resolve(call=CALL, outcome=None)))
    await ledger.finalize(await claimed(ledger, "one", "after word came"), ending("one"))
    ensure_equal(dict((await ledger.figures()).by_status), {"ready": 1}, "how much is where after one has settled")


WORKING = (
    a_claim_that_is_over_changes_nothing,
    a_lease_that_is_renewed_lasts,
    a_run_that_has_begun_is_not_overtaken,
    a_wait_holds_no_worker_and_misses_no_word,
    a_command_counts_once_and_leaves_its_trail,
    input_joins_once_or_goes_back,
    an_ending_is_reserved_and_settles_once,
    attempts_are_counted_until_work_gets_on,
    what_is_open_can_be_counted,
)
