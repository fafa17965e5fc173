"""Wrong kernels: what they tell OpenTelemetry."""

from typing import Any

import attrs

from tests.mutants.mutant import Mutant, Patches, always, kernel_mutant
from triolet.kernel.telemetry.endings import failed
from triolet.ports.secrets import Secret

_TELEMETRY = "triolet.kernel.telemetry"


@kernel_mutant("CAP-013")
def tells_content_unasked(patches: Patches) -> None:
    """Content is on by default."""

    def opening(original: Any) -> Any:
        return lambda settings: original(attrs.evolve(settings, content=True))

    patches.wrap("triolet.kernel.kernel.watch_for", opening)


@kernel_mutant("CAP-013")
def tells_what_an_error_says(patches: Patches) -> None:
    """A port's error is told by its text."""

    def ending(original: Any) -> Any:
        return lambda error: original(error) if error is None else attrs.evolve(original(error), type=str(error))

    patches.wrap(f"{_TELEMETRY}.observed.ending_of", ending)


@kernel_mutant("CAP-013")
def tells_what_a_tool_hides(patches: Patches) -> None:
    """Arguments are told as they are, whatever their tool redacts."""

    def plain(original: Any) -> Any:
        return lambda tool, *given: original(attrs.evolve(tool, redact=None), *given)

    patches.wrap(f"{_TELEMETRY}.content._redacted", plain)


@kernel_mutant("CAP-013")
def tells_nothing_said(patches: Patches) -> None:
    """Content is left out even where the host asks for it."""

    def opening(original: Any) -> Any:
        return lambda settings: original(attrs.evolve(settings, content=False))

    patches.wrap("triolet.kernel.kernel.watch_for", opening)


@kernel_mutant("CAP-013")
def tells_at_any_length(patches: Patches) -> None:
    """Content has no bound."""
    patches.wrap(f"{_TELEMETRY}.content.cut", lambda _: lambda text, limit: text)
    patches.wrap(f"{_TELEMETRY}.content._fitting", lambda original: lambda items, limit: original(items, 10**9))


@kernel_mutant("CAP-013")
def names_at_any_length(patches: Patches) -> None:
    """A name is told whole, however long it is."""
    patches.wrap(f"{_TELEMETRY}.described.MAX_ATTRIBUTE", lambda _: 10**9)


@kernel_mutant("CAP-013")
def takes_cancelled_for_failed(patches: Patches) -> None:
    """A cancelled operation is a failure."""

    def ending(original: Any) -> Any:
        return lambda error: original(error) if error is None else failed("foreign", type(error).__name__)

    patches.wrap(f"{_TELEMETRY}.work.ending_of", ending)


@kernel_mutant("CAP-013")
def leaves_spans_open(patches: Patches) -> None:
    """A turn's span is not ended."""
    patches.wrap(f"{_TELEMETRY}.work._Run._leave_turn", always(None))


@kernel_mutant("SEC-002")
def forgets_whose_work_it_is(patches: Patches) -> None:
    """No span tells a tenant."""

    def begin(original: Any) -> Any:
        def anonymous(self: Any, name: str, kind: Any, attributes: Any, scope: Any = None) -> Any:
            told = {key: value for key, value in attributes.items() if key != "triolet.tenant"}
            return original(self, name, kind, told, scope)

        return anonymous

    patches.wrap(f"{_TELEMETRY}.otel.Backend.begin", begin)


@kernel_mutant("SEC-006")
def records_what_an_error_says(patches: Patches) -> None:
    """A handler's defect is recorded with the text of its error."""

    def settle(original: Any) -> Any:
        def quoting(tool: Any, error: Exception) -> Any:
            outcome = original(tool, error)
            return attrs.evolve(outcome, type=repr(error)) if outcome.kind == "defect" else outcome

        return quoting

    patches.wrap("triolet.kernel.pipeline.handler.settle_exception", settle)


@kernel_mutant("SEC-006")
def tells_what_a_handle_stands_for(patches: Patches) -> None:
    """A resolved secret is told by its value."""

    def result(original: Any) -> Any:
        def revealing(value: Any) -> Any:
            return {"triolet.resource.id": value.reveal()} if isinstance(value, Secret) else original(value)

        return revealing

    patches.wrap(f"{_TELEMETRY}.observed.told_of_result", result)


TELLING_MUTANTS: tuple[Mutant, ...] = (
    tells_content_unasked,
    tells_what_an_error_says,
    tells_what_a_tool_hides,
    tells_nothing_said,
    tells_at_any_length,
    names_at_any_length,
    takes_cancelled_for_failed,
    leaves_spans_open,
    forgets_whose_work_it_is,
    records_what_an_error_says,
    tells_what_a_handle_stands_for,
)
