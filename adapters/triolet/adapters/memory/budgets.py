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
    Chain,
    NodeId,
    NodeWarning,
    ReservationReused,
    Reserved,
)

WARN_AT: Final = 0.8
"""The share of a limit whose use is announced, once for each node and dimension."""
_NOTHING: Final[Amounts] = {"turns": 0, "tool-calls": 0, "tokens": 0, "cost": 0}


@attrs.define(kw_only=True)
class _Node:
    limits: Amounts
    spent: dict[BudgetDimension, int] = attrs.field(factory=lambda: dict(_NOTHING))
    reserved: dict[BudgetDimension, int] = attrs.field(factory=lambda: dict(_NOTHING))
    warned: set[BudgetDimension] = attrs.field(factory=set[BudgetDimension])


@attrs.frozen(kw_only=True)
class _Reservation:
    chain: Chain
    amounts: Amounts


class MemoryBudgets:
    """Accounts with these limits by node; a node without an entry, or a dimension without one, has no limit."""

    def __init__(self, limits: Mapping[NodeId, Amounts]) -> None:
        for node, amounts in limits.items():
            _check(amounts)
            _check_chain((node,))
        self._limits = {node: dict(amounts) for node, amounts in limits.items()}
        self._nodes: dict[NodeId, _Node] = {}
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
        nodes = [(name, self._node(name)) for name in chain]
        for name, node in nodes:
            for dimension, amount in amounts.items():
                used, limit = node.spent[dimension] + node.reserved[dimension], node.limits.get(dimension)
                if amount and limit is not None and used + amount > limit:
                    return BudgetRefusal(node=name, dimension=dimension, used=used, limit=limit)
        for _, node in nodes:
            for dimension, amount in amounts.items():
                node.reserved[dimension] += amount
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

    def _node(self, name: NodeId) -> _Node:
        node = self._nodes.get(name)
        if node is None:
            node = self._nodes[name] = _Node(limits=self._limits.get(name, {}))
        return node

    def _give_back(self, reservation: _Reservation) -> None:
        for name in reservation.chain:
            for dimension, amount in reservation.amounts.items():
                self._nodes[name].reserved[dimension] -= amount

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
