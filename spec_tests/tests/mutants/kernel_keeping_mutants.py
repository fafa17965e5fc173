"""Wrong kernels: whole results that are lost or shown around, and budgets above a run that nobody asks or pays."""

from typing import Any

import attrs

from tests.mutants.mutant import Mutant, Patches, always, kernel_mutant
from triolet.kernel.machine.observations import BudgetGranted
from triolet.kernel.machine.outcome_table import used_up
from triolet.ports.artifact_store import ArtifactHandle
from triolet.ports.canonical import Digest
from triolet.ports.identity import TenantId


@kernel_mutant("RUN-022", "STORE-009")
def keeps_nothing_whole(patches: Patches) -> None:
    """A store that is bound is not used."""
    patches.wrap("triolet.kernel.call_batch.keeper", lambda original: lambda store, tenant: original(None, tenant))


@kernel_mutant("RUN-022", "STORE-009")
def keeps_the_envelope(patches: Patches) -> None:
    """What is kept is what was cut already."""

    def keeper(original: Any) -> Any:
        def cut(store: Any, tenant: Any) -> Any:
            keep = original(store, tenant)
            return lambda text: keep(text[:500])

        return cut

    patches.wrap("triolet.kernel.call_batch.keeper", keeper)


@kernel_mutant("RUN-022")
def promises_what_nobody_kept(patches: Patches) -> None:
    """The envelope has a handle whether the store took the whole or not."""

    def keeper(original: Any) -> Any:
        def trusting(store: Any, tenant: Any) -> Any:
            keep = original(store, tenant)

            async def promise(text: str) -> ArtifactHandle:
                kept: ArtifactHandle | None = await keep(text)
                return kept or ArtifactHandle(
                    digest=Digest("sha256:?"), size=len(text), content_type="application/json"
                )

            return promise

        return trusting

    patches.wrap("triolet.kernel.call_batch.keeper", keeper)


@kernel_mutant("SEC-002")
def keeps_for_everybody(patches: Patches) -> None:
    """Whole results of all tenants are kept under one."""
    patches.wrap(
        "triolet.kernel.call_batch.keeper",
        lambda original: lambda store, tenant: original(store, TenantId("everybody")),
    )


@kernel_mutant("SEC-012")
def asks_no_node(patches: Patches) -> None:
    """Every request is granted, and nobody is asked."""
    patches.wrap("triolet.kernel.accounts.Accounts.holds", always(True))


@kernel_mutant("SEC-012")
def charges_estimates(patches: Patches) -> None:
    """What a request was likely to take is what it is charged."""

    def settle(_: Any) -> Any:
        async def estimated(self: Any, usage: Any, turns: int) -> None:
            name, self._open, self._granted = self._open, None, False
            if name is not None:
                await self._budgets.settle(name, self._budgets._open[name].amounts)

        return estimated

    patches.wrap("triolet.kernel.accounts.Accounts.settle", settle)


@kernel_mutant("SEC-012")
def pays_for_no_calls(patches: Patches) -> None:
    """Calls are not charged to the nodes above."""

    def pay(_: Any) -> Any:
        async def free(self: Any, count: int) -> None:
            return None

        return free

    patches.wrap("triolet.kernel.accounts.Accounts.pay_calls", pay)


@kernel_mutant("SEC-012")
def runs_what_can_be_paid(patches: Patches) -> None:
    """Of a batch that a node cannot pay for, the first calls run."""

    def judged(original: Any) -> Any:
        def partly(self: Any, action: Any, judgements: Any, refusal: Any) -> Any:
            if refusal is not None:
                first, *others = judgements
                judgements = {first: judgements[first], **dict.fromkeys(others, used_up(refusal.dimension))}
            return original(self, action, judgements, None)

        return partly

    patches.wrap("triolet.kernel.call_batch.BatchScope._judged", judged)


@kernel_mutant("RUN-025", "SEC-012")
def tells_of_no_node(patches: Patches) -> None:
    """That a node is nearly used up is told to nobody."""

    def reserve(original: Any) -> Any:
        async def silent(self: Any, key: str, amounts: Any) -> Any:
            answer = await original(self, key, amounts)
            return attrs.evolve(answer, warnings=()) if isinstance(answer, BudgetGranted) else answer

        return silent

    patches.wrap("triolet.kernel.accounts.Accounts.reserve", reserve)


KEEPING_MUTANTS: tuple[Mutant, ...] = (
    keeps_nothing_whole,
    keeps_the_envelope,
    promises_what_nobody_kept,
    keeps_for_everybody,
    asks_no_node,
    charges_estimates,
    pays_for_no_calls,
    runs_what_can_be_paid,
    tells_of_no_node,
)
