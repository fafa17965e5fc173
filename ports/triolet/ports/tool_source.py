"""The ToolSource port: tools that come from outside while a kernel is open, as snapshots that never change.

Decides what a snapshot is (tools sorted by name, whose they are, what was set aside and why, one digest over all that
a model or a caller can notice), its bounds, and how a source says that there is a newer one. When a run takes a newer
one up is the kernel's: at a seam, never while calls are under way (F-014). It schedules nothing: a source's tools are
tools like any other (CAP-003, CAP-004, CAP-009, SEC-013).
"""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Final, Protocol

import attrs

from triolet.ports.canonical import Digest, digest, encode
from triolet.ports.errors import InvalidJson, Misuse, Unavailable, bounded
from triolet.ports.text import repair
from triolet.ports.tool_names import check_source_name
from triolet.ports.tools import Tool

MAX_SNAPSHOT_TOOLS: Final = 2_000
"""Tools of one snapshot; a source that has more sets the rest aside."""
MAX_SET_ASIDE: Final = 2_000
"""What a snapshot lists as set aside."""
MAX_IDENTITY: Final = 200
"""Characters of each part of an identity."""
MAX_SERVER_CAPABILITIES: Final = 32

_MAX_REASON: Final = 300


def _short(text: str) -> str:
    return bounded(repair(text), MAX_IDENTITY)


def _reason(text: str) -> str:
    return bounded(repair(text), _MAX_REASON)


def _listed(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({_short(name) for name in names}))[:MAX_SERVER_CAPABILITIES]


@attrs.frozen(kw_only=True, weakref_slot=False)
class Provenance:
    """Where tools come from: the name that the host gave the source, and what is found at the other end (CAP-009).

    `server` and `version` are what that end calls itself, which nobody has checked; `protocol` is the version that was
    agreed on, `transport` the way there, `capabilities` what it says it can do, sorted. Each is cut at 200 characters.
    """

    source: str = attrs.field(converter=check_source_name)
    server: str = attrs.field(converter=_short)
    version: str = attrs.field(default="", converter=_short)
    protocol: str = attrs.field(default="", converter=_short)
    transport: str = attrs.field(default="", converter=_short)
    capabilities: tuple[str, ...] = attrs.field(default=(), converter=_listed)


@attrs.frozen(kw_only=True, weakref_slot=False)
class SetAside:
    """A tool that the source has and nobody is offered, and why. `name` is its own name there."""

    name: str = attrs.field(converter=_short)
    reason: str = attrs.field(converter=_reason)


@attrs.define(kw_only=True)
class InvalidSnapshot(Misuse):
    """A source made a snapshot that contradicts itself. Found when it is made; the source is wrong."""

    source: str
    problem: str

    @property
    def message(self) -> str:
        """Whose snapshot, and what is wrong."""
        return f"a snapshot of tool source {bounded(self.source)!r}: {self.problem}"


@attrs.define(kw_only=True)
class ToolSourceUnavailable(Unavailable):
    """The source cannot say now which tools it has. Nothing was called."""

    source: str
    problem: str

    @property
    def message(self) -> str:
        """Which source, and what is wrong."""
        return f"tool source {bounded(self.source)!r} is unavailable: {bounded(self.problem)}"


@attrs.frozen(kw_only=True, eq=False, weakref_slot=False)
class ToolSnapshot:
    """The tools of one source at one moment. Made by `snapshot_of`.

    `tools` are sorted by their public names; `digest` covers names, descriptions, schemas and what each tool says about
    repeating it, so two snapshots of equal digest offer the same.
    """

    provenance: Provenance
    tools: tuple[Tool[Any, Any], ...]
    set_aside: tuple[SetAside, ...]
    digest: Digest


def snapshot_of(
    provenance: Provenance, tools: Iterable[Tool[Any, Any]], set_aside: Iterable[SetAside] = ()
) -> ToolSnapshot:
    """A snapshot of these tools, in whatever order they came.

    Raises `InvalidSnapshot` where two share a name, there are more than `MAX_SNAPSHOT_TOOLS`, a schema has no canonical
    form, or one says that it comes from another source.
    """
    source = provenance.source
    ordered = tuple(sorted(tools, key=lambda tool: tool.name))
    if len(ordered) > MAX_SNAPSHOT_TOOLS:
        raise InvalidSnapshot(source=source, problem=f"more than {MAX_SNAPSHOT_TOOLS} tools")
    for one, other in pairwise(ordered):
        if one.name == other.name:
            raise InvalidSnapshot(source=source, problem=f"two tools are named {one.name!r}")
    for tool in ordered:
        if tool.origin is None or tool.origin.source != source:
            raise InvalidSnapshot(source=source, problem=f"{tool.name!r} does not say that it comes from there")
    aside = tuple(sorted(set_aside, key=lambda each: (each.name, each.reason)))[:MAX_SET_ASIDE]
    try:
        covered = digest("triolet.tools", b"\n".join(_described(tool) for tool in ordered))
    except InvalidJson as error:
        raise InvalidSnapshot(source=source, problem=f"a schema has no canonical form: {error.problem}") from None
    return ToolSnapshot(provenance=provenance, tools=ordered, set_aside=aside, digest=covered)


def _described(tool: Tool[Any, Any]) -> bytes:
    return encode(
        {
            "name": tool.name,
            "own": None if tool.origin is None else repair(tool.origin.name),
            "description": tool.description,
            "input": tool.input.schema,
            "output": tool.output.schema,
            "execution": tool.execution,
            "risk": tool.risk,
        }
    )


class ToolSource(Protocol):
    """Where tools come from while a kernel is open.

    Lifetime: opened and closed by the host, which opens it before the kernel and closes it after; one value serves many
    runs at once. Its tools may be called until it is closed, also those of older snapshots: a call that is under way
    keeps the definition that it was judged by. Emits: the record `tool_catalogue_changed`, once a run and at each
    change that a run takes up, the event `tool-catalogue-taken`, and a span for each `snapshot`. (CAP-001, CAP-009)
    """

    @property
    def name(self) -> str:
        """The name by which agents ask for it: 1 to 100 printable characters, the same for as long as it is open."""
        ...

    @property
    def requires(self) -> frozenset[str]:
        """The capabilities that its tools may ever need, so that preflight can name what is missing (CAP-002).

        ``approval`` and ``inbox`` stand here where any of its tools may need a say.
        """
        ...

    def changed(self, since: ToolSnapshot) -> bool:
        """Does: say whether `snapshot` may now give another digest or provenance than `since` has.

        Atomicity: a plain look. Idempotency: reads. Ordering: once it says yes for a snapshot it does so until a newer
        one was given. Cancellation: synchronous, never waits. Raises: nothing. A source may say yes in doubt, and one
        that floods itself with notices costs a run one `snapshot` a turn. (F-014)
        """
        ...

    async def snapshot(self) -> ToolSnapshot:
        """Does: give the newest snapshot, asking the other end again where there was a notice of a change.

        Atomicity: one whole catalogue or an error; callers at the same time may share one. Idempotency: reads; with
        nothing changed the digest is the same, whatever order the other end answers in. Ordering: never older than one
        given before. Cancellation: nothing changed, and other callers are not disturbed. Raises:
        `ToolSourceUnavailable`, within the source's own time limit. (CAP-004, SEC-013, F-013, F-014)
        """
        ...
