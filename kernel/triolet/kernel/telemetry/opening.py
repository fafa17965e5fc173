"""Opening telemetry: from a host's settings to the watch that a kernel keeps for its lifetime.

Decides once, when the kernel is opened, whether anybody listens. It is never looked at again.
"""

from triolet.kernel.telemetry.otel import connect
from triolet.kernel.telemetry.settings import Telemetry
from triolet.kernel.telemetry.watch import Silence, Watch
from triolet.kernel.telemetry.work import Listened


def watch_for(settings: Telemetry) -> Watch:
    """The watch of a kernel that is opened with these settings."""
    backend = connect(settings.tracer_provider, settings.meter_provider) if settings.enabled else None
    if backend is None:
        return Silence()
    return Listened(backend, settings.content_limit if settings.content else None)
