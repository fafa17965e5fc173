"""Wrong kernels: budgets, tries, sums, the status, and programs that get around them."""

from typing import Any

import attrs

from tests.mutants.mutant import Mutant, Patches, always, kernel_mutant
from triolet.kernel.machine import decide
from triolet.kernel.machine.observations import RequestMeasured, ResponseReduced
from triolet.kernel.pipeline.judge import judge_freely
from triolet.ports.messages import user_text
from triolet.ports.outcomes import ToolRejected
from triolet.ports.records import BudgetReached, BudgetWarned, ModelInterrupted, ModelResponded
from triolet.ports.usage import UsageTotals


@kernel_mutant("RUN-025", "RUN-011")
def looks_at_tokens_too_late(patches: Patches) -> None:
    """Calls of a response that used the tokens up run all the same."""

    def never(original: Any) -> Any:
        def blind(run: Any, usage: Any, calls: int) -> Any:
            return tuple(each for each in original(run, usage, calls) if not isinstance(each, BudgetReached))

        return blind

    patches.wrap("triolet.kernel.machine.budget.after_response", never)


@kernel_mutant("RUN-025", "RUN-011")
def withholds_what_was_paid_for(patches: Patches) -> None:
    """An answer that passes a limit is a failure."""

    def answered(original: Any) -> Any:
        def strict(run: Any, seen: Any) -> Any:
            return original(run, attrs.evolve(seen, output=None) if run.exhausted == "tokens" else seen)

        return strict

    patches.wrap("triolet.kernel.machine.settle.answered", answered)


@kernel_mutant("RUN-025", "RUN-011")
def gives_a_last_turn_for_cost(patches: Patches) -> None:
    """Used-up money allows one more request, as turns do."""
    patches.wrap("triolet.kernel.machine.budget._HARD", lambda _: frozenset[str]())
    patches.replace_item(*_rule(RequestMeasured, lambda _: lambda state, seen: ()))


@kernel_mutant("RUN-025")
def estimates_nothing(patches: Patches) -> None:
    """What a request will take is not looked at before it is made."""
    patches.wrap("triolet.kernel.machine.budget.before_request", always(()))


@kernel_mutant("RUN-025")
def warns_each_time(patches: Patches) -> None:
    """A limit is announced at every crossing."""

    def warned(_: Any) -> Any:
        return lambda run, rows: tuple(
            BudgetWarned(dimension=dimension, used=used, limit=limit)
            for dimension, used, limit in rows
            if limit and used >= 0.5 * limit
        )

    patches.wrap("triolet.kernel.machine.budget._warnings", warned)
    for phase in ("seam", "batch", "answered"):
        patches.unguard(phase, BudgetWarned)


@kernel_mutant("RUN-025")
def warns_never(patches: Patches) -> None:
    """Nothing is announced."""
    patches.wrap("triolet.kernel.machine.budget._warnings", always(()))


@kernel_mutant("RUN-011")
def tells_no_limit_live(patches: Patches) -> None:
    """A reached limit is seen in the settlement only."""

    def event(original: Any) -> Any:
        def quiet(before: Any, record: Any, trace: Any, sequence: int, at: Any) -> Any:
            return None if isinstance(record, BudgetReached) else original(before, record, trace, sequence, at)

        return quiet

    patches.wrap("triolet.kernel.trace.event_of", event)


@kernel_mutant("RUN-011")
def counts_all_failures(patches: Patches) -> None:
    """Failures are added up over the whole run."""

    def failures(original: Any) -> Any:
        return lambda failures, outcome: max(failures, original(failures, outcome))

    patches.wrap("triolet.kernel.machine.budget._failures_after", failures)


@kernel_mutant("RUN-021")
def loosens(patches: Patches) -> None:
    """An allowance replaces the definition's limit."""

    def tightened(_: Any) -> Any:
        def replaced(self: Any, allowance: Any) -> Any:
            given = {field.name: getattr(allowance, field.name) for field in attrs.fields(type(allowance))}
            return attrs.evolve(self, **{name: value for name, value in given.items() if value is not None})

        return replaced

    patches.wrap("triolet.kernel.policy.Policy.tightened", tightened)


@kernel_mutant("RUN-024")
def records_the_status(patches: Patches) -> None:
    """The status becomes part of what is said."""

    def responded(original: Any) -> Any:
        def chatty(state: Any, seen: Any) -> Any:
            first, *rest = original(state, seen)
            said = attrs.evolve(first.message, text=f"{first.message.text}turn 1 of 7")
            return (attrs.evolve(first, message=said), *rest)

        return chatty

    patches.replace_item(*_rule(ResponseReduced, responded))


@kernel_mutant("RUN-024")
def always_adds_a_status(patches: Patches) -> None:
    """The status ends each request, whatever the policy says."""

    def messages(original: Any) -> Any:
        return lambda self, state: (*original(self, state), user_text("[Run status]"))

    patches.wrap("triolet.kernel.model_call.ModelCall._messages", messages)


@kernel_mutant("RUN-013")
def runs_tools_again(patches: Patches) -> None:
    """A handler that raised is called once more."""

    def run(original: Any) -> Any:
        async def again(runnable: Any, context: Any, **options: Any) -> Any:
            outcome = await original(runnable, context, **options)
            return outcome if outcome.kind == "success" else await original(runnable, context, **options)

        return again

    patches.wrap("triolet.kernel.pipeline.calling.run_handler", run)


@kernel_mutant("RUN-013")
def tries_without_end(patches: Patches) -> None:
    """One more try than there are."""

    def retry_at(original: Any) -> Any:
        def endless(run: Any, seen: Any) -> Any:
            retry = attrs.evolve(run.started.retry, tries=run.started.retry.tries + 1)
            return original(attrs.evolve(run, started=attrs.evolve(run.started, retry=retry)), seen)

        return endless

    patches.wrap("triolet.kernel.machine.context_rules._retry_at", retry_at)


@kernel_mutant("RUN-023")
def believes_any_sum(patches: Patches) -> None:
    """Figures that cannot be right are folded like others."""
    patches.unguard("seam", ModelResponded)
    patches.unguard("seam", ModelInterrupted)


@kernel_mutant("RUN-023")
def counts_the_last_call_only(patches: Patches) -> None:
    """Totals are what the last call reported."""

    def plus(original: Any) -> Any:
        return lambda self, call: original(UsageTotals(calls=self.calls), call)

    patches.wrap("triolet.ports.usage.UsageTotals.plus", plus)


@kernel_mutant("RUN-030")
def forgets_the_clock(patches: Patches) -> None:
    """The time of a run is not limited."""

    def drive(original: Any) -> Any:
        async def timeless(self: Any, opening: Any, *, seconds: float | None) -> None:
            await original(self, opening, seconds=None)

        return timeless

    patches.wrap("triolet.kernel.interpreter.Interpreter.drive", drive)


# --- programs -------------------------------------------------------------------------------------------


@kernel_mutant("RUN-016")
def decodes_no_inner_input(patches: Patches) -> None:
    """Inner calls reach their handler with whatever the program sent."""

    def call(_: Any) -> Any:
        async def raw(self: Any, name: str, arguments: str) -> Any:
            return ToolRejected(reason="denied", detail="not understood")

        return raw

    patches.wrap("triolet.kernel.broker.Broker.call", call)


@kernel_mutant("RUN-016")
def counts_no_inner_calls(patches: Patches) -> None:
    """Inner calls share one identity, and nobody counts them."""

    def pay(_: Any) -> Any:
        async def free(self: Any, outer: Any) -> None:
            return None

        return free

    patches.wrap("triolet.kernel.call_batch.BatchScope.pay", pay)


@kernel_mutant("RUN-016")
def calls_side_by_side(patches: Patches) -> None:
    """Inner calls run at once."""

    def call(original: Any) -> Any:
        async def eager(self: Any, name: str, arguments: str) -> Any:
            self._busy = False
            return await original(self, name, arguments)

        return eager

    patches.wrap("triolet.kernel.broker.Broker.call", call)


@kernel_mutant("RUN-016")
def trusts_programs(patches: Patches) -> None:
    """Nobody is asked about inner calls."""

    def judge(_: Any) -> Any:
        async def freely(toolkit: Any, action: Any, authority: Any) -> Any:
            return judge_freely(toolkit, action)

        return freely

    patches.wrap("triolet.kernel.broker.judge_with_authority", judge)


@kernel_mutant("RUN-017")
def lets_programs_run_up_debts(patches: Patches) -> None:
    """Inner calls are counted, and never refused."""

    def pay(_: Any) -> Any:
        async def generous(self: Any, outer: Any) -> None:
            self.programmatic[outer] = self.programmatic.get(outer, 0) + 1

        return generous

    patches.wrap("triolet.kernel.call_batch.BatchScope.pay", pay)


@kernel_mutant("RUN-017")
def gives_inner_calls_all_the_time(patches: Patches) -> None:
    """An inner call may take as long as its outer one."""

    def run(original: Any) -> Any:
        async def patient(runnable: Any, context: Any, **options: Any) -> Any:
            inner = "/" in runnable.call.id
            return await original(runnable, context, **(options | {"seconds": 1e9} if inner else options))

        return patient

    patches.wrap("triolet.kernel.pipeline.calling.run_handler", run)


def _rule(seen: Any, change: Any) -> tuple[Any, Any, Any]:
    phases, rule = decide._RULES[seen]
    return decide._RULES, seen, (phases, change(rule))


BUDGET_MUTANTS: tuple[Mutant, ...] = tuple(each for each in vars().values() if isinstance(each, Mutant))
