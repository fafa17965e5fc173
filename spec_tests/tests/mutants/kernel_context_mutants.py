"""Wrong kernels: what a model is shown, what is kept, and when there is no more to take away."""

from typing import Any

import attrs

from tests.mutants.mutant import Mutant, Patches, always, kernel_mutant
from triolet.ports.records import OverflowRetried, RunSettled


@kernel_mutant("RUN-026")
def compacts_never(patches: Patches) -> None:
    """Requests grow without end."""
    patches.wrap("triolet.kernel.machine.plan.step", always(None))


@kernel_mutant("RUN-026")
def asks_before_it_shrinks(patches: Patches) -> None:
    """The limit on a request is taken for twice what it is."""

    def step(original: Any) -> Any:
        return lambda state, measured: original(state, attrs.evolve(measured, tokens=measured.tokens // 2))

    patches.wrap("triolet.kernel.machine.plan.step", step)


@kernel_mutant("RUN-026")
def does_not_show_the_summary(patches: Patches) -> None:
    """A summary is made and kept, and no model sees it."""
    patches.wrap("triolet.kernel.model_call.shown", lambda _: lambda history, view: history)


@kernel_mutant("CAP-007")
def cuts_the_history(patches: Patches) -> None:
    """What is behind a summary is gone."""

    def history(_: Any) -> Any:
        return lambda self: self.context

    patches.wrap("triolet.kernel.conversation.Conversation.history", history)


@kernel_mutant("CAP-007")
def takes_any_summary(patches: Patches) -> None:
    """An empty summary is one too."""
    patches.wrap("triolet.kernel.summary.summary_fault", always(None))


@kernel_mutant("RUN-027")
def gives_up_on_length(patches: Patches) -> None:
    """A refusal for length ends the run."""
    patches.wrap("triolet.kernel.machine.context_rules.whole_turns", always(0))


@kernel_mutant("RUN-027")
def sends_the_same_again(patches: Patches) -> None:
    """What was refused for its length is sent once more as it is."""
    patches.wrap("triolet.kernel.machine.plan.step", always(None))
    patches.unguard("seam", OverflowRetried)


@kernel_mutant("RUN-029")
def gives_every_end_a_disposition(patches: Patches) -> None:
    """A run that a limit ended has a disposition too."""

    def answered(original: Any) -> Any:
        def generous(run: Any, seen: Any) -> Any:
            return tuple(
                attrs.evolve(each, disposition=seen.disposition) if isinstance(each, RunSettled) else each
                for each in original(run, seen)
            )

        return generous

    patches.wrap("triolet.kernel.machine.settle.answered", answered)
    patches.unguard("answered", RunSettled)


CONTEXT_MUTANTS: tuple[Mutant, ...] = tuple(each for each in vars().values() if isinstance(each, Mutant))
