"""Wrong budgets, each a memory one but for one thing."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from unittest import mock

import trio

from tests.mutants.mutant import Mutant
from triolet.adapters.memory import MemoryBudgets, budgets
from triolet.ports.budget import Amounts, BudgetRefusal, Budgets, Chain, NodeWarning, Reserved
from triolet.spec_tests.cases.budgets import BUDGETS, BudgetSubject

ACCOUNT_MUTANTS: list[Mutant] = []


def _breaks(*violates: str) -> Any:
    def decorate(accounts: type[MemoryBudgets]) -> type[MemoryBudgets]:
        @asynccontextmanager
        async def maker() -> AsyncGenerator[BudgetSubject]:
            @asynccontextmanager
            async def limited(limits: Any) -> AsyncGenerator[Budgets]:
                yield accounts(limits)

            yield BudgetSubject(port=accounts({}), limited=limited)

        why = (accounts.__doc__ or "").partition("\n")[0].rstrip(".")
        ACCOUNT_MUTANTS.append(Mutant(name=accounts.__name__, why=why, violates=violates, suite=BUDGETS, open=maker))
        return accounts

    return decorate


@_breaks("SEC-012")
class AsksTheNearestOnly(MemoryBudgets):
    """Only the last node of a chain is asked."""

    async def reserve(self, key: str, chain: Chain, amounts: Amounts) -> Reserved | BudgetRefusal:
        return await super().reserve(key, chain[-1:], amounts)


@_breaks("SEC-012")
class TakesAsItGoes(MemoryBudgets):
    """Each node that agrees keeps its part, though a later one refuses."""

    async def reserve(self, key: str, chain: Chain, amounts: Amounts) -> Reserved | BudgetRefusal:
        answer: Reserved | BudgetRefusal = Reserved()
        for number, node in enumerate(chain):
            answer = await super().reserve(f"{key}/{number}", (node,), amounts)
            if isinstance(answer, BudgetRefusal):
                return answer
        return answer


@_breaks("SUB-010", "SEC-012")
class CountsWhatIsSpentOnly(MemoryBudgets):
    """What others have set aside is still there for the taking."""

    async def reserve(self, key: str, chain: Chain, amounts: Amounts) -> Reserved | BudgetRefusal:
        answer = await super().reserve(key, chain, amounts)
        for name in chain:
            node = self._node(name)
            node.reserved = dict.fromkeys(node.reserved, 0)
        return answer

    def _give_back(self, reservation: Any) -> None:
        pass


@_breaks("SUB-010")
class ReservesEachTime(MemoryBudgets):
    """The same reservation again takes its amounts again."""

    async def reserve(self, key: str, chain: Chain, amounts: Amounts) -> Reserved | BudgetRefusal:
        self._open.pop(key, None)
        return await super().reserve(key, chain, amounts)


@_breaks("SUB-010")
class LetsKeysBeReused(MemoryBudgets):
    """Another reservation under a key that is taken is answered as the first was."""

    async def reserve(self, key: str, chain: Chain, amounts: Amounts) -> Reserved | BudgetRefusal:
        return Reserved() if key in self._open else await super().reserve(key, chain, amounts)


@_breaks("SUB-010")
class GivesBackEachTime(MemoryBudgets):
    """Each release gives back what the key once took."""

    def __init__(self, limits: Any) -> None:
        super().__init__(limits)
        self._taken: dict[str, Any] = {}

    async def reserve(self, key: str, chain: Chain, amounts: Amounts) -> Reserved | BudgetRefusal:
        answer = await super().reserve(key, chain, amounts)
        if key in self._open:
            self._taken[key] = self._open[key]
        return answer

    async def release(self, key: str) -> None:
        self._open.pop(key, None)
        if key in self._taken:
            self._give_back(self._taken[key])


@_breaks("SUB-010", "SEC-012")
class LooksAndThenTakes(MemoryBudgets):
    """Between looking and taking others have their turn."""

    async def reserve(self, key: str, chain: Chain, amounts: Amounts) -> Reserved | BudgetRefusal:
        probe = await super().reserve(f"probe {key}", chain, amounts)
        if isinstance(probe, BudgetRefusal):
            return probe
        await super().release(f"probe {key}")
        await trio.lowlevel.checkpoint()
        limits = [self._node(name) for name in chain]
        kept = [node.limits for node in limits]
        for node in limits:
            node.limits = {}
        answer = await super().reserve(key, chain, amounts)
        for node, limit in zip(limits, kept, strict=True):
            node.limits = limit
        return answer


@_breaks("SEC-012")
class TakesAnyNumber(MemoryBudgets):
    """A negative amount makes room."""

    async def reserve(self, key: str, chain: Chain, amounts: Amounts) -> Reserved | BudgetRefusal:
        with mock.patch.object(budgets, "_check", return_value=None):
            return await super().reserve(key, chain, amounts)


@_breaks("SUB-010")
class ChargesTheNearestOnly(MemoryBudgets):
    """What was used is charged to the last node alone."""

    async def settle(self, key: str, amounts: Amounts) -> tuple[NodeWarning, ...]:
        reservation = self._open.pop(key, None)
        if reservation is None:
            return ()
        self._give_back(reservation)
        await super().reserve(key, reservation.chain[-1:], {})
        return await super().settle(key, amounts)


@_breaks("SUB-010")
class SettlesEachTime(MemoryBudgets):
    """Each settling charges its amounts."""

    def __init__(self, limits: Any) -> None:
        super().__init__(limits)
        self._chains: dict[str, Chain] = {}

    async def settle(self, key: str, amounts: Amounts) -> tuple[NodeWarning, ...]:
        if key in self._open:
            self._chains[key] = self._open[key].chain
        elif key in self._chains:
            await super().reserve(key, self._chains[key], {})
        return await super().settle(key, amounts)


@_breaks("SUB-010")
class KeepsTheChange(MemoryBudgets):
    """What was set aside is charged, however little was used."""

    async def settle(self, key: str, amounts: Amounts) -> tuple[NodeWarning, ...]:
        reservation = self._open.get(key)
        if reservation is None:
            return ()
        whole: Any = {**reservation.amounts}
        for dimension, amount in amounts.items():
            whole[dimension] = max(amount, whole.get(dimension, 0))
        return await super().settle(key, whole)


@_breaks("SEC-012", "SUB-010")
class ForgivesDebts(MemoryBudgets):
    """No more is charged than was set aside."""

    async def settle(self, key: str, amounts: Amounts) -> tuple[NodeWarning, ...]:
        reservation = self._open.get(key)
        held: Amounts = {} if reservation is None else reservation.amounts
        least: Any = {dimension: min(amount, held.get(dimension, 0)) for dimension, amount in amounts.items()}
        return await super().settle(key, least)


@_breaks("RUN-025")
class WarnsEachTime(MemoryBudgets):
    """Whoever is above the mark is told so, each time."""

    def _warnings(self, chain: Chain) -> tuple[NodeWarning, ...]:
        for name in chain:
            self._node(name).warned.clear()
        return super()._warnings(chain)


@_breaks("CAP-001")
class LeavesAccountTasks(MemoryBudgets):
    """Every reservation starts a task that outlives the accounts."""

    async def reserve(self, key: str, chain: Chain, amounts: Amounts) -> Reserved | BudgetRefusal:
        trio.lowlevel.spawn_system_task(trio.sleep_forever)
        return await super().reserve(key, chain, amounts)
