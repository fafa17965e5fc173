"""Telemetry as a host sets it: to whom, and whether content may be in it.

Decides the defaults: the process's own OpenTelemetry providers, and no content (CAP-013).
"""

from typing import Final

import attrs

from triolet.kernel.telemetry.otel import MeterProvider, TracerProvider

MAX_CONTENT: Final = 32_768
"""Characters of one content attribute, unless the host says otherwise."""


@attrs.frozen(kw_only=True, eq=False, weakref_slot=False)
class Telemetry:
    """What a kernel tells OpenTelemetry, for `open_kernel`.

    Without providers, those that are set for the process when the kernel is opened; where there are none by then, the
    kernel observes nothing at all, and providers that are set later are not seen. With `content`, prompts, answers,
    arguments, results and reasons are told too, redacted as the tools say, in attributes of up to `content_limit`
    characters (256 to 1,000,000) each. `enabled` False observes nothing whatever is set.
    """

    enabled: bool = True
    content: bool = False
    content_limit: int = attrs.field(
        default=MAX_CONTENT, validator=attrs.validators.and_(attrs.validators.ge(256), attrs.validators.le(1_000_000))
    )
    tracer_provider: TracerProvider | None = None
    meter_provider: MeterProvider | None = None


PROCESS_WIDE: Final = Telemetry()
"""The default: the process's providers, without content."""
