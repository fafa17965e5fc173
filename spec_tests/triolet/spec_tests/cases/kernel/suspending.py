"""Suspension: a run that waits for answers, and is gone on with by whoever has its store.

APPR-005, RUN-002.
"""

from contextlib import suppress
from typing import Any, Final

from triolet.adapters.scripted_model import call, turn
from triolet.kernel import Completed, Failed, NotSuspended
from triolet.ports.batch import Batch
from triolet.ports.events import RunSuspended, TerminalEvent
from triolet.ports.records import ApprovalDecided, AttemptStarted, CallsDecided, Record, RunSettled, ToolSettled
from triolet.spec_tests.cases.kernel.asking import (
    NOTHING,
    another_kernel,
    asker,
    no,
    open_office,
    paying,
    suspension,
    yes,
)
from triolet.spec_tests.cases.kernel.setting import Bench, KernelSubject, ensure_whole
from triolet.spec_tests.claims import ensure, ensure_equal, ensure_raises
from triolet.spec_tests.definition import case

_TWO: Final = turn(call("pay", {"amount": 1}), call("pay", {"amount": 2}))
_DONE: Final = turn("done")


@case("APPR-005")
async def an_answer_is_on_record_before_it_counts(subject: KernelSubject) -> None:
    """The resuming attempt records its start and the answers, then runs the declared batch; no model is asked first."""
    ran: list[int] = []
    recorded_when_run: list[bool] = []

    class Noting(list[int]):
        def append(self, amount: int, /) -> None:
            recorded_when_run.append(len(bench.recorded(ApprovalDecided)) == 2)
            ran.append(amount)

    async with open_office(subject, [_TWO, _DONE], asker(paying(Noting()))) as bench:
        waiting = suspension(await bench.run())
        for request in waiting.requests:
            await bench.kernel.answer(request.id, yes(request))
        before = len(bench.records)
        result = await bench.kernel.resume(waiting)
    ensure_equal((type(result), sorted(ran)), (Completed, [1, 2]), "the result, and what ran")
    ensure_equal(recorded_when_run, [True, True], "whether both answers were on record when each handler ran")
    families: list[type[Record]] = [type(record) for record in bench.records[before:]]
    due = [AttemptStarted, ApprovalDecided, ApprovalDecided, CallsDecided]
    ensure_equal(families[:4], due, "the first records of the resuming attempt")
    ensure_equal(len(bench.requests), 2, "requests to the model in all")
    ensure_whole(bench.requests[1].messages, "the request after resuming")


@case("APPR-005")
async def answers_come_in_any_order_one_by_one(subject: KernelSubject) -> None:
    """With some answers still missing a resumed run waits again, for those alone, and runs nothing; none is lost."""
    for order in ((0, 1), (1, 0)):
        ran: list[int] = []
        async with open_office(subject, [_TWO, _DONE], asker(paying(ran))) as bench:
            first = suspension(await bench.run())
            one, other = (first.requests[place] for place in order)
            await bench.kernel.answer(one.id, yes(one))
            second = suspension(await bench.kernel.resume(first))
            ensure_equal(list(second.requests), [other], "what a run waits for that has one of two answers")
            ensure_equal((ran, len(bench.requests)), (NOTHING, 1), "what ran, and requests, with one of two answers")
            await bench.kernel.answer(other.id, yes(other))
            result = await bench.kernel.resume(second)
        ensure_equal((type(result), sorted(ran)), (Completed, [1, 2]), "the result, and what ran")
        decided = [record.request for record in bench.recorded(ApprovalDecided)]
        ensure_equal(decided, [one.id, other.id], "answers on record")


@case("APPR-005")
async def another_kernel_goes_on(subject: KernelSubject) -> None:
    """A kernel that has the same ports, and nothing else of the first, resumes the run to the same end."""
    for answer, ending in ((yes, Completed), (no, Failed)):
        ran: list[int] = []
        async with open_office(subject, [_TWO, _DONE], asker(paying(ran))) as bench:
            waiting = suspension(await bench.run())
        async with another_kernel(subject, bench) as later:
            for request in waiting.requests:
                await later.answer(request.id, answer(request))
            result = await later.resume(waiting)
        ensure_equal(type(result), ending, "the result of a run that another kernel resumed")
        ensure_equal(sorted(ran), [1, 2] if ending is Completed else [], "what ran")
        ensure_equal(len(bench.requests), 2 if ending is Completed else 1, "requests to the model in all")
        ensure_equal(len(bench.outcomes), 2, "results on record")


@case("APPR-005")
async def a_suspension_is_resumed_once(subject: KernelSubject) -> None:
    """Who resumes a suspension that somebody has resumed gets a conflict; nothing is recorded and nothing runs."""
    ran: list[int] = []
    async with open_office(subject, [_TWO, _DONE], asker(paying(ran))) as bench:
        async with bench.kernel.conversation("c1") as conversation:
            waiting = suspension(await conversation.run(bench.agent, "go"))
        again = suspension(await bench.kernel.resume(waiting))
        for request in waiting.requests:
            await bench.kernel.answer(request.id, yes(request))
        before = len(bench.store.batches)
        with ensure_raises(NotSuspended, "resuming what was resumed before"):
            await bench.kernel.resume(waiting)
        ensure_equal((len(bench.store.batches), ran), (before, NOTHING), "batches, and what ran, after a second resume")
        await bench.kernel.resume(again)
        with ensure_raises(NotSuspended, "resuming what has settled"):
            await bench.kernel.resume(again)
    ensure_equal(sorted(ran), [1, 2], "what ran")


@case("APPR-005")
async def an_answer_outlives_a_resume_that_failed(subject: KernelSubject) -> None:
    """Where the attempt's first batch cannot be written, nothing runs, and the answers are there for the next one."""
    ran: list[int] = []

    async def refuse(_: Batch) -> None:
        raise OSError("the disk is away")

    async with open_office(subject, [_TWO, _DONE], asker(paying(ran))) as bench:
        waiting = suspension(await bench.run())
        for request in waiting.requests:
            await bench.kernel.answer(request.id, yes(request))
        bench.store.before = refuse
        with suppress(OSError):
            await bench.kernel.resume(waiting)
        ensure_equal(ran, [], "what ran without its answer on record")
        bench.store.before = None
        async with another_kernel(subject, bench) as later, later.conversation(waiting.conversation) as conversation:
            now = conversation.suspended
            ensure(now is not None, "the run does not wait any more after a resume that could not be recorded")
            if now is not None:
                await later.resume(now)
    ensure_equal(sorted(ran), [1, 2], "what ran")


@case("RUN-002")
async def a_suspended_trace_ends_once_too(subject: KernelSubject) -> None:
    """A suspended attempt's trace ends with one terminal event and no settlement; the resumed run settles once."""
    async with open_office(subject, [_TWO, _DONE], asker(paying([]))) as bench:
        events, result = await bench.observe()
        waiting = suspension(result)
        terminal = [event for event in events if isinstance(event, TerminalEvent)]
        ensure_equal([type(event) for event in terminal], [RunSuspended], "terminal events of a suspended run")
        ensure(events[-1] is terminal[0], "events follow the terminal one")
        ensure_equal(_settled(bench), [], "settlements of a suspended run")
        ensure_equal(bench.recorded(ToolSettled), [], "results of a run that waits")
        for request in waiting.requests:
            await bench.kernel.answer(request.id, yes(request))
        await bench.kernel.resume(waiting)
    ensure_equal(_settled(bench), ["completed"], "settlements in the end")


def _settled(bench: Bench) -> list[Any]:
    return [record.status for record in bench.recorded(RunSettled)]


SUSPENDING = (
    an_answer_is_on_record_before_it_counts,
    answers_come_in_any_order_one_by_one,
    another_kernel_goes_on,
    a_suspension_is_resumed_once,
    an_answer_outlives_a_resume_that_failed,
    a_suspended_trace_ends_once_too,
)
