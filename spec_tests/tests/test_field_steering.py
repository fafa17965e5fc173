"""Field cases F-021 and F-023: what people say while a run is busy or waits for approval."""

from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from tests.approval_world import AwayDesk, Office, SlowInputs, asker, inputs_on_record, shown, suspension, yes
from tests.kernel_world import script, shown_outcomes, talker
from triolet.adapters.scripted_model import call, text, turn
from triolet.kernel import Aborted, Completed, InputRefused, Policy, history_is_valid, tool
from triolet.ports.admission import Admitted
from triolet.ports.messages import ToolMessage
from triolet.ports.outcomes import ToolRejected
from triolet.ports.records import ApprovalDecided

DONE = turn(text("done"))


@pytest.mark.parametrize("moment", ["before the first", "between the two", "after the second"])
async def test_f021_steering_enters_behind_the_whole_batch(
    office: Office, autojump_clock: MockClock, moment: str
) -> None:
    gates = {name: trio.Event() for name in ("first", "second")}

    def gated(name: str) -> Any:
        async def handler() -> str:
            """Gated."""
            await gates[name].wait()
            if (moment, name) == ("after the second", "second"):
                await run.steer("S")
            return name

        return tool(name=name)(handler)

    agent = talker(gated("first"), gated("second"))
    model = script(turn(call("first"), call("second")), DONE)
    async with office.kernel(agent, model=model) as kernel, kernel.stream(agent, "go") as run:
        await trio.testing.wait_all_tasks_blocked()
        if moment == "before the first":
            assert isinstance(await run.steer("S"), Admitted)
        gates["first"].set()
        await trio.testing.wait_all_tasks_blocked()
        if moment == "between the two":
            assert isinstance(await run.steer("S"), Admitted)
        gates["second"].set()
        assert isinstance(await run.result(), Completed)
    assert shown(model.requests[1]) == ["go", "assistant", "tool", "S"]
    [results] = [m for m in model.requests[1].messages if isinstance(m, ToolMessage)]
    assert [result.name for result in results.results] == ["first", "second"]


OFFERS = st.lists(
    st.tuples(st.integers(0, 60), st.sampled_from(["steer", "follow_up"]), st.sampled_from("abcdef")), max_size=8
)


@settings(max_examples=120)
@given(
    offers=OFFERS,
    seconds=st.lists(st.integers(0, 9), min_size=3, max_size=6),
    drain=st.sampled_from(["one", "all"]),
    slow=st.booleans(),
    cancel_at=st.none() | st.integers(0, 60),
)
def test_f021_at_any_moment_the_history_is_valid(
    offers: list[tuple[int, str, str]], seconds: list[int], drain: Any, slow: bool, cancel_at: int | None
) -> None:
    trio.run(_say_at_any_moment, offers, seconds, drain, slow, cancel_at, clock=MockClock(autojump_threshold=0))


async def _say_at_any_moment(
    offers: list[tuple[int, str, str]], seconds: list[int], drain: Any, slow: bool, cancel_at: int | None
) -> None:
    office = Office()
    if slow:
        office.inputs = SlowInputs()
        office.store.pauses = trio.lowlevel.checkpoint
    waits = iter(seconds)

    async def work() -> str:
        """Work."""
        await trio.sleep(next(waits, 1))
        return "worked"

    agent = talker(tool(work), policy=Policy(drain=drain, max_turns=40))
    batch = turn(call("work"), call("work"))
    model = script(batch, DONE, batch, DONE, batch, *[DONE] * 20)
    answers: list[tuple[str, Admitted | InputRefused]] = []
    async with office.kernel(agent, model=model) as kernel, kernel.conversation("c") as talk:

        async def say(at: int, how: str, key: str) -> None:
            await trio.sleep(at)
            answers.append((key, await getattr(talk, how)(f"{how} {key}", key=f"{how} {key}")))

        async with trio.open_nursery() as nursery:
            for at, how, key in offers:
                nursery.start_soon(say, at, how, key)
            async with talk.stream(agent, "go") as run:
                if cancel_at is not None:
                    await trio.sleep(cancel_at)
                    run.cancel()
                result = await run.result()
        assert isinstance(result, Completed | Aborted)
        admitted = {a.offer.id: a for _, a in answers if isinstance(a, Admitted)}
        entered = inputs_on_record(office.batches("c"))[1:]
        ids = [record.id for record in entered]
        assert len(ids) == len(set(ids))
        if isinstance(result, Completed):
            assert set(ids) == set(admitted)
        for kind in ("steering", "follow-up"):
            places = [admitted[record.id].sequence for record in entered if record.source == kind]
            assert places == sorted(places)
        # Whoever was admitted and not heard yet is heard by the next run, once.
        await talk.run(agent, "next", model=script(*[DONE] * 20))
        ids = [record.id for record in inputs_on_record(office.batches("c"))]
        assert sorted(admitted) == sorted(name for name in ids if not name.endswith("-input"))
        assert history_is_valid(talk.history)
    office.check()


async def test_f023_a_steer_counts_as_a_denial_where_the_policy_says_so(
    office: Office, autojump_clock: MockClock
) -> None:
    agent = asker(office.counted(), steered="deny")
    model = script(turn(call("pay"), call("pay")), DONE, DONE)
    async with office.kernel(agent, model=model) as kernel, kernel.stream(agent, "go") as run:
        await office.desk.arrived(2)
        office.desk.approve(office.desk.requests[1])
        await trio.testing.wait_all_tasks_blocked()
        assert isinstance(await run.follow_up("F"), Admitted)
        await trio.sleep(10)
        assert len(office.of(ApprovalDecided)) == 1, "a follow-up answers nothing"
        await run.steer("S1")
        await run.steer("S2")
        assert isinstance(await run.result(), Completed)
    assert shown(model.requests[1]) == ["go", "assistant", "tool", "S1", "S2"]
    assert shown(model.requests[2]) == ["go", "assistant", "tool", "S1", "S2", "assistant", "F"]
    reason = "newer input came in before an answer"
    assert shown_outcomes(model.requests[1])[0] == ToolRejected(reason="denied", detail=reason)
    assert [(d.verdict, d.source) for d in office.of(ApprovalDecided)] == [
        ("approved", "approver"),
        ("denied", "steering"),
    ]
    assert office.ran == [("pay", 1)]
    assert office.desk.open == ()


async def test_f023_a_steer_waits_where_the_policy_says_so(office: Office, autojump_clock: MockClock) -> None:
    agent = asker(office.counted(), steered="wait")
    model = script(turn(call("pay")), DONE, DONE)
    async with office.kernel(agent, model=model) as kernel, kernel.stream(agent, "go") as run:
        await office.desk.arrived(1)
        await run.follow_up("F")
        await run.steer("S1")
        await run.steer("S2")
        await trio.sleep(100)
        assert office.of(ApprovalDecided) == []
        assert model.requests[1:] == ()
        office.desk.approve(office.desk.requests[0])
        assert isinstance(await run.result(), Completed)
    assert shown(model.requests[1]) == ["go", "assistant", "tool", "S1", "S2"]
    assert shown(model.requests[2])[-1] == "F"
    assert office.ran == [("pay", 1)]


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize("steered", ["wait", "deny"])
async def test_f023_the_queue_outlives_a_restart(
    office: Office, autojump_clock: MockClock, steered: Any, slow: bool
) -> None:
    if slow:
        office.inputs = SlowInputs()
    agent = asker(office.counted(), steered=steered)
    async with (
        office.kernel(agent, model=script(turn(call("pay"))), desk=AwayDesk()) as kernel,
        kernel.conversation("c") as talk,
    ):
        await talk.run(agent, "go")
    async with office.kernel(agent, model=script(), desk=AwayDesk()) as kernel, kernel.conversation("c") as talk:
        waiting = suspension(talk.suspended)
        for say, word in ((talk.follow_up, "F"), (talk.steer, "S1"), (talk.steer, "S2")):
            assert isinstance(await say(word), Admitted)
    model = script(DONE, DONE)
    async with office.kernel(agent, model=model, desk=AwayDesk()) as kernel:
        if steered == "wait":
            waiting = suspension(await kernel.resume(waiting))
            await kernel.answer(waiting.requests[0].id, yes())
        assert isinstance(await kernel.resume(waiting), Completed)
    assert shown(model.requests[0]) == ["go", "assistant", "tool", "S1", "S2"]
    assert shown(model.requests[1])[-2:] == ["assistant", "F"]
    assert len(office.ran) == (steered == "wait")
