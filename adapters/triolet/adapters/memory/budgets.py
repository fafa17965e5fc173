"""Budgets inside this process: accounts in a dictionary.

Decides nothing beyond the port; it says of itself that other processes draw on accounts of their own.
"""

from collections.abc import Mapping
from typing import Final

import attrs
import trio

from triolet.ports.budget import (
    Amounts,
    BudgetDimension,
    BudgetRefusal,
    BudgetsUnavailable,
    Chain,
    NodeId,
    NodeWarning,
    ReservationReused,
    Reserved,
)

WARN_AT: Final = 0.8
"""The share of a limit whose use is announced, once for each node and dimension."""
NODES: Final = 100_000
"""How many accounts are kept unless the host says otherwise."""
_NOTHING: Final[Amounts] = {"turns": 0, "tool-calls": 0, "tokens": 0, "cost": 0}


@attrs.define(kw_only=True)
class _Node:
    limits: Amounts
    spent: dict[BudgetDimension, int] = attrs.field(factory=lambda: dict(_NOTHING))
    reserved: dict[BudgetDimension, int] = attrs.field(factory=lambda: dict(_NOTHING))
    warned: set[BudgetDimension] = attrs.field(factory=set[BudgetDimension])
    open: int = 0
    """Reservations that will come back to it, be they of nothing."""


@attrs.frozen(kw_only=True)
class _Reservation:
    chain: Chain
    amounts: Amounts


class MemoryBudgets:
    """Accounts with these limits by node; a node without limits, or a dimension without one, is only counted.

    `each` has limits by kind, which is a node's name up to its colon: ``{"tenant": {"tokens": 1_000_000}}`` is for each
    tenant by itself. A node's own entry in `limits` stands in the place of its kind's. At most `nodes` accounts are
    kept: beyond that the one without limits that was used longest ago is forgotten, and where all have limits a new one
    is `BudgetsUnavailable`, since forgetting what was spent would let it be spent again.
    """

    def __init__(
        self, limits: Mapping[NodeId, Amounts], *, each: Mapping[str, Amounts] | None = None, nodes: int = NODES
    ) -> None:
        kinds: Mapping[str, Amounts] = {} if each is None else each
        for node, amounts in (*limits.items(), *kinds.items()):
            _check(amounts)
            _check_chain((node,))
        if nodes < 1:
            raise ValueError("at least one account is kept")
        self._limits = {node: dict(amounts) for node, amounts in limits.items()}
        self._each = {kind: dict(amounts) for kind, amounts in kinds.items()}
        self._most = nodes
        self._nodes: dict[NodeId, _Node] = {}
        self._idle: dict[NodeId, None] = {}
        """Those that may be forgotten, the one that was used longest ago first."""
        self._open: dict[str, _Reservation] = {}

    @property
    def shared(self) -> bool:
        """No: another process has accounts of its own."""
        return False

    async def reserve(self, key: str, chain: Chain, amounts: Amounts) -> Reserved | BudgetRefusal:
        """Set aside in all nodes, or in none."""
        _check(amounts)
        _check_chain(chain)
        await trio.lowlevel.checkpoint_if_cancelled()
        wanted = _Reservation(chain=chain, amounts=dict(amounts))
        known = self._open.get(key)
        if known is not None:
            if known != wanted:
                raise ReservationReused(key=key[:200])
            return Reserved()
        nodes = [(name, self._node(name, among=chain)) for name in chain]
        for name, node in nodes:
            for dimension, amount in amounts.items():
                used, limit = node.spent[dimension] + node.reserved[dimension], node.limits.get(dimension)
                if amount and limit is not None and used + amount > limit:
                    return BudgetRefusal(node=name, dimension=dimension, used=used, limit=limit)
        for name, node in nodes:
            node.open += 1
            for dimension, amount in amounts.items():
                node.reserved[dimension] += amount
            self._rest(name, node)
        self._open[key] = wanted
        return Reserved(warnings=self._warnings(chain))

    async def settle(self, key: str, amounts: Amounts) -> tuple[NodeWarning, ...]:
        """Charge what was used in the place of what was reserved."""
        _check(amounts)
        await trio.lowlevel.checkpoint_if_cancelled()
        reservation = self._open.pop(key, None)
        if reservation is None:
            return ()
        self._give_back(reservation)
        for name in reservation.chain:
            for dimension, amount in amounts.items():
                self._node(name).spent[dimension] += amount
        return self._warnings(reservation.chain)

    async def release(self, key: str) -> None:
        """Give back what was reserved."""
        await trio.lowlevel.checkpoint_if_cancelled()
        reservation = self._open.pop(key, None)
        if reservation is not None:
            self._give_back(reservation)

    async def spent(self, node: NodeId) -> Amounts:
        """What a node has used for good."""
        await trio.lowlevel.checkpoint_if_cancelled()
        known = self._nodes.get(node)
        return dict(_NOTHING if known is None else known.spent)

    def _node(self, name: NodeId, among: Chain = ()) -> _Node:
        node = self._nodes.get(name)
        if node is None:
            self._make_room(among)
            limits = self._limits.get(name)
            if limits is None:
                limits = self._each.get(name.partition(":")[0], {})
            node = self._nodes[name] = _Node(limits=limits)
        self._rest(name, node)
        return node

    def _make_room(self, among: Chain) -> None:
        if len(self._nodes) < self._most:
            return
        oldest = next((name for name in self._idle if name not in among), None)
        if oldest is None:
            raise BudgetsUnavailable(problem=f"it keeps {self._most} accounts, and each of them is needed")
        del self._idle[oldest], self._nodes[oldest]

    def _rest(self, name: NodeId, node: _Node) -> None:
        self._idle.pop(name, None)
        if not node.limits and not node.open:
            self._idle[name] = None

    def _give_back(self, reservation: _Reservation) -> None:
        for name in reservation.chain:
            node = self._nodes[name]
            node.open -= 1
            for dimension, amount in reservation.amounts.items():
                node.reserved[dimension] -= amount
            self._rest(name, node)

    def _warnings(self, chain: Chain) -> tuple[NodeWarning, ...]:
        found: list[NodeWarning] = []
        for name in chain:
            node = self._node(name)
            for dimension, limit in node.limits.items():
                used = node.spent[dimension] + node.reserved[dimension]
                if used >= WARN_AT * limit and used and dimension not in node.warned:
                    node.warned.add(dimension)
                    found.append(NodeWarning(node=name, dimension=dimension, used=used, limit=limit))
        return tuple(found)


def _check(amounts: Amounts) -> None:
    for dimension, amount in amounts.items():
        if dimension not in _NOTHING:
            raise ValueError(f"{dimension!r} is no dimension of a budget")
        if type(amount) is not int or amount < 0:
            raise ValueError(f"an amount of {dimension} is an integer of 0 or more")


def _check_chain(chain: Chain) -> None:
    if not chain or len(set(chain)) < len(chain) or not all(0 < len(name) <= 300 for name in chain):
        raise ValueError("a chain names at least one node, each once, by 1 to 300 characters")
