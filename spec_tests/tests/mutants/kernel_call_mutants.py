"""Wrong kernels: schemas, order, responses, identity, results and outcomes."""

import json
from typing import Any

import attrs

from tests.mutants.mutant import Mutant, Patches, always, kernel_mutant
from triolet.kernel.pipeline.runnable import Runnable
from triolet.ports.canonical import encode_text
from triolet.ports.language_model import ModelUnavailable
from triolet.ports.outcomes import (
    ToolDefect,
    ToolInvalidInput,
    ToolRejected,
    ToolSuccess,
)
from triolet.ports.records import ToolSettled
from triolet.ports.strict_json import JsonText, parse
from triolet.ports.usage import Usage


@kernel_mutant("CAP-004", "RUN-003")
def decodes_leniently(patches: Patches) -> None:
    """Input that breaks its schema reaches the handler as it is."""

    def judge(original: Any) -> Any:
        def lenient(toolkit: Any, call: Any, answer: Any) -> Any:
            judged = original(toolkit, call, answer)
            if isinstance(judged, ToolInvalidInput) and judged.reason == "schema":
                return Runnable(call=call, tool=toolkit.find(call.name), input=parse(call.arguments))
            return judged

        return lenient

    patches.wrap("triolet.kernel.pipeline.judge._understood", judge)


@kernel_mutant("CAP-004", "RUN-003")
def hands_json_to_handlers(patches: Patches) -> None:
    """A handler gets the JSON of its input, once it was found valid."""

    def judge(original: Any) -> Any:
        def undecoded(toolkit: Any, call: Any, answer: Any) -> Any:
            judged = original(toolkit, call, answer)
            return attrs.evolve(judged, input=parse(call.arguments)) if isinstance(judged, Runnable) else judged

        return undecoded

    patches.wrap("triolet.kernel.pipeline.judge._understood", judge)


@kernel_mutant("CAP-004", "TOOL-003")
def passes_any_output(patches: Patches) -> None:
    """Whatever a handler returns is its result."""

    def settle(_: Any) -> Any:
        return lambda tool, output: ToolSuccess(output=JsonText(json.dumps(_plain(output))))

    patches.wrap("triolet.kernel.pipeline.handler.settle_output", settle)


def _plain(output: object) -> Any:
    return output if isinstance(output, str | int | dict) and not isinstance(output, bool) else str(type(output))


@kernel_mutant("CAP-004")
def spells_output_as_python(patches: Patches) -> None:
    """A result is what Python prints of it."""

    def settle(original: Any) -> Any:
        def printed(tool: Any, output: Any) -> Any:
            made = original(tool, output)
            return ToolSuccess(output=encode_text(repr(output))) if isinstance(made, ToolSuccess) else made

        return printed

    patches.wrap("triolet.kernel.pipeline.handler.settle_output", settle)


@kernel_mutant("CAP-004")
def takes_any_input(patches: Patches) -> None:
    """An agent's input is printed, not encoded."""
    patches.wrap("triolet.kernel.run_request.input_text", lambda _: lambda agent, value: str(value))


@kernel_mutant("CAP-005", "RUN-006")
def records_results_as_they_end(patches: Patches) -> None:
    """Results are recorded in the order in which the handlers ended."""

    def settle(_: Any) -> Any:
        def as_ended(state: Any, outcomes: Any, _: Any) -> Any:
            done = len(state.run.batch.outcomes)
            fresh = list(outcomes.items())[done:]
            return tuple(ToolSettled(call=call, outcome=outcome) for call, outcome in fresh)

        return as_ended

    patches.wrap("triolet.kernel.machine.decide._settle_in_order", settle)
    patches.unguard("batch", ToolSettled)


@kernel_mutant("CAP-005")
def records_whole_batches_only(patches: Patches) -> None:
    """No result is recorded before the last one is there."""

    def settle(original: Any) -> Any:
        def all_or_none(state: Any, outcomes: Any, programmatic: Any) -> Any:
            records = original(state, outcomes, programmatic)
            return records if len(records) == len(state.run.batch.open) else ()

        return all_or_none

    patches.wrap("triolet.kernel.machine.decide._settle_in_order", settle)


@kernel_mutant("TOOL-003")
def spreads_failures(patches: Patches) -> None:
    """Where one call of a batch breaks, all of them have."""

    def settle(original: Any) -> Any:
        def spread(state: Any, outcomes: Any, programmatic: Any) -> Any:
            broken = [each for each in outcomes.values() if isinstance(each, ToolDefect)]
            return original(state, dict.fromkeys(outcomes, broken[0]) if broken else outcomes, programmatic)

        return spread

    patches.wrap("triolet.kernel.machine.decide._settle_in_order", settle)


@kernel_mutant("TOOL-004")
def judges_and_starts_one_by_one(patches: Patches) -> None:
    """A call starts before the next one has been judged."""

    def judge(original: Any) -> Any:
        def eager(toolkit: Any, action: Any) -> Any:
            judged: dict[Any, Any] = {}
            for call in action.calls:
                judged.update(original(toolkit, attrs.evolve(action, calls=(call,))))
                runnable = judged[call.id]
                if isinstance(runnable, Runnable):
                    started: Any = runnable.tool.handler(runnable.input, None)  # type: ignore[arg-type]  # a mutant
                    started.send(None)
                    started.close()
            return judged

        return eager

    patches.wrap("triolet.kernel.call_batch.judge_freely", judge)


@kernel_mutant("DUR-009")
def prepares_nothing(patches: Patches) -> None:
    """Every call counts as readonly, so none is announced."""

    def verdicts(original: Any) -> Any:
        return lambda judged: {
            call: "readonly" if isinstance(verdict, str) else verdict for call, verdict in original(judged).items()
        }

    patches.wrap("triolet.kernel.call_batch.verdicts", verdicts)


@kernel_mutant("RUN-004")
def trusts_calls_of_cut_responses(patches: Patches) -> None:
    """Calls of a response that was cut by length run if they look whole."""

    def reduce(original: Any) -> Any:
        def trusting(identity: Any, name: str, raw: str, *, cut: bool) -> Any:
            return original(identity, name, raw, cut=False)

        return trusting

    patches.wrap("triolet.kernel.machine.reduction.reduce_call", reduce)


@kernel_mutant("RUN-004")
def believes_streams_that_end(patches: Patches) -> None:
    """A stream that ends is a complete response."""

    def close(original: Any) -> Any:
        def completed(self: Any, *args: Any) -> Any:
            self._finish = self._finish or "tool-calls"
            return original(self, *args)

        return completed

    patches.wrap("triolet.kernel.machine.reduction.Reduction.complete", always(value=True))
    patches.wrap("triolet.kernel.machine.reduction.Reduction.close", close)


@kernel_mutant("RUN-004", "DUR-008")
def makes_do_with_what_came(patches: Patches) -> None:
    """A stream that breaks is a complete response of what had come."""

    def stream(original: Any) -> Any:
        async def patient(self: Any, request: Any, reduction: Any) -> None:
            try:
                await original(self, request, reduction)
            except ModelUnavailable:
                reduction._finish = "tool-calls"

        return patient

    patches.wrap("triolet.kernel.model_call.ModelCall._stream", stream)


@kernel_mutant("RUN-004")
def mends_arguments(patches: Patches) -> None:
    """Arguments that are no JSON object become an empty one, and the call runs."""

    def reduce(original: Any) -> Any:
        def mended(*args: Any, **kwargs: Any) -> Any:
            return attrs.evolve(original(*args, **kwargs), defect=None)

        return mended

    patches.wrap("triolet.kernel.machine.reduction.reduce_call", reduce)


@kernel_mutant("TOOL-001")
def names_calls_twice(patches: Patches) -> None:
    """A handler knows its call under another name than the log."""

    def context(original: Any) -> Any:
        return lambda *, call, **rest: original(call=f"own-{call}", **rest)

    patches.wrap("triolet.kernel.pipeline.calling.CallContext", context)


@kernel_mutant("TOOL-001")
def numbers_calls_as_providers_do(patches: Patches) -> None:
    """A call's identity is its place in its response."""
    patches.wrap("triolet.kernel.machine.reduction.call_id", lambda _: lambda run, turn, index: f"call-{index}")
    patches.wrap("triolet.kernel.machine.guards.call_id", lambda _: lambda run, turn, index: f"call-{index}")


@kernel_mutant("TOOL-002")
def redacts_nothing(patches: Patches) -> None:
    """A tool's redaction is not asked."""

    def settle(original: Any) -> Any:
        return lambda tool, ended: original(attrs.evolve(tool, redact=None), ended)

    patches.wrap("triolet.kernel.pipeline.handler.settle_output", settle)
    patches.wrap("triolet.kernel.pipeline.handler.settle_exception", settle)


@kernel_mutant("TOOL-002")
def quotes_exceptions(patches: Patches) -> None:
    """A defect says what the exception said."""

    def settle(original: Any) -> Any:
        def quoted(tool: Any, error: Exception) -> Any:
            made = original(tool, error)
            return attrs.evolve(made, type=str(error)) if isinstance(made, ToolDefect) else made

        return quoted

    patches.wrap("triolet.kernel.pipeline.handler.settle_exception", settle)


@kernel_mutant("TOOL-002", "RUN-022")
def bounds_nothing(patches: Patches) -> None:
    """A result has any size."""

    def bounded(_: Any) -> Any:
        async def whole(outcome: Any, limit: int, keep: Any) -> Any:
            return outcome

        return whole

    patches.wrap("triolet.kernel.pipeline.handler.bounded", bounded)


@kernel_mutant("TOOL-003")
def knows_no_declared_failures(patches: Patches) -> None:
    """A declared failure is a defect like any other exception."""

    def settle(_: Any) -> Any:
        return lambda tool, error: ToolDefect(reason="exception", type=type(error).__name__, effect_possible=True)

    patches.wrap("triolet.kernel.pipeline.handler.settle_exception", settle)


@kernel_mutant("TOOL-003")
def denies_unknown_tools(patches: Patches) -> None:
    """A call to no tool is told that it was denied."""

    def unknown(_: Any) -> Any:
        return lambda name, near: ToolRejected(reason="denied", detail="you may not use this tool")

    patches.wrap("triolet.kernel.pipeline.judge.unknown_tool", unknown)


@kernel_mutant("TOOL-003")
def claims_no_effect(patches: Patches) -> None:
    """A handler that broke is said to have had no effect."""

    def broken(original: Any) -> Any:
        return lambda *args: attrs.evolve(original(*args), effect_possible=False)

    patches.wrap("triolet.kernel.pipeline.settle.broken", broken)


@kernel_mutant("TOOL-003")
def calls_timeouts_defects(patches: Patches) -> None:
    """A handler that ran out of time is a defect, whatever it may have done."""

    def stopped(_: Any) -> Any:
        return lambda why, execution, *, started: ToolDefect(reason=why, effect_possible=False)

    patches.wrap("triolet.kernel.pipeline.handler.stopped", stopped)


@kernel_mutant("TOOL-003")
def calls_the_cancelled_defects(patches: Patches) -> None:
    """A handler that was cancelled is a defect, whatever it may have done."""

    def stopped(_: Any) -> Any:
        return lambda why, execution, *, started: ToolDefect(reason=why, effect_possible=False)

    patches.wrap("triolet.kernel.machine.outcome_table.stopped", stopped)


@kernel_mutant("TOOL-003")
def doubts_what_never_started(patches: Patches) -> None:
    """A call that never started is treated as one that had."""

    def stopped(original: Any) -> Any:
        return lambda why, execution, *, started: original(why, execution, started=True)

    patches.wrap("triolet.kernel.machine.outcome_table.stopped", stopped)


@kernel_mutant("TOOL-003")
def trips_over_broken_text(patches: Patches) -> None:
    """Text with half a character in it is a defect of its tool."""
    patches.wrap("triolet.kernel.pipeline.settle.repaired", lambda _: lambda value: value)


@kernel_mutant("TOOL-003")
def runs_plain_functions_inline(patches: Patches) -> None:
    """A synchronous handler runs on the event loop."""

    def run(_: Any) -> Any:
        async def inline(self: Any, function: Any, *args: Any, began: Any, **_: Any) -> Any:
            began()
            return function(*args)

        return inline

    patches.wrap("triolet.kernel.threads.Threads.run", run)


@kernel_mutant("RUN-012")
def keeps_a_providers_types(patches: Patches) -> None:
    """A call's name goes on record as the object that the provider's library gave."""

    def opened(original: Any) -> Any:
        def kept(self: Any, index: int, name: str) -> None:
            original(self, index, name)
            self._calls[index].name = name

        return kept

    patches.wrap("triolet.kernel.machine.reduction.Reduction._open", opened)


@kernel_mutant("CAP-017")
def loses_cache_writes(patches: Patches) -> None:
    """Totals do not count what was written to a cache."""

    def plus(original: Any) -> Any:
        return lambda self, call: attrs.evolve(original(self, call), cache_write_tokens=0)

    patches.wrap("triolet.ports.usage.UsageTotals.plus", plus)


@kernel_mutant("CAP-017")
def estimates_context_by_the_sum(patches: Patches) -> None:
    """The last call's figures are those of all calls together."""

    def plus(original: Any) -> Any:
        def summed(self: Any, call: Any) -> Any:
            made = original(self, call)
            return attrs.evolve(made, last_input_tokens=made.input_tokens)

        return summed

    patches.wrap("triolet.ports.usage.UsageTotals.plus", plus)


@kernel_mutant("CAP-017")
def charges_no_broken_calls(patches: Patches) -> None:
    """A model call that broke off costs nothing."""
    patches.wrap("triolet.kernel.model_call.ModelCall._spent", always(Usage()))


CALL_MUTANTS: list[Mutant] = [each for each in list(globals().values()) if isinstance(each, Mutant)]
