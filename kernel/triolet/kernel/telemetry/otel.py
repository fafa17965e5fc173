"""The one door to the OpenTelemetry API: spans that carry no text of anybody's, and the instruments.

Decides when there is anybody to tell, how a span is begun, made current and ended, and which labels a metric has. It
never hands an exception to the API: its recording of exceptions and its status descriptions carry text, and both stay
unused (CAP-013). What attributes say is decided elsewhere.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import attrs
import trio
from opentelemetry import context, metrics, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from triolet.kernel.telemetry.endings import Ending

INSTRUMENTATION: Final = "triolet"
"""The name of the instrumentation scope."""

TracerProvider = trace.TracerProvider
MeterProvider = metrics.MeterProvider
Value = str | int | float | bool | tuple[str, ...]
Attributes = dict[str, Value]
Kind = Literal["internal", "client"]

_KINDS: Final[Mapping[Kind, SpanKind]] = {"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT}
_SCOPE: Final = context.create_key("triolet-scope")
_SECONDS: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_TOKENS: Final = (1.0, *(float(4**power) for power in range(1, 14)))


class Current:
    """Makes a span current for as long as its scope lasts. To be entered in plain code, never across a `yield`."""

    __slots__ = ("_context", "_token")

    def __init__(self, at: Context) -> None:
        self._context = at
        self._token: Any = None

    def __enter__(self) -> None:
        self._token = context.attach(self._context)

    def __exit__(self, *_: object) -> None:
        context.detach(self._token)


class OpenSpan:
    """A span that was begun and has to be ended, once."""

    __slots__ = ("_context", "_ended", "_span", "began")

    def __init__(self, span: Span, at: Context) -> None:
        self._span = span
        self._context = at
        self._ended = False
        self.began = trio.current_time()
        """On Trio's clock, in seconds."""

    @property
    def recording(self) -> bool:
        """Whether anybody will read attributes: a sampler may have said no."""
        return self._span.is_recording()

    @property
    def current(self) -> Current:
        """A scope in which this span is the parent of others."""
        return Current(self._context)

    def tell(self, attributes: Mapping[str, Value]) -> None:
        """Add attributes."""
        self._span.set_attributes(attributes)

    def end(self, ending: Ending) -> float:
        """End the span; how long it was open, in seconds. A second time changes nothing."""
        seconds = trio.current_time() - self.began
        if not self._ended:
            self._ended = True
            self._span.set_attributes(ending.attributes)
            if ending.outcome == "failed":
                self._span.set_status(Status(StatusCode.ERROR))
            self._span.end()
        return seconds


@attrs.frozen(eq=False, weakref_slot=False)
class Backend:
    """A tracer and the instruments of one kernel."""

    tracer: trace.Tracer
    model_seconds: metrics.Histogram
    tokens: metrics.Histogram
    seconds: metrics.Histogram
    failures: metrics.Counter
    retries: metrics.Counter

    def begin(self, name: str, kind: Kind, attributes: Attributes, scope: object = None) -> OpenSpan:
        """Begin a span below the current one. `scope` is what `current_scope` tells within, if given."""
        parent = context.get_current()
        span = self.tracer.start_span(
            name,
            context=parent,
            kind=_KINDS[kind],
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        )
        at = trace.set_span_in_context(span, parent)
        return OpenSpan(span, at if scope is None else context.set_value(_SCOPE, scope, at))


def current_scope() -> object:
    """What the innermost span that was begun with a scope gave."""
    return context.get_value(_SCOPE)


def note_on_current_span(name: str, attributes: Attributes) -> None:
    """Add an event to the current span."""
    trace.get_current_span().add_event(name, attributes)


def connect(tracers: TracerProvider | None, meters: MeterProvider | None) -> Backend | None:
    """The backend for these providers, or for the process's own; None where nobody listens to either."""
    traces = trace.get_tracer_provider() if tracers is None else tracers
    measures = metrics.get_meter_provider() if meters is None else meters
    if not (_listens(traces) or _listens(measures)):
        return None
    meter = measures.get_meter(INSTRUMENTATION)
    histogram: Callable[..., metrics.Histogram] = meter.create_histogram
    return Backend(
        tracer=traces.get_tracer(INSTRUMENTATION),
        model_seconds=histogram(
            "gen_ai.client.operation.duration",
            unit="s",
            description="How long model calls, tool calls and runs took",
            explicit_bucket_boundaries_advisory=_SECONDS,
        ),
        tokens=histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            description="Tokens of model calls, input and output apart",
            explicit_bucket_boundaries_advisory=_TOKENS,
        ),
        seconds=histogram(
            "triolet.operation.duration",
            unit="s",
            description="How long operations of bound ports took",
            explicit_bucket_boundaries_advisory=_SECONDS,
        ),
        failures=meter.create_counter("triolet.failures", unit="{failure}", description="Operations that failed"),
        retries=meter.create_counter("triolet.retries", unit="{retry}", description="Tries after the first"),
    )


def _listens(provider: object) -> bool:
    # The providers of the API itself do nothing, and which there are is not all public: their home tells.
    return not type(provider).__module__.startswith(("opentelemetry.trace", "opentelemetry.metrics"))
