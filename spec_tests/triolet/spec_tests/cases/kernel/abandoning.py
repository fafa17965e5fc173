"""Synchronous handlers whose call is over: they keep their place; closing waits for them, bounded, and names them.

RUN-009.
"""

import threading

import trio

from triolet.adapters.scripted_model import call, turn
from triolet.kernel import Kernel, Tool, tool
from triolet.ports.outcomes import ToolDefect, ToolUnknownOutcome
from triolet.spec_tests.cases.kernel.setting import KernelSubject, open_bench, text_agent, turns_pass
from triolet.spec_tests.claims import ensure_equal
from triolet.spec_tests.definition import case


class _Held:
    """Threads that stay until they are let go, at the latest after ten seconds.

    Threads follow no clock of Trio's, and may be slow to start: a case waits for them as a thread would.
    """

    def __init__(self) -> None:
        self.began = 0
        self.ended = 0
        self.go = threading.Event()
        self.has_begun = threading.Event()
        self.has_ended = threading.Event()

    def tool(self) -> Tool[None, str]:
        @tool(timeout=0.05)
        def hold() -> str:
            self.began += 1
            self.has_begun.set()
            self.go.wait(10)
            self.ended += 1
            self.has_ended.set()
            return "late"

        return hold


@case("RUN-009")
async def an_abandoned_thread_keeps_its_place(subject: KernelSubject) -> None:
    """A thread that outlasts its call counts among `max_threads`: no other starts in its place while it runs."""
    held = _Held()
    script = [turn(call("hold")), turn(call("hold")), turn("done")]
    options = {"max_threads": 1}
    async with open_bench(subject, script, text_agent(held.tool()), options=options) as bench:
        try:
            await bench.run()
            held.has_begun.wait(10)
            ensure_equal((held.began, held.ended), (1, 0), "threads begun and ended where one has its place")
        finally:
            held.go.set()
    due = [ToolUnknownOutcome(reason="timeout"), ToolDefect(reason="timeout", effect_possible=False)]
    ensure_equal(bench.outcomes, due, "the outcomes of the call that runs on and of the one that got no thread")


@case("RUN-009")
async def closing_names_threads_that_go_on(subject: KernelSubject) -> None:
    """A kernel closes in time although a thread runs on, and says of which call; it waits for one that ends."""
    for name, seconds, ends in (("goes on", 0.1, False), ("ends", 10.0, True)):
        held = _Held()
        try:
            async with trio.open_nursery() as nursery:
                kernel = await _close_over(subject, held, seconds, nursery if ends else None)
                # At this moment, and not when the nursery has waited for who lets the thread go.
                left, ended = [each.call for each in kernel.abandoned], held.ended
        finally:
            held.go.set()
        ensure_equal(left, [] if ends else ["run1-1-0"], f"calls with threads after closing, where one {name}")
        ensure_equal(ended, int(ends), f"threads that have ended when the kernel is closed, where one {name}")


async def _close_over(subject: KernelSubject, held: _Held, seconds: float, ends: trio.Nursery | None) -> Kernel:
    script = [turn(call("hold")), turn("done")]
    async with open_bench(subject, script, text_agent(held.tool()), options={"close_seconds": seconds}) as bench:
        await bench.run()
        named = [(each.tool, each.call, each.run) for each in bench.kernel.abandoned]
        ensure_equal(named, [("hold", "run1-1-0", "run1")], "what the kernel says of a call whose thread runs on")
        if ends is not None:
            ends.start_soon(_let_go, held, bench.kernel)
    return bench.kernel


async def _let_go(held: _Held, kernel: Kernel) -> None:
    for _ in range(100):
        await trio.lowlevel.checkpoint()
    held.go.set()
    held.has_ended.wait(10)
    # While this turns, a mocked clock stands still.
    await turns_pass(lambda: not kernel.abandoned, "noticing that a thread has ended")


ABANDONING = (
    an_abandoned_thread_keeps_its_place,
    closing_names_threads_that_go_on,
)
