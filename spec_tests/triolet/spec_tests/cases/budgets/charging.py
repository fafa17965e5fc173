"""Charging: once for each node, whatever was reserved, and announced when most is used. SEC-012, SUB-010, RUN-025."""

from triolet.ports.budget import Amounts, NodeWarning
from triolet.spec_tests.cases.budgets.setting import (
    LEFT,
    RIGHT,
    TOP,
    BudgetSubject,
    ensure_granted,
    ensure_refused,
    ensure_spent,
    refusal,
)
from triolet.spec_tests.claims import ensure, ensure_equal
from triolet.spec_tests.definition import case


@case("SUB-010")
async def each_ancestor_is_charged_once(subject: BudgetSubject) -> None:
    """What was used is charged to every node of the chain, once, and to no other; shared ones have the sum."""
    budgets = subject.port
    ensure(isinstance(budgets.shared, bool), "it does not say whether other processes draw on the same accounts")
    await ensure_granted(budgets, "left", {"turns": 1, "tokens": 100, "cost": 7}, "without limits")
    await ensure_granted(budgets, "right", {"tool-calls": 2}, "without limits", RIGHT)
    await ensure_spent(budgets, (*LEFT, RIGHT[3]), {}, "while it is only reserved")
    await budgets.settle("left", {"turns": 1, "tokens": 30, "cost": 9})
    await budgets.settle("right", {"tool-calls": 2, "tokens": 1_000})
    await ensure_spent(budgets, LEFT[3:], {"turns": 1, "tokens": 30, "cost": 9}, "on the left")
    await ensure_spent(budgets, RIGHT[3:], {"tool-calls": 2, "tokens": 1_000}, "on the right")
    both: Amounts = {"turns": 1, "tool-calls": 2, "tokens": 1_030, "cost": 9}
    await ensure_spent(budgets, LEFT[:3], both, "above both")
    await ensure_spent(budgets, ("tenant:nobody",), {}, "who is not in any chain")


@case("SUB-010")
async def a_reservation_settles_once(subject: BudgetSubject) -> None:
    """Settling again, after releasing, or what was never reserved, charges nothing."""
    budgets = subject.port
    await ensure_granted(budgets, "key", {"tokens": 10}, "without limits")
    for amount in (4, 4, 9):
        await budgets.settle("key", {"tokens": amount})
    await ensure_granted(budgets, "back", {"tokens": 10}, "without limits")
    await budgets.release("back")
    for key in ("back", "never"):
        ensure_equal(await budgets.settle(key, {"tokens": 5}), (), "the warnings of settling nothing")
    await ensure_spent(budgets, LEFT, {"tokens": 4}, "after settling once")


@case("SUB-010", needs=("limited",))
async def the_unused_part_returns(subject: BudgetSubject) -> None:
    """Settling less than was reserved gives back the rest, in every dimension, also in one that was not used."""
    async with subject.open({TOP: {"tokens": 10, "turns": 2}, LEFT[2]: {"tokens": 10}}) as budgets:
        await ensure_granted(budgets, "first", {"tokens": 10, "turns": 2}, "everything")
        await budgets.settle("first", {"tokens": 3})
        await ensure_granted(budgets, "second", {"tokens": 7, "turns": 2}, "all that was not used", RIGHT)
        await ensure_refused(budgets, "third", {"tokens": 1}, refusal(TOP, 10, 10), "more than was not used")


@case("SEC-012", "SUB-010", needs=("limited",))
async def what_has_happened_is_charged(subject: BudgetSubject) -> None:
    """More than was reserved, and more than the limit, is charged all the same, and blocks what comes next."""
    async with subject.open({TOP: {"tokens": 10}}) as budgets:
        await ensure_granted(budgets, "key", {"tokens": 1}, "one of ten")
        await budgets.settle("key", {"tokens": 50, "cost": 3})
        await ensure_spent(budgets, LEFT, {"tokens": 50, "cost": 3}, "after more than there was")
        await ensure_refused(budgets, "next", {"tokens": 1}, refusal(TOP, 50, 10), "one more, beyond the limit", RIGHT)
        await ensure_granted(budgets, "else", {"turns": 1}, "a dimension that has no limit")


@case("RUN-025", needs=("limited",))
async def most_of_a_limit_is_announced_once(subject: BudgetSubject) -> None:
    """Passing 80 % is told once for each node and dimension, by what passes it: reserving or settling."""
    async with subject.open({TOP: {"tokens": 100}, LEFT[3]: {"tokens": 50, "turns": 5}}) as budgets:
        early = await ensure_granted(budgets, "a", {"tokens": 39, "turns": 3}, "less than most")
        ensure_equal(early.warnings, (), "the warnings below 80 %")
        passed = await budgets.settle("a", {"tokens": 40, "turns": 3})
        ensure_equal(passed, (_warning(LEFT[3], 40, 50),), "the warnings of passing 80 % by settling")
        late = await ensure_granted(budgets, "b", {"tokens": 40}, "less than is left", RIGHT)
        ensure_equal(late.warnings, (_warning(TOP, 80, 100),), "the warnings of passing 80 % by reserving")
        await budgets.release("b")
        again = await ensure_granted(budgets, "c", {"tokens": 10}, "what is left")
        ensure_equal(again.warnings, (), "the warnings of staying above 80 %")
        more = await ensure_granted(budgets, "d", {"tokens": 45}, "most, once more", RIGHT)
        ensure_equal(more.warnings, (), "the warnings of passing 80 % once more")
        turns = await ensure_granted(budgets, "e", {"turns": 1}, "a turn")
        due = NodeWarning(node=LEFT[3], dimension="turns", used=4, limit=5)
        ensure_equal(turns.warnings, (due,), "the warnings of another dimension")


def _warning(node: str, used: int, limit: int) -> NodeWarning:
    return NodeWarning(node=node, dimension="tokens", used=used, limit=limit)


CHARGING = (
    each_ancestor_is_charged_once,
    a_reservation_settles_once,
    the_unused_part_returns,
    what_has_happened_is_charged,
    most_of_a_limit_is_announced_once,
)
