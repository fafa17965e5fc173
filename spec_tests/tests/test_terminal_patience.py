"""The terminal desk over time: several requests, patience, expiry, withdrawal, and every end."""

import os
import re
import signal
import subprocess
import sys
import termios
import textwrap
from functools import partial
from typing import Final

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.desk_samples import REQUEST, START, arguments, request
from tests.terminal_person import PATIENT, PROMPT, Person, decided, open_descriptors, sitting
from triolet.adapters.approval_desks.terminal_desk import open_terminal_desk
from triolet.adapters.clocks import TrioClock
from triolet.ports.approval import (
    PENDING,
    ApprovalUnavailable,
)
from triolet.ports.identity import MICROSECONDS, Instant, after


async def test_requests_are_shown_one_at_a_time_in_order(person: Person) -> None:
    asked = [request(number, tool=f"tool{number}") for number in (1, 2, 3)]
    async with sitting(person) as (desk, asking):
        for each in asked:
            assert await desk.request(each, patience=0) == PENDING
        for number, each in enumerate(asked, 1):
            await asking.ask(each)
            shown = await person.sees(PROMPT)
            assert re.findall(r"tool\d", shown) == [f"tool{number}"]
            # While the first is written, the others may still be on their way.
            assert number == 1 or ("1 more waiting" in shown) is (number == 2)
            await person.types("y\n")
            assert await asking.answer(each) == decided(each, "approved")


async def test_a_request_that_nobody_waits_for_is_answered_all_the_same(person: Person) -> None:
    async with sitting(person) as (desk, asking):
        assert await desk.request(REQUEST, patience=0) == PENDING
        with trio.CancelScope() as scope:
            scope.cancel()
            await desk.request(request(2), patience=9)
        await person.sees(PROMPT)
        await person.types("y\n")
        await asking.ask(REQUEST)
        assert await asking.answer(REQUEST) == decided(REQUEST, "approved")
        await wait_all_tasks_blocked()
        assert "run2" not in person.plain


async def test_patience_ends_and_the_question_stays(person: Person, mock_clock: MockClock) -> None:
    async with sitting(person) as (desk, asking):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(desk.request, REQUEST, patience=5))
            await person.sees(PROMPT)
            await wait_all_tasks_blocked()
            assert len(nursery.child_tasks) == 1
            mock_clock.jump(5)
        await asking.ask(REQUEST)
        await person.types("y\n")
        assert await asking.answer(REQUEST) == decided(REQUEST, "approved")
        await wait_all_tasks_blocked()
        assert person.plain.count("approve?") == 1


async def test_an_expired_request_disappears(person: Person, mock_clock: MockClock) -> None:
    soon = request(1, expires_at=after(START, 60))
    async with sitting(person) as (desk, asking):
        await asking.ask(soon)
        await asking.ask(request(2))
        await person.sees(PROMPT)
        # Half an answer is none, and does not become the next request's.
        await person.types("y")
        await wait_all_tasks_blocked()
        mock_clock.jump(59.9)
        await wait_all_tasks_blocked()
        assert asking.heard == {}
        mock_clock.jump(0.1)
        assert await asking.answer(soon) == PENDING
        await person.sees("expired")
        assert "run2" in await person.sees(PROMPT)
        await person.types("\n")
        await person.sees(PROMPT)
        assert request(2).id not in asking.heard
        # It is not shown again, and whoever asks again does not wait.
        assert await desk.request(soon, patience=float("inf")) == PENDING
        late = request(3, expires_at=START)
        assert await desk.request(late, patience=float("inf")) == PENDING
        await person.types("n\n")
        await asking.answer(request(2))
        await wait_all_tasks_blocked()
        assert "run3" not in person.plain


async def test_an_expired_request_is_shown_again_when_it_has_more_time(person: Person, mock_clock: MockClock) -> None:
    soon = request(1, expires_at=after(START, 60))
    async with sitting(person) as (_, asking):
        await asking.ask(soon)
        await person.sees(PROMPT)
        await wait_all_tasks_blocked()
        mock_clock.jump(60)
        assert await asking.answer(soon) == PENDING
        await person.sees("expired")
        del asking.heard[soon.id]
        later = attrs.evolve(soon, expires_at=None)
        await asking.ask(later)
        await person.sees(PROMPT)
        await person.types("y\n")
        assert await asking.answer(later) == decided(later, "approved")


class SlowClock:
    """A wall clock that runs a little slower than Trio's."""

    def __init__(self) -> None:
        self._clock = TrioClock(START)

    def now(self) -> Instant:
        return after(START, (self._clock.now() - START) / MICROSECONDS * 0.99)


async def test_a_request_is_not_expired_before_its_clock_says_so(person: Person, mock_clock: MockClock) -> None:
    soon = request(1, expires_at=after(START, 99))
    async with sitting(person, SlowClock()) as (_, asking):
        await asking.ask(soon)
        await person.sees(PROMPT)
        await wait_all_tasks_blocked()
        for seconds in (99.5, 0.25):
            mock_clock.jump(seconds)
            await wait_all_tasks_blocked()
            assert asking.heard == {}
        mock_clock.jump(1)
        assert await asking.answer(soon) == PENDING
        await person.sees("expired")
        assert person.plain.count("approve?") == 1


async def test_a_withdrawn_request_disappears(person: Person) -> None:
    async with sitting(person) as (desk, asking):
        await asking.ask(request(1))
        await asking.ask(request(2))
        await asking.ask(request(3))
        await person.sees(PROMPT)
        await desk.withdraw(request(2).id)
        assert await asking.answer(request(2)) == PENDING
        await person.types("y")
        await desk.withdraw(request(1).id)
        assert await asking.answer(request(1)) == PENDING
        await person.sees("withdrawn; nothing was decided here")
        assert "run3" in await person.sees(PROMPT)
        await person.types("y\n")
        assert await asking.answer(request(3)) == decided(request(3), "approved")
        await desk.withdraw(request(3).id)
        await desk.withdraw(request(9).id)
        assert await desk.request(request(3), patience=0) == PENDING
        await person.sees(PROMPT)


async def test_an_answer_in_the_moment_of_withdrawal_does_no_harm(person: Person) -> None:
    async with sitting(person) as (desk, asking):
        for number in range(1, 30):
            await asking.ask(request(number))
            await person.sees(PROMPT)
            await wait_all_tasks_blocked()
            os.write(person.master, b"y\n")
            for _ in range(number % 4):
                await trio.lowlevel.checkpoint()
            await desk.withdraw(request(number).id)
            await asking.answer(request(number))
        await asking.ask(REQUEST)
        await person.sees(PROMPT)
        await person.types("y\n")


async def test_changed_arguments_are_shown_anew(person: Person) -> None:
    changed = attrs.evolve(REQUEST, arguments=arguments("b"), preview="changed")
    async with sitting(person) as (desk, asking):
        await asking.ask(REQUEST)
        await person.sees(PROMPT)
        assert await desk.request(changed, patience=0) == PENDING
        assert await asking.answer(REQUEST) == PENDING
        del asking.heard[REQUEST.id]
        assert "changed" in await person.sees(PROMPT)
        await person.types("y\n")
        await asking.ask(changed)
        assert await asking.answer(changed) == decided(changed, "approved")


async def test_the_end_of_input_leaves_everything_pending(person: Person) -> None:
    async with sitting(person) as (desk, asking):
        await asking.ask(request(1))
        await asking.ask(request(2))
        await person.sees(PROMPT)
        await person.types("\x04")
        assert await asking.answer(request(1)) == PENDING
        assert await asking.answer(request(2)) == PENDING
        assert await desk.request(request(3), patience=float("inf")) == PENDING
        assert await desk.request(request(1), patience=float("inf")) == PENDING
        await desk.withdraw(request(1).id)


async def test_the_end_of_input_instead_of_a_reason_is_no_denial(person: Person) -> None:
    async with sitting(person) as (_, asking):
        await asking.ask(REQUEST)
        await person.sees(PROMPT)
        await person.types("r\n")
        await person.sees("why not> ")
        await person.types("\x04")
        assert await asking.answer(REQUEST) == PENDING


async def test_a_terminal_that_goes_away_is_unavailable(person: Person) -> None:
    async with sitting(person) as (desk, asking):
        await asking.ask(REQUEST)
        await person.sees(PROMPT)
        await wait_all_tasks_blocked()
        os.close(person.master)
        person.master = -1
        answer = await asking.answer(REQUEST)
        assert isinstance(answer, ApprovalUnavailable)
        assert answer.message.startswith("approval desk terminal is unavailable: the terminal is gone")
        with pytest.raises(ApprovalUnavailable):
            await desk.request(request(2), patience=0)


async def test_without_a_terminal_there_is_no_desk() -> None:
    reader, writer = os.pipe()
    try:
        with pytest.raises(ApprovalUnavailable, match=f"descriptor {reader} is no terminal"):
            async with open_terminal_desk(terminal=reader):
                pass
    finally:
        os.close(reader)
        os.close(writer)


async def test_the_bodys_error_comes_out_as_it_is(person: Person) -> None:
    with pytest.raises(KeyError, match="'mine'"):
        async with open_terminal_desk(terminal=person.slave):
            raise KeyError("mine")
    group = ExceptionGroup("mine", [KeyError("a"), ValueError("b")])
    with pytest.raises(ExceptionGroup) as raised:
        async with open_terminal_desk(terminal=person.slave):
            raise group
    assert (raised.value.message, raised.value.exceptions) == ("mine", group.exceptions)


async def test_cancelling_ends_it_and_leaves_the_terminal_as_it_was(person: Person) -> None:
    before = (termios.tcgetattr(person.slave), os.get_blocking(person.slave))
    descriptors = open_descriptors()
    with trio.CancelScope() as scope:
        async with sitting(person) as (_, asking):
            await asking.ask(REQUEST)
            await person.sees(PROMPT)
            scope.cancel()
            await trio.lowlevel.checkpoint()
    assert scope.cancelled_caught
    assert (termios.tcgetattr(person.slave), os.get_blocking(person.slave)) == before
    assert open_descriptors() == descriptors


PROGRAM: Final = textwrap.dedent("""
    import sys, threading, trio
    from tests.desk_samples import REQUEST
    from triolet.adapters.approval_desks.terminal_desk import open_terminal_desk

    async def main():
        async with open_terminal_desk() as desk:
            answer = await desk.request(REQUEST, patience=float(sys.argv[1]))
            print("heard", type(answer).__name__, "in", threading.active_count(), "thread")

    trio.run(main)
""")


def start(person: Person, patience: str) -> "subprocess.Popen[bytes]":
    # A session of its own: the terminal is the child's controlling one once it opens it, as in a shell.
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, patience],
        stdin=person.slave,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


async def ended(child: "subprocess.Popen[bytes]") -> tuple[int, str, str]:
    out, err = await trio.to_thread.run_sync(lambda: child.communicate(timeout=PATIENT))
    return child.returncode, out.decode().strip(), err.decode().strip()


async def test_a_program_ends_while_a_question_is_open(person: Person) -> None:
    child = start(person, "0.3")
    await person.sees(PROMPT)
    assert await ended(child) == (0, "heard Pending in 1 thread", "")


async def test_a_program_whose_output_is_elsewhere_is_answered(person: Person) -> None:
    child = start(person, "inf")
    await person.sees(PROMPT)
    # The question is dropped if typed too early: only the child knows when it listens.
    with trio.fail_after(PATIENT):
        while child.poll() is None:
            os.write(person.master, b"y\n")
            await trio.sleep(0.05)
    assert await ended(child) == (0, "heard Decision in 1 thread", "")


async def test_a_program_can_be_interrupted_at_a_question(person: Person) -> None:
    child = start(person, "inf")
    await person.sees(PROMPT)
    child.send_signal(signal.SIGINT)
    status, out, err = await ended(child)
    assert (status, out) == (-signal.SIGINT, "")
    assert "KeyboardInterrupt" in err
