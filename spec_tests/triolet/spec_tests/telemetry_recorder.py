"""A recorder behind OpenTelemetry's own interfaces, so that a case can read all that a kernel tells.

Decides nothing that is judged, and needs no SDK. It keeps what an exporter would be given, and also what an exporter
would make of an exception that it is handed: its text, and its causes'.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
from opentelemetry.context import Context
from opentelemetry.metrics import Counter, Histogram, Meter, NoOpCounter, NoOpHistogram, NoOpMeter, NoOpMeterProvider
from opentelemetry.trace import (
    NonRecordingSpan,
    NoOpTracer,
    NoOpTracerProvider,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    get_current_span,
)


class RecordedSpan(NonRecordingSpan):
    """A span and everything that was ever told of it."""

    def __init__(self, number: int, name: str, parent: "RecordedSpan | None", attributes: Mapping[str, Any]) -> None:
        super().__init__(SpanContext(trace_id=1, span_id=number, is_remote=False))
        self.name = name
        self.parent = parent
        self.attributes: dict[str, Any] = dict(attributes)
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.status = StatusCode.UNSET
        self.described: list[str] = []
        """Status descriptions and texts of exceptions: what should not be there at all."""
        self.ends = 0

    def is_recording(self) -> bool:
        """Until it has ended."""
        return self.ends == 0

    def end(self, end_time: int | None = None) -> None:
        """Count it."""
        self.ends += 1

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        """Keep them."""
        self.attributes.update(attributes)

    def set_attribute(self, key: str, value: Any) -> None:
        """Keep it."""
        self.attributes[key] = value

    def add_event(self, name: str, attributes: Mapping[str, Any] | None = None, timestamp: int | None = None) -> None:
        """Keep it."""
        self.events.append((name, dict(attributes or {})))

    def update_name(self, name: str) -> None:
        """Take the new name."""
        self.name = name

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        """Keep both."""
        given = status.description if isinstance(status, Status) else description
        self.status = status.status_code if isinstance(status, Status) else status
        if given is not None:
            self.described.append(given)

    def record_exception(
        self,
        exception: BaseException,
        attributes: Mapping[str, Any] | None = None,
        timestamp: int | None = None,
        escaped: bool = False,
    ) -> None:
        """Keep what an exporter would write of it."""
        told: BaseException | None = exception
        while told is not None:
            self.described.append(repr(told))
            told = told.__cause__ or told.__context__

    def texts(self) -> Iterator[tuple[str, str]]:
        """All of it, as (where, text)."""
        yield "name", self.name
        for key, value in self.attributes.items():
            yield key, f"{key}={value!r}"
        for name, attributes in self.events:
            yield "event", f"{name} {attributes!r}"
        for text in self.described:
            yield "status", text


@attrs.define(eq=False)
class Recorder:
    """A tracer provider and a meter provider, and what came of them."""

    spans: list[RecordedSpan] = attrs.field(factory=list[RecordedSpan])
    points: list[tuple[str, float, dict[str, Any]]] = attrs.field(factory=list[tuple[str, float, dict[str, Any]]])

    @property
    def tracers(self) -> NoOpTracerProvider:
        """For `Telemetry.tracer_provider`."""
        return _Tracers(self)

    @property
    def meters(self) -> NoOpMeterProvider:
        """For `Telemetry.meter_provider`."""
        return _Meters(self)

    def named(self, beginning: str) -> list[RecordedSpan]:
        """The spans whose names begin so, in the order in which they were begun."""
        return [span for span in self.spans if span.name.startswith(beginning)]

    def texts(self) -> Iterator[tuple[str, str]]:
        """Everything that was told, as (where, text)."""
        for span in self.spans:
            yield from span.texts()
        for name, _, labels in self.points:
            yield "label", f"{name} {labels!r}"


class _Tracers(NoOpTracerProvider):
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def get_tracer(self, *_: Any, **__: Any) -> Tracer:
        return _Tracer(self._recorder)


class _Tracer(NoOpTracer):
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def start_span(
        self,
        name: str,
        context: Context | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Mapping[str, Any] | None = None,
        links: Any = None,
        start_time: int | None = None,
        record_exception: bool = True,
        set_status_on_exception: bool = True,
    ) -> Span:
        above = get_current_span(context)
        parent = above if isinstance(above, RecordedSpan) else None
        span = RecordedSpan(len(self._recorder.spans) + 1, name, parent, attributes or {})
        self._recorder.spans.append(span)
        return span


class _Meters(NoOpMeterProvider):
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def get_meter(self, name: str, *_: Any, **__: Any) -> Meter:
        return _Meter(name, self._recorder)


class _Meter(NoOpMeter):
    def __init__(self, name: str, recorder: Recorder) -> None:
        super().__init__(name)
        self._recorder = recorder

    def create_counter(self, name: str, unit: str = "", description: str = "") -> Counter:
        return _Counter(name, self._recorder)

    def create_histogram(
        self,
        name: str,
        unit: str = "",
        description: str = "",
        *,
        explicit_bucket_boundaries_advisory: Sequence[float] | None = None,
    ) -> Histogram:
        return _Histogram(name, self._recorder)


class _Counter(NoOpCounter):
    def __init__(self, name: str, recorder: Recorder) -> None:
        super().__init__(name)
        self._named = name
        self._recorder = recorder

    def add(self, amount: float, attributes: Mapping[str, Any] | None = None, context: Context | None = None) -> None:
        self._recorder.points.append((self._named, amount, dict(attributes or {})))


class _Histogram(NoOpHistogram):
    def __init__(self, name: str, recorder: Recorder) -> None:
        super().__init__(name)
        self._named = name
        self._recorder = recorder

    def record(
        self, amount: float, attributes: Mapping[str, Any] | None = None, context: Context | None = None
    ) -> None:
        self._recorder.points.append((self._named, amount, dict(attributes or {})))
