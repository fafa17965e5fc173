"""Changes, losses, ends: a snapshot never changes, a change is told, nothing is called twice. CAP-009, CAP-001."""

import trio

from triolet.ports.tool_context import OutcomeUnknown
from triolet.ports.tool_source import ToolSourceUnavailable
from triolet.spec_tests.cases.tool_source.setting import Definition, ToolSourceSubject, run_tool, tools_of
from triolet.spec_tests.claims import ensure, ensure_equal, ensure_raises, lever
from triolet.spec_tests.definition import case


@case("CAP-009")
async def nothing_changes_while_nothing_changes(subject: ToolSourceSubject) -> None:
    """Two snapshots with nothing between them have one digest, and the source says that nothing is new."""
    first = await subject.port.snapshot()
    ensure(not subject.port.changed(first), "it says at once that there is something new")
    second = await subject.port.snapshot()
    ensure_equal(second.digest, first.digest, "the digest of the second snapshot")
    ensure(not subject.port.changed(second), "it says that there is something new after nothing changed")


@case("CAP-009", needs=("offer",))
async def the_order_at_the_other_end_does_not_count(subject: ToolSourceSubject) -> None:
    """The same tools in another order are the same catalogue."""
    offer = lever(subject.offer, "offer")
    definitions = [Definition(name=f"t{number}") for number in range(9)]
    await offer(definitions)
    first = await subject.port.snapshot()
    await offer([*reversed(definitions)])
    ensure_equal((await subject.port.snapshot()).digest, first.digest, "the digest after another order")


@case("CAP-009", needs=("offer",))
async def a_change_is_told_until_it_is_taken_up(subject: ToolSourceSubject) -> None:
    """After a change the source says so for every older snapshot, and the next snapshot has it."""
    source, offer = subject.port, lever(subject.offer, "offer")
    await offer([Definition(name="one"), Definition(name="two")])
    before = await source.snapshot()
    await offer([Definition(name="two", description="Another one now."), Definition(name="three")])
    await trio.testing.wait_all_tasks_blocked()
    ensure(source.changed(before), "it does not say that something is new")
    after = await source.snapshot()
    ensure_equal(sorted(await tools_of(source)), ["three", "two"], "what is offered after the change")
    ensure(after.digest != before.digest, "two different catalogues have one digest")
    ensure(source.changed(before), "it does not say any more that the old snapshot is old")
    ensure(not source.changed(after), "it says that there is something newer than the newest")


@case("CAP-009", needs=("offer", "called"))
async def an_older_snapshot_stays_what_it_was(subject: ToolSourceSubject) -> None:
    """A snapshot does not change under its holder, and its tools can still be called."""
    source, offer = subject.port, lever(subject.offer, "offer")
    await offer([Definition(name="one"), Definition(name="two")])
    before = await source.snapshot()
    held = [(tool.name, tool.description) for tool in before.tools]
    await offer([Definition(name="one", description="Changed."), Definition(name="three")])
    await source.snapshot()
    ensure_equal([(tool.name, tool.description) for tool in before.tools], held, "the older snapshot")
    [old] = [tool for tool in before.tools if tool.origin is not None and tool.origin.name == "one"]
    await run_tool(old)
    ensure_equal(lever(subject.called, "called")()[-1], "one", "the tool that was reached")


@case("CAP-009", "RUN-013", needs=("called", "lose_next"))
async def a_lost_answer_is_unknown_and_not_asked_for_again(subject: ToolSourceSubject) -> None:
    """A call whose line is cut after it was handed over raises `OutcomeUnknown`, and reaches the other end once."""
    called = lever(subject.called, "called")
    tool = next(iter((await tools_of(subject.port)).values()))
    await run_tool(tool)
    reached = len(called())
    await lever(subject.lose_next, "lose_next")()
    with ensure_raises(OutcomeUnknown, "a call whose answer is lost"):
        await run_tool(tool)
    await trio.testing.wait_all_tasks_blocked()
    ensure_equal(len(called()), reached + 1, "how often the call reached the other end")


@case("CAP-001", needs=("hold",))
async def a_cancelled_call_leaves_at_once(subject: ToolSourceSubject) -> None:
    """Cancelling whoever waits for an answer that does not come ends the wait, and others are not disturbed."""
    tool = next(iter((await tools_of(subject.port)).values()))
    await lever(subject.hold, "hold")()
    began = trio.current_time()
    with trio.move_on_after(1):
        await run_tool(tool)
    ensure(trio.current_time() - began < 1.5, "it went on waiting after it was cancelled")
    await subject.port.snapshot()


@case("CAP-001")
async def a_cancelled_snapshot_disturbs_nobody(subject: ToolSourceSubject) -> None:
    """Of two who ask at the same time, one may be cancelled and the other has its snapshot."""
    got: list[str] = []

    async def ask() -> None:
        got.append((await subject.port.snapshot()).digest)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        with trio.CancelScope() as scope:
            scope.cancel()
            await subject.port.snapshot()
    ensure_equal(got, [(await subject.port.snapshot()).digest], "what the other one was given")


@case("CAP-001", needs=("offer", "down"))
async def a_source_that_cannot_say_says_so(subject: ToolSourceSubject) -> None:
    """What cannot be reached raises `ToolSourceUnavailable`, which names the source."""
    await lever(subject.offer, "offer")([Definition(name="one")])
    await subject.port.snapshot()
    await lever(subject.offer, "offer")([Definition(name="two")])
    await lever(subject.down, "down")()
    await trio.testing.wait_all_tasks_blocked()
    with ensure_raises(ToolSourceUnavailable, "`snapshot` of what is down") as caught:
        await subject.port.snapshot()
    ensure_equal(caught.error.source, subject.port.name, "the source that is said to be unavailable")


CHANGING = (
    nothing_changes_while_nothing_changes,
    the_order_at_the_other_end_does_not_count,
    a_change_is_told_until_it_is_taken_up,
    an_older_snapshot_stays_what_it_was,
    a_lost_answer_is_unknown_and_not_asked_for_again,
    a_cancelled_call_leaves_at_once,
    a_cancelled_snapshot_disturbs_nobody,
    a_source_that_cannot_say_says_so,
)
