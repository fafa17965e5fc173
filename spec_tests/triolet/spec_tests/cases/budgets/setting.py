"""What the cases of Budgets share: the subject, chains, and how much is left of what.

Decides what is spent, never what is right.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Final

import attrs

from triolet.ports.budget import Amounts, BudgetDimension, BudgetRefusal, Budgets, Chain, NodeId, Reserved
from triolet.spec_tests.claims import ensure, ensure_equal, lever
from triolet.spec_tests.subject import Subject

Limits = Mapping[NodeId, Amounts]


@attrs.frozen(kw_only=True, eq=False, weakref_slot=False)
class BudgetSubject(Subject[Budgets]):
    """Budgets under test. `port` has no limits; `limited` opens fresh accounts, with these limits by node."""

    limited: Callable[[Limits], AbstractAsyncContextManager[Budgets]] | None = None

    def open(self, limits: Limits) -> AbstractAsyncContextManager[Budgets]:
        """Fresh accounts with these limits, or not exercised."""
        return lever(self.limited, "limited")(limits)


TOP: Final = "global"
LEFT: Final[Chain] = (TOP, "tenant:acme", "agent:acme/clerk", "conversation:acme/left")
RIGHT: Final[Chain] = (TOP, "tenant:acme", "agent:acme/clerk", "conversation:acme/right")
DIMENSIONS: Final[tuple[BudgetDimension, ...]] = ("turns", "tool-calls", "tokens", "cost")


async def ensure_spent(budgets: Budgets, chain: Chain, due: Amounts, when: str) -> None:
    """Every node of the chain has spent exactly this much."""
    for node in chain:
        spent = await budgets.spent(node)
        found = {dimension: spent.get(dimension, 0) for dimension in DIMENSIONS}
        wanted = {dimension: due.get(dimension, 0) for dimension in DIMENSIONS}
        ensure_equal(found, wanted, f"what {node!r} has spent {when}")


async def ensure_granted(budgets: Budgets, key: str, amounts: Amounts, why: str, chain: Chain = LEFT) -> Reserved:
    """It is set aside."""
    answer = await budgets.reserve(key, chain, amounts)
    ensure(isinstance(answer, Reserved), f"{why}: refused")
    return answer if isinstance(answer, Reserved) else Reserved()


async def ensure_refused(
    budgets: Budgets, key: str, amounts: Amounts, due: BudgetRefusal, why: str, chain: Chain = LEFT
) -> None:
    """It is refused, for that reason."""
    ensure_equal(await budgets.reserve(key, chain, amounts), due, why)


def refusal(node: NodeId, used: int, limit: int, dimension: BudgetDimension = "tokens") -> BudgetRefusal:
    """Why something is refused."""
    return BudgetRefusal(node=node, dimension=dimension, used=used, limit=limit)
