"""Steering and follow-ups: who is heard, when it enters, and that nothing is lost or said twice.

STEER-001, STEER-002, RUN-014, RUN-015, DUR-016.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, Final

import trio

from triolet.adapters.memory import MemoryInputs
from triolet.adapters.scripted_model import ScriptedModel, ScriptItem, call, turn
from triolet.kernel import Agent, Completed, InputRefused, Policy, tool
from triolet.ports.admission import Admitted, OfferReused
from triolet.ports.batch import Batch
from triolet.ports.identity import InputId, Principal
from triolet.ports.language_model import ModelRequest
from triolet.ports.messages import AssistantMessage, Text, UserMessage
from triolet.ports.outcomes import ToolSuccess
from triolet.ports.records import InputTaken
from triolet.spec_tests.cases.kernel.asking import NotedInputs, QueueAway, asker, open_office, paying, suspension, yes
from triolet.spec_tests.cases.kernel.setting import Bench, KernelSubject, ensure_whole, text_agent, turns_pass
from triolet.spec_tests.cases.record_samples import AT
from triolet.spec_tests.claims import SpecViolation, ensure, ensure_equal, ensure_raises
from triolet.spec_tests.definition import case

_LOOK: Final = turn(call("look"))
_DONE: Final = turn("done")
_ANN: Final = Principal(name="ann")

_Say = Callable[[], Awaitable[object]]


@case("STEER-001")
async def only_an_active_run_is_steered(subject: KernelSubject) -> None:
    """Before and after a run steering is refused, with a reason; during one, suspended or not, it has its place."""
    ran: list[int] = []
    script = [turn(call("pay", {"amount": 1})), _DONE]
    async with open_office(subject, script, asker(paying(ran))) as bench:
        async with bench.kernel.conversation("c1", principal=_ANN) as conversation:
            _ensure_refused(await conversation.steer("too early"), "steering before any run")
            waiting = suspension(await conversation.run(bench.agent, "go"))
            admitted = await conversation.steer("be quick", author="Ann B.", key="k1")
        if not isinstance(admitted, Admitted):
            raise SpecViolation(problem="steering of a suspended run is refused")
        offer = admitted.offer
        seen = (offer.id, offer.kind, offer.author, offer.principal, offer.offered_at, offer.parts)
        due = (InputId("k1"), "steering", "Ann B.", _ANN, AT, (Text(text="be quick"),))
        ensure_equal(seen, due, "what was admitted")
        await bench.kernel.answer(waiting.requests[0].id, yes(waiting.requests[0]))
        ensure_equal(type(await bench.kernel.resume(waiting)), Completed, "the result")
        async with bench.kernel.conversation("c1", principal=_ANN) as conversation:
            _ensure_refused(await conversation.steer("too late"), "steering after the run")
    ensure_equal([record.id for record in _entered(bench)], ["k1"], "steering on record")


@case("STEER-001")
async def steering_is_on_record_before_it_is_seen(subject: KernelSubject) -> None:
    """When a model is shown steering, the log holds it: its id, its author, and when it was offered."""
    on_record: list[list[InputTaken]] = []

    def look_at_the_log(_: ModelRequest) -> Any:
        on_record.append(_entered(bench))
        return _DONE

    office = _open(subject, [_LOOK, look_at_the_log], lambda: talk.steer("hurry", author="Ann B."))
    async with office as bench, bench.kernel.conversation("c1") as talk:
        await talk.run(bench.agent, "go")
    ensure_equal(_said(bench, 1)[-1], "hurry", "what the model was shown last")
    (seen,) = on_record
    due = [("steering", "Ann B.", AT, (Text(text="hurry"),))]
    ensure_equal(
        [(each.source, each.author, each.offered_at, each.parts) for each in seen],
        due,
        "steering on record when the model was asked",
    )


@case("RUN-014")
async def steering_enters_before_a_request_and_touches_nothing(subject: KernelSubject) -> None:
    """Steering during a response or a call batch leaves both to end, and is shown behind their results."""
    for moment in ("a call", "a response"):
        ran, bench = await _steered_during(moment, subject)
        ensure_equal(ran, ["began", "ended"], f"what the handler did, with steering during {moment}")
        ensure_equal([type(each) for each in bench.outcomes], [ToolSuccess], f"outcomes, with steering during {moment}")
        ensure_equal(len(bench.requests), 2, f"requests, with steering during {moment}")
        shown = _said(bench, 1)
        ensure_equal(shown, ["go", "assistant", "tool", "hurry"], f"what is shown, with steering during {moment}")
        ensure_whole(bench.requests[1].messages, f"the request after steering during {moment}")


async def _steered_during(moment: str, subject: KernelSubject) -> tuple[list[str], Bench]:
    gate = trio.Event()
    ran: list[str] = []

    async def say() -> None:
        ran.append("began")
        if moment == "a call":
            await talk.steer("hurry")
        for _ in range(20):
            await trio.lowlevel.checkpoint()
        ran.append("ended")

    first = _LOOK if moment == "a call" else turn(call("look")).gated(gate, after=1)
    async with (
        _open(subject, [first, _DONE], say) as bench,
        bench.kernel.conversation("c1") as talk,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(talk.run, bench.agent, "go")
        if moment == "a response":
            await turns_pass(lambda: len(bench.requests) == 1, "the first request")
            await talk.steer("hurry")
            for _ in range(20):
                await trio.lowlevel.checkpoint()
            gate.set()
    return ran, bench


@case("RUN-014")
async def a_policy_says_how_much_steering_enters(subject: KernelSubject) -> None:
    """All that waits enters before the next request, or one for each request; first in, first out."""
    for drain, due in (("all", [["a", "b"], ["a", "b"]]), ("one", [["a"], ["a", "b"]])):

        async def say() -> None:
            await talk.steer("a")
            await talk.steer("b")

        policy = Policy(drain=drain)  # type: ignore[arg-type]  # one of the two words
        office = _open(subject, [_LOOK, _LOOK, _DONE], say, policy=policy)
        async with office as bench, bench.kernel.conversation("c1") as talk:
            await talk.run(bench.agent, "go")
        shown = [[text for text in _said(bench, place) if text in ("a", "b")] for place in (1, 2)]
        ensure_equal(shown, due, f"the steering that each request shows, where {drain} may enter")


@case("RUN-015")
async def a_follow_up_enters_where_the_run_would_stop(subject: KernelSubject) -> None:
    """A follow-up does not enter before a request that follows calls, but behind the answer, which ends nothing."""
    script = [_LOOK, turn("first answer"), turn("second answer")]
    office = _open(subject, script, lambda: talk.follow_up("and?"))
    async with office as bench, bench.kernel.conversation("c1") as talk:
        result = await talk.run(bench.agent, "go")
    ensure_equal(_said(bench, 1), ["go", "assistant", "tool"], "what is shown after the calls")
    ensure_equal(_said(bench, 2)[3:], ["assistant", "and?"], "what is shown after the answer")
    ensure_equal((result.output, result.turns), ("second answer", 3), "the answer of the run, and its turns")


@case("RUN-015")
async def steering_goes_before_follow_ups(subject: KernelSubject) -> None:
    """Where a run would stop, what waits as steering enters first, and then one follow-up for each answer."""
    entered = 0

    async def say(_: Batch) -> None:
        nonlocal entered
        if len(bench.requests) == 1 and not entered:
            entered = 1
            await talk.follow_up("f1")
            await talk.follow_up("f2")
            await talk.steer("s1")

    def answer(_: ModelRequest) -> Any:
        return _DONE

    async with _open(subject, [_LOOK, *[answer] * 4], _nothing) as bench:
        bench.store.before = say
        async with bench.kernel.conversation("c1") as talk:
            await talk.run(bench.agent, "go")
    texts = [each.parts[0].text for each in _entered(bench) if isinstance(each.parts[0], Text)]
    ensure_equal(texts, ["s1", "f1", "f2"], "the order in which input entered")
    ensure_equal(len(bench.requests), 4, "requests, where each follow-up gets its own answer")


@case("STEER-002")
async def follow_ups_are_first_in_first_out(subject: KernelSubject) -> None:
    """Follow-ups get rising places and enter in that order, each once."""
    places: list[int] = []

    async def say() -> None:
        for text in ("one", "two", "three"):
            admitted = await talk.follow_up(text)
            if isinstance(admitted, Admitted):
                places.append(admitted.sequence)

    async with _open(subject, [_LOOK, *[_DONE] * 4], say) as bench, bench.kernel.conversation("c1") as talk:
        await talk.run(bench.agent, "go")
    ensure_equal(places, sorted(set(places)), "the places of follow-ups in the order of their offers")
    ensure_equal(len(places), 3, "follow-ups that were admitted")
    ensure_equal(_said(bench, 4)[4::2], ["one", "two", "three"], "follow-ups in the order in which they entered")


@case("STEER-002")
async def an_offer_again_is_the_same_offer(subject: KernelSubject) -> None:
    """Under its key an offer has one place and enters once, also when it is repeated late; other content is refused."""
    places: list[object] = []

    async def say() -> None:
        places.append(await talk.follow_up("and?", key="k1"))
        places.append(await talk.follow_up("and?", key="k1"))
        with ensure_raises(OfferReused, "other content under the key of an offer"):
            await talk.follow_up("or?", key="k1")

    async with _open(subject, [_LOOK, _DONE, _DONE, _DONE], say) as bench, bench.kernel.conversation("c1") as talk:
        await talk.run(bench.agent, "go")
        places.append(await talk.follow_up("and?", key="k1"))
        await talk.run(bench.agent, "again")
    ensure_equal(places[1:], places[:1] * 2, "the places of one offer, repeated")
    ensure_equal([record.id for record in _entered(bench)], ["k1"], "follow-ups on record")


@case("DUR-016")
async def what_was_claimed_in_vain_comes_back(subject: KernelSubject) -> None:
    """Input that a run has claimed when it is stopped is put back, and enters the next run, once."""
    queue = NotedInputs()
    queue.hold = trio.Event()
    office = _open(subject, [_LOOK, _DONE], lambda: talk.steer("hurry", key="k1"), inputs=queue)
    async with office as bench, bench.kernel.conversation("c1") as talk:
        async with talk.stream(bench.agent, "go") as handle:
            await queue.hold.wait()
            handle.cancel()
            await handle.result()
        ensure_equal(_entered(bench), [], "steering on record of a run that was stopped before")
        ensure_equal(queue.told, ["reverted"], "what the queue was told by the run that was stopped")
        result = await talk.run(bench.agent, "again")
    ensure_equal(type(result), Completed, "the result of the next run")
    ensure_equal([record.id for record in _entered(bench)], ["k1"], "steering on record in the end")


@case("DUR-016")
async def what_could_not_be_recorded_comes_back(subject: KernelSubject) -> None:
    """Input whose batch was refused is not lost: the next run gets it, once."""

    async def refuse(batch: Batch) -> None:
        if any(isinstance(record, InputTaken) and record.source == "steering" for record in batch.records):
            raise OSError("the disk is away")

    async with _open(subject, [_LOOK, _DONE], lambda: talk.steer("hurry", key="k1")) as bench:
        bench.store.before = refuse
        async with bench.kernel.conversation("c1") as talk:
            with suppress(OSError):
                await talk.run(bench.agent, "go")
        ensure_equal(_entered(bench), [], "steering on record that could not be written")
        bench.store.before = None
        async with bench.kernel.conversation("c1") as talk:
            result = await talk.run(bench.agent, "again")
    ensure_equal(type(result), Completed, "the result of the next run")
    ensure_equal([record.id for record in _entered(bench)], ["k1"], "steering on record in the end")


@case("DUR-016")
async def what_entered_is_not_delivered_again(subject: KernelSubject) -> None:
    """Once input is on record the queue is told, at once; a later request or run does not get it again."""
    queue = NotedInputs()
    told: list[list[str]] = []

    def look_at_the_queue(_: ModelRequest) -> Any:
        told.append(list(queue.told))
        return _DONE

    script: list[ScriptItem] = [_LOOK, look_at_the_queue, _DONE]
    office = _open(subject, script, lambda: talk.steer("hurry", key="k1"), inputs=queue)
    async with office as bench, bench.kernel.conversation("c1") as talk:
        await talk.run(bench.agent, "go")
        await talk.run(bench.agent, "again")
    ensure_equal(told, [["joined k1"]], "what the queue had been told when the model was asked")
    ensure_equal([record.id for record in _entered(bench)], ["k1"], "steering on record")


@case("DUR-016")
async def a_queue_that_was_not_told_gives_nothing_twice(subject: KernelSubject) -> None:
    """Input on record does not enter again when the queue could not be told: in the same run, and in the next."""
    for away in (1, 2):
        queue = NotedInputs()
        queue.away = away
        office = _open(subject, [_LOOK, _DONE], lambda: talk.steer("hurry", key="k1"), inputs=queue)
        async with office as bench:
            for value in ("go", "again"):
                async with bench.kernel.conversation("c1") as talk:
                    with suppress(QueueAway):
                        await talk.run(bench.agent, value, model=None if value == "go" else ScriptedModel([_DONE] * 2))
        ensure_equal([record.id for record in _entered(bench)], ["k1"], f"steering on record, queue away {away} times")


@case("DUR-016")
async def a_lost_answer_of_the_store_gives_nothing_twice(subject: KernelSubject) -> None:
    """Input that was written, though the store's answer was lost, does not enter the next run once more."""

    async def lose(batch: Batch) -> None:
        if any(isinstance(record, InputTaken) and record.source == "steering" for record in batch.records):
            raise OSError("the answer is lost")

    async with _open(subject, [_LOOK, _DONE], lambda: talk.steer("hurry", key="k1")) as bench:
        bench.store.after = lose
        async with bench.kernel.conversation("c1") as talk:
            with suppress(OSError):
                await talk.run(bench.agent, "go")
        bench.store.after = None
        async with bench.kernel.conversation("c1") as talk:
            result = await talk.run(bench.agent, "again")
    ensure_equal(type(result), Completed, "the result of the next run")
    ensure_equal([record.id for record in _entered(bench)], ["k1"], "steering on record in the end")


def _open(
    subject: KernelSubject,
    script: Sequence[ScriptItem],
    say: _Say,
    *,
    policy: Policy | None = None,
    inputs: MemoryInputs | None = None,
) -> AbstractAsyncContextManager[Bench]:
    """An office whose agent has one tool; its first call does `say`."""
    left = [say]

    @tool(execution="readonly")
    async def look() -> str:
        if left:
            await left.pop()()
        return "seen"

    agent: Agent[Any, Any] = text_agent(look, policy=policy)
    return open_office(subject, script, agent, inputs=inputs)


async def _nothing() -> None:
    await trio.lowlevel.checkpoint()


def _entered(bench: Bench) -> list[InputTaken]:
    return [record for record in bench.recorded(InputTaken) if record.source in ("steering", "follow-up")]


def _said(bench: Bench, place: int) -> list[str]:
    """What a request shows: a user's text as it is, other messages by their role."""
    shown: list[str] = []
    for message in bench.requests[place].messages:
        if isinstance(message, UserMessage):
            shown += [part.text for part in message.parts if isinstance(part, Text)]
        else:
            shown.append("assistant" if isinstance(message, AssistantMessage) else "tool")
    return shown


def _ensure_refused(answer: object, what: str) -> None:
    ensure(isinstance(answer, InputRefused) and bool(answer.reason), f"{what} is not refused with a reason")


STEERING = (
    only_an_active_run_is_steered,
    steering_is_on_record_before_it_is_seen,
    steering_enters_before_a_request_and_touches_nothing,
    a_policy_says_how_much_steering_enters,
    a_follow_up_enters_where_the_run_would_stop,
    steering_goes_before_follow_ups,
    follow_ups_are_first_in_first_out,
    an_offer_again_is_the_same_offer,
    what_was_claimed_in_vain_comes_back,
    what_could_not_be_recorded_comes_back,
    what_entered_is_not_delivered_again,
    a_queue_that_was_not_told_gives_nothing_twice,
    a_lost_answer_of_the_store_gives_nothing_twice,
)
