"""The Budgets port: limits above a single run, shared by everything below them (SEC-012).

Decides how spending is counted over a chain of nodes, from the widest to the run's conversation: a reservation
takes from every node of the chain or from none, what is settled replaces what was reserved, and what was used after
all is never refused, because it has happened: it blocks the next reservation instead. It knows no run, no price and
no clock.
"""

from collections.abc import Mapping
from typing import Literal, Protocol

import attrs

from triolet.ports.errors import Misuse, Unavailable

BudgetDimension = Literal["turns", "tool-calls", "tokens", "cost"]
"""What nodes count. Cost is in millionths of the host's currency. Time is no budget: a clock is not shared."""

Amounts = Mapping[BudgetDimension, int]
"""How much of each dimension, 0 or more; a dimension that is not named is 0."""

NodeId = str
"""A node's name, such as ``global``, ``tenant:acme`` or ``conversation:acme/c1``: 1 to 300 characters."""

Chain = tuple[NodeId, ...]
"""The nodes that an operation is charged to, the widest first, each named once."""


@attrs.frozen(kw_only=True, weakref_slot=False)
class NodeWarning:
    """A node passed 80 % of a limit just now; told once for each node and dimension."""

    node: NodeId
    dimension: BudgetDimension
    used: int
    limit: int


@attrs.frozen(kw_only=True, weakref_slot=False)
class Reserved:
    """The amounts are set aside in every node."""

    warnings: tuple[NodeWarning, ...] = ()


@attrs.frozen(kw_only=True, weakref_slot=False)
class BudgetRefusal:
    """A node has not that much left; nothing was set aside anywhere. `used` counts what others have reserved, too."""

    node: NodeId
    dimension: BudgetDimension
    used: int
    limit: int


@attrs.define(kw_only=True)
class ReservationReused(Misuse):
    """A key stands for one reservation, and this one asks for something else under it. Nothing was set aside."""

    key: str

    @property
    def message(self) -> str:
        """Which key."""
        return f"reservation {self.key!r} was made for something else"


@attrs.define(kw_only=True)
class BudgetsUnavailable(Unavailable):
    """The accounts cannot be reached. Whether the operation happened is unknown; the same one again is safe."""

    problem: str

    @property
    def message(self) -> str:
        """What is wrong."""
        return f"budgets are unavailable: {self.problem}"


class Budgets(Protocol):
    """Accounts of nodes. `shared` says whether they hold across processes; one that does not says so.

    Lifetime: opened and closed by the host; one value serves many runs. Emits: nothing; the kernel records what a
    refusal does to a run. (CAP-001)
    """

    @property
    def shared(self) -> bool:
        """Whether other processes draw on the same accounts. Constant."""
        ...

    async def reserve(self, key: str, chain: Chain, amounts: Amounts) -> Reserved | BudgetRefusal:
        """Does: set the amounts aside in every node of the chain, if each has that much left.

        Atomicity: all nodes or none (SEC-012). Idempotency: by key, for as long as the reservation is open; the
        same again changes nothing. Ordering: none; parallel consumers never overshoot together. Cancellation: set
        aside or not; `release` is safe either way. Raises: `ReservationReused`, `BudgetsUnavailable`; `ValueError`
        for a negative amount, an empty chain, or a node named twice.
        """
        ...

    async def settle(self, key: str, amounts: Amounts) -> tuple[NodeWarning, ...]:
        """Does: charge what was really used in the place of what was reserved, also where that is more.

        Returns the warnings of just now. Atomicity: all nodes or none. Idempotency: a reservation settles once;
        afterwards, and for an unknown key, nothing changes. Ordering: none. Cancellation: settled or not; again is
        safe. Raises: `BudgetsUnavailable`; `ValueError` for a negative amount.
        """
        ...

    async def release(self, key: str) -> None:
        """Does: give back what was reserved and not used.

        Atomicity: all nodes or none. Idempotency: again harmless, also after settling or for an unknown key.
        Ordering: none. Cancellation: given back or not; again is safe. Raises: `BudgetsUnavailable`.
        """
        ...

    async def spent(self, node: NodeId) -> Amounts:
        """Does: say what a node has used for good, without what is only reserved; zeros for an unknown node.

        Atomicity: one consistent view. Idempotency: reads. Ordering: none. Cancellation: nothing changed. Raises:
        `BudgetsUnavailable`.
        """
        ...
