"""The certificate: what a suite found out about one subject, as one versioned value.

Decides the statuses and what each row and the whole may say. Only executed checks count for anything: a requirement
is *shown* where every executed case that cites it passed, *broken* where one failed, and *open* where none was
executed. It judges nothing and prints nothing. Its JSON Schema is shipped beside it as ``certificate.schema.json``.
(CONF-002)
"""

import json
from collections.abc import Iterable
from importlib.resources import files
from typing import Annotated, Final, Literal

import attrs

from triolet.ports.schema import Codec, Description, Ge, MaxLength, codec_for
from triolet.ports.strict_json import JsonValue

FORMAT_VERSION: Final = 1
SCHEMA_FILE: Final = "certificate.schema.json"
MAX_REASON: Final = 500
MAX_DETAIL: Final = 4_000

Status = Literal["passed", "failed", "not-applicable", "not-exercised", "not-triggered"]
"""`passed` and `failed` are executed checks. Declined by the subject, no lever, or nothing happened: none of these
counts as passed."""

Fault = Literal["violation", "error", "opening", "closing", "limit", "process", "leak", "harness"]
"""Why a row failed: a broken promise; an error that no contract names; the maker, on opening or closing; no end within
the limit; the process died or had to be killed; something was left running; or the harness itself is wrong."""

Verdict = Literal["conforms", "violates", "harness-broken", "nothing-executed"]

_Reason = Annotated[str, MaxLength(MAX_REASON)]


@attrs.frozen(kw_only=True, weakref_slot=False)
class Row:
    """What became of one case. `reason` is empty for a passed one; `detail` is the end of a traceback, or empty."""

    case: str
    title: str
    requirements: tuple[str, ...]
    status: Status
    fault: Fault | None = None
    reason: _Reason = ""
    duration_ms: Annotated[int, Ge(0)] = 0
    detail: Annotated[str, MaxLength(MAX_DETAIL)] = ""


@attrs.frozen(kw_only=True, weakref_slot=False)
class Declared:
    """What the subject says about itself. Nothing of it was checked but by the rows."""

    name: str
    version: str
    levers: tuple[str, ...] = ()
    declines: dict[str, str] = attrs.field(factory=dict[str, str])
    posture: dict[str, str] = attrs.field(factory=dict[str, str])

    def lacks(
        self, needs: Iterable[str], levers: Iterable[str]
    ) -> tuple[Literal["not-applicable", "not-exercised"], str] | None:
        """Why a case with these needs cannot run here, as status and reason; None if it can.

        `levers` are those that there may be. What the subject does not have at all says more than what its maker
        lacks.
        """
        for need in needs:
            if need in self.declines:
                return "not-applicable", f"declined {need!r}: {self.declines[need]}"
        for need in needs:
            if need in levers and need not in self.levers:
                return "not-exercised", f"the maker gives no lever {need!r}"
        return None


@attrs.frozen(kw_only=True, weakref_slot=False)
class SuiteIdentity:
    """Which suite judged: the port, the suite's own version, and that of the distribution that holds it."""

    port: str
    version: Annotated[int, Ge(1)]
    distribution: str


@attrs.frozen(kw_only=True, weakref_slot=False)
class Environment:
    """Where it ran."""

    python: str
    trio: str
    platform: str


@attrs.frozen(kw_only=True, weakref_slot=False)
class Certificate:
    """What a suite found out about one subject."""

    format: Literal["triolet-certificate"] = "triolet-certificate"
    format_version: Literal[1] = FORMAT_VERSION
    suite: SuiteIdentity
    target: Annotated[str, Description("how the subject was opened")]
    subject: Annotated[Declared | None, Description("null where it was never opened")]
    environment: Environment
    started_at: Annotated[int, Description("microseconds since the Unix epoch, UTC")]
    duration_ms: Annotated[int, Ge(0)]
    limit_seconds: Annotated[str, Description("how long each case may take, as a decimal")]
    isolated: Annotated[bool, Description("whether the subject ran in a process of its own that could be killed")]
    verdict: Verdict
    counts: Annotated[dict[str, int], Description("rows by status")]
    shown: Annotated[tuple[str, ...], Description("requirements that no executed case found broken")]
    broken: Annotated[tuple[str, ...], Description("requirements that at least one executed case found broken")]
    open: Annotated[tuple[str, ...], Description("requirements whose cases were not executed")]
    rows: tuple[Row, ...]

    @property
    def conforms(self) -> bool:
        """Whether something was executed and all of it passed."""
        return self.verdict == "conforms"

    def to_json(self) -> str:
        """The certificate as a JSON document, as its published schema describes it."""
        return json.dumps(CERTIFICATE.encode(self), indent=1, ensure_ascii=False) + "\n"


CERTIFICATE: Final[Codec[Certificate]] = codec_for(Certificate)


def schema() -> dict[str, JsonValue]:
    """The JSON Schema of a certificate, as published."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:triolet:certificate:{FORMAT_VERSION}",
        "title": "Triolet certificate",
        **CERTIFICATE.schema,
    }


def published_schema() -> str:
    """The text of the shipped ``certificate.schema.json``."""
    return files("triolet.spec_tests").joinpath(SCHEMA_FILE).read_text(encoding="utf-8")


def rendered_schema() -> str:
    """What that text has to be."""
    return json.dumps(schema(), indent=1) + "\n"


def verdict_of(rows: Iterable[Row]) -> Verdict:
    """What the rows come to. A harness fault outweighs all: then nothing is known about the subject."""
    executed = False
    violated = False
    for row in rows:
        if row.fault == "harness":
            return "harness-broken"
        # The first and the last row are about the maker and what it left behind; alone they show nothing.
        executed = executed or (row.status in ("passed", "failed") and row.case not in ("smoke", "lifetime"))
        violated = violated or row.status == "failed"
    if violated:
        return "violates"
    return "conforms" if executed else "nothing-executed"


def standing(rows: Iterable[Row]) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The requirements that rows show, break and leave open, each sorted."""
    cited: set[str] = set()
    passed: set[str] = set()
    broken: set[str] = set()
    for row in rows:
        cited.update(row.requirements)
        if row.status == "passed":
            passed.update(row.requirements)
        elif row.status == "failed":
            broken.update(row.requirements)
    shown = passed - broken
    return tuple(sorted(shown)), tuple(sorted(broken)), tuple(sorted(cited - shown - broken))
