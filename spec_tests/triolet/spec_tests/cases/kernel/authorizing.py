"""Authority: asked about each call of the whole batch before any of it, and again when it counts.

RUN-031, SEC-003.
"""

from typing import Any, Final

from triolet.adapters.scripted_model import call, turn
from triolet.kernel import Completed, DeniedError, Failed, RunResult
from triolet.ports.authorizer import Allow, AuthorizerUnavailable, CallTool, Deny, NeedsApproval, Verdict
from triolet.ports.canonical import digest, encode
from triolet.ports.identity import AgentId, CallId, Principal, TenantId
from triolet.ports.outcomes import ToolRejected, ToolSuccess
from triolet.ports.records import ToolPrepared
from triolet.spec_tests.cases.kernel.asking import (
    NOTHING,
    Desk,
    Rules,
    another_kernel,
    asker,
    open_office,
    paying,
    suspension,
    yes,
)
from triolet.spec_tests.cases.kernel.setting import Bench, KernelSubject
from triolet.spec_tests.claims import SpecViolation, ensure, ensure_equal
from triolet.spec_tests.definition import case

_PAY: Final = turn(call("pay", {"amount": 10}))
_THREE: Final = turn(*(call("pay", {"amount": amount}) for amount in (1, 2, 3)))
_DONE: Final = turn("done")
_ANN: Final = Principal(name="ann", tenant=TenantId("acme"))


@case("RUN-031")
async def the_whole_batch_is_authorized_before_any_of_it(subject: KernelSubject) -> None:
    """Authority is asked about each call, on the run's own authority, before anything is prepared or started."""
    ran: list[int] = []
    early: list[tuple[list[int], int]] = []

    def judge(_: Any) -> Verdict:
        early.append((list(ran), len(bench.recorded(ToolPrepared))))
        return Allow()

    rules = Rules(judge)
    pay = paying(ran, ask=False, execution="idempotent", risk="low", targets=_account)
    async with (
        open_office(subject, [_THREE, _DONE], asker(pay), authorizer=rules) as bench,
        bench.kernel.conversation("c1", principal=_ANN) as conversation,
    ):
        result = await conversation.run(bench.agent, "go")
    ensure_equal(early, [(NOTHING, 0)] * 3, "what had run and been prepared each time that authority was asked")
    due = [
        CallTool(
            run=result.run,
            conversation=result.conversation,
            agent=AgentId("agent"),
            call=CallId(f"{result.run}-1-{place}"),
            tool="pay",
            execution="idempotent",
            risk="low",
            targets=(f"a:{place + 1}",),
            arguments=digest("triolet.arguments", encode({"amount": place + 1})),
        )
        for place in range(3)
    ]
    ensure_equal(rules.asked, [(action, _ANN) for action in due], "what authority was asked, and for whom")
    ensure_equal(sorted(ran), [1, 2, 3], "what ran")


@case("RUN-031")
async def a_denial_fails_the_run_and_starts_nothing(subject: KernelSubject) -> None:
    """A denied call fails the run, typed: no handler of its batch starts, no model is asked again, nobody retries."""

    def deny(action: Any) -> Verdict:
        return Deny(reason="not yours") if action.call.endswith("-1") else Allow()

    def away(_: Any) -> Verdict:
        raise AuthorizerUnavailable(problem="away")

    for judge, detail in ((deny, "not yours"), (away, "away")):
        ran: list[int] = []
        rules = Rules(judge)
        agent = asker(paying(ran, ask=False))
        async with open_office(subject, [_THREE, _DONE], agent, authorizer=rules) as bench:
            result = await bench.run()
        _ensure_denied(result, bench, ran)
        ensure_equal(len(bench.outcomes), 3, "results on record of a batch with a denied call")
        ensure(any(detail in repr(each) for each in bench.outcomes), "no result says why the call was denied")
        ensure_equal(len({action.call for action, _ in rules.asked}), len(rules.asked), "calls asked about once")


@case("RUN-031")
async def a_recoverable_denial_is_that_calls_result(subject: KernelSubject) -> None:
    """A denial that authority marks as recoverable is the call's visible rejection; its siblings run."""
    ran: list[int] = []
    rules = Rules(lambda action: Deny(reason="not now", recoverable=True) if action.call.endswith("-1") else Allow())
    agent = asker(paying(ran, ask=False))
    async with open_office(subject, [_THREE, _DONE], agent, authorizer=rules) as bench:
        result = await bench.run()
    ensure_equal((type(result), sorted(ran)), (Completed, [1, 3]), "the result, and what ran")
    kinds = [type(each) for each in bench.outcomes]
    ensure_equal(kinds, [ToolSuccess, ToolRejected, ToolSuccess], "how the calls ended")
    ensure_equal(bench.outcomes[1], ToolRejected(reason="denied", detail="not now"), "the denied call's result")
    ensure("not now" in bench.shown(1), "the model is not shown why its call was denied")


@case("RUN-031")
async def authority_may_want_an_approval(subject: KernelSubject) -> None:
    """Where authority wants a yes, the call is asked about though its tool does not need one, and waits for it."""
    ran: list[int] = []
    desk = Desk()
    rules = Rules(lambda _: NeedsApproval(reason="much money"))
    agent = asker(paying(ran, ask=False))
    async with open_office(subject, [_PAY, _DONE], agent, desk=desk, authorizer=rules) as bench:
        waiting = suspension(await bench.run())
        ensure_equal((ran, len(desk.asked)), (NOTHING, 1), "what ran, and requests, without the yes")
        await bench.kernel.answer(waiting.requests[0].id, yes(waiting.requests[0]))
        result = await bench.kernel.resume(waiting)
    ensure_equal((type(result), ran, len(desk.asked)), (Completed, [10], 1), "the result, what ran, and requests")


@case("SEC-003", "RUN-031")
async def authority_is_asked_again_on_resuming(subject: KernelSubject) -> None:
    """What was allowed before a run was suspended may be denied when it is resumed; it is asked as the same person."""
    ran: list[int] = []
    answers: list[Verdict] = [Allow(), Deny(reason="not any more")]
    rules = Rules(lambda _: answers[min(len(rules.asked), 2) - 1])
    async with (
        open_office(subject, [_PAY, _DONE], asker(paying(ran)), authorizer=rules) as bench,
        bench.kernel.conversation("c1", principal=_ANN) as conversation,
    ):
        waiting = suspension(await conversation.run(bench.agent, "go"))
    async with another_kernel(subject, bench) as later:
        await later.answer(waiting.requests[0].id, yes(waiting.requests[0]))
        result = await later.resume(waiting)
    _ensure_denied(result, bench, ran)
    ensure_equal(len(rules.asked), 2, "how often authority was asked")
    ensure_equal(rules.asked[1], rules.asked[0], "what authority is asked on resuming, and for whom")
    ensure_equal(rules.asked[1][1], _ANN, "for whom authority is asked on resuming")


@case("SEC-003")
async def edited_input_is_authorized_as_it_is(subject: KernelSubject) -> None:
    """An approver's edited input is put to authority anew, with its own arguments; a yes does not stand above it."""
    small = digest("triolet.arguments", encode({"amount": 10}))

    def judge(action: Any) -> Verdict:
        return Allow() if action.arguments == small else Deny(reason="not that much")

    ran: list[int] = []
    desk = Desk(lambda request: yes(request, edited='{"amount":999}'))
    rules = Rules(judge)
    async with open_office(subject, [_PAY, _DONE], asker(paying(ran)), desk=desk, authorizer=rules) as bench:
        result = await bench.run()
    _ensure_denied(result, bench, ran)
    due = [small, digest("triolet.arguments", encode({"amount": 999}))]
    ensure_equal([action.arguments for action, _ in rules.asked], due, "the arguments that authority was asked about")


def _account(given: Any) -> tuple[str, ...]:
    return (f"a:{given.amount}",)


def _ensure_denied(result: RunResult[Any], bench: Bench, ran: list[int]) -> None:
    if not isinstance(result, Failed):
        raise SpecViolation(problem=f"the run is {type(result).__name__}, where authority denied its call")
    ensure_equal(type(result.error), DeniedError, "the failure of a run that authority denied a call")
    ensure_equal(ran, [], "handlers that started though a call of their batch was denied")
    ensure_equal(bench.recorded(ToolPrepared), [], "calls that were prepared though one of their batch was denied")
    ensure_equal(len(bench.requests), 1, "requests to the model")


AUTHORIZING = (
    the_whole_batch_is_authorized_before_any_of_it,
    a_denial_fails_the_run_and_starts_nothing,
    a_recoverable_denial_is_that_calls_result,
    authority_may_want_an_approval,
    authority_is_asked_again_on_resuming,
    edited_input_is_authorized_as_it_is,
)
