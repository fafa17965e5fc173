"""Approval: what is asked, what is recorded, and that nothing but a stored yes lets a call run.

APPR-001, APPR-002, APPR-003, CAP-006, TOOL-004.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

import attrs

from triolet.adapters.scripted_model import call, turn
from triolet.kernel import Completed, DeniedError, Failed, tool
from triolet.ports.approval import ApprovalRequest, Decision, GrantTerms
from triolet.ports.canonical import GENESIS, digest, encode
from triolet.ports.identity import AgentId, CallId, Instant, Principal
from triolet.ports.outcomes import ToolInvalidInput, ToolRejected, ToolSuccess
from triolet.ports.records import (
    ApprovalDecided,
    ApprovalRequested,
    CallsDecided,
    GrantGiven,
    ModelResponded,
    ToolPrepared,
)
from triolet.spec_tests.cases.kernel.asking import (
    BOSS,
    NOTHING,
    BrokenDesk,
    Desk,
    LateDesk,
    SilentDesk,
    asker,
    ensure_open,
    no,
    open_office,
    paying,
    suspension,
    yes,
)
from triolet.spec_tests.cases.kernel.setting import Bench, KernelSubject
from triolet.spec_tests.cases.record_samples import AT
from triolet.spec_tests.claims import SpecViolation, ensure, ensure_equal
from triolet.spec_tests.definition import case

_PAY: Final = turn(call("pay", {"amount": 10}))
_TWO: Final = turn(call("pay", {"amount": 1}), call("pay", {"amount": 2}))
_DONE: Final = turn("done")
_SECOND: Final = 1_000_000


@case("APPR-001")
async def a_request_says_all_that_an_answer_depends_on(subject: KernelSubject) -> None:
    """A request has its run's and call's identity, who asks, targets, risk, redacted preview, expiry and denial."""

    @tool(
        needs_approval=True,
        risk="high",
        targets=lambda given: (f"zebra:{given.account}", f"account:{given.account}"),
        redact=lambda value: {**value, "pin": "*"} if isinstance(value, dict) else value,
    )
    async def move(account: str, pin: str) -> str:
        return f"moved {account} {len(pin)}"

    desk = Desk(no)
    ann = Principal(name="ann")
    script = [turn(call("move", {"account": "A1", "pin": "4711"}))]
    async with (
        open_office(subject, script, asker(move, seconds=30), desk=desk) as bench,
        bench.kernel.conversation("c1", principal=ann) as conversation,
    ):
        result = await conversation.run(bench.agent, "go")
    asked = _only(desk)
    ensure(bool(asked.id), "a request has no id of its own")
    ensure(bool(asked.summary) and "move" in asked.summary, "the summary does not say what is asked")
    ensure("4711" not in asked.preview and "A1" in asked.preview, "the preview is not the redacted input")
    due = ApprovalRequest(
        id=asked.id,
        run=result.run,
        conversation=result.conversation,
        agent=AgentId("agent"),
        call=CallId(f"{result.run}-1-0"),
        tool="move",
        principal=ann,
        summary=asked.summary,
        targets=("account:A1", "zebra:A1"),
        risk="high",
        preview=asked.preview,
        arguments=digest("triolet.arguments", encode({"account": "A1", "pin": "4711"})),
        expires_at=Instant(AT + 30 * _SECOND),
        denial="terminal",
    )
    ensure_equal(asked, due, "the request")
    ensure_equal(str(result.conversation), "c1", "the conversation of the request")


@case("APPR-001")
async def a_request_ends_with_whatever_ends_first(subject: KernelSubject) -> None:
    """A request expires with its own time or with its run's deadline, whichever is earlier, and says when."""
    for own, deadline, due in ((30.0, 600.0, 30), (30.0, 5.0, 5), (None, 5.0, 5), (30.0, None, 30), (None, None, None)):
        desk = Desk(no)
        agent = asker(paying([]), seconds=own, limits={"max_seconds": deadline})
        async with open_office(subject, [_PAY], agent, desk=desk) as bench:
            await bench.run()
        expected = None if due is None else AT + due * _SECOND
        what = f"the expiry where a request has {own} and its run {deadline} seconds"
        ensure_equal(_only(desk).expires_at, expected, what)


@case("APPR-001")
async def a_denial_does_what_its_request_said(subject: KernelSubject) -> None:
    """A denial fails the run, typed; only where its request said that it is recoverable the model reads the reason."""
    ran: list[int] = []
    desk = Desk(no)
    async with open_office(subject, [_PAY, _DONE], asker(paying(ran)), desk=desk) as bench:
        result = await bench.run()
    if not isinstance(result, Failed):
        raise SpecViolation(problem=f"the run is {type(result).__name__}, where its only call was denied")
    ensure_equal(type(result.error), DeniedError, "the failure of a run whose call was denied")
    ensure_equal(len(bench.requests), 1, "requests of a run whose call was denied")
    async with open_office(subject, [_PAY, _DONE], asker(paying(ran), denial="recoverable"), desk=Desk(no)) as bench:
        result = await bench.run()
    ensure_equal(type(result), Completed, "the result where a denial is recoverable")
    ensure_equal(bench.outcomes, [ToolRejected(reason="denied", detail="too much")], "the outcome of a denied call")
    ensure("too much" in bench.shown(1), "the model is not shown why its call was denied")
    ensure_equal(ran, [], "handlers that ran though their calls were denied")


@case("APPR-002")
async def silence_and_failure_are_denials(subject: KernelSubject) -> None:
    """A desk that stays silent or fails denies; unless the policy waits, or approves, which is then on record so."""
    for name, desk in (("silent", SilentDesk()), ("broken", BrokenDesk())):
        for silence in ("deny", "wait", "approve"):
            ran: list[int] = []
            agent = asker(paying(ran), seconds=0.05, silence=silence)
            async with open_office(subject, [_PAY, _DONE], agent, desk=desk) as bench:
                result = await bench.run()
                what = f"with a {name} desk and the policy to {silence}"
                decided = [(each.verdict, each.source) for each in bench.recorded(ApprovalDecided)]
                if silence == "wait":
                    await ensure_open(bench, suspension(result))
            if silence == "deny":
                ensure_equal((type(result), ran), (Failed, NOTHING), f"the result and what ran, {what}")
                ensure_equal(decided, [("expired" if name == "silent" else "denied", "policy")], f"the answer, {what}")
            elif silence == "wait":
                ensure_equal((len(decided), ran), (0, NOTHING), f"answers and what ran, {what}")
            else:
                ensure_equal((type(result), ran), (Completed, [10]), f"the result and what ran, {what}")
                ensure_equal(decided, [("approved", "policy")], f"the answer, {what}")


@case("APPR-002")
async def only_an_answer_to_exactly_this_counts(subject: KernelSubject) -> None:
    """An answer about other arguments, or one that cannot be put on record, changes nothing: the call stays unrun."""
    wrong: tuple[Decision, ...] = (
        yes(arguments=GENESIS),
        yes(edited="[]"),
        yes(edited="{"),
        attrs.evolve(yes(edited='{"amount":1}'), verdict="denied"),
        yes(grant=GrantTerms(scope="run", seconds=-1.0)),
    )
    for answer in wrong:
        ran: list[int] = []
        desk = Desk(partial(_answer, answer))
        async with open_office(subject, [_PAY, _DONE], asker(paying(ran)), desk=desk) as bench:
            waiting = suspension(await bench.run())
            ensure_equal(bench.recorded(ApprovalDecided), [], "void answers on record")
            await ensure_open(bench, waiting)
        ensure_equal(ran, [], "what a void answer let run")


@case("APPR-002")
async def what_was_approved_is_what_runs(subject: KernelSubject) -> None:
    """A yes runs the call once; a yes to edited input runs it on that, if it decodes, and asks nobody again."""
    for edited, runs, kind in ((None, [10], ToolSuccess), ('{"amount":3}', [3], ToolSuccess), ("{}", [], None)):
        ran: list[int] = []
        desk = Desk(partial(yes, edited=edited))
        async with open_office(subject, [_PAY, _DONE], asker(paying(ran)), desk=desk) as bench:
            result = await bench.run()
        what = f"an approval of {edited or 'what was asked'}"
        ensure_equal((ran, type(result)), (runs, Completed), f"what ran, and the result, with {what}")
        ensure_equal([type(each) for each in bench.outcomes], [kind or ToolInvalidInput], f"the outcomes with {what}")
        ensure_equal(len(desk.asked), 1, f"requests, with {what}")


@case("APPR-002")
async def a_grant_covers_what_it_says_and_no_more(subject: KernelSubject) -> None:
    """A grant lets exactly equal arguments of its tool pass unasked; others of the tool ask as ever."""
    ran: list[int] = []
    desk = Desk(lambda request: yes(request, grant=GrantTerms(scope="run")))
    script = [_PAY, _PAY, turn(call("pay", {"amount": 11})), _DONE]
    async with open_office(subject, script, asker(paying(ran)), desk=desk) as bench:
        await bench.run()
    ensure_equal(ran, [10, 10, 11], "what ran")
    places = [request.call.rpartition("-")[0].rpartition("-")[2] for request in desk.asked]
    ensure_equal(places, ["1", "3"], "the turns whose call was asked about")
    sources = [each.source for each in bench.recorded(ApprovalDecided)]
    ensure_equal(sources, ["approver", "grant", "approver"], "where the yes of each call is from")
    ensure_equal(len(bench.recorded(GrantGiven)), 2, "grants on record")


@case("APPR-003")
async def a_ready_answer_commits_with_its_request(subject: KernelSubject) -> None:
    """What a desk knows at once is in the batch of its request; what it does not know, in a later one."""
    for desk, together in ((Desk(yes), True), (LateDesk(yes), False)):
        ran: list[int] = []
        async with open_office(subject, [_TWO, _DONE], asker(paying(ran)), desk=desk) as bench:
            await bench.run()
        asked = [_place(bench, record) for record in bench.recorded(ApprovalRequested)]
        decided = [_place(bench, record) for record in bench.recorded(ApprovalDecided)]
        ensure_equal((len(asked), len(decided), sorted(ran)), (2, 2, [1, 2]), "requests, answers, and what ran")
        ensure_equal(len(set(asked)), 1, "batches that hold the requests of one response")
        if together:
            ensure_equal(decided, asked, "the batches of answers that were there at once")
        else:
            ensure(min(decided) > asked[0], "an answer that somebody waited for is said to have been there at once")


@case("CAP-006")
async def requests_and_answers_are_on_record(subject: KernelSubject) -> None:
    """The log holds each request as the desk was shown it, and its answer with who, when, why and where from."""
    for answer, denial in ((yes, "terminal"), (no, "recoverable"), (no, "terminal")):
        desk = Desk(answer)
        async with open_office(subject, [_PAY, _DONE], asker(paying([]), denial=denial), desk=desk) as bench:
            await bench.run()
        ensure_equal([each.request for each in bench.recorded(ApprovalRequested)], desk.asked, "requests on record")
        request = _only(desk)
        said = answer(request)
        due = ApprovalDecided(
            request=request.id,
            call=request.call,
            verdict=said.verdict,
            source="approver",
            by=BOSS,
            decided_at=AT,
            reason=said.reason,
        )
        ensure_equal(bench.recorded(ApprovalDecided), [due], "answers on record")


@case("TOOL-004")
async def nothing_starts_before_the_whole_batch_is_answered(subject: KernelSubject) -> None:
    """While one call of a batch waits for its answer none of it runs; where it is denied, none of it ever does."""
    for answer, runs in ((yes, [1, 2, 3]), (no, [])):
        ran: list[int] = []
        early: list[int] = []
        desk = LateDesk(partial(_answer_noting, answer, ran, early))
        tools = (paying(ran, ask=False, name="look", execution="readonly"), paying(ran))
        batch = turn(call("look", {"amount": 1}), call("pay", {"amount": 2}), call("look", {"amount": 3}))
        async with open_office(subject, [batch, _DONE], asker(*tools), desk=desk) as bench:
            await bench.run()
        ensure_equal(early, [], "handlers that ran while a call of their batch had no answer")
        ensure_equal(sorted(ran), runs, "handlers that ran in all")
        ensure_equal(len(bench.outcomes), 3, "results on record")
        decided = [_place(bench, record) for record in bench.recorded(CallsDecided)]
        answers = [_place(bench, record) for record in bench.recorded(ApprovalDecided)]
        prepared = [_place(bench, record) for record in bench.recorded(ToolPrepared)]
        ensure(
            not runs or answers < decided <= prepared,
            "the batch was decided or prepared before its answer was on record",
        )
        ensure_equal(len(bench.recorded(ModelResponded)), 2 if runs else 1, "responses")


def _answer(answer: Decision, _: ApprovalRequest) -> Decision:
    return answer


def _answer_noting(
    answer: Callable[[ApprovalRequest], Decision], ran: list[int], early: list[int], request: ApprovalRequest
) -> Decision:
    early.extend(ran)
    return answer(request)


def _only(desk: Desk) -> ApprovalRequest:
    ensure_equal(len(desk.asked), 1, "requests that came to the desk")
    return desk.asked[0]


def _place(bench: Bench, record: object) -> int:
    places = [place for place, batch in enumerate(bench.store.batches) if any(each is record for each in batch.records)]
    return places[0]


APPROVING = (
    a_request_says_all_that_an_answer_depends_on,
    a_request_ends_with_whatever_ends_first,
    a_denial_does_what_its_request_said,
    silence_and_failure_are_denials,
    only_an_answer_to_exactly_this_counts,
    what_was_approved_is_what_runs,
    a_grant_covers_what_it_says_and_no_more,
    a_ready_answer_commits_with_its_request,
    requests_and_answers_are_on_record,
    nothing_starts_before_the_whole_batch_is_answered,
)
