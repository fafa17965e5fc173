"""Cases, claims, subjects and suites: what a case's ending means, and which ones are refused when they are made."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from triolet.ports.errors import Conflict, Unavailable
from triolet.spec_tests import (
    Case,
    NotExercised,
    NotTriggered,
    SpecViolation,
    Subject,
    Suite,
    case,
    ensure,
    ensure_equal,
    ensure_raises,
    lever,
    not_triggered,
    run_case,
)
from triolet.spec_tests.definition import InvalidCase

Check = Callable[[Subject[str]], Awaitable[None]]


def suite_of(*checks: Check, needs: tuple[str, ...] = (), traits: tuple[str, ...] = ()) -> Suite[Subject[str]]:
    cases = tuple(
        Case(requirements=("RUN-001",), title="t", check=check, needs=needs, name=f"c{number}")
        for number, check in enumerate(checks)
    )
    return Suite(port="thing", version=1, subject=Subject, verbs=("upper",), cases=cases, traits=traits)


@asynccontextmanager
async def text() -> AsyncGenerator[str]:
    yield "text"


async def outcome(
    check: Check, maker: Any = text, *, limit: float = 10.0, **fields: Any
) -> tuple[str, str | None, str]:
    suite = suite_of(check, **fields)
    row = (await run_case(suite, suite.cases[0], maker, limit=limit)).row
    return row.status, row.fault, row.reason


async def fine(_: Subject[str]) -> None:
    await trio.lowlevel.checkpoint()


async def broken(_: Subject[str]) -> None:
    ensure(condition=False, problem="it is broken")


async def test_a_violation_carries_the_ids_of_its_case_from_within_nurseries() -> None:
    async def check(_: str) -> None:
        async with trio.open_nursery() as outer, trio.open_nursery() as inner:
            outer.start_soon(trio.sleep_forever)
            inner.start_soon(broken, Subject(port=""))

    made = Case(requirements=("RUN-001", "RUN-002"), title="t", check=check)
    with pytest.raises(SpecViolation) as caught:
        await made.run("")
    assert caught.value.requirements == ("RUN-001", "RUN-002")
    assert str(caught.value) == "RUN-001, RUN-002: it is broken"


async def test_an_error_that_is_no_violation_passes_as_it_is() -> None:
    async def check(_: str) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fine, Subject(port=""))
            raise KeyError

    with pytest.raises(ExceptionGroup):
        await Case(requirements=("RUN-001",), title="t", check=check).run("")


def test_a_decorated_function_is_a_case_with_its_name_and_title() -> None:
    @case("RUN-001", "RUN-002", needs=("reopen",))
    async def does_it(_: str) -> None:
        """It does it.

        And more.
        """

    assert (does_it.name, does_it.title, does_it.needs) == ("does_it", "It does it", ("reopen",))
    assert str(does_it) == "does_it[RUN-001+RUN-002]"


@pytest.mark.parametrize(
    "fields",
    [
        {"requirements": ()},
        {"requirements": ("RUN-001", "RUN-001")},
        {"title": ""},
        {"name": ""},
    ],
    ids=["no requirement", "one twice", "no title", "no name"],
)
def test_a_case_that_contradicts_itself_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidCase):
        attrs.evolve(suite_of(fine).cases[0], **fields)


@pytest.mark.parametrize(
    "changes",
    [{"requirements": ("RUN-999",)}, {"needs": ("wings",)}, {"name": "smoke"}, {"name": "lifetime"}],
    ids=["unknown requirement", "unknown need", "name of the smoke row", "name of the lifetime row"],
)
def test_a_suite_refuses_a_case_that_does_not_fit(changes: dict[str, Any]) -> None:
    made = attrs.evolve(suite_of(fine).cases[0], **changes)
    with pytest.raises(InvalidCase):
        attrs.evolve(suite_of(), cases=(made,))


def test_a_suite_refuses_two_cases_of_one_name() -> None:
    made = suite_of(fine).cases[0]
    with pytest.raises(InvalidCase):
        attrs.evolve(suite_of(), cases=(made, made))


async def test_each_ending_has_its_status_and_fault() -> None:
    async def raises(_: Subject[str]) -> None:
        raise KeyError("k")

    async def leaves(_: Subject[str]) -> None:
        raise SystemExit(3)

    async def lacks(subject: Subject[str]) -> None:
        lever(subject.reopen, "reopen")

    async def waits(_: Subject[str]) -> None:
        not_triggered("it did not happen")

    assert await outcome(fine) == ("passed", None, "")
    assert await outcome(broken) == ("failed", "violation", "it is broken")
    assert await outcome(raises) == ("failed", "error", "KeyError while checking: 'k'")
    assert await outcome(leaves) == ("failed", "error", "SystemExit while checking: 3")
    assert await outcome(lacks) == ("not-exercised", None, "the maker gives no lever 'reopen'")
    assert await outcome(waits) == ("not-triggered", None, "it did not happen")


async def test_a_hanging_check_ends_at_the_limit(autojump_clock: MockClock) -> None:
    async def hangs(_: Subject[str]) -> None:
        await trio.sleep_forever()

    async def hangs_and_trips(_: Subject[str]) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            try:
                await trio.sleep_forever()
            finally:
                raise KeyError("on the way out")

    started = trio.current_time()
    assert await outcome(hangs, limit=3) == ("failed", "limit", "no end within 3 s while checking")
    assert trio.current_time() - started == pytest.approx(3)
    assert (await outcome(hangs_and_trips, limit=3))[:2] == ("failed", "limit")


async def test_a_maker_that_fails_is_told_apart_from_the_subject(autojump_clock: MockClock) -> None:
    @asynccontextmanager
    async def opens_badly() -> AsyncGenerator[str]:
        raise OSError("no disk")
        yield ""

    @asynccontextmanager
    async def closes_badly() -> AsyncGenerator[str]:
        yield "text"
        raise OSError("no disk")

    @asynccontextmanager
    async def never_closes() -> AsyncGenerator[str]:
        yield "text"
        await trio.sleep_forever()

    assert await outcome(fine, opens_badly) == ("failed", "opening", "OSError while opening: no disk")
    assert await outcome(fine, closes_badly) == ("failed", "closing", "OSError while closing: no disk")
    assert (await outcome(fine, never_closes))[:2] == ("failed", "limit")
    # What the check found counts for more than what went wrong afterwards.
    assert await outcome(broken, closes_badly) == ("failed", "violation", "it is broken")
    assert await outcome(broken, never_closes) == ("failed", "violation", "it is broken")


@pytest.mark.parametrize("given", [None, 3, b"no upper case for numbers"[0]], ids=["nothing", "a number", "an integer"])
async def test_what_is_no_subject_is_the_harness_fault(given: Any) -> None:
    @asynccontextmanager
    async def maker() -> AsyncGenerator[Any]:
        yield given

    status, fault, reason = await outcome(fine, maker)
    assert (status, fault) == ("failed", "harness")
    assert "has no upper" in reason


async def test_a_subject_of_another_port_or_with_an_unknown_trait_is_the_harness_fault() -> None:
    class Special(Subject[str]):
        pass

    @asynccontextmanager
    async def other() -> AsyncGenerator[Any]:
        yield Subject(port="x")

    @asynccontextmanager
    async def declining() -> AsyncGenerator[Any]:
        yield Subject(port="x", declines={"wings": "it is no bird"})

    suite = attrs.evolve(suite_of(fine), subject=Special)
    assert (await run_case(suite, suite.cases[0], other)).row.fault == "harness"
    assert (await outcome(fine, declining))[1] == "harness"


async def test_what_is_missing_and_what_is_declined_are_told_apart() -> None:
    def maker_of(subject: Subject[str]) -> Any:
        @asynccontextmanager
        async def maker() -> AsyncGenerator[Any]:
            yield subject

        return maker

    plain, declining = Subject(port="x"), Subject(port="x", declines={"cache": "it has none"})
    able = Subject(port="x", reopen=text)
    declining_lever = Subject(port="x", declines={"reopen": "it keeps nothing"})
    assert (await outcome(broken, maker_of(plain), needs=("reopen",)))[0] == "not-exercised"
    assert (await outcome(fine, maker_of(able), needs=("reopen",)))[0] == "passed"
    assert (await outcome(fine, maker_of(plain), needs=("cache",), traits=("cache",)))[0] == "passed"
    declined = await outcome(broken, maker_of(declining), needs=("reopen", "cache"), traits=("cache",))
    assert declined == ("not-applicable", None, "declined 'cache': it has none")
    assert (await outcome(broken, maker_of(declining_lever), needs=("reopen",)))[0] == "not-applicable"


async def test_leaks_are_found_and_attributed() -> None:
    async def leaves(_: Subject[str]) -> None:
        trio.lowlevel.spawn_system_task(trio.sleep_forever, name="left")

    suite = suite_of(leaves, fine)
    leaking = await run_case(suite, suite.cases[0], text)
    assert leaking.leaks == ("task left",)
    assert leaking.row.status == "passed"
    with pytest.raises(SpecViolation, match="CAP-001: left running: task left"):
        leaking.require()
    # What was there before is nobody's leak.
    assert (await run_case(suite, suite.cases[1], text)).leaks == ()


async def test_require_raises_for_a_failed_row_only() -> None:
    suite = suite_of(broken, fine)
    with pytest.raises(SpecViolation, match="RUN-001: it is broken"):
        (await run_case(suite, suite.cases[0], text)).require()
    (await run_case(suite, suite.cases[1], text)).require()


async def test_cancelling_the_caller_is_no_row() -> None:
    async def hangs(_: Subject[str]) -> None:
        await trio.sleep_forever()

    suite = suite_of(hangs)
    with trio.move_on_after(0.01) as scope:
        await run_case(suite, suite.cases[0], text)
    assert scope.cancelled_caught


def test_claims() -> None:
    ensure(condition=True, problem="no")
    ensure_equal(1, 1, "one")
    with pytest.raises(SpecViolation, match="the figure: 1, where 2 is due"):
        ensure_equal(1, 2, "the figure")
    with ensure_raises(Conflict, "it") as caught:
        raise Conflict
    assert isinstance(caught.error, Conflict)
    with pytest.raises(SpecViolation, match="it: went through, where Conflict is due"), ensure_raises(Conflict, "it"):
        pass
    with pytest.raises(SpecViolation, match="it: raised Unavailable"), ensure_raises(Conflict, "it"):
        raise Unavailable
    with pytest.raises(NotTriggered), ensure_raises(Conflict, "it"):
        not_triggered("quiet")
    assert lever(3, "three") == 3
    with pytest.raises(NotExercised):
        lever(None, "three")


def test_a_long_value_is_bounded_in_a_violation() -> None:
    with pytest.raises(SpecViolation) as caught:
        ensure_equal("x" * 10_000, "y", "the text")
    assert len(str(caught.value)) < 1_000
