"""Wrong kernels: whose tools are offered, when they change, and what is on record of it."""

import itertools
from typing import Any

from tests.mutants.mutant import Mutant, Patches, always, kernel_mutant
from triolet.kernel.machine.outcome_table import broken


@kernel_mutant("CAP-009")
def keeps_no_record_of_sources(patches: Patches) -> None:
    """What a source offers is not recorded."""
    from triolet.kernel.machine import decide, observations

    phases, _ = decide._RULES[observations.CataloguesSeen]
    patches.replace_item(decide._RULES, observations.CataloguesSeen, (phases, always(())(None)))


@kernel_mutant("CAP-009")
def records_catalogues_every_turn(patches: Patches) -> None:
    """What has not changed is recorded again."""
    patches.wrap("triolet.kernel.machine.state.RunState.with_batch", _without_catalogues)
    patches.wrap("triolet.kernel.catalogue.Catalogue._is_news", lambda _: lambda self, source: True)
    patches.unguard("seam", _family())


def _without_catalogues(original: Any) -> Any:
    import attrs

    return lambda self, batch: attrs.evolve(original(self, batch), catalogues={})


def _family() -> Any:
    from triolet.ports.records import ToolCatalogueChanged

    return ToolCatalogueChanged


@kernel_mutant("CAP-009")
def never_looks_again(patches: Patches) -> None:
    """A run keeps the tools that it began with."""
    patches.wrap(
        "triolet.kernel.catalogue.Catalogue.due_at_seam",
        lambda _: lambda self, turn: bool(self._sources) and not self._snapshots,
    )


@kernel_mutant("CAP-009")
def offers_in_any_order(patches: Patches) -> None:
    """Tools are offered in another order each time."""
    turns = itertools.count()

    def composed(original: Any) -> Any:
        def turned(self: Any) -> Any:
            from triolet.kernel import Toolkit

            seen = original(self)
            tools = [*self.toolkit]
            self.toolkit = Toolkit(tools if next(turns) % 2 else reversed(tools))
            return seen

        return turned

    patches.wrap("triolet.kernel.catalogue.Catalogue._composed", composed)


@kernel_mutant("CAP-009", "RUN-013")
def takes_a_lost_answer_for_a_failure(patches: Patches) -> None:
    """A handler that lost its answer has failed."""
    patches.wrap(
        "triolet.kernel.pipeline.settle.lost",
        lambda _: lambda reason, type_, execution: broken("exception", type_, execution),
    )


@kernel_mutant("CAP-002")
def opens_without_its_sources(patches: Patches) -> None:
    """A source that nobody has bound is not missed."""
    patches.wrap("triolet.kernel.preflight._needs_of_sources", always(()))


SOURCE_MUTANTS: tuple[Mutant, ...] = (
    keeps_no_record_of_sources,
    records_catalogues_every_turn,
    never_looks_again,
    offers_in_any_order,
    takes_a_lost_answer_for_a_failure,
    opens_without_its_sources,
)
