"""Setting aside: in every node of the chain or in none, once for each key, and never too much. SEC-012, SUB-010."""

import trio

from triolet.ports.budget import Amounts, Budgets, Chain, ReservationReused, Reserved
from triolet.spec_tests.cases.budgets.setting import (
    DIMENSIONS,
    LEFT,
    RIGHT,
    TOP,
    BudgetSubject,
    ensure_granted,
    ensure_refused,
    ensure_spent,
    refusal,
)
from triolet.spec_tests.claims import ensure, ensure_equal, ensure_raises
from triolet.spec_tests.definition import case


@case("SEC-012", needs=("limited",))
async def every_ancestor_binds(subject: BudgetSubject) -> None:
    """A limit on any node of the chain, in any dimension, is a limit on everything below it, and is named."""
    for node in LEFT:
        for dimension in DIMENSIONS:
            async with subject.open({node: {dimension: 10}}) as budgets:
                await ensure_granted(budgets, "fits", {dimension: 10}, "all that a node has")
                due = refusal(node, 10, 10, dimension)
                await ensure_refused(budgets, "more", {dimension: 1}, due, f"one more of {dimension} than {node} has")


@case("SEC-012", needs=("limited",))
async def a_refusal_sets_nothing_aside(subject: BudgetSubject) -> None:
    """Where one node or dimension refuses, no node keeps anything of the reservation."""
    limits: dict[str, Amounts] = {TOP: {"tokens": 100, "turns": 5}, LEFT[1]: {"tokens": 100}, LEFT[3]: {"tokens": 10}}
    async with subject.open(limits) as budgets:
        due = refusal(LEFT[3], 0, 10)
        for number in range(3):
            wanted: Amounts = {"turns": 2, "tokens": 60}
            await ensure_refused(budgets, f"r{number}", wanted, due, "more than the narrowest node has")
        await ensure_spent(budgets, LEFT, {}, "after refusals")
        await ensure_granted(budgets, "other", {"turns": 5, "tokens": 100}, "all that the wider nodes have", RIGHT)


@case("SUB-010", "SEC-012", needs=("limited",))
async def what_is_set_aside_is_not_given_twice(subject: BudgetSubject) -> None:
    """What one holds another cannot have, on whatever branch, until it is given back."""
    async with subject.open({TOP: {"tokens": 10}}) as budgets:
        await ensure_granted(budgets, "left", {"tokens": 6}, "six of ten")
        due = refusal(TOP, 6, 10)
        await ensure_refused(budgets, "right", {"tokens": 5}, due, "five of the four that are left", RIGHT)
        await ensure_granted(budgets, "right", {"tokens": 4}, "the four that are left", RIGHT)
        await budgets.release("left")
        await ensure_granted(budgets, "again", {"tokens": 6}, "the six that were given back", RIGHT)


@case("SUB-010", needs=("limited",))
async def a_key_reserves_once(subject: BudgetSubject) -> None:
    """The same reservation again takes nothing more, and another under its key is refused and takes nothing."""
    async with subject.open({TOP: {"tokens": 10}}) as budgets:
        for _ in range(3):
            await ensure_granted(budgets, "key", {"tokens": 6}, "the same reservation")
        others: tuple[tuple[Chain, Amounts], ...] = (
            (LEFT, {"tokens": 1}),
            (RIGHT, {"tokens": 6}),
            (LEFT, {"tokens": 6, "turns": 1}),
        )
        for chain, amounts in others:
            with ensure_raises(ReservationReused, "another reservation under a key that is taken"):
                await budgets.reserve("key", chain, amounts)
        await ensure_granted(budgets, "rest", {"tokens": 4}, "the four that are left", RIGHT)
        await budgets.release("key")
        await ensure_granted(budgets, "back", {"tokens": 6}, "the six of the one reservation")


@case("SUB-010", needs=("limited",))
async def what_is_given_back_is_given_back_once(subject: BudgetSubject) -> None:
    """Releasing again, after settling, or what was never reserved, gives nothing more back."""
    async with subject.open({TOP: {"tokens": 10}}) as budgets:
        await ensure_granted(budgets, "gone", {"tokens": 5}, "five of ten")
        await ensure_granted(budgets, "kept", {"tokens": 5}, "the other five")
        for key in ("gone", "gone", "never"):
            await budgets.release(key)
        await ensure_granted(budgets, "half", {"tokens": 5}, "the five that were given back")
        await ensure_refused(budgets, "more", {"tokens": 1}, refusal(TOP, 10, 10), "more than was given back")
        await budgets.settle("half", {"tokens": 5})
        await budgets.release("half")
        await ensure_refused(budgets, "more", {"tokens": 1}, refusal(TOP, 10, 10), "what was given back once settled")
        await ensure_spent(budgets, LEFT, {"tokens": 5}, "after releasing what was settled")


@case("SUB-010", "SEC-012", needs=("limited",))
async def parallel_consumers_never_overshoot(subject: BudgetSubject) -> None:
    """Of many that want the last units at once as many get them as there are units, whoever is cancelled."""
    for stopped in (False, True):
        async with subject.open({TOP: {"turns": 7}, LEFT[3]: {"turns": 5}}) as budgets:
            granted = await _race(budgets, 20, stopped=stopped)
            ensure(granted <= 7, f"{granted} got a unit of 7")
            if not stopped:
                ensure_equal(granted, 7, "how many got a unit of 7")
            spent = (await budgets.spent(TOP)).get("turns", 0)
            ensure_equal(spent, granted, "how many units are spent")
            for number in range(7 - granted):
                await ensure_granted(budgets, f"rest{number}", {"turns": 1}, "a unit that nobody got", RIGHT)
            await ensure_refused(
                budgets, "over", {"turns": 1}, refusal(TOP, 7, 7, "turns"), "a unit more than there are", RIGHT
            )


async def _race(budgets: Budgets, count: int, *, stopped: bool) -> int:
    granted = 0

    async def consume(number: int) -> None:
        nonlocal granted
        key, chain = f"c{number}", LEFT if number % 2 else RIGHT
        with trio.CancelScope() as scope:
            if stopped and number % 3 == 0:
                scope.cancel()
            answer = await budgets.reserve(key, chain, {"turns": 1})
            await trio.lowlevel.checkpoint()
            if isinstance(answer, Reserved):
                granted += 1
                with trio.CancelScope(shield=True):
                    await budgets.settle(key, {"turns": 1})
        if scope.cancelled_caught:
            await budgets.release(key)

    async with trio.open_nursery() as nursery:
        for number in range(count):
            nursery.start_soon(consume, number)
    return granted


@case("SEC-012")
async def a_senseless_reservation_is_refused(subject: BudgetSubject) -> None:
    """Negative amounts, and chains that are empty or name a node twice, are errors and change nothing."""
    budgets = subject.port
    wrong: tuple[tuple[Chain, Amounts], ...] = (
        (LEFT, {"tokens": -1}),
        (LEFT, {"tokens": 1, "turns": -1}),
        ((), {"tokens": 1}),
        ((TOP, TOP), {"tokens": 1}),
    )
    for chain, amounts in wrong:
        with ensure_raises(ValueError, f"reserving {dict(amounts)} in {len(chain)} nodes"):
            await budgets.reserve("wrong", chain, amounts)
    await ensure_granted(budgets, "wrong", {"tokens": 3}, "a reservation without limits")
    with ensure_raises(ValueError, "settling a negative amount"):
        await budgets.settle("wrong", {"tokens": -3})
    await budgets.settle("wrong", {"tokens": 2})
    await ensure_spent(budgets, LEFT, {"tokens": 2}, "after errors")


RESERVING = (
    every_ancestor_binds,
    a_refusal_sets_nothing_aside,
    what_is_set_aside_is_not_given_twice,
    a_key_reserves_once,
    what_is_given_back_is_given_back_once,
    parallel_consumers_never_overshoot,
    a_senseless_reservation_is_refused,
)
