"""Wrong kernels: limits, grace, forbidden tools, and what a request carries."""

import json
from typing import Any
from unittest import mock

import attrs
import trio

from tests.mutants.mutant import Mutant, Patches, always, kernel_mutant
from triolet.kernel.machine import decide
from triolet.kernel.machine.observations import ResponseReduced
from triolet.kernel.machine.plan import Plan, ReportBudgetSpent
from triolet.ports.records import CallsDecided, ModelResponded, RunFailure, RunSettled


@kernel_mutant("RUN-011")
def calls_exhaustion_success(patches: Patches) -> None:
    """A run that a limit ended settles as an ordinary one."""

    def answered(original: Any) -> Any:
        def proud(run: Any, seen: Any) -> Any:
            return tuple(
                attrs.evolve(each, finish="stop", exhausted=None)
                if isinstance(each, RunSettled) and each.status == "completed"
                else each
                for each in original(run, seen)
            )

        return proud

    patches.wrap("triolet.kernel.machine.settle.answered", answered)
    patches.unguard("answered", RunSettled)


@kernel_mutant("RUN-011")
def names_no_dimension(patches: Patches) -> None:
    """A failure for a limit does not say which."""

    def failed(original: Any) -> Any:
        return lambda run, code, detail, dimension=None: original(run, code, detail)

    patches.wrap("triolet.kernel.machine.settle._failed", failed)


@kernel_mutant("RUN-011")
def fails_for_another_reason(patches: Patches) -> None:
    """A used-up limit is said to be the model's failure."""

    def exhausted(original: Any) -> Any:
        def blamed(run: Any, dimension: Any) -> Any:
            failure = RunFailure(code="model-unavailable", detail="no answer", dimension=dimension)
            return attrs.evolve(original(run, dimension), failure=failure)

        return blamed

    patches.wrap("triolet.kernel.machine.settle.exhausted", exhausted)


@kernel_mutant("RUN-018")
def runs_batches_beyond_the_limit(patches: Patches) -> None:
    """The limit on tool calls is looked at once it has been passed."""

    def responded(original: Any) -> Any:
        def late(state: Any, seen: Any) -> Any:
            records = original(state, seen)
            if not seen.message.calls or seen.forbidden or state.run.limit_reached is not None:
                return records
            return records[:1]

        return late

    _wrap_rule(patches, responded)
    patches.unguard("batch", CallsDecided)


@kernel_mutant("RUN-018")
def stops_one_call_early(patches: Patches) -> None:
    """A batch that just reaches the limit is rejected."""

    def responded(original: Any) -> Any:
        def early(state: Any, seen: Any) -> Any:
            run = attrs.evolve(state.run, spent=state.run.spent + 1)
            return original(attrs.evolve(state, run=run), seen)

        return early

    _wrap_rule(patches, responded)


@kernel_mutant("RUN-019")
def gives_no_grace_turn(patches: Patches) -> None:
    """Used-up turns end the run at once."""

    def at_seam(original: Any) -> Any:
        def strict(state: Any, measured: Any) -> Any:
            return Plan(actions=(ReportBudgetSpent(),)) if state.run.over_turns else original(state, measured)

        return strict

    patches.wrap("triolet.kernel.machine.plan._at_seam", at_seam)


@kernel_mutant("RUN-019")
def offers_tools_in_the_grace_turn(patches: Patches) -> None:
    """The turn beyond the limit is offered tools like any other."""

    def request(original: Any) -> Any:
        return lambda self, state, action: original(self, state, attrs.evolve(action, forbid_tools=False))

    patches.wrap("triolet.kernel.model_call.ModelCall._request", request)


@kernel_mutant("RUN-020")
def runs_forbidden_calls(patches: Patches) -> None:
    """A call where tools are forbidden runs if the tool exists."""
    patches.wrap("triolet.kernel.machine.state.RunState.limit_reached", lambda _: lambda self: None)

    def responded(original: Any) -> Any:
        return lambda state, seen: original(state, attrs.evolve(seen, forbidden=False))

    _wrap_rule(patches, responded)
    patches.unguard("batch", CallsDecided)
    patches.unguard("seam", ModelResponded)


@kernel_mutant("RUN-020")
def passes_over_forbidden_calls(patches: Patches) -> None:
    """A call where tools are forbidden is rejected, and the run goes on."""

    def responded(original: Any) -> Any:
        def tolerant(state: Any, seen: Any) -> Any:
            return tuple(each for each in original(state, seen) if not isinstance(each, RunSettled))

        return tolerant

    _wrap_rule(patches, responded)
    patches.unguard("seam", ModelResponded)


@kernel_mutant("RUN-028")
def shows_the_schema_once(patches: Patches) -> None:
    """Only the first request of a run carries the output schema."""

    def request(original: Any) -> Any:
        def first_only(self: Any, state: Any, action: Any) -> Any:
            made = original(self, state, action)
            return made if action.turn == 1 else attrs.evolve(made, output=None)

        return first_only

    patches.wrap("triolet.kernel.model_call.ModelCall._request", request)


@kernel_mutant("RUN-028")
def writes_the_schema_into_the_history(patches: Patches) -> None:
    """The output schema is part of the input."""

    def text(original: Any) -> Any:
        def with_schema(agent: Any, value: Any) -> Any:
            schema = agent.output_schema
            return original(agent, value) + ("" if schema is None else json.dumps(schema.schema))

        return with_schema

    patches.wrap("triolet.kernel.run_request.input_text", text)


def _wrap_rule(patches: Patches, replacement: Any) -> None:
    """Replace what becomes of a response, in the table of rules that holds it."""
    rules: Any = decide._RULES
    phases, rule = rules[ResponseReduced]
    patches.enter_context(mock.patch.dict(rules, {ResponseReduced: (phases, replacement(rule))}))


@kernel_mutant("RUN-009")
def forgets_its_threads(patches: Patches) -> None:
    """A thread that outlasts its call does not count any more."""

    def abandoned(original: Any) -> Any:
        async def run(self: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return await original(self, *args, **kwargs)
            except trio.Cancelled:
                self.limiter.total_tokens += 1
                raise

        return run

    patches.wrap("triolet.kernel.threads.Threads.run", abandoned)


@kernel_mutant("RUN-009")
def closes_over_its_threads(patches: Patches) -> None:
    """Closing waits for no thread."""

    def close(_: Any) -> Any:
        async def at_once(self: Any, seconds: float) -> None:
            return

        return at_once

    patches.wrap("triolet.kernel.threads.Threads.close", close)


@kernel_mutant("RUN-009")
def keeps_quiet_about_threads(patches: Patches) -> None:
    """Nobody is told of threads that go on."""
    patches.wrap("triolet.kernel.kernel.Kernel.abandoned", always(()))


LIMIT_MUTANTS: list[Mutant] = [each for each in list(globals().values()) if isinstance(each, Mutant)]
