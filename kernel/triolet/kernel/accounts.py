"""Accounts: what one run takes from the budgets above it, and gives back (SEC-012).

Decides the chain of nodes that a run is charged to, and when: set aside before a request or a call batch, charged with
what was really used afterwards, whatever became of it. Where no budgets are bound everything is granted. What a refusal
does to a run is the machine's.
"""

from typing import Final

import trio

from triolet.kernel.machine.observations import BudgetGranted, BudgetRefused
from triolet.ports.budget import Amounts, BudgetRefusal, Budgets, Chain, NodeWarning
from triolet.ports.conversation_store import Address
from triolet.ports.identity import AgentId, Epoch, RunId
from triolet.ports.usage import Usage

SETTLE_SECONDS: Final = 5.0
"""How long charging what was used may take; what is not charged by then stays reserved."""
GLOBAL: Final = "global"
"""The widest node."""


def chain_of(address: Address, agent: AgentId) -> Chain:
    """The nodes above a run, the widest first."""
    tenant = address.tenant
    return (GLOBAL, f"tenant:{tenant}", f"agent:{tenant}/{agent}", f"conversation:{tenant}/{address.conversation}")


class Accounts:
    """One run's side of the budgets. At most one reservation for a request is open."""

    __slots__ = ("_budgets", "_calls", "_chain", "_epoch", "_granted", "_open", "_run", "_untold")

    def __init__(self, budgets: Budgets | None, address: Address, agent: AgentId, run: RunId, epoch: Epoch) -> None:
        self._budgets = budgets
        self._chain: Chain = () if budgets is None else chain_of(address, agent)
        self._run = run
        self._epoch = epoch
        self._open: str | None = None
        self._granted = False
        self._calls = 0
        self._untold: tuple[NodeWarning, ...] = ()

    @property
    def bound(self) -> bool:
        """Whether there are budgets to ask."""
        return self._budgets is not None

    def holds(self, key: str) -> bool:
        """Whether the request of this key is paid for in advance."""
        return self._budgets is None or (self._granted and self._open == self._named(key))

    async def reserve(self, key: str, amounts: Amounts) -> BudgetGranted | BudgetRefused:
        """Set aside what a request will take."""
        if self._budgets is None:
            raise AssertionError("nobody is asked where no budgets are bound")
        # Open before the answer: if waiting for it is cancelled, it may be set aside all the same, and is given back.
        name = self._open = self._named(key)
        answer = await self._budgets.reserve(name, self._chain, amounts)
        if isinstance(answer, BudgetRefusal):
            self._open = None
            return _observed(answer)
        self._granted = True
        # A node tells each crossing once, to whoever caused it; what charging caused is told here, with the next grant.
        warnings, self._untold = (*self._untold, *answer.warnings), ()
        return BudgetGranted(warnings=warnings)

    async def settle(self, usage: Usage | None, turns: int) -> None:
        """Charge what the request used, in place of what was set aside. Shielded, and bounded in time."""
        if self._budgets is None or self._open is None:
            return
        used = Usage() if usage is None else usage
        amounts: Amounts = {
            "turns": turns,
            "tokens": used.input_tokens + used.output_tokens,
            "cost": used.cost or 0,
        }
        name, self._open, self._granted = self._open, None, False
        with trio.move_on_after(SETTLE_SECONDS, shield=True):
            self._untold += await self._budgets.settle(name, amounts)

    async def release(self) -> None:
        """Give back what was set aside for a request that was not made. Shielded, and bounded in time."""
        if self._budgets is None or self._open is None:
            return
        name, self._open, self._granted = self._open, None, False
        with trio.move_on_after(SETTLE_SECONDS, shield=True):
            await self._budgets.release(name)

    async def pay_calls(self, count: int) -> BudgetRefused | None:
        """Pay for tool calls that are about to run: all of them, or none."""
        if self._budgets is None or count == 0:
            return None
        self._calls += 1
        name = self._named(f"calls/{self._epoch}/{self._calls}")
        amounts: Amounts = {"tool-calls": count}
        try:
            answer = await self._budgets.reserve(name, self._chain, amounts)
        except trio.Cancelled:
            # It may be set aside all the same.
            with trio.move_on_after(SETTLE_SECONDS, shield=True):
                await self._budgets.release(name)
            raise
        if isinstance(answer, BudgetRefusal):
            return _observed(answer)
        self._untold += answer.warnings
        # Paid now: from here on the calls count, whatever becomes of them.
        with trio.move_on_after(SETTLE_SECONDS, shield=True):
            self._untold += await self._budgets.settle(name, amounts)
        return None

    def _named(self, key: str) -> str:
        return f"{self._run}/{key}"


def _observed(refusal: BudgetRefusal) -> BudgetRefused:
    return BudgetRefused(dimension=refusal.dimension, node=refusal.node, used=refusal.used, limit=refusal.limit)
