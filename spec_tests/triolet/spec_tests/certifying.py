"""certify: every case of a suite on one maker, in this process, and a certificate at the end.

Decides the order: the smoke row first, then every case whatever became of the others, last what was left running.
If the smoke case fails, the others are reported as not exercised, since nothing they say would be about the
adapter. It cannot end a subject that blocks the event loop or breaks the process: for one that is not trusted so
far, use `certify_target`. (CONF-002)
"""

import platform
from collections.abc import Awaitable, Callable, Iterable
from importlib import metadata
from typing import Any, Final, TypeVar, get_args

import attrs
import trio

from triolet.adapters.clocks import SystemClock
from triolet.ports.errors import Misuse
from triolet.ports.identity import MICROSECONDS, Instant
from triolet.ports.text import repair
from triolet.spec_tests.certificate import (
    Certificate,
    Declared,
    Environment,
    Row,
    Status,
    SuiteIdentity,
    standing,
    verdict_of,
)
from triolet.spec_tests.definition import Case
from triolet.spec_tests.running import LIMIT_SECONDS, CaseRun, lacking, lifetime_row, row_of, run_case, run_smoke
from triolet.spec_tests.subject import Maker, Subject
from triolet.spec_tests.suite import SMOKE, Suite

S = TypeVar("S", bound=Subject[Any])

Progress = Callable[[Row], None]
"""Told about each row as it is made. Synchronous, and not to raise."""

MOST_SECONDS: Final = 3600.0
"""The longest limit for one case that can be asked for."""


@attrs.define(kw_only=True)
class InvalidSelection(Misuse):
    """A limit out of bounds, or names of cases that the suite does not have."""

    problem: str

    @property
    def message(self) -> str:
        """What is wrong."""
        return self.problem


async def certify(
    suite: Suite[S],
    maker: Maker,
    *,
    target: str = "",
    limit: float = LIMIT_SECONDS,
    only: Iterable[str] | None = None,
    progress: Progress | None = None,
) -> Certificate:
    """Run `suite` on what `maker` opens. `limit` bounds each case, in seconds; `only` names the cases to run.

    `target` says in the certificate how the subject was opened. Raises `InvalidSelection`, and nothing for anything
    that the subject does.
    """
    cases = selected(suite, only, limit)

    async def run(name: str) -> CaseRun:
        case = suite.find(name)
        return await (
            run_smoke(suite, maker, limit=limit) if case is None else run_case(suite, case, maker, limit=limit)
        )

    name = target or f"{getattr(maker, '__module__', '')}:{getattr(maker, '__qualname__', '')}"
    report = Report(suite=suite, target=name, limit=limit, isolated=False, progress=progress)
    await report.run_all(cases, run)
    return report.certificate()


def selected(suite: Suite[S], only: Iterable[str] | None, limit: float) -> tuple[Case[S], ...]:
    """The cases of these names, in the suite's order; all of them for None. Raises `InvalidSelection`."""
    if not 0 < limit <= MOST_SECONDS:
        raise InvalidSelection(problem=f"a limit is more than 0 and at most {MOST_SECONDS:g} seconds")
    if only is None:
        return suite.cases
    names = set(only)
    cases = tuple(case for case in suite.cases if case.name in names)
    unknown = sorted(names - {case.name for case in cases})
    if unknown:
        raise InvalidSelection(problem=f"suite {suite.port!r} has no case {', '.join(unknown)}")
    return cases


@attrs.define(kw_only=True, weakref_slot=False)
class Report:
    """A certificate in the making. `run_all` asks for one case after the other; where they run is the caller's."""

    suite: Suite[Any]
    target: str
    limit: float
    isolated: bool
    progress: Progress | None
    declared: Declared | None = None
    rows: list[Row] = attrs.field(factory=list[Row])
    started_at: Instant = attrs.field(factory=lambda: SystemClock().now())

    async def run_all(self, cases: Iterable[Case[Any]], run: Callable[[str], Awaitable[CaseRun]]) -> None:
        """The smoke case, then all `cases`, then the lifetime row."""
        smoke = await run(SMOKE)
        self.declared = smoke.declared
        self._add(smoke.row)
        executed: list[CaseRun] = []
        for case in cases:
            if smoke.row.status == "failed":
                self._add(
                    row_of(case, "not-exercised", reason="the smoke case failed, so nothing would be about the adapter")
                )
                continue
            lack = None if smoke.declared is None else lacking(self.suite, case, smoke.declared)
            if lack is not None:
                self._add(lack)
                continue
            # A subject's fault must not starve whoever shares this event loop.
            await trio.lowlevel.checkpoint()
            ran = await run(case.name)
            self._add(ran.row)
            if ran.row.status in ("passed", "failed"):
                executed.append(ran)
        self._add(lifetime_row(self.suite, executed))

    def certificate(self) -> Certificate:
        """What the rows so far come to."""
        shown, broken, left_open = standing(self.rows)
        counts: dict[str, int] = dict.fromkeys(get_args(Status), 0)
        for row in self.rows:
            counts[row.status] += 1
        return Certificate(
            suite=SuiteIdentity(
                port=self.suite.port, version=self.suite.version, distribution=metadata.version("triolet")
            ),
            target=repair(self.target),
            subject=self.declared,
            environment=Environment(
                python=platform.python_version(), trio=trio.__version__, platform=platform.platform()
            ),
            started_at=self.started_at,
            duration_ms=max(0, (SystemClock().now() - self.started_at) * 1000 // MICROSECONDS),
            limit_seconds=f"{self.limit:.3f}".rstrip("0").rstrip("."),
            isolated=self.isolated,
            verdict=verdict_of(self.rows),
            counts=counts,
            shown=shown,
            broken=broken,
            open=left_open,
            rows=tuple(self.rows),
        )

    def _add(self, row: Row) -> None:
        self.rows.append(row)
        if self.progress is not None:
            self.progress(row)
