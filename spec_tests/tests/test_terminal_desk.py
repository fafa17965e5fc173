"""The terminal desk on a real terminal: a pseudo-terminal whose other end the test holds as the person would."""

import os
import re
import signal
import subprocess
import sys
import termios
import textwrap
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.desk_samples import ACME, REQUEST, START, arguments, request
from triolet.adapters.approval_desks.terminal_desk import TerminalDesk, open_terminal_desk
from triolet.adapters.clocks import TrioClock
from triolet.ports.approval import (
    PENDING,
    Approval,
    ApprovalRequest,
    ApprovalUnavailable,
    Decision,
    GrantTerms,
    Pending,
)
from triolet.ports.identity import MICROSECONDS, Instant, Principal, after
from triolet.ports.sources import Clock

PATIENT: Final = 30.0
"""Seconds that a test waits for what must come. No test takes that long unless it fails."""
PROMPT: Final = "y/a/n/r> "
STYLES: Final = re.compile(r"\x1b\[[0-9;]*m")


class Person:
    """Whoever sits at the terminal. Sees what it shows, and types."""

    def __init__(self, master: int, slave: int) -> None:
        self.master = master
        self.slave = slave
        self.seen = ""
        self._place = 0

    async def sees(self, text: str) -> str:
        """Wait until `text` is shown behind what was looked at before; return all that was shown up to its end."""
        with trio.fail_after(PATIENT):
            while (found := self.plain.find(text, self._place)) < 0:
                await trio.lowlevel.wait_readable(self.master)
                self.seen += os.read(self.master, 65_536).decode()
        shown = self.plain[self._place : found + len(text)]
        self._place = found + len(text)
        return shown

    async def types(self, text: str) -> None:
        """Type it once nothing else happens in this process."""
        await wait_all_tasks_blocked()
        os.write(self.master, text.encode())

    @property
    def plain(self) -> str:
        return STYLES.sub("", self.seen)

    def resize(self, columns: int) -> None:
        termios.tcsetwinsize(self.slave, (24, columns))


@pytest.fixture
def person() -> Generator[Person]:
    master, slave = os.openpty()
    someone = Person(master, slave)
    someone.resize(100)
    try:
        yield someone
    finally:
        for descriptor in (someone.master, someone.slave):
            if descriptor >= 0:
                os.close(descriptor)


class Asking:
    """Callers in the background and what they heard."""

    def __init__(self, nursery: trio.Nursery, desk: Approval) -> None:
        self._nursery = nursery
        self._desk = desk
        self.heard: dict[str, Decision | Pending | ApprovalUnavailable] = {}
        self._news = trio.Event()

    async def ask(self, asked: ApprovalRequest) -> None:
        """Ask in the background. When this returns, the request is on the desk."""
        self._nursery.start_soon(self._ask, asked)
        await wait_all_tasks_blocked()

    async def answer(self, asked: ApprovalRequest) -> Decision | Pending | ApprovalUnavailable:
        with trio.fail_after(PATIENT):
            while asked.id not in self.heard:
                await self._news.wait()
        return self.heard[asked.id]

    async def _ask(self, asked: ApprovalRequest) -> None:
        try:
            self.heard[asked.id] = await self._desk.request(asked, patience=float("inf"))
        except ApprovalUnavailable as error:
            self.heard[asked.id] = error
        news, self._news = self._news, trio.Event()
        news.set()


@asynccontextmanager
async def sitting(person: Person, clock: Clock | None = None) -> AsyncGenerator[tuple[TerminalDesk, Asking]]:
    async with (
        open_terminal_desk(person="ann", terminal=person.slave, clock=clock or TrioClock(START)) as desk,
        trio.open_nursery() as nursery,
    ):
        yield desk, Asking(nursery, desk)
        nursery.cancel_scope.cancel()


def _open_descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def decided(asked: ApprovalRequest, verdict: str, **fields: object) -> Decision:
    decision = Decision(verdict="denied", by=Principal(name="ann", tenant=ACME), arguments=asked.arguments)
    return attrs.evolve(decision, verdict=verdict, **fields)  # type: ignore[arg-type, unused-ignore]


# --- what is shown -------------------------------------------------------------------------------------


async def test_a_person_reads_everything_that_an_answer_depends_on(person: Person) -> None:
    asked = request(
        summary="write 2 files",
        targets=("docs/a.md", "docs/b.md"),
        risk="high",
        preview='{"path": "docs"}',
        expires_at=after(START, 3725),
    )
    async with sitting(person) as (_, asking):
        await asking.ask(asked)
        shown = await person.sees(PROMPT)
    rows = [" ".join(line.split()) for line in shown.splitlines()]
    expected = [
        "approve? write_file · high risk",
        "write 2 files",
        "touches docs/a.md",
        "docs/b.md",
        'input {"path": "docs"}',
        "for ann (acme), agent helper, run run1",
        "if no the run fails",
    ]
    assert [row for row in expected if row not in rows] == []
    assert re.search(r"expires +in 1 h 2 min [45] s", shown)
    # In colours, since it is a terminal.
    assert "\x1b[1;31mhigh risk" in person.seen


async def test_what_is_missing_is_said(person: Person) -> None:
    asked = request(summary="", targets=(), denial="recoverable")
    async with sitting(person) as (_, asking):
        await asking.ask(asked)
        shown = await person.sees(PROMPT)
    for text in ("(no summary)", "nothing that it names", "expires   never", "the model is told, and goes on"):
        assert text in shown


async def test_a_long_request_is_shown_whole_or_says_what_is_not(person: Person) -> None:
    preview = "".join(f"<{number:06}>" for number in range(250))
    assert len(preview) == 2_000
    asked = request(targets=tuple(f"t{number:02}" for number in range(60)), preview=preview)
    person.resize(60)
    async with sitting(person) as (_, asking):
        await asking.ask(asked)
        shown = await person.sees(PROMPT)
    assert "".join(shown.split()).count("<") == 250
    assert "".join(shown.split()).find(preview) >= 0
    assert "t49" in shown
    assert "t50" not in shown
    assert "and 10 more, not shown" in shown


async def test_hostile_text_stays_text(person: Person) -> None:
    hostile = "[bold]x[/bold] \x1b[2J\x1b]0;t\x07\r\x08\u202eevil\u200b\x9b1A"
    asked = request(
        tool="t",
        summary=hostile + "\nrisk low",
        targets=(hostile + "\nrisk low",),
        preview=hostile,
        principal=Principal(name=hostile),
    )
    async with sitting(person) as (_, asking):
        await asking.ask(asked)
        await person.sees(PROMPT)
    left = person.plain.replace("\r\n", "\n")
    assert [char for char in left if not (char.isprintable() or char == "\n")] == []
    assert left.count("[bold]x[/bold]") == 4
    assert left.count("␛[2J␛]0;t␇") == 4
    # No text from outside begins a line of its own.
    assert left.count(" risk low\n") == 2
    assert [line for line in left.splitlines() if line.strip().startswith("risk low")] == []


@pytest.mark.parametrize("columns", [0, 10, 30, 400])
async def test_any_width_will_do(person: Person, columns: int) -> None:
    person.resize(columns)
    async with sitting(person) as (_, asking):
        await asking.ask(REQUEST)
        await person.sees(PROMPT)
        await person.types("y\n")
        assert await asking.answer(REQUEST) == decided(REQUEST, "approved")


# --- what is answered ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("y", decided(REQUEST, "approved")),
        (" YES ", decided(REQUEST, "approved")),
        ("n", decided(REQUEST, "denied")),
        ("No", decided(REQUEST, "denied")),
        ("a", decided(REQUEST, "approved", grant=GrantTerms(scope="conversation"))),
        ("again", decided(REQUEST, "approved", grant=GrantTerms(scope="conversation"))),
    ],
)
async def test_one_line_answers(person: Person, line: str, expected: Decision) -> None:
    async with sitting(person) as (desk, asking):
        await asking.ask(REQUEST)
        await person.sees(PROMPT)
        await person.types(line + "\n")
        assert await asking.answer(REQUEST) == expected
        # It is known from now on, and not asked again.
        assert await desk.request(REQUEST, patience=0) == expected
        await wait_all_tasks_blocked()
        assert person.plain.count("approve?") == 1


async def test_a_denial_may_say_why(person: Person) -> None:
    async with sitting(person) as (_, asking):
        await asking.ask(REQUEST)
        await person.sees(PROMPT)
        await person.types("r\n")
        await person.sees("why not> ")
        await person.types("  it is\tmüde\x1b[A \n")
        assert await asking.answer(REQUEST) == decided(REQUEST, "denied", reason="it is müde␛[A")


async def test_a_reason_is_bounded(person: Person) -> None:
    async with sitting(person) as (_, asking):
        await asking.ask(REQUEST)
        await person.sees(PROMPT)
        await person.types("r\n" + "x" * 2_000 + "\n")
        assert await asking.answer(REQUEST) == decided(REQUEST, "denied", reason="x" * 500)


async def test_only_a_clear_answer_is_one(person: Person) -> None:
    async with sitting(person) as (_, asking):
        await asking.ask(REQUEST)
        await person.sees(PROMPT)
        for line in ("", "yy", "y n", "maybe", "\x1b[A", "ý", "\u202ey"):
            await person.types(line + "\n")
            assert "yes, this once" in await person.sees(PROMPT)
            assert asking.heard == {}
        await person.types("n\n")
        assert await asking.answer(REQUEST) == decided(REQUEST, "denied")


async def test_what_was_typed_before_is_no_answer(person: Person) -> None:
    async with sitting(person) as (_, asking):
        await person.types("y\ny\ny")
        await wait_all_tasks_blocked()
        await asking.ask(request(1))
        await asking.ask(request(2))
        await person.sees(PROMPT)
        await person.types("n\ny\n")
        assert await asking.answer(request(1)) == decided(request(1), "denied")
        # Nor does the second line count for a request that was not shown yet.
        await person.sees(PROMPT)
        await wait_all_tasks_blocked()
        assert request(2).id not in asking.heard
        await person.types("a\n")
        answer = await asking.answer(request(2))
        assert isinstance(answer, Decision)
        assert answer.grant is not None


async def test_a_line_that_somebody_else_reads_is_not_waited_for(person: Person) -> None:
    async def rival() -> None:
        await trio.lowlevel.wait_readable(person.slave)
        os.set_blocking(person.slave, False)
        with suppress(BlockingIOError):
            os.read(person.slave, 100)

    async with sitting(person) as (desk, asking):
        assert not os.get_blocking(desk._terminal._descriptor)
        # Both are woken by one line, in either order.
        for number in range(20):
            await asking.ask(request(number))
            await person.sees(PROMPT)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(rival)
                await person.types("y\n")
            await wait_all_tasks_blocked()
            if request(number).id not in asking.heard:
                await person.types("y\n")
            assert await asking.answer(request(number)) == decided(request(number), "approved")


async def test_half_a_line_is_no_answer(person: Person) -> None:
    async with sitting(person) as (_, asking):
        await asking.ask(REQUEST)
        await person.sees(PROMPT)
        await person.types("y\x04")  # Ctrl-D hands over what there is of the line
        await wait_all_tasks_blocked()
        assert asking.heard == {}
        await person.types("es\n")
        assert await asking.answer(REQUEST) == decided(REQUEST, "approved")


# --- several, patience, expiry, withdrawal ---------------------------------------------------------------


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


# --- ends ----------------------------------------------------------------------------------------------


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
    descriptors = _open_descriptors()
    with trio.CancelScope() as scope:
        async with sitting(person) as (_, asking):
            await asking.ask(REQUEST)
            await person.sees(PROMPT)
            scope.cancel()
            await trio.lowlevel.checkpoint()
    assert scope.cancelled_caught
    assert (termios.tcgetattr(person.slave), os.get_blocking(person.slave)) == before
    assert _open_descriptors() == descriptors


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
