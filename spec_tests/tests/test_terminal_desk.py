"""The terminal desk on a real terminal: a pseudo-terminal whose other end the test holds as the person would."""

import os
import re
from contextlib import suppress

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.desk_samples import REQUEST, START, request
from tests.terminal_person import PROMPT, Person, decided, sitting
from triolet.ports.approval import (
    Decision,
    GrantTerms,
)
from triolet.ports.identity import Principal, after


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
