"""Steering and follow-ups: what is admitted, in which order it enters, and that nothing is lost or said twice."""

from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.approval_world import AwayDesk, Office, SlowInputs, inputs_on_record, shown, suspension, yes
from tests.kernel_world import START, script, talker
from triolet.adapters.memory import MemoryInputs
from triolet.adapters.scripted_model import call, text, turn
from triolet.kernel import (
    Agent,
    BudgetExhaustedError,
    Completed,
    Failed,
    InputRefused,
    MissingCapabilities,
    Policy,
    Tool,
    tool,
)
from triolet.ports.admission import Admitted, OfferReused, QueueFull
from triolet.ports.errors import BrokenText, InvalidValue
from triolet.ports.identity import Principal, TenantId
from triolet.ports.records import InputTaken

LOOK = turn(call("look"))
DONE = turn(text("done"))


def speaker(*say: Callable[[], Awaitable[object]], policy: Policy | None = None, **fields: Any) -> Agent[str, Any]:
    """An agent whose tool's n-th call does the n-th of these."""
    left = list(say)

    async def look() -> str:
        """Look."""
        if left:
            await left.pop(0)()
        return "seen"

    return talker(_readonly(look), policy=policy, **fields)


def _readonly(function: Callable[..., Any]) -> Tool[Any, Any]:
    return tool(execution="readonly")(function)


async def test_what_is_admitted_says_who_when_and_where(office: Office, autojump_clock: MockClock) -> None:
    seen: list[Admitted | InputRefused] = []

    async def say() -> None:
        await trio.sleep(3)
        seen.append(await talk.steer("S", author="ann", key="k1"))
        seen.append(await talk.follow_up("F"))

    agent = speaker(say)
    boss = Principal(name="boss")
    async with (
        office.kernel(agent, model=script(LOOK, DONE, DONE)) as kernel,
        kernel.conversation("c", principal=boss) as talk,
    ):
        assert isinstance(await talk.run(agent, "go"), Completed)
    steer, follow_up = seen
    assert isinstance(steer, Admitted)
    assert (steer.offer.kind, steer.offer.id, steer.offer.author, steer.offer.principal) == (
        "steering",
        "k1",
        "ann",
        boss,
    )
    assert steer.offer.offered_at == START + 3_000_000
    assert isinstance(follow_up, Admitted)
    assert (follow_up.offer.kind, follow_up.offer.author) == ("follow-up", "boss")
    assert follow_up.sequence > steer.sequence
    taken = inputs_on_record(office.batches("c"))[1:]
    assert [(r.id, r.source, r.author, r.offered_at, r.parts) for r in taken] == [
        (a.offer.id, a.offer.kind, a.offer.author, a.offer.offered_at, a.offer.parts) for a in (steer, follow_up)
    ]


async def test_input_is_refused_where_no_run_is_active(office: Office, autojump_clock: MockClock) -> None:
    agent = speaker()
    async with office.kernel(agent, model=script(DONE, DONE)) as kernel:
        async with kernel.conversation("c") as talk:
            for offer in (talk.steer, talk.follow_up):
                refused = await offer("hello")
                assert isinstance(refused, InputRefused)
                assert refused.offer.offered_at == START
                assert "no run" in refused.reason
            await talk.run(agent, "go")
            assert isinstance(await talk.steer("late"), InputRefused)
        assert isinstance(await talk.steer("closed"), InputRefused)
    assert [type(r) for r in inputs_on_record(office.batches("c"))] == [InputTaken]
    assert office.inputs._queues == {}


async def test_what_is_no_input_is_refused_before_it_is_offered(office: Office, autojump_clock: MockClock) -> None:
    async with office.kernel(speaker(), model=script()) as kernel, kernel.conversation() as talk:
        for broken in ("\ud800", "nul\0"):
            with pytest.raises(BrokenText):
                await talk.steer(broken)
            with pytest.raises(BrokenText):
                await talk.steer("fine", author=broken)
            with pytest.raises(BrokenText):
                await talk.steer("fine", key=broken)
        for key in ("", "x" * 201):
            with pytest.raises(InvalidValue):
                await talk.steer("fine", key=key)
        with pytest.raises(InvalidValue):
            await talk.steer("x" * (4 * 1024 * 1024 + 1))
        with pytest.raises(InvalidValue):
            await talk.follow_up(5)  # type: ignore[arg-type] # what untyped callers do


async def test_without_a_queue_nobody_can_steer(office: Office, autojump_clock: MockClock) -> None:
    agent = speaker()
    async with office.kernel(agent, model=script(DONE), inputs=None) as kernel, kernel.conversation() as talk:
        with pytest.raises(MissingCapabilities):
            await talk.steer("hello")
        assert isinstance(await talk.run(agent, "go"), Completed)


@pytest.mark.parametrize("drain", ["one", "all"])
async def test_first_in_first_out_one_or_all_at_a_seam(office: Office, autojump_clock: MockClock, drain: Any) -> None:
    async def say() -> None:
        for word in ("S1", "S2", "S3"):
            await talk.steer(word)

    agent = speaker(say, policy=Policy(drain=drain))
    model = script(LOOK, LOOK, LOOK, LOOK, DONE)
    async with office.kernel(agent, model=model) as kernel, kernel.conversation() as talk:
        await talk.run(agent, "go")
    step = ["assistant", "tool"]
    if drain == "all":
        assert shown(model.requests[1]) == ["go", *step, "S1", "S2", "S3"]
    else:
        assert shown(model.requests[1]) == ["go", *step, "S1"]
        assert shown(model.requests[2]) == ["go", *step, "S1", *step, "S2"]
        assert shown(model.requests[3]) == ["go", *step, "S1", *step, "S2", *step, "S3"]


@pytest.mark.parametrize("drain", ["one", "all"])
async def test_steering_goes_before_follow_ups(office: Office, autojump_clock: MockClock, drain: Any) -> None:
    async def say() -> None:
        for word in ("F1", "F2"):
            await talk.follow_up(word)
        for word in ("S1", "S2"):
            await talk.steer(word)

    agent = speaker(say, policy=Policy(drain=drain))
    model = script(LOOK, *[DONE] * 5)
    async with office.kernel(agent, model=model) as kernel, kernel.conversation() as talk:
        await talk.run(agent, "go")
    words = [item for item in shown(model.requests[-1]) if item not in ("assistant", "tool")]
    assert words == ["go", "S1", "S2", "F1", "F2"]
    # A follow-up enters alone, and only behind an answer.
    assert shown(model.requests[-1])[-4:] == ["assistant", "F1", "assistant", "F2"]


async def test_a_steer_that_comes_with_the_last_answer_keeps_the_run(office: Office, autojump_clock: MockClock) -> None:
    answer = trio.Event()
    agent = speaker()
    model = script(DONE.gated(answer), turn(text("better")))
    async with (
        office.kernel(agent, model=model) as kernel,
        kernel.conversation() as talk,
        talk.stream(agent, "go") as run,
    ):
        await trio.testing.wait_all_tasks_blocked()
        assert isinstance(await run.steer("S", author="ann"), Admitted)
        answer.set()
        result = await run.result()
    assert isinstance(result, Completed)
    assert result.output == "better"
    assert shown(model.requests[1]) == ["go", "assistant", "S"]


async def test_the_handle_of_a_run_of_its_own_takes_input(office: Office, autojump_clock: MockClock) -> None:
    answer = trio.Event()
    agent = speaker()
    model = script(DONE.gated(answer), DONE, DONE)
    async with office.kernel(agent, model=model) as kernel, kernel.stream(agent, "go") as run:
        await trio.testing.wait_all_tasks_blocked()
        first = await run.follow_up("F", key="f")
        assert await run.follow_up("F", key="f") == first
        await run.steer("S", key="s")
        answer.set()
        await run.result()
        assert isinstance(await run.steer("late"), InputRefused)
    assert shown(model.requests[-1]) == ["go", "assistant", "S", "assistant", "F"]


async def test_the_same_key_is_one_input_and_other_content_is_refused(
    office: Office, autojump_clock: MockClock
) -> None:
    async def say() -> None:
        first = await talk.steer("S", key="k")
        assert await talk.steer("S", key="k") == first
        with pytest.raises(OfferReused):
            await talk.steer("other", key="k")
        with pytest.raises(OfferReused):
            await talk.follow_up("S", key="k")

    async def say_again() -> None:
        assert isinstance(await talk.steer("S", key="k"), Admitted)  # it has entered by now

    agent = speaker(say, say_again)
    model = script(LOOK, LOOK, DONE)
    async with office.kernel(agent, model=model) as kernel, kernel.conversation() as talk:
        await talk.run(agent, "go")
        assert isinstance(await talk.steer("S", key="k"), Admitted)
        with pytest.raises(OfferReused):
            await talk.steer("other", key="k")
    assert shown(model.requests[-1]).count("S") == 1


async def test_a_key_that_looks_like_the_kernels_own_is_delivered(office: Office, autojump_clock: MockClock) -> None:
    async def say() -> None:
        assert isinstance(await talk.steer("S", key=f"{talk.open_run.run}-2-correction"), Admitted)

    agent = speaker(say, policy=Policy(drain="one"), output=int)
    model = script(LOOK, turn(text("no number")), turn(text("1")))
    async with office.kernel(agent, model=model) as kernel, kernel.conversation() as talk:
        assert isinstance(await talk.run(agent, "go"), Completed)
    assert "S" in shown(model.requests[-1])


async def test_a_full_queue_refuses_and_loses_nothing(office: Office, autojump_clock: MockClock) -> None:
    office.inputs = MemoryInputs(limit=2)

    async def say() -> None:
        await talk.steer("S1")
        await talk.follow_up("F")
        with pytest.raises(QueueFull):
            await talk.steer("S2")

    agent = speaker(say)
    model = script(LOOK, DONE, DONE)
    async with office.kernel(agent, model=model) as kernel, kernel.conversation() as talk:
        await talk.run(agent, "go")
    assert [item for item in shown(model.requests[-1]) if len(item) < 3] == ["go", "S1", "F"]


async def test_an_invalid_answer_is_corrected_before_a_follow_up_enters(
    office: Office, autojump_clock: MockClock
) -> None:
    async def say() -> None:
        await talk.follow_up("F")

    agent = speaker(say, output=int)
    model = script(LOOK, turn(text("no number")), turn(text("1")), turn(text("2")))
    async with office.kernel(agent, model=model) as kernel, kernel.conversation() as talk:
        result = await talk.run(agent, "go")
    assert isinstance(result, Completed)
    assert result.output == 2
    assert "F" not in shown(model.requests[2])
    assert shown(model.requests[2])[-1].startswith("Your answer was not accepted")
    assert shown(model.requests[3])[-1] == "F"


@pytest.mark.parametrize("kind", ["steer", "follow_up"])
@pytest.mark.parametrize("exhaustion", ["fail", "final-answer"])
async def test_waiting_input_makes_no_failure_of_a_last_answer(
    office: Office, autojump_clock: MockClock, exhaustion: Any, kind: str
) -> None:
    gate = trio.Event()
    agent = speaker(policy=Policy(max_turns=1, exhaustion=exhaustion))
    roomy = speaker(id="roomy")
    model = script(DONE.gated(gate), DONE, DONE)
    async with office.kernel(agent, roomy, model=model) as kernel, kernel.conversation() as talk:
        async with talk.stream(agent, "go") as run:
            await trio.testing.wait_all_tasks_blocked()
            assert isinstance(await getattr(run, kind)("more"), Admitted)
            gate.set()
            result = await run.result()
        assert isinstance(result, Completed)
        # What could not enter any more waits for the conversation's next run.
        after = script(DONE, DONE)
        await talk.run(roomy, "next", model=after)
        words = [*shown(model.requests[-1]), *shown(after.requests[-1])]
    assert "more" in words


async def test_an_exhausted_run_leaves_what_waits_for_the_next(office: Office, autojump_clock: MockClock) -> None:
    async def say() -> None:
        await talk.steer("S1")

    agent = speaker(say, say, policy=Policy(max_turns=1, exhaustion="fail"))
    async with office.kernel(agent, model=script(LOOK)) as kernel, kernel.conversation() as talk:
        result = await talk.run(agent, "go")
        assert isinstance(result, Failed)
        assert isinstance(result.error, BudgetExhaustedError)
        model = script(DONE)
        await talk.run(agent, "next", model=model)
    assert shown(model.requests[0]) == ["go", "assistant", "tool", "next", "S1"]


async def test_nothing_is_admitted_by_a_run_that_is_ending(office: Office, autojump_clock: MockClock) -> None:
    offered: list[Admitted | InputRefused] = []

    async def pause() -> None:
        if talk._active is not None and talk._active.state.run is None:
            offered.append(await talk.steer(f"S{len(offered)}"))

    agent = speaker()
    office.store.pauses = pause
    async with office.kernel(agent, model=script(DONE, DONE)) as kernel, kernel.conversation() as talk:
        await talk.run(agent, "go")
    assert offered
    assert all(isinstance(answer, InputRefused) for answer in offered)


async def test_an_offer_on_its_way_when_the_run_would_stop_is_not_lost(
    office: Office, autojump_clock: MockClock
) -> None:
    office.inputs = inputs = Late()
    agent = speaker()
    model = script(DONE, DONE)
    async with office.kernel(agent, model=model) as kernel, kernel.stream(agent, "go") as run:
        inputs.door = run
        await run.result()
    assert isinstance(inputs.answer, Admitted | InputRefused)
    entered = "late" in shown(model.requests[-1])
    assert entered == isinstance(inputs.answer, Admitted)


class Late(SlowInputs):
    """A queue to which somebody offers input while the run looks for it the last time, and finds nothing."""

    door: Any = None
    answer: Admitted | InputRefused | None = None

    async def claim_joining(self, address: Any, kind: Any, limit: int) -> tuple[Admitted, ...]:
        claimed = await super().claim_joining(address, kind, limit)
        if kind == "follow-up" and not claimed and self.answer is None:
            self.answer = await self.door.follow_up("late")
        return claimed


async def test_only_the_seam_takes_steering(office: Office, autojump_clock: MockClock) -> None:
    began = trio.Event()
    end = trio.Event()

    async def wait() -> None:
        began.set()
        await end.wait()

    agent = speaker(wait)
    async with (
        office.kernel(agent, model=script(LOOK, DONE)) as kernel,
        kernel.conversation("c") as talk,
        talk.stream(agent, "go") as run,
    ):
        await began.wait()
        await run.steer("S")
        await trio.sleep(30)
        assert len(inputs_on_record(office.batches("c"))) == 1
        end.set()
        await run.result()
    [_, taken] = inputs_on_record(office.batches("c"))
    assert taken.source == "steering"


async def test_input_of_another_tenant_stays_apart(office: Office, autojump_clock: MockClock) -> None:
    async def say() -> None:
        assert isinstance(await there.steer("S"), InputRefused)

    agent = speaker(say)
    other = attrs.evolve(Principal(name="x"), tenant=TenantId("other"))
    model = script(LOOK, DONE)
    async with (
        office.kernel(agent, model=model) as kernel,
        kernel.conversation("c") as talk,
        kernel.conversation("c", principal=other) as there,
    ):
        await talk.run(agent, "go")
    assert "S" not in shown(model.requests[-1])


async def test_what_was_said_while_suspended_enters_after_the_batch(office: Office, autojump_clock: MockClock) -> None:
    agent = talker(office.counted())
    model = script(turn(call("pay")), DONE, DONE)
    async with office.kernel(agent, model=model, desk=AwayDesk()) as kernel, kernel.conversation("c") as talk:
        waiting = suspension(await talk.run(agent, "go"))
        assert isinstance(await talk.follow_up("F"), Admitted)
        assert isinstance(await talk.steer("S"), Admitted)
        await kernel.answer(waiting.requests[0].id, yes())
        await kernel.resume(waiting)
    assert shown(model.requests[1]) == ["go", "assistant", "tool", "S"]
    assert shown(model.requests[2]) == ["go", "assistant", "tool", "S", "assistant", "F"]
