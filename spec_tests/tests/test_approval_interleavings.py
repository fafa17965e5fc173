"""Whole runs under generated orders of decisions, silence, steering, cancellation, expiry and resumes.

Whatever the order: the history can be shown, no handler starts before its stored approval, each run has one end, and
everything that was admitted is heard exactly once, at the latest by the conversation's next run.
"""

from typing import Any

import attrs
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from tests.approval_world import Office, SlowInputs, asker, inputs_on_record, no, yes
from tests.kernel_world import script
from triolet.adapters.scripted_model import call, text, turn
from triolet.kernel import Completed, Suspended, history_is_valid, tool
from triolet.ports.admission import Admitted
from triolet.ports.approval import AlreadyAnswered
from triolet.ports.canonical import digest
from triolet.ports.records import ApprovalDecided, ApprovalRequested

DONE = turn(text("done"))
BATCH = turn(call("auto"), call("pay"), call("pay", {"amount": 2}))


@attrs.frozen(kw_only=True)
class Plan:
    """What happens when, in seconds from the start."""

    events: tuple[tuple[int, str, int], ...]
    policy: dict[str, Any]
    work: int
    slow: bool
    cancel_at: int | None
    deadline: float | None


EVENTS = st.sampled_from(["approve", "deny", "edit", "void", "steer", "follow_up", "fail", "recover"])
PLANS = st.builds(
    Plan,
    events=st.lists(st.tuples(st.integers(0, 30), EVENTS, st.integers(0, 3)), max_size=12).map(tuple),
    policy=st.fixed_dictionaries(
        {
            "seconds": st.sampled_from([None, 7.0, 12.0]),
            "silence": st.sampled_from(["deny", "wait", "approve"]),
            "denial": st.sampled_from(["terminal", "recoverable", "recoverable"]),
            "steered": st.sampled_from(["wait", "deny"]),
        }
    ),
    work=st.integers(0, 6),
    slow=st.booleans(),
    cancel_at=st.none() | st.none() | st.integers(0, 30),
    deadline=st.sampled_from([None, 600.0, 20.0]),
)


@settings(max_examples=150)
@given(plan=PLANS)
def test_any_order_keeps_every_promise(plan: Plan) -> None:
    trio.run(_play, plan, clock=MockClock(autojump_threshold=0))


async def _play(plan: Plan) -> None:
    office = Office()
    office.open_runs_are_fine = True
    if plan.slow:
        office.inputs = SlowInputs()
        office.store.pauses = trio.lowlevel.checkpoint

    @tool(name="auto")
    async def auto(amount: int = 1) -> str:
        """Auto."""
        office.ran.append(("auto", amount))
        await trio.sleep(plan.work)
        return "auto"

    agent = asker(auto, office.counted(), limits={"max_seconds": plan.deadline, "max_turns": 30}, **plan.policy)
    model = script(BATCH, DONE, BATCH, *[DONE] * 20)
    admitted: dict[str, Admitted] = {}
    async with office.kernel(agent, model=model) as kernel, trio.open_nursery() as others:
        others.start_soon(_give_up_waiting, office)
        async with kernel.conversation("c") as talk:
            for number, event in enumerate(plan.events):
                others.start_soon(_happen, office, talk, number, event, admitted)
            with trio.move_on_at(trio.current_time() + (plan.cancel_at or float("inf"))):
                result: Any = await talk.run(agent, "go")
                while isinstance(result, Suspended):
                    assert talk.suspended == result or talk.attempted < result.epoch
                    result = await _answer_and_resume(office, kernel, result)
            # Cancelled while nobody was at work on it: it waits still, and somebody who looks anew takes it up.
            async with kernel.conversation("c") as anew:
                waiting = anew.suspended
            while isinstance(waiting, Suspended):
                ended = await _answer_and_resume(office, kernel, waiting)
                waiting = ended if isinstance(ended, Suspended) else None
        others.cancel_scope.cancel()
    office.check()
    assert office.desk.open == ()
    entered = _entered(office)
    assert len(entered) == len(set(entered))
    assert set(entered) <= set(admitted)
    answered = [record.request for record in office.of(ApprovalDecided, "c")]
    assert len(answered) == len(set(answered))
    assert set(answered) <= {record.request.id for record in office.of(ApprovalRequested, "c")}
    async with office.kernel(agent, model=script(*[DONE] * 30)) as kernel, kernel.conversation("c") as talk:
        assert isinstance(await talk.run(agent, "next"), Completed)
        assert history_is_valid(talk.history)
        assert sorted(_entered(office)) == sorted(admitted)
        for kind in ("steering", "follow-up"):
            places = [admitted[r.id].sequence for r in inputs_on_record(office.batches("c")) if r.source == kind]
            assert places == sorted(places)
    office.open_runs_are_fine = False
    office.check()


def _entered(office: Office) -> list[str]:
    taken = inputs_on_record(office.batches("c"))
    return [record.id for record in taken if record.source in ("steering", "follow-up")]


async def _happen(
    office: Office, talk: Any, number: int, event: tuple[int, str, int], admitted: dict[str, Admitted]
) -> None:
    at, what, which = event
    await trio.sleep(at)
    if what in ("steer", "follow_up"):
        answer = await getattr(talk, what)("t", key=f"k{number}")
        if isinstance(answer, Admitted):
            admitted[answer.offer.id] = answer
    elif what == "fail":
        office.desk.fail("out of order")
    elif what == "recover":
        office.desk.recover()
    elif which < len(office.desk.open):
        request = office.desk.open[which]
        decisions = {
            "approve": yes(request),
            "deny": no(request),
            "edit": yes(request, edited='{"amount": 7}'),
            "void": yes(arguments=digest("triolet.arguments", b"other")),
        }
        office.desk.answer(request.id, decisions[what])


async def _give_up_waiting(office: Office) -> None:
    # A request without a time of its own would wait for ever: after all events, somebody says yes to everything.
    for _ in range(100):
        await trio.sleep(50)
        office.desk.recover()
        for request in office.desk.open:
            office.desk.approve(request)
    raise AssertionError("the run never ends")


async def _answer_and_resume(office: Office, kernel: Any, waiting: Suspended) -> object:
    await trio.sleep(1)
    try:
        await kernel.answer(waiting.requests[-1].id, yes(waiting.requests[-1], reason="late"))
    except AlreadyAnswered:
        raise AssertionError("nobody answered it before") from None
    return await kernel.resume(waiting)
