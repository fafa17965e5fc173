"""What a model is shown of call batches, whatever became of them: all of it, one result a call, in order. RUN-005."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import trio

from triolet.adapters.request_driven_model import RequestDrivenModel
from triolet.adapters.scripted_model import ScriptItem, call, turn
from triolet.kernel import Agent, Completed, Conversation, Policy, tool
from triolet.ports.batch import Batch
from triolet.ports.conversation_store import WriterFenced
from triolet.ports.errors import TrioletError, Unavailable
from triolet.ports.messages import ToolMessage, UserMessage
from triolet.ports.outcomes import Outcome, ToolDefect, ToolUnknownOutcome
from triolet.ports.records import ModelResponded, RunSettled, ToolSettled
from triolet.spec_tests.cases.kernel.setting import (
    Bench,
    KeepingStore,
    KernelSubject,
    ensure_whole,
    open_bench,
    text_agent,
    turns_pass,
)
from triolet.spec_tests.claims import SpecViolation, ensure, ensure_equal
from triolet.spec_tests.definition import case


@tool(execution="idempotent")
async def double(number: int) -> int:
    """Double a number."""
    return 2 * number


@case("RUN-005")
async def a_batch_is_shown_whole(subject: KernelSubject) -> None:
    """A later request holds each earlier batch with all of its results, and user input never stands inside one."""
    script: list[ScriptItem] = [
        turn("One moment.", call("double", {"number": 1}), call("double", {"number": 2}), call("nope")),
        turn(call("double", {"number": 4})),
        turn("done"),
        turn("again"),
    ]
    async with open_bench(subject, script, text_agent(double)) as bench, bench.kernel.conversation() as conversation:
        await conversation.run(bench.agent, "first")
        await conversation.run(bench.agent, "second")
    for place, request in enumerate(bench.requests):
        ensure_whole(request.messages, f"request {place}")
    sizes = [
        [len(each.results) for each in request.messages if isinstance(each, ToolMessage)] for request in bench.requests
    ]
    ensure_equal(sizes, [[], [3], [3, 1], [3, 1]], "the results shown in each request")
    ensure(isinstance(bench.requests[3].messages[-1], UserMessage), "the last request does not end with its input")


@case("RUN-005")
async def a_provider_would_accept_what_is_shown(subject: KernelSubject) -> None:
    """A model that knows only what it is shown, and refuses what a provider would, sees exactly the conversation."""
    model = RequestDrivenModel()
    agent: Agent[str, str] = text_agent(double, model=model)
    async with open_bench(subject, [], agent) as bench, bench.kernel.conversation() as conversation:
        first = await conversation.run(agent, 'call double {"number": 21}')
        second = await conversation.run(agent, "and now?")
    for result in (first, second):
        if not isinstance(result, Completed):
            raise SpecViolation(problem=f"the model refused what it was shown: {getattr(result, 'error', result)}")
        ensure('"results":["42"]' in result.output, "the model was not shown the call's one result")
    ensure('"users":["call double' in second.output, "the model was not shown the first input")


@case("RUN-005")
async def cancelling_seals_open_calls(subject: KernelSubject) -> None:
    """A run that is cancelled while handlers run gives each open call its one result before it is gone."""
    began = trio.Event()

    @tool
    async def hang() -> str:
        began.set()
        await trio.sleep_forever()
        return ""

    calls = turn(call("double", {"number": 1}), call("hang"), call("double", {"number": 2}))
    agent = text_agent(double, hang, policy=Policy(concurrency=2))
    async with _conversation(subject, [calls, turn("fine")], agent) as (bench, conversation):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(conversation.run, agent, "go")
            await began.wait()
            nursery.cancel_scope.cancel()
        _ensure_sealed(bench, 3)
        await _ensure_usable(bench, conversation)


@case("RUN-005")
async def cancelling_at_a_commit_seals_open_calls(subject: KernelSubject) -> None:
    """A run cancelled as its response goes on record, before any handler began, leaves one result for each call."""
    ran: list[int] = []

    @tool
    async def act(number: int) -> int:
        ran.append(number)
        return number

    for when in ("before", "after"):
        ran.clear()
        store = KeepingStore()
        calls = turn(call("act", {"number": 1}), call("act", {"number": 2}))
        agent = text_agent(act)
        async with _conversation(subject, [calls, turn("fine")], agent, store) as (bench, conversation):
            with trio.CancelScope() as scope:
                setattr(store, when, _at_the_response(scope.cancel))
                await conversation.run(agent, "go")
            setattr(store, when, None)
            ensure(scope.cancelled_caught, "a cancelled run did not propagate the cancellation")
            ensure_equal(ran, [], f"handlers that ran although the run was cancelled {when} its response was stored")
            _ensure_sealed(bench, 2)
            await _ensure_usable(bench, conversation)


@case("RUN-005")
async def running_out_of_time_seals_open_calls(subject: KernelSubject) -> None:
    """A run whose time is used up while handlers run gives each open call its one result and fails."""

    @tool
    async def hang() -> str:
        await trio.sleep_forever()
        return ""

    calls = turn(call("hang"), call("double", {"number": 2}))
    agent = text_agent(double, hang, policy=Policy(max_seconds=0.2))
    async with _conversation(subject, [calls, turn("fine")], agent) as (bench, conversation):
        result = await conversation.run(agent, "go")
        ensure(not isinstance(result, Completed), "a run whose time was used up completed")
        _ensure_sealed(bench, 2)
        await _ensure_usable(bench, conversation)


@case("RUN-005", "DUR-007")
async def a_failing_store_leaves_no_call_open(subject: KernelSubject) -> None:
    """Where an append fails, written or not, the run raises, no effect is had twice, and the log can be continued."""
    for place in range(1, 5):
        for written in (False, True):
            await _fail_at(subject, place, written=written)


async def _fail_at(subject: KernelSubject, place: int, *, written: bool) -> None:
    ran: list[int] = []

    @tool
    async def act(number: int) -> int:
        ran.append(number)
        return number

    what = f"append {place} failing {'after' if written else 'before'} it was written"
    seen = 0
    failed = False

    async def fail(_: Batch) -> None:
        nonlocal seen, failed
        await trio.lowlevel.checkpoint()
        seen += 1
        if seen == place:
            failed = True
            raise Unavailable

    store = KeepingStore()
    agent = text_agent(act)
    script = [turn(call("act", {"number": 1}), call("act", {"number": 2})), *[turn("fine")] * 2]
    async with _conversation(subject, script, agent, store) as (bench, conversation):
        setattr(store, "after" if written else "before", fail)
        raised: TrioletError | None = None
        try:
            await conversation.run(agent, "go")
        except TrioletError as error:
            raised = error
        ensure_equal(raised is not None, failed, f"whether the run raised, with {what}")
        store.before = store.after = None
        ensure(len(ran) == len(set(ran)), f"an effect was had twice, with {what}")
        for record in bench.recorded(ModelResponded):
            ids = {each.id for each in record.message.calls}
            settled = [each.call for each in bench.recorded(ToolSettled) if each.call in ids]
            ensure_equal(len(settled), len(ids), f"results on record for {len(ids)} calls, with {what}")
        await _ensure_usable(bench, conversation)


@case("RUN-005")
async def a_lost_run_is_settled_by_the_next_owner(subject: KernelSubject) -> None:
    """Who opens a conversation that another handle left in mid-run finds a whole history; the first one is fenced."""
    began = trio.Event()
    go_on = trio.Event()

    @tool
    async def hang() -> str:
        began.set()
        await go_on.wait()
        return "late"

    agent = text_agent(hang)
    fenced: list[bool] = []
    async with open_bench(subject, [turn(call("hang")), turn("fine")], agent) as bench:

        async def lose() -> None:
            try:
                async with bench.kernel.conversation("shared") as conversation:
                    await conversation.run(agent, "go")
            except WriterFenced:
                fenced.append(True)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(lose)
            await began.wait()
            async with bench.kernel.conversation("shared") as conversation:
                _ensure_sealed(bench, 1)
                result = await conversation.run(agent, "and now?")
                ensure_equal(result.output, "fine", "the answer in a conversation that was taken over")
                go_on.set()
                await turns_pass(lambda: bool(fenced), "fencing the handle that lost its conversation")
                ensure_whole(conversation.history, "the history after the first handle ended")
    ensure_equal([record.status for record in bench.recorded(RunSettled)], ["aborted", "completed"], "settlements")


@asynccontextmanager
async def _conversation(
    subject: KernelSubject, script: Sequence[ScriptItem], agent: Agent[str, str], store: KeepingStore | None = None
) -> AsyncGenerator[tuple[Bench, Conversation]]:
    async with (
        open_bench(subject, script, agent, store=store) as bench,
        bench.kernel.conversation("c") as conversation,
    ):
        yield bench, conversation


def _at_the_response(act: Callable[[], None]) -> Callable[[Batch], Awaitable[None]]:
    async def hook(batch: Batch) -> None:
        if any(isinstance(record, ModelResponded) for record in batch.records):
            act()
            await trio.lowlevel.checkpoint_if_cancelled()

    return hook


def _ensure_sealed(bench: Bench, calls: int) -> None:
    """One result for each call, in order, and the run settled behind them."""
    declared = [each.id for record in bench.recorded(ModelResponded) for each in record.message.calls]
    settled = bench.recorded(ToolSettled)
    ensure_equal(len(declared), calls, "calls on record")
    ensure_equal([record.call for record in settled], declared, "the calls that have results")
    stopped: list[Outcome] = [
        each.outcome for each in settled if isinstance(each.outcome, ToolDefect | ToolUnknownOutcome)
    ]
    ensure(bool(stopped), "no call of a stopped run says that it was stopped")
    ensure(isinstance(bench.records[-1], RunSettled), "a stopped run is not settled last")


async def _ensure_usable(bench: Bench, conversation: Conversation) -> None:
    """The conversation can be gone on with: the next request is whole, and answered."""
    async with bench.kernel.conversation(conversation.id) as reopened:
        ensure_whole(reopened.history, "the history after the run ended")
        before = len(bench.requests)
        result = await reopened.run(bench.agent, "go on")
        ensure_equal(result.output, "fine", "the answer to further input")
        ensure_whole(bench.requests[before].messages, "the request after the run ended")


PAIRING = (
    a_batch_is_shown_whole,
    a_provider_would_accept_what_is_shown,
    cancelling_seals_open_calls,
    cancelling_at_a_commit_seals_open_calls,
    running_out_of_time_seals_open_calls,
    a_failing_store_leaves_no_call_open,
    a_lost_run_is_settled_by_the_next_owner,
)
