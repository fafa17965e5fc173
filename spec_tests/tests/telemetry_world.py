"""An OpenTelemetry SDK in memory: what a host would export, laid out so that a test can read all of it."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
from opentelemetry.context import Context
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from triolet.kernel import Telemetry


class OpenSpans(SpanProcessor):
    """Which spans were started and have not ended."""

    def __init__(self) -> None:
        self.open: dict[int, str] = {}
        self.started = 0

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        self.started += 1
        self.open[_id(span)] = span.name

    def on_end(self, span: ReadableSpan) -> None:
        del self.open[_id(span)]


@attrs.define(eq=False)
class Exported:
    """Tracers and meters that export to memory."""

    spans_of: InMemorySpanExporter = attrs.field(factory=InMemorySpanExporter)
    watch: OpenSpans = attrs.field(factory=OpenSpans)
    reader: InMemoryMetricReader = attrs.field(factory=InMemoryMetricReader)
    tracers: TracerProvider = attrs.field(init=False)
    meters: MeterProvider = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self.spans_of))
        self.tracers.add_span_processor(self.watch)
        self.meters = MeterProvider([self.reader], shutdown_on_exit=False)

    def telemetry(self, **options: Any) -> Telemetry:
        """Settings for a kernel that tells these."""
        return Telemetry(tracer_provider=self.tracers, meter_provider=self.meters, **options)

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        """All finished spans, in the order in which they ended."""
        return self.spans_of.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        """The spans of this name, in the order in which they began."""
        return sorted((span for span in self.spans if span.name == name), key=lambda span: span.start_time or 0)

    def one(self, name: str) -> ReadableSpan:
        """The one span of this name."""
        (span,) = self.named(name)
        return span

    def tree(self, *, without: str = "triolet.conversations.") -> list[Any]:
        """Names, each with what stands below it, in order of their beginning; a port's spans may be left out."""
        spans = [span for span in self.spans if not span.name.startswith(without)]
        ids = {_id(span) for span in spans}
        below: dict[int | None, list[ReadableSpan]] = {}
        for span in sorted(spans, key=lambda span: span.start_time or 0):
            parent = span.parent.span_id if span.parent is not None else None
            below.setdefault(parent if parent in ids else None, []).append(span)

        def grown(parent: int | None) -> list[Any]:
            return [
                (span.name, grown(_id(span))) if _id(span) in below else span.name for span in below.get(parent, [])
            ]

        return grown(None)

    def points(self) -> Iterator[tuple[str, Mapping[str, Any], Any]]:
        """Every data point of every metric: its name, its labels, and itself."""
        data = self.reader.get_metrics_data()
        if data is None:
            return
        for resource in data.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    for point in metric.data.data_points:
                        yield metric.name, dict(point.attributes or {}), point

    def texts(self) -> Iterator[tuple[str, str]]:
        """Everything that is exported, as (where, text)."""
        for span in self.spans:
            yield "name", span.name
            yield f"status of {span.name}", str(span.status.description)
            yield f"resource of {span.name}", span.resource.to_json()
            for key, value in (span.attributes or {}).items():
                yield key, f"{key}={value!r}"
            for event in span.events:
                yield f"event of {span.name}", event.name + json.dumps(dict(event.attributes or {}), default=str)
            yield f"links of {span.name}", repr(span.links)
        for name, labels, _ in self.points():
            yield f"label of {name}", name + repr(labels)


def told(span: ReadableSpan, key: str) -> Any:
    """An attribute of a span, or None."""
    return (span.attributes or {}).get(key)


def is_error(span: ReadableSpan) -> bool:
    """Whether its status is an error; the status never has a description."""
    assert span.status.description is None
    return span.status.status_code is StatusCode.ERROR


def _id(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.span_id)
